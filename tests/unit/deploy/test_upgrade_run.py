"""The phases of an upgrade from the versions on, with an API and playbooks that are made up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from paictl.deploy import draining, upgrading
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.settings import DeploySettings, LoginSettings
from paictl.deploy.site import DeployError, Site
from paictl.deploy.upgrading import UpgradeFacts, UpgradeMasters, UpgradeOptions, UpgradeWork, UpgradeWorkers, Versions
from paictl.deploy.versions import Version
from paictl.errors import ExitCode
from paictl.plan.run import PhaseStatus, carry_out
from tests.unit.deploy.test_desired import desired
from tests.unit.deploy.test_draining import Api, cordoned, node, pod

HOSTS = (
    *(Machine(f"m{i}", f"10.0.0.1{i}", Role.MASTER) for i in (1, 2)),
    *(Machine(f"w{i}", f"10.0.0.2{i}", Role.WORKER) for i in (1, 2, 3)),
)
OLD, NEW = "v1.37.0", "v1.37.1"


class Playing:
    """A site whose playbooks upgrade the nodes of the API at once; in `stops` on that host an error comes."""

    def __init__(self, api: Api, stops: str = "", error: BaseException | None = None) -> None:
        self.desired = desired(Deployment(HOSTS, DeploySettings(LoginSettings("ops"))))
        self.cluster = self.desired.deployment.settings.cluster
        self.machines = HOSTS
        values = {"done": self.cluster, "kubernetes": ["/etc/kubernetes/kubelet.conf"], "differences": {}}
        self.facts = {one.name: HostFacts(one, values) for one in HOSTS}
        self.played: list[tuple[str, ...]] = []
        self._api, self._stops, self._error = api, stops, error

    def play(self, name: str, _: Any, machines: Iterable[Machine], variables: Any) -> None:
        hosts = [one.name for one in machines]
        words = variables["paictl_upgrade"]
        self.played.append((name, *hosts, *{word[0] for word in words.values()}))
        if name == "upgrade_machine":
            assert all(cordoned(self._api, host) for host in hosts)
            if self._stops in hosts and self._error is not None:
                raise self._error
            for host in hosts:
                self._api.nodes[host]["status"]["nodeInfo"]["kubeletVersion"] = NEW
        else:
            assert not any(cordoned(self._api, host) for host in hosts)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    nodes = {one.name: node(one.name) for one in HOSTS}
    for one in nodes.values():
        one["status"] = {"nodeInfo": {"kubeletVersion": OLD}, "conditions": [{"type": "Ready", "status": "True"}]}
    made = Api(nodes, {"web": pod("web", on="w2")})
    parts = [
        {
            "metadata": {"labels": {"component": "kube-apiserver"}},
            "spec": {"nodeName": name, "containers": [{"image": f"r/kube-apiserver:{OLD}"}]},
        }
        for name in ("m1", "m2")
    ]
    monkeypatch.setattr(draining, "_POLL", 0.0)
    monkeypatch.setattr(upgrading, "known_access", lambda _: True)
    monkeypatch.setattr(upgrading, "api", lambda _: made)
    monkeypatch.setattr(upgrading, "nodes_of", lambda _: made.nodes)
    monkeypatch.setattr("paictl.deploy.nodes.nodes_of", lambda _: made.nodes)
    monkeypatch.setattr(upgrading, "look", lambda _: UpgradeFacts(made.nodes, parts, {"kubernetesVersion": OLD}, None))
    monkeypatch.setattr(upgrading, "retag", lambda *_: None)
    return made


def work(site: Playing, batch: int = 2) -> UpgradeWork:
    return UpgradeWork(cast("Site", site), UpgradeOptions(Version(1, 37, 1), batch, 5))


class _Masters(UpgradeMasters):
    """Masters without the phases that are not tried here."""

    needs = frozenset({"versions"})


def run(given: UpgradeWork) -> dict[str, PhaseStatus]:
    return {one.phase: one.status for one in carry_out([Versions(given), _Masters(given), _Workers(given)])}


class _Workers(UpgradeWorkers):
    """Workers after these."""

    needs = frozenset({"control-plane"})


def test_masters_one_by_one_and_workers_in_batches(api: Api) -> None:
    site = Playing(api)
    assert set(run(work(site)).values()) == {PhaseStatus.DONE}
    assert site.played == [
        ("upgrade_master", "m1", "apply"),
        ("upgrade_machine", "m1"),
        ("upgrade_master", "m2", "node"),
        ("upgrade_machine", "m2"),
        ("upgrade_machine", "w1", "w2", "node"),
        ("upgrade_machine", "w3", "node"),
    ]
    assert api.evicted == ["web"]
    assert not any(cordoned(api, one.name) for one in HOSTS)


@pytest.mark.parametrize("stops", ["m1", "w2"])
def test_after_a_failure_no_node_is_left_cordoned_and_nothing_after_it_is_tried(api: Api, stops: str) -> None:
    site = Playing(api, stops, DeployError("the link was cut", exit_code=ExitCode.PARTIAL))
    found = run(work(site))
    assert PhaseStatus.FAILED in found.values()
    assert stops in site.played[-1]
    assert not any(cordoned(api, one.name) for one in HOSTS)


def test_after_ctrl_c_no_node_is_left_cordoned(api: Api) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(work(Playing(api, "w1", KeyboardInterrupt())))
    assert not any(cordoned(api, one.name) for one in HOSTS)


def test_what_a_killed_run_has_left_cordoned_is_released_also_where_the_upgrade_is_refused(api: Api) -> None:
    api.nodes["w3"]["metadata"]["annotations"][draining.MARK] = draining.UPGRADE.name
    api.nodes["w3"]["spec"]["unschedulable"] = True
    given = UpgradeWork(cast("Site", Playing(api)), UpgradeOptions(Version(1, 36, 0)))
    assert run(given)["versions"] is PhaseStatus.FAILED
    assert not cordoned(api, "w3")


def test_machines_that_are_not_in_the_cluster_are_refused(api: Api) -> None:
    site = Playing(api)
    site.facts["w2"] = HostFacts(HOSTS[3], {"done": "", "kubernetes": [], "differences": {}})
    (first, *_) = carry_out([Versions(work(site))])
    assert first.error is not None
    assert first.error.message == "not in the cluster: w2"
    assert site.played == []


@pytest.mark.parametrize("applied", [False, True])
def test_kubeadm_s_configuration_gets_its_new_tags_right_before_it_is_applied_and_only_then(
    api: Api, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    """kubeadm pulls etcd and CoreDNS by the tags of that moment. `applied`: by a run that was cut off afterwards."""
    site = Playing(api)
    monkeypatch.setattr(upgrading, "retag", lambda *_: site.played.append(("retag",)))
    if applied:
        before = upgrading.look(cast("Any", None))
        first = {**before.pods[0], "spec": {"nodeName": "m1", "containers": [{"image": f"r/kube-apiserver:{NEW}"}]}}
        seen = UpgradeFacts(before.nodes, [first, before.pods[1]], {"kubernetesVersion": NEW}, None)
        monkeypatch.setattr(upgrading, "look", lambda _: seen)
    assert set(run(work(site)).values()) == {PhaseStatus.DONE}
    applying = [] if applied else [("retag",), ("upgrade_master", "m1", "apply")]
    assert site.played[: len(applying) + 3] == [
        *applying,
        ("upgrade_machine", "m1"),
        ("upgrade_master", "m2", "node"),
        ("upgrade_machine", "m2"),
    ]
    assert ("retag",) not in site.played[1:]
