"""Kubernetes by hand: what it takes on the test hosts, without paictl; for the test that proves hosts and artifacts."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tools.hosts.lab import Lab
from tools.hosts.machine import Machine

TOKEN = "abcdef.0123456789abcdef"  # noqa: S105  # for hosts that live a minute
_IGNORED = "SystemVerification"
"""kubeadm's check that fails on control groups of version 1."""


def install(machine: Machine, artifacts: Path) -> None:
    """Programs, units and images from the artifact folder."""
    target = machine.root / "opt/artifacts"
    machine.execute(["mkdir", "-p", "/opt/artifacts/images", "/opt/cni/bin", "/etc/containerd", "/etc/cni/net.d"])
    rows = json.loads((artifacts / "artifacts.json").read_text())["artifacts"]
    for row in rows:
        (target / row["path"]).write_bytes((artifacts / row["path"]).read_bytes())
    files = {
        "etc/containerd/config.toml": _CONTAINERD,
        "etc/systemd/system/containerd.service": _UNIT.format(program="containerd", type="notify"),
        "etc/systemd/system/kubelet.service": _UNIT.format(program=_KUBELET, type="exec"),
        "etc/cni/net.d/10-bridge.conflist": json.dumps(_network(machine.number)),
        "etc/sysctl.d/99-kubernetes.conf": "net.ipv4.ip_forward=1\n",
        "etc/crictl.yaml": "runtime-endpoint: unix:///run/containerd/containerd.sock\n",
    }
    for name, text in files.items():
        (machine.root / name).write_text(text)
    machine.execute(["sh", "-ec", _INSTALL])


def init(machine: Machine, version: str) -> str:
    """The first control plane; the administrator's kubeconfig."""
    configuration = _CONFIGURATION.format(address=machine.address, name=machine.name, version=version, token=TOKEN)
    machine.execute(["sh", "-c", "cat > /root/kubeadm.yaml"], text=configuration)
    machine.execute(["kubeadm", "init", "--config", "/root/kubeadm.yaml"], seconds=300)
    return (machine.root / "etc/kubernetes/admin.conf").read_text()


def join(machine: Machine, first: Machine) -> None:
    """A worker."""
    command = first.execute(["kubeadm", "token", "create", "--print-join-command"]).stdout
    found = re.search(r"sha256:[0-9a-f]{64}", command)
    assert found is not None, command
    machine.execute([
        "kubeadm", "join", f"{first.address}:6443", "--token", TOKEN, "--discovery-token-ca-cert-hash", found[0],
        f"--ignore-preflight-errors={_IGNORED}", "--node-name", machine.name,
    ], seconds=300)  # fmt: skip


def routes(lab: Lab) -> None:
    """From every host to the pods of every other."""
    for one in lab.machines():
        for other in lab.machines():
            if one != other:
                one.execute(["ip", "route", "replace", f"10.200.{other.number}.0/24", "via", other.address])


def _network(number: int) -> object:
    ranges = [[{"subnet": f"10.200.{number}.0/24"}]]
    addresses = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "k", "plugins": [{**bridge, "ipam": addresses}, ports]}


_INSTALL = """\
cd /opt/artifacts
install -m755 kubeadm kubelet kubectl /usr/local/bin/
install -m755 runc.amd64 /usr/local/sbin/runc
tar -C /usr/local -xzf containerd-*.tar.gz
tar -C /opt/cni/bin -xzf cni-plugins-*.tgz
tar -C /usr/local/bin -xzf crictl-*.tar.gz
sysctl -q -p /etc/sysctl.d/99-kubernetes.conf
systemctl daemon-reload
systemctl enable -q --now containerd
systemctl enable -q kubelet
for image in images/*.tar; do ctr -n k8s.io images import "$image"; done
rm -rf /opt/artifacts
"""
_CONTAINERD = """\
version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = 'registry.k8s.io/pause:3.10.2'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/opt/cni/bin']
  conf_dir = '/etc/cni/net.d'
"""
_KUBELET = (
    "kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf "
    "--config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS"
)
_UNIT = """\
[Unit]
After=network.target
StartLimitIntervalSec=0
[Service]
Type={type}
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/{program}
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""
_CONFIGURATION = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {address}}}
bootstrapTokens: [{{token: {token}}}]
nodeRegistration: {{name: {name}, imagePullPolicy: Never, ignorePreflightErrors: [SystemVerification]}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {version}
etcd: {{local: {{extraArgs: [{{name: unsafe-no-fsync, value: "true"}}]}}}}
networking: {{podSubnet: 10.200.0.0/16, serviceSubnet: 10.96.0.0/16}}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"""
