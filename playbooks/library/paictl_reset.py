#!/usr/bin/python
# Part of paictl.
"""Bring a machine back to what it was before: out of its cluster, without what was installed."""

import glob
import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.paictl_host import BEGUN, INSTALLED, STATE, installed, read, run

DOCUMENTATION = r"""
module: paictl_reset
short_description: Bring a machine back to what it was before
description: [Works on machines that are half done too; touches no machine that belongs to another cluster.]
options:
  cluster: {description: The cluster that the machine may belong to., type: str, required: true}
author: [paictl]
"""
EXAMPLES = r"""
- name: Reset
  paictl_reset:
    cluster: prod
"""
RETURN = r"""
removed:
  description: What was taken away.
  returned: always
  type: list
  elements: str
"""
UNITS = [
    "paictl-kubeadm",
    "kubelet",
    "paictl-network",
    "paictl-firewall",
    "paictl-address",
    "paictl-certificates",
    "paictl-node-dns",
    "containerd",
]
PATHS = [
    "/etc/kubernetes",
    "/etc/containerd",
    "/etc/cni/net.d/10-paictl.conflist",
    "/etc/cni/net.d/10-flannel.conflist",
    "/opt/cni/bin/flannel",
    "/run/flannel",
    "/etc/crictl.yaml",
    "/etc/paictl",
    "/etc/modules-load.d/paictl.conf",
    "/etc/sysctl.d/90-paictl.conf",
    "/etc/systemd/system/containerd.service",
    "/etc/systemd/system/kubelet.service",
    "/etc/systemd/system/kubelet.service.d",
    "/etc/systemd/system/containerd.service.d/paictl-proxy.conf",
    "/etc/systemd/system/paictl-network.service",
    "/etc/systemd/system/paictl-firewall.service",
    "/etc/systemd/system/paictl-address.service",
    "/etc/systemd/system/paictl-certificates.service",
    "/etc/systemd/system/paictl-node-dns.service",
    "/usr/local/lib/paictl",
    "/var/lib/paictl-pack.tar",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
    "/var/log/kubernetes/audit",
    "/var/log/paictl-kubeadm.log",
    "/run/paictl",
    "/var/lib/etcd",
    "/root/.kube/cache",
]
PARTS = "/var/lib/paictl-pack.tar.*.part"
"""What of a pack has arrived, where a push was not resumed."""
EMPTIED = ["/var/lib/containerd", "/var/lib/kubelet", "/run/containerd"]
"""Folders that may be mount points of their own: what is in them goes, they stay if they cannot be removed."""
ROUTES = "77"
NODE_DNS = "169.254.20.10/32"
"""The address of the DNS cache, which each machine has for itself."""
LINKS = ("cni0", "flannel.1", "flannel-wg", "tunl0", "vxlan.calico", "kube-ipvs0")
TABLES = ("kube-proxy", "flannel-ipv4", "flannel-ipv6")
CHAINS = ("KUBE-", "CNI-", "cali-", "FLANNEL-", "flanneld ")
"""In every rule that is not the machine's own: the name of a chain, or what a comment begins with."""


def unmount(path):
    """Unmount all below a folder, the deepest first."""
    mounts = [line.split()[1] for line in read("/proc/mounts").splitlines()]
    for one in sorted((one for one in mounts if one.startswith(path + "/")), reverse=True):
        run(["umount", "--lazy", one])


def empty(path):
    """Remove what is in a folder, and the folder if it is no mount point."""
    unmount(path)
    for one in glob.glob(path + "/*") + glob.glob(path + "/.[!.]*"):
        remove(one)
    try:
        os.rmdir(path)
    except OSError:
        pass


def remove(path):
    """Remove a file or a folder; True if it was there."""
    if os.path.isdir(path) and not os.path.islink(path):
        unmount(path)
        shutil.rmtree(path, ignore_errors=True)
        return True
    if os.path.lexists(path):
        os.unlink(path)
        return True
    return False


