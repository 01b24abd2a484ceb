"""What the API says becomes versions, kubeadm's words and its notes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from paictl.deploy.draining import MARK, UPGRADE
from paictl.deploy.upgrade import wished
from paictl.deploy.upgrading import UpgradeFacts, UpgradeOptions, UpgradeWork, cluster_of, kubeadm_words, retag, tags_of
from paictl.deploy.versions import Kubeadm, UpgradeRefusedError, UpgradeStep, Version, version_of
from tests.unit.deploy.test_desired import M1, W1, deployment, desired

OLD, NEW = Version(1, 37, 0), Version(1, 37, 1)


def seen(**nodes: str) -> UpgradeFacts:
    def image(name: str, tag: str) -> dict[str, Any]:
        return {"containers": [{"image": f"mirror:5000/{name}:{tag}@sha256:12"}]}

    pods = [
        {"metadata": {"labels": {"component": name}}, "spec": {"nodeName": "m1", **image(name, tag)}}
        for name, tag in (("kube-apiserver", "v1.37.1"), ("kube-scheduler", "v1.37.0"), ("etcd", "3.7.0-0"))
    ]
    found = {
        name: {
            "metadata": {"annotations": {MARK: UPGRADE.name} if name == "w1" else None},
            "status": {"nodeInfo": {"kubeletVersion": version}},
        }
        for name, version in nodes.items()
    }
    proxy = {"spec": {"template": {"spec": image("kube-proxy", "v1.37.0")}}}
    return UpgradeFacts(found, pods, {"kubernetesVersion": "v1.37.0"}, proxy)


def test_versions_are_read_from_the_api() -> None:
    found = cluster_of(seen(m1="v1.37.0", w1="v1.37.1"), (M1, W1), ["m1"])
    master, worker = found.machines
    assert (master.kubelet, master.programs, master.lacks, master.held) == (OLD, (NEW, OLD), True, False)
    assert (worker.kubelet, worker.programs, worker.lacks, worker.held) == (NEW, (), False, True)
    assert (found.configured, found.proxy) == (OLD, OLD)


def test_a_machine_that_is_no_node_is_refused() -> None:
    with pytest.raises(UpgradeRefusedError) as refused:
        cluster_of(seen(m1="v1.37.0"), (M1, W1))
    assert refused.value.where == "w1"


def test_a_master_without_its_programs_is_refused() -> None:
    given = seen(m1="v1.37.0", w1="v1.37.0")
    with pytest.raises(UpgradeRefusedError, match="does not run a control plane"):
        cluster_of(replace(given, pods=[]), (M1, W1))


def test_what_kubeadm_is_told() -> None:
    given = desired(deployment(ignored_checks=("SystemVerification", "Swap")))
    work = UpgradeWork(cast("Any", SimpleNamespace(desired=given)), UpgradeOptions(version_of("v1.37.1")))
    ignored = "--ignore-preflight-errors=SystemVerification,Swap"
    assert kubeadm_words(UpgradeStep("m1", Kubeadm.APPLY, True, ()), work) == ["apply", "v1.37.1", "--yes", ignored]
    assert kubeadm_words(UpgradeStep("w1", Kubeadm.NODE, True, ()), work) == ["node", ignored]


def test_kubeadm_s_notes_name_the_images_that_were_pushed() -> None:
    site = cast("Any", SimpleNamespace(desired=desired(deployment())))
    notes = {"kubernetesVersion": "v1.37.0", "etcd": {"local": {"imageTag": "3.6.0-0", "extraArgs": []}}, "dns": {}}
    sent: list[Any] = []

    class Client:
        def get(self, _: str) -> Any:
            return {"data": {"ClusterConfiguration": yaml.safe_dump(notes)}}

        def request(self, method: str, _: str, body: Any, **__: Any) -> None:
            assert method == "PATCH"
            sent.append(yaml.safe_load(body["data"]["ClusterConfiguration"]))

    retag(cast("Any", Client()), tags_of(site))
    assert sent == [{**notes, "etcd": {"local": {"imageTag": "3.7.0-0", "extraArgs": []}}, "dns": {"imageTag": "v1"}}]
    notes.update(sent[0])
    retag(cast("Any", Client()), tags_of(site))
    assert len(sent) == 1  # nothing to change, nothing sent


def test_a_version_without_artifacts_is_refused(tmp_path: Any) -> None:
    from paictl.deploy.artifacts import write_lock
    from paictl.errors import PaictlError

    write_lock(tmp_path, desired(deployment()).artifacts.all)
    with pytest.raises(PaictlError, match=r"v1.38.0 is required, but this is v1.37.1"):
        wished(deployment(version="v1.37.1"), Version(1, 38, 0), str(tmp_path))
