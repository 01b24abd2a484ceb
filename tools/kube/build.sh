#!/usr/bin/env bash
# build.sh [COMPONENT...]: builds Kubernetes and what runs beside it as Go modules, once, into a cache outside the tree.
#   Components: etcd kube-apiserver kube-controller-manager kube-scheduler kwok helm oidc (what `make e2e` needs; the default);
#   kubectl kubelet kubeadm kube-proxy etcdctl containerd runc cni crictl coredns pause deviceplugin; "hosts" is all that test hosts need;
#   prometheus alertmanager node-exporter, in the versions of templates/images.yaml; "monitoring" is these three.
#   flannel (another network of pods), dradriver (devices by claims) and localpath (a storage class), for a test of their own each.
#   Versions: versions.env beside this file, or the environment. PAICTL_KUBE is the folder of Kubernetes' own binaries
#   (default: ${XDG_CACHE_HOME:-~/.cache}/paictl/kube/VERSION); the others are in COMPONENT-VERSION beside it.
#   KUBE_STAMP=v1.37.0 links the same code again under another version, in seconds a program: an "older patch" for upgrades.
#   What is there already is kept; two runs at once wait for each other. `build.sh --where COMPONENT` prints its folder.
# Nothing has to be installed but python3 and certificates (runc and pause: gcc): where Go is absent or older than 1.21,
# get_go.py fetches one.
# Kubernetes is no module to be built from outside: its staging modules are replaced by folders that the module lacks.
# So a go.mod of our own requires it and replaces each staging module by the release that belongs to it (v1.37.1 -> v0.37.1).
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
while IFS='=' read -r name value; do
  case $name in '' | '#'*) ;; *) printf -v "$name" %s "${!name:-$value}" ;; esac
done <"$HERE/versions.env"
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/paictl/kube
PLUGIN=$HERE/../hosts/gpu/plugin.go
DRIVER=$HERE/../hosts/gpu/driver.go
PROVIDER=$HERE/oidc.go
# The one in the manifest that `deploy` applies.
LOCALPATH_VERSION=$(sed -n 's/^IMAGE.*local-path-provisioner:\(v[0-9.]*\)"$/\1/p' "$HERE/../../paictl/deploy/storage_class.py")
# image_version NAME: of an image that the services use; its program is built in the same version.
image_version() { sed -n "s/^$1: .*://p" "$HERE/../../templates/images.yaml"; }
PROMETHEUS_VERSION=$(image_version prometheus)
ALERTMANAGER_VERSION=$(image_version alertmanager)
NODE_EXPORTER_VERSION=$(image_version node-exporter)
STAMP=${KUBE_STAMP:-$KUBE_VERSION}
OWN=${PAICTL_KUBE:-$CACHE/$KUBE_VERSION}
OUT=$OWN
[ "$STAMP" = "$KUBE_VERSION" ] || OUT=$CACHE/$KUBE_VERSION-as-$STAMP
JOBS=${JOBS:-$(nproc)}
DEFAULT=(etcd kube-apiserver kube-scheduler kube-controller-manager kwok helm oidc)
KUBERNETES=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubectl kubelet kubeadm)
BESIDE=(etcd kwok helm oidc runc cni containerd crictl etcdctl coredns pause deviceplugin)
MONITORING=(prometheus alertmanager node-exporter)
APART=(flannel dradriver localpath)

