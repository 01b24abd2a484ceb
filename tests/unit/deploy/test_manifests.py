"""The manifests of flannel and Calico, in the form that their makers give them, fitted to a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.deploy.artifacts import Artifact, ArtifactKind, Artifacts
from paictl.deploy.desired import Desired, desired_of
from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.manifests import images_named, manifest_for
from paictl.deploy.settings import DeploySettings, LoginSettings
from paictl.errors import PaictlError

FLANNEL = """---
kind: Namespace
apiVersion: v1
metadata:
  name: kube-flannel
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-flannel-cfg, namespace: kube-flannel}
data:
  cni-conf.json: |
    {"name": "cbr0", "cniVersion": "1.0.0"}
  net-conf.json: |
    {
      "Network": "10.244.0.0/16",
      "EnableNFTables": false,
      "Backend": {
        "Type": "vxlan"
      }
    }
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-flannel-ds, namespace: kube-flannel}
spec:
  template:
    spec:
      initContainers:
      - name: install-cni-plugin
        image: ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel3
        command: [cp]
      containers:
      - name: kube-flannel
        image: ghcr.io/flannel-io/flannel:v0.28.10
        command:
        - /opt/bin/flanneld
        args:
        - --ip-masq
        - --kube-subnet-mgr
        env:
        - name: EVENT_QUEUE_DEPTH
          value: "5000"
"""
CALICO = """kind: DaemonSet
spec:
  template:
    spec:
      containers:
        - name: calico-node
          image: quay.io/calico/node:v3.31.2
          env:
            # chosen from this range. Changing this value after installation will have
            # no effect. This should fall within `--cluster-cidr`.
            # - name: CALICO_IPV4POOL_CIDR
            #   value: "192.168.0.0/16"
            # Disable file logging so `kubectl logs` works.
            - name: CALICO_DISABLE_FILE_LOGGING
              value: "true"
"""


def _fitted(network: str, text: str, folder: Path) -> list[Any]:
    path = folder / "network.yaml"
    path.write_text(text)
    return list(yaml.safe_load_all(manifest_for(network, path, "10.99.0.0/16")))


def _daemon(documents: list[Any]) -> Any:
    return documents[-1]["spec"]["template"]["spec"]["containers"][0]


def test_flannel_gets_the_network_of_the_pods_and_keeps_its_other_settings(tmp_path: Path) -> None:
    before, after = list(yaml.safe_load_all(FLANNEL)), _fitted("flannel", FLANNEL, tmp_path)
    settings = json.loads(after[1]["data"]["net-conf.json"])
    assert settings == {"Network": "10.99.0.0/16", "EnableNFTables": False, "Backend": {"Type": "vxlan"}}
    assert after[1]["data"]["cni-conf.json"] == before[1]["data"]["cni-conf.json"]
    assert after[0] == before[0]


def test_flannel_uses_the_address_that_its_node_has_in_the_cluster(tmp_path: Path) -> None:
    daemon = _daemon(_fitted("flannel", FLANNEL, tmp_path))
    assert daemon["args"] == ["--ip-masq", "--kube-subnet-mgr", "--iface=$(PAICTL_NODE_ADDRESS)"]
    given = {one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in daemon["env"]}
    assert given == {"EVENT_QUEUE_DEPTH": "5000", "PAICTL_NODE_ADDRESS": "status.hostIP"}


@pytest.mark.parametrize("named", ["--iface=eth1", "-iface=eth1", "--iface-can-reach=192.0.2.1"])
def test_an_interface_that_somebody_has_named_stays(tmp_path: Path, named: str) -> None:
    daemon = _daemon(_fitted("flannel", FLANNEL.replace("--ip-masq", named), tmp_path))
    assert daemon["args"] == [named, "--kube-subnet-mgr"]


def test_calico_gets_the_network_of_the_pods_and_nothing_else_changes(tmp_path: Path) -> None:
    before, after = list(yaml.safe_load_all(CALICO)), _fitted("calico", CALICO, tmp_path)
    pool = {"name": "CALICO_IPV4POOL_CIDR", "value": "10.99.0.0/16"}
    assert _daemon(after)["env"] == [pool, *_daemon(before)["env"]]
    fitted = manifest_for("calico", tmp_path / "network.yaml", "10.99.0.0/16").splitlines()
    assert len(set(fitted) - set(CALICO.splitlines())) == 2


@pytest.mark.parametrize(
    ("network", "text"),
    [
        ("flannel", CALICO),
        ("calico", FLANNEL),
        ("flannel", ""),
        ("calico", CALICO.replace("CALICO_IPV4POOL_CIDR", "CALICO_POOL")),
        ("calico", CALICO + CALICO),
        ("flannel", FLANNEL.replace("net-conf.json", "settings")),
        ("flannel", FLANNEL.replace("flanneld", "daemon")),
    ],
)
def test_a_manifest_of_another_form_is_refused(tmp_path: Path, network: str, text: str) -> None:
    with pytest.raises(PaictlError, match=f"is not a known {network} manifest") as refused:
        _fitted(network, text, tmp_path)
    assert refused.value.where == str(tmp_path / "network.yaml")
    assert f"--with {network}" in str(refused.value.hint)


def test_the_images_of_a_manifest_are_known(tmp_path: Path) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(FLANNEL + "      - image: 'localhost/quoted:1'\n")
    wanted = ("ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel3", "ghcr.io/flannel-io/flannel:v0.28.10")
    assert images_named(path) == (*wanted, "localhost/quoted:1")


def test_without_a_registry_the_images_of_the_network_have_to_be_among_the_artifacts(tmp_path: Path) -> None:
    (tmp_path / "kube-flannel.yml").write_text(FLANNEL)
    names = ("kubeadm", "kubelet", "kubectl", "containerd", "runc", "cni-plugins", "crictl")
    rows = [Artifact(name, ArtifactKind.BINARY, "v1.37.1", "amd64", "", "0" * 64, name) for name in names]
    rows.append(Artifact("flannel", ArtifactKind.MANIFEST, "v0.28.10", "amd64", "", "0" * 64, "kube-flannel.yml"))
    there = Artifacts(tmp_path, tuple(rows))
    machines = (Machine("m1", "10.0.0.11", Role.MASTER),)

    def made(*, offline: bool) -> Desired:
        settings = DeploySettings(LoginSettings("ops", "x"), network="flannel", offline=offline)
        return desired_of(Deployment(machines, settings), there)

    assert made(offline=False).version == "v1.37.1"
    with pytest.raises(PaictlError, match=r"needs images .*flannel-cni-plugin:v1.9.1-flannel3, .*flannel:v0.28.10"):
        made(offline=True)