def flannel_network():
    """The network of all pods as flannel knows it on this machine; empty where it does not run."""
    for line in read("/run/flannel/subnet.env").splitlines():
        if line.startswith("FLANNEL_NETWORK="):
            return line.split("=", 1)[1]
    return ""


def network():
    """Take away links, routes and rules of the cluster."""
    for link in LINKS:
        if os.path.exists("/sys/class/net/" + link):
            run(["ip", "link", "delete", link])
    run(["ip", "route", "flush", "proto", ROUTES])
    run(["ip", "address", "delete", NODE_DNS, "dev", "lo"])
    pods = flannel_network()
    if pods:  # routes of its backend host-gw, which go by the machine's own link
        run(["ip", "route", "flush", "root", pods])
    address = read("/etc/paictl/address.json")
    if '"address": "' in address:
        own = address.split('"address": "')[1].split('"')[0]
        for line in run(["ip", "-o", "addr", "show"])[1].splitlines():
            words = line.split()
            if len(words) > 3 and words[3] == own + "/32":
                run(["ip", "addr", "del", own + "/32", "dev", words[1]])
    for family in ("ip", "ip6"):
        for table in TABLES:
            run(["nft", "delete", "table", family, table])
    run(["nft", "delete", "table", "inet", "paictl"])
    for tool in ("iptables", "ip6tables"):
        code, rules, _ = run([tool + "-save"])
        kept = [line for line in rules.splitlines() if not any(word in line for word in CHAINS)]
        if code == 0 and len(kept) != len(rules.splitlines()):
            run([tool + "-restore"], text="\n".join(kept) + "\n")


def work():
    """Do it; what was taken away."""
    gone = []
    run(
        [
            "systemctl",
            "stop",
            "paictl-kubeadm",
            "paictl-network",
            "paictl-firewall",
            "paictl-address",
            "paictl-certificates",
            "paictl-node-dns",
        ]
    )
    if os.path.exists("/etc/kubernetes") and os.path.exists("/usr/local/bin/kubeadm"):
        run(["systemctl", "start", "containerd"])
        run(["kubeadm", "reset", "--force", "--cri-socket=unix:///run/containerd/containerd.sock"], seconds=240)
        gone.append("its place in the cluster")
    run(["systemctl", "disable", "--now", *UNITS[1:]], seconds=120)
    end_shims()
    network()
    for program in installed().values():
        gone += [path for path in program.get("files", {}) if remove(path)]
    gone += [path for path in PATHS + glob.glob(PARTS) if remove(path)]
    for path in EMPTIED:
        if os.path.isdir(path):
            empty(path)
            gone.append(path)
    run(["systemctl", "daemon-reload"])
    run(["systemctl", "reset-failed", *UNITS])
    shutil.rmtree(STATE, ignore_errors=True)
    return gone


def end_shims():
    """End what our containerd has left running for Kubernetes: its shims outlive it. Docker's are not touched."""
    for folder in glob.glob("/proc/[0-9]*"):
        words = read(folder + "/cmdline").split("\0")
        if words[0].endswith("containerd-shim-runc-v2") and "k8s.io" in words:
            run(["kill", "-9", os.path.basename(folder)])


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec={"cluster": {"type": "str", "required": True}}, supports_check_mode=True)
    begun, cluster = read(BEGUN).strip(), module.params["cluster"]
    if begun not in ("", cluster):
        module.fail_json(msg="belongs to the cluster %s, not to %s" % (begun, cluster), hint="nothing was changed here")
    foreign = os.path.exists("/etc/kubernetes/kubelet.conf") and not begun
    if foreign:
        module.fail_json(msg="has a Kubernetes that paictl has not made", hint="kubeadm reset on that host")
    ours = begun or os.path.exists(INSTALLED) or any(os.path.lexists(path) for path in PATHS if "paictl" in path)
    gone = [] if not ours else PATHS if module.check_mode else work()
    module.exit_json(changed=bool(ours), removed=gone)


if __name__ == "__main__":
    main()