say() { printf 'kube: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# The go.mod file of a released module, as the module proxy has it.
gomod_of() {
  go mod download -json "$1@$2" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p'
}

# write_gomod MODULE VERSION [STAGING VERSION]: a go.mod in the working folder that requires the module.
write_gomod() {
  local source
  grep -qsF "$1 $2" go.mod && return
  source=$(gomod_of "$1" "$2")
  [ -n "$source" ] || die "$1@$2 cannot be had: is the Go module proxy reachable?"
  {
    printf 'module paictl.local/kube\n\n'
    sed -n '/^go /p; /^godebug/p' "$source"
    printf '\nrequire %s %s\n' "$1" "$2"
    if [ $# -gt 2 ]; then
      printf '\nreplace (\n'
      sed -n "s#^[[:space:]]*\(k8s.io/[a-z0-9-]*\) => ./staging/.*#\t\1 => \1 $3#p" "$source" | grep -v k8s.io/sample-
      printf ')\n'
    fi
  } >go.mod.new
  mv go.mod.new go.mod
}

# fetch PACKAGE [FLAG...]: its modules. Go waits for ever for a proxy that has stopped sending; what has come is kept.
fetch() {
  local tries
  for tries in 1 2 3; do
    CGO_ENABLED=${CGO:-0} timeout --foreground 600 go list -deps "${@:2}" "$1" >/dev/null && return
  done
  die "the modules of $1 cannot be had: is the Go module proxy reachable?"
}

# compile PROGRAM PACKAGE LDFLAGS [FLAG...]: beside the name first, so that an interrupted build leaves no half of a program.
compile() {
  local started=$SECONDS folder=${1%/*} name=${1##*/} package=$2 flags=$3
  shift 3
  mkdir -p "$folder"
  fetch "$package" "$@"
  GOMAXPROCS=$JOBS CGO_ENABLED=${CGO:-0} go build -trimpath -p "$JOBS" -ldflags "$flags" -o "$folder/.$name.new" "$@" "$package"
  mv "$folder/.$name.new" "$folder/$name"
  say "$name built in $((SECONDS - started)) s"
}

kubernetes() {
  local number=${STAMP#v} flags="-s -w" package
  mkdir -p "$OUT" "$CACHE/$KUBE_VERSION/src/kubernetes" && cd "$CACHE/$KUBE_VERSION/src/kubernetes"
  write_gomod k8s.io/kubernetes "$KUBE_VERSION" "v0${KUBE_VERSION#v1}"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$STAMP -X $package.gitMajor=${number%%.*}"
    flags+=" -X $package.gitMinor=$(cut -d. -f2 <<<"$number") -X $package.gitTreeState=clean"
    flags+=" -X $package.gitCommit=0000000000000000000000000000000000000000 -X $package.buildDate=1970-01-01T00:00:00Z"
  done
  compile "$OUT/$1" "k8s.io/kubernetes/cmd/$1" "$flags"
}

# module NAME MODULE VERSION: into a folder whose go.mod requires the module; its programs belong into folder_of NAME.
module() {
  mkdir -p "$CACHE/src/$1-$3" && cd "$CACHE/src/$1-$3"
  write_gomod "$2" "$3"
}

# folder_of COMPONENT: where its programs are; those of Kubernetes, etcd and kwok together, the others by their version.
folder_of() {
  case $1 in
    etcdctl) echo "$CACHE/etcdctl-$ETCD_VERSION" ;;
    containerd) echo "$CACHE/containerd-$CONTAINERD_VERSION" ;;
    runc) echo "$CACHE/runc-$RUNC_VERSION" ;;
    cni) echo "$CACHE/cni-$CNI_VERSION" ;;
    crictl) echo "$CACHE/crictl-$CRICTL_VERSION" ;;
    coredns) echo "$CACHE/coredns-$COREDNS_VERSION" ;;
    pause) echo "$CACHE/pause-$PAUSE_VERSION" ;;
    localpath) echo "$CACHE/localpath-$LOCALPATH_VERSION" ;;
    flannel) echo "$CACHE/flannel-$FLANNEL_VERSION" ;;
    deviceplugin) echo "$CACHE/deviceplugin-$KUBE_VERSION-$(sha256sum <"$PLUGIN" | cut -c 1-8)" ;;
    dradriver) echo "$CACHE/dradriver-$KUBE_VERSION-$(sha256sum <"$DRIVER" | cut -c 1-8)" ;;
    helm) echo "$CACHE/helm-$HELM_VERSION" ;;
    oidc) echo "$CACHE/oidc-$OIDC_VERSION-$(sha256sum <"$PROVIDER" | cut -c 1-8)" ;;
    prometheus) echo "$CACHE/prometheus-$PROMETHEUS_VERSION" ;;
    alertmanager) echo "$CACHE/alertmanager-$ALERTMANAGER_VERSION" ;;
    node-exporter) echo "$CACHE/node-exporter-$NODE_EXPORTER_VERSION" ;;
    etcd | kwok) echo "$OWN" ;;
    *) echo "$OUT" ;;
  esac
}

