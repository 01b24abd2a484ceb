#!/bin/sh
# gpu-driver.sh look    the init container, without rights: decides and says so in the pod's state
# gpu-driver.sh run     the driver's container: decides again, and does it
# gpu-driver.sh ready   its startup probe
# WANTED and SYSTEM say which driver, and for which system. In tests ROOT holds a tree in place of the machine.
set -eu

root=${ROOT:-}
run=$root/run/nvidia
modules=$root/sys/module
state=$root/paictl-state/decision
machine=$root/proc/1/root # what the machine calls /; only the driver's container can read it
installed=$run/paictl-gpu-driver # a line for each version that this service has loaded since the machine started

content() { [ ! -r "$1" ] || cat "$1"; }

say() {
  printf '%s\n' "$1"
  printf '%s' "$1" > "$root/dev/termination-log"
}

refuse() {
  say "$1"
  exit 1
}

has_gpu() {
  for device in "$root"/sys/bus/pci/devices/*; do
    case $(content "$device/vendor")$(content "$device/class") in 0x10de0x03*) return 0 ;; esac
  done
  return 1
}

# A driver on the machine's disk may be loaded later: two of them would get in each other's way.
has_own_driver() {
  find "$root/host/lib/modules/$(uname -r)" \( -name 'nvidia.ko*' -o -name 'nvidia-current*.ko*' \) 2> /dev/null | grep -q .
}

is_recorded() { grep -qxF "$1" "$installed" 2> /dev/null; }

# Only what has been loaded is recorded: after an installation that failed, a driver of that version is somebody else's.
record() {
  [ "$(content "$modules/nvidia/version")" = "$WANTED" ] || return 1
  is_recorded "$WANTED" || printf '%s\n' "$WANTED" >> "$installed"
}

# As NVIDIA's container counts before it unloads: what its modules hold of each other is no use.
in_use() {
  held=$(content "$modules/nvidia/refcnt")
  for name in nvidia_modeset nvidia_uvm nvidia_peermem; do
    count=$(content "$modules/$name/refcnt")
    [ "${count:-0}" -eq 0 ] || return 0
    [ -z "$count" ] || held=$((held - 1))
  done
  [ ! -d "$modules/gdrdrv" ] || held=$((held - 1))
  [ "${held:-0}" -gt 0 ]
}

# Sets `decision`: host (with version), install, keep or replace; what stands in the way is refused.
decide() {
  loaded=$(content "$modules/nvidia/version")
  # the same version may be on the machine's disk: where that is so, it counts as the machine's, and is never unloaded
  if [ -n "$loaded" ] && { ! is_recorded "$loaded" || has_own_driver; }; then
    decision="host $loaded"
    return
  fi
  if [ -z "$loaded" ]; then
    has_gpu || refuse "this machine has no NVIDIA GPU: correct its SKU in layout.yaml"
    ! has_own_driver || refuse "this machine has a driver of its own that is not loaded: run modprobe nvidia, or uninstall it"
    [ ! -d "$modules/nouveau" ] || refuse "nouveau holds the GPUs: blacklist it on this machine and reboot"
  fi
  system=$(. "$root/host/os-release" && printf '%s' "${ID:-}${VERSION_ID:-}")
  [ "$system" = "$SYSTEM" ] || refuse "this machine runs $system, this driver is for $SYSTEM: install a driver on it, or name an image for $system and run paictl service refresh -n gpu-driver"
  if [ -z "$loaded" ]; then
    decision="install $WANTED"
  elif [ "$loaded" = "$WANTED" ]; then
    decision="keep $WANTED"
  else
    ! in_use || refuse "driver $loaded is in use and stays: drain this machine and reboot it to get $WANTED"
    decision="replace $loaded $WANTED"
  fi
}

# device-plugin and dra-driver look in /run/nvidia/driver on all machines; where the machine's own driver works, that is /.
use_own_driver() {
  # an installation that failed leaves empty folders behind; a driver that another container shows there stays
  if [ ! -L "$run/driver" ] && ! grep -q " $run/driver " "$root/proc/mounts"; then
    rmdir "$run/driver/lib/firmware" "$run/driver/lib" "$run/driver" 2> /dev/null || true
  fi
  [ -e "$run/driver" ] || [ -L "$run/driver" ] || ln -s / "$run/driver"
  printf 'the driver of the machine is left alone: %s\n' "$decision"
  exec sleep infinity
}

# What paictl deploy has written for containerd and kubelet (deploy.proxy), read where it is: a proxy's password gets into no
# object of the API. The file has KEY="value" lines; values are taken as they are, whatever a shell would make of them.
use_proxy() {
  while IFS= read -r line; do
    case ${line%%=*} in HTTP_PROXY | HTTPS_PROXY | NO_PROXY | http_proxy | https_proxy | no_proxy) ;; *) continue ;; esac
    value=${line#*=\"}
    export "${line%%=*}=${value%\"}"
  done << PROXIES
$(content "$machine/etc/paictl/proxy.env")
PROXIES
}

# Kernel headers for RHEL only come with a subscription: the machine's, where dnf in a container looks for it.
use_subscription() {
  [ -r "$machine/etc/yum.repos.d/redhat.repo" ] && ls "$machine"/etc/pki/entitlement/*.pem > /dev/null 2>&1 || refuse "this machine has no RHEL subscription, without which there are no kernel headers: run subscription-manager register, or install a driver on it"
  mkdir -p "$root/run/secrets"
  ln -sfn "$machine/etc/pki/entitlement" "$root/run/secrets/etc-pki-entitlement"
  ln -sfn "$machine/etc/rhsm" "$root/run/secrets/rhsm"
  ln -sfn "$machine/etc/yum.repos.d/redhat.repo" "$root/run/secrets/redhat.repo"
}

# The kernel reads firmware from the machine's /run/nvidia/driver/lib/firmware, before NVIDIA's script mounts anything there.
install_driver() {
  use_proxy
  case $SYSTEM in rhel*) use_subscription ;; esac
  [ ! -L "$run/driver" ] || rm "$run/driver"
  if ! in_use; then
    ! grep -q " $run/driver " "$root/proc/mounts" || umount -l -R "$run/driver"
    mkdir -p "$run/driver/lib/firmware" "$root/lib/firmware"
    mount --bind "$run/driver/lib/firmware" "$root/lib/firmware"
  fi
  exec nvidia-driver init
}

case ${1:-} in
  look)
    decide
    printf '%s' "$decision" > "$state"
    say "$decision"
    ;;
  run)
    decide
    before=$(content "$state")
    case ${before%% *},${decision%% *} in
      host,host) use_own_driver ;;
      host,* | *,host) refuse "the driver of this machine has changed ($before, now $decision): delete this pod" ;;
      *) install_driver ;;
    esac
    ;;
  ready)
    case $(content "$state") in
      host*) ;;
      *) [ -d "$modules/nvidia" ] && nvidia-smi > /dev/null && record ;;
    esac
    ;;
  *) refuse "usage: gpu-driver.sh look|run|ready" ;;
esac