# last_of COMPONENT: the program that is built last, whose presence says that all of the component is there.
last_of() {
  case $1 in
    etcdctl) echo etcdutl ;;
    containerd) echo ctr ;;
    prometheus) echo promtool ;;
    alertmanager) echo amtool ;;
    cni) echo firewall ;;
    flannel) echo flanneld ;;
    deviceplugin) echo nvidia-device-plugin ;;
    dradriver) echo dra-driver ;;
    oidc) echo oidc-provider ;;
    localpath) echo local-path-provisioner ;;
    *) echo "$1" ;;
  esac
}

etcd() {
  mkdir -p "$OWN/src/etcd" && cd "$OWN/src/etcd"
  write_gomod go.etcd.io/etcd/server/v3 "$ETCD_VERSION"
  compile "$OWN/etcd" go.etcd.io/etcd/server/v3 "-s -w"
}

etcdctl() {
  local name
  for name in etcdctl etcdutl; do
    module "$name" "go.etcd.io/etcd/$name/v3" "$ETCD_VERSION"
    compile "$(folder_of etcdctl)/$name" "go.etcd.io/etcd/$name/v3" "-s -w"
  done
}

containerd() {
  local name root=github.com/containerd/containerd/v2
  module containerd $root "$CONTAINERD_VERSION"
  for name in containerd containerd-shim-runc-v2 ctr; do
    compile "$(folder_of containerd)/$name" "$root/cmd/$name" "-s -w -X $root/version.Version=$CONTAINERD_VERSION" -tags no_btrfs
  done
}

# Static, with the C library and libseccomp of Debian, so that it runs on every host.
runc() {
  local dev libs
  command -v gcc >/dev/null || die "runc needs a C compiler: apt-get install gcc libc6-dev"
  dev=$(cd "$HERE/../.." && python3 -m tools.hosts debs libseccomp-dev)
  libs=$dev/usr/lib/$(gcc -dumpmachine)
  module runc github.com/opencontainers/runc "$RUNC_VERSION"
  CGO=1 CGO_CFLAGS="-O2 -I$dev/usr/include" CGO_LDFLAGS="-L$libs" PKG_CONFIG_PATH=$libs/pkgconfig \
    compile "$(folder_of runc)/runc" github.com/opencontainers/runc \
    "-s -w -X main.version=${RUNC_VERSION#v} -extldflags -static" -tags "netgo osusergo seccomp"
}

cni() {
  local name root=github.com/containernetworking/plugins
  module cni $root "$CNI_VERSION"
  for name in main/bridge main/loopback ipam/host-local meta/portmap meta/bandwidth meta/firewall; do
    compile "$(folder_of cni)/${name#*/}" "$root/plugins/$name" "-s -w -X $root/pkg/utils/buildversion.BuildVersion=$CNI_VERSION"
  done
}

crictl() {
  module crictl sigs.k8s.io/cri-tools "$CRICTL_VERSION"
  compile "$(folder_of crictl)/crictl" sigs.k8s.io/cri-tools/cmd/crictl \
    "-s -w -X sigs.k8s.io/cri-tools/pkg/version.Version=$CRICTL_VERSION"
}

coredns() {
  module coredns github.com/coredns/coredns "$COREDNS_VERSION"
  compile "$(folder_of coredns)/coredns" github.com/coredns/coredns "-s -w"
}

localpath() {
  module localpath github.com/rancher/local-path-provisioner "$LOCALPATH_VERSION"
  compile "$(folder_of localpath)/local-path-provisioner" github.com/rancher/local-path-provisioner \
    "-s -w -X main.VERSION=$LOCALPATH_VERSION"
}

# Its release 3.11.3 is the module's 0.311.3. Of its discoveries the one that our configuration uses; without pages, which npm makes.
prometheus() {
  local name root=github.com/prometheus/prometheus major minor patch version
  IFS=. read -r major minor patch <<<"${PROMETHEUS_VERSION#v}"
  version=v0.$(printf '%d%02d' "$major" "$minor").$patch
  module prometheus $root "$version"
  for name in prometheus promtool; do
    compile "$(folder_of prometheus)/$name" $root/cmd/$name \
      "-s -w -X github.com/prometheus/common/version.Version=${PROMETHEUS_VERSION#v}" -tags remove_all_sd,enable_kubernetes_sd
  done
}

alertmanager() {
  local name root=github.com/prometheus/alertmanager
  module alertmanager $root "$ALERTMANAGER_VERSION"
  for name in alertmanager amtool; do
    compile "$(folder_of alertmanager)/$name" $root/cmd/$name \
      "-s -w -X github.com/prometheus/common/version.Version=${ALERTMANAGER_VERSION#v}"
  done
}

node-exporter() {
  module node-exporter github.com/prometheus/node_exporter "$NODE_EXPORTER_VERSION"
  compile "$(folder_of node-exporter)/node-exporter" github.com/prometheus/node_exporter \
    "-s -w -X github.com/prometheus/common/version.Version=${NODE_EXPORTER_VERSION#v}"
}

# A C program in the module of Kubernetes.
pause() {
  local source folder
  command -v gcc >/dev/null || die "pause needs a C compiler: apt-get install gcc libc6-dev"
  source=$(go mod download -json "k8s.io/kubernetes@$KUBE_VERSION" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')/build/pause/linux/pause.c
  folder=$(folder_of pause)
  mkdir -p "$folder"
  gcc -Os -static "-DVERSION=$PAUSE_VERSION" -o "$folder/.pause.new" "$source"
  mv "$folder/.pause.new" "$folder/pause"
}

# flanneld as its makers link it (static, with C for one of its backends), and the CNI plugin of that name, but that the
# module proxy does not give out two modules: the SDK of Tencent's cloud, so the backend that needs it is left out, and the
# one that the plugin lives in today, so it is the plugin of the last release of the CNI plugins that had it.
flannel() {
  local root=github.com/flannel-io/flannel plugins=github.com/containernetworking/plugins folder source
  command -v gcc >/dev/null || die "flannel needs a C compiler: apt-get install gcc libc6-dev"
  folder=$(folder_of flannel)
  module flannel-cni $plugins "$FLANNEL_CNI_VERSION"
  compile "$folder/flannel" $plugins/plugins/meta/flannel \
    "-s -w -X $plugins/pkg/utils/buildversion.BuildVersion=$FLANNEL_CNI_VERSION"
  mkdir -p "$CACHE/src/flannel-$FLANNEL_VERSION" && cd "$CACHE/src/flannel-$FLANNEL_VERSION"
  source=$(go mod download -json "$root@$FLANNEL_VERSION" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
  cp -r --no-preserve=mode "$source/." . && rm -f pkg/backend/tencentvpc/*.go && echo "package tencentvpc" >pkg/backend/tencentvpc/none.go
  cp Documentation/kube-flannel.yml "$folder/kube-flannel.yml"
  compile "$folder/install-conf" ./cmd/install_conf "-s -w"
  CGO=1 compile "$folder/flanneld" . "-s -w -X $root/pkg/version.Version=$FLANNEL_VERSION -extldflags -static" \
    -tags "netgo osusergo"
}

# A program of ours, with what kubelet's own module says about device plugins.
deviceplugin() {
  mkdir -p "$CACHE/$KUBE_VERSION/src/kubernetes" && cd "$CACHE/$KUBE_VERSION/src/kubernetes"
  write_gomod k8s.io/kubernetes "$KUBE_VERSION" "v0${KUBE_VERSION#v1}"
  compile "$(folder_of deviceplugin)/nvidia-device-plugin" "$PLUGIN" "-s -w"
}

# Another, with the module that helps drivers of DRA.
dradriver() {
  mkdir -p "$CACHE/$KUBE_VERSION/src/kubernetes" && cd "$CACHE/$KUBE_VERSION/src/kubernetes"
  write_gomod k8s.io/kubernetes "$KUBE_VERSION" "v0${KUBE_VERSION#v1}"
  compile "$(folder_of dradriver)/dra-driver" "$DRIVER" "-s -w"
}

helm() {
  module helm helm.sh/helm/v4 "$HELM_VERSION"
  compile "$(folder_of helm)/helm" helm.sh/helm/v4/cmd/helm "-s -w -X helm.sh/helm/v4/internal/version.version=$HELM_VERSION"
}

# A program of ours: an OpenID provider to sign in with, of a certified library.
oidc() {
  module oidc github.com/zitadel/oidc/v3 "$OIDC_VERSION"
  compile "$(folder_of oidc)/oidc-provider" "$PROVIDER" "-s -w"
}

# kwok has no stages built in ("no stages found"): its module's own say when a fake node is ready and a fake pod runs.
kwok() {
  local folder file
  mkdir -p "$OWN/src/kwok" && cd "$OWN/src/kwok"
  write_gomod sigs.k8s.io/kwok "$KWOK_VERSION"
  compile "$OWN/kwok" sigs.k8s.io/kwok/cmd/kwok "-s -w"
  folder=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  for file in "$folder"/{node/fast,node/heartbeat-with-lease,pod/fast}/*.yaml; do
    [ "$(basename "$file")" = kustomization.yaml ] || { echo ---; cat "$file"; }
  done >"$OWN/.kwok-stages.new"
  mv "$OWN/.kwok-stages.new" "$OWN/kwok-stages.yaml"
}

# A Go that can fetch the release which Kubernetes wants; what the caller has set for other projects must not reach ours.
find_go() {
  local minor
  export GOTOOLCHAIN=auto GOFLAGS="-mod=mod -buildvcs=false" GOWORK=off GO111MODULE=on
  unset GOROOT GOOS GOARCH GOBIN
  minor=$(go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p' || true)
  [ "${minor:-0}" -ge 21 ] && return
  if [ ! -x "$CACHE/go/bin/go" ]; then
    say "no Go of 1.21 or newer here: fetching one into $CACHE/go"
    python3 "$HERE/get_go.py" "$CACHE/go" || exit 2
  fi
  export PATH=$CACHE/go/bin:$PATH
}

if [ "${1:-}" = --where ]; then
  folder_of "$2"
  exit
fi
# is_there COMPONENT: whether its programs are, and of the version that is asked for; etcd and kwok lie in a folder without theirs.
is_there() {
  [ -x "$(folder_of "$1")/$(last_of "$1")" ] || return 1
  case $1 in
    etcd) grep -qsF " $ETCD_VERSION" "$OWN/src/etcd/go.mod" ;;
    kwok) grep -qsF " $KWOK_VERSION" "$OWN/src/kwok/go.mod" ;;
  esac
}

mkdir -p "$OUT"
exec 9>"$OUT/.lock"
flock -n 9 || { say "another build runs; waiting for it"; flock 9; }
find_go
[ $# -gt 0 ] || set -- "${DEFAULT[@]}"
case $* in
  hosts) set -- "${KUBERNETES[@]}" "${BESIDE[@]}" ;;
  monitoring) set -- "${MONITORING[@]}" ;;
esac
for component in "$@"; do
  is_there "$component" && continue
  case " ${KUBERNETES[*]} | ${BESIDE[*]} ${MONITORING[*]} ${APART[*]} " in
    *" $component "*"|"*) (kubernetes "$component") ;;
    *" $component "*) ("$component") ;;
    *) die "unknown component $component" ;;
  esac
done
say "ready in $OUT"
