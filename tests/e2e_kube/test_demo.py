"""The textbook's Lab6 jobs 0-7 and HiveD's feature demo as real pods: where they run, and who has to go for whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.e2e_kube.churn import faults
from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.gates import gates
from tests.e2e_kube.kubeapi import INFO, ISOLATION, Json, KubeApi, devices, hived_pod, until
from tests.e2e_kube.rig import Rig, add_nodes, rig

SCENES: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "data" / "scenes.yaml").read_text())
PRIORITY = {"prod": 100, "test": 0, "oppo": -1}
LAB6: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 1, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": f"lab-{i}"} for i in range(2)],
    },
    "virtualClusters": {name: {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]} for name in ("vc1", "default")},
}
MIG: dict[str, Any] = {
    "physicalCluster": {
        "skuTypes": {"A100-2G": {"gpu": 1, "cpu": 1, "memory": "1024Mi", "migInstances": 3, "migProfile": "2g.20gb"}},
        "cellTypes": {
            "A100": {"childCellType": "A100-2G", "childCellNumber": 3},
            "A100-NODE": {"childCellType": "A100", "childCellNumber": 2, "isNodeLevel": True},
        },
        "physicalCells": [{"cellType": "A100-NODE", "cellAddress": "mig-0"}],
    },
    "virtualClusters": {"mig": {"virtualCells": [{"cellType": "A100-NODE", "cellNumber": 1}]}},
}


def load(config: int) -> dict[str, Any]:
    found: dict[str, Any] = SCENES["configurations"][config]
    return found


def pods_of(name: str, *, plugin: bool) -> list[Json]:
    """The pods of a job as OpenPAI annotates them; without a gang each pod is a group of its own.

    With `plugin` they ask the device plugin's resource instead of the marker, and count the suggested nodes.
    """
    job, found = SCENES["jobs"][name], []
    for role, asked in job["roles"].items():
        spec: dict[str, Any] = {
            "virtualCluster": job["vc"],
            "priority": PRIORITY[job["priority"]],
            "leafCellType": asked.get("sku", ""),
            "pinnedCellId": asked.get("pinned", ""),
            "lazyPreemptionEnable": job.get("lazy", False),
            "leafCellNumber": asked["gpus"],
        }
        if job.get("gang", True):
            members = [{"podNumber": asked["pods"], "leafCellNumber": asked["gpus"]}]
            spec["affinityGroup"] = {"name": f"{name}/{role}", "members": members}
        about = {"labels": {"job": name}}
        for i in range(asked["pods"]):
            pod = hived_pod(f"{name}-{role}-{i}", spec | {"ignoreK8sSuggestedNodes": not plugin}, metadata=about)
            if plugin:
                pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": asked["gpus"]}}
            found.append(pod)
    return found


class Stage:
    """A cluster whose configuration changes from scene to scene, and to which jobs are submitted."""

    def __init__(self, up: Rig, api: KubeApi, *, plugin: bool) -> None:
        self.up = up
        self.api = api
        self.plugin = plugin

    def scene(self, config: dict[str, Any], *, keep: bool = False) -> None:
        """Another configuration; the extender takes it by itself."""
        if not keep:
            self.api.delete_all()
        add_nodes(self.api, config, plugin=self.plugin)
        self.api.await_nodes(len(self.api.get("/api/v1/nodes")["items"]))
        text = yaml.safe_dump(config, sort_keys=False)
        if text == self.up.config.read_text():
            return
        before = self._terms()
        self.up.config.write_text(text)
        until(lambda: self._terms() > before, 20, "the configuration is taken")
        until(lambda: answers(f"{self.up.url}/readyz"), 20, "the new term answers")

    def _terms(self) -> float:
        lines = self.up.text("/metrics").splitlines()
        name = f"paictl_{self.up.program}_terms_total"
        return float(next(line for line in lines if line.startswith(name)).split()[1])

    def submit(self, name: str) -> list[str]:
        pods = pods_of(name, plugin=self.plugin)
        for pod in pods:
            self.api.create(pod)
        return [pod["metadata"]["name"] for pod in pods]

    def runs(self, names: list[str]) -> list[str]:
        """All of them run; their nodes."""
        found = self.api.await_bound(names, 60)
        assert not [fault for fault in faults(self.api.pods(), _Any()) if "devices that" not in fault]
        return [found[name]["spec"]["nodeName"] for name in names]

    def runs_in_part(self, names: list[str], number: int) -> list[str]:
        """So many of them run, and the others are told why they do not; the nodes of those that run."""

        def bound() -> list[str]:
            return [name for name in names if self.api.node_of(name)]

        until(lambda: len(bound()) >= number, 60, lambda: self.api.plight(names))
        running = bound()
        self.waits([name for name in names if name not in running])
        assert bound() == running
        assert len(running) == number
        return self.runs(running)

    def where(self, names: list[str]) -> dict[str, tuple[str, list[int]]]:
        """Node and devices of each."""
        return {name: (pod["spec"]["nodeName"], devices(pod)) for name, pod in self.api.await_bound(names, 60).items()}

    def told(self, names: list[str], reason: str) -> None:
        """Each of them has an event with this reason."""
        for name in names:
            until(lambda name=name: reason in self._reasons(name), 20, f"{name} is told {reason}")  # type: ignore[misc]

    def _reasons(self, name: str) -> list[str]:
        return [event["reason"] for event in self.api.events(name)]

    def waits(self, names: list[str]) -> None:
        """None of them runs, and each is told why."""
        for name in names:
            self._told(name)
        assert not any(map(self.api.node_of, names))

    def _told(self, name: str) -> None:
        def told() -> bool:
            plight = self.api.plight([name])
            return "pod waits" in plight or (self.plugin and "Insufficient nvidia.com/gpu" in plight)

        until(told, 40, lambda: self.api.plight([name]))

    def gone(self, names: list[str]) -> None:
        """All of them were evicted, and told for whom."""
        until(lambda: not any(map(self.api.pod, names)), 40, f"{names} are evicted")
        self.told(names, "Preempted")

    def drop(self, names: list[str]) -> None:
        for name in names:
            self.api.delete(name)
        until(lambda: not any(map(self.api.pod, names)), 20, "deleted")

    def group(self, name: str) -> Any:
        return self.up.get(f"/v1/inspect/affinitygroups/{name}")["status"]

    def guaranteed(self) -> list[bool]:
        items = self.up.get("/v1/inspect/affinitygroups/")["items"] or []
        return ["virtualPlacement" in item["status"] for item in items]


class _Any(dict[str, set[int]]):
    def __missing__(self, key: str) -> set[int]:
        return set(range(16))


@pytest.fixture(scope="module", params=["marker", "plugin", "gates"])
def stage(
    request: pytest.FixtureRequest, plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Both doors; the extender with both ways of asking: HiveD's marker resource, and a device plugin's.

    For the second kube-scheduler has a filter of its own.
    """
    plugin, door = request.param != "marker", gates if request.param == "gates" else rig
    with door(plane, api, LAB6, tmp_path_factory.mktemp("demo"), plugin=plugin) as made:
        yield Stage(made, api, plugin=plugin)


@pytest.mark.versions
def test_lab6(stage: Stage) -> None:
    """Priorities within a quota, an opportunistic job beyond it, and a gang against single pods."""
    stage.scene(LAB6)

    def job(number: int) -> list[str]:
        return stage.submit(f"lab6-{number}")

    zero = job(0)
    (node,) = stage.runs(zero)
    stage.drop(zero)
    one = job(1)
    assert stage.runs(one) == [node]
    two = job(2)
    assert stage.runs(two) == [node], "prod preempts test in the same VC"
    stage.gone(one)
    three = job(3)
    stage.waits(three)
    four = job(4)
    (other,) = stage.runs(four)
    assert other != node, "the opportunistic job runs where VC default has not asked yet"
    five = job(5)
    assert stage.runs(five) == [other], "VC default takes what it was promised"
    stage.gone(four)
    stage.waits(three)
    stage.drop(two)
    assert stage.runs(three) == [node], "the one that waited goes on by itself"
    stage.drop(five)
    six = job(6)
    stage.waits(six)
    stage.drop(six)
    seven = job(7)
    stage.runs_in_part(seven, 1)


@pytest.mark.versions
def test_vc_safety(stage: Stage) -> None:
    stage.scene(load(1))
    nodes = [*stage.runs(stage.submit("itc-safety-1")), *stage.runs(stage.submit("itc-safety-2"))]
    assert len(set(nodes)) == 1


def test_pinned_cells(stage: Stage) -> None:
    stage.scene(load(8))
    names = stage.submit("itc-pin")
    nodes = dict(zip(names, stage.runs(names), strict=True))
    assert {node for name, node in nodes.items() if "vc1pinned" in name} == {"node-25"}
    assert "node-25" not in {node for name, node in nodes.items() if "vc1nopinned" in name}


def test_only_the_sku_that_is_asked_for(stage: Stage) -> None:
    stage.scene(load(2))
    (node,) = set(stage.runs_in_part(stage.submit("itc-k80-type"), 4))
    assert node != "node-26", "that one has M60"


def test_a_distributed_job_of_two_roles(stage: Stage) -> None:
    stage.scene(load(1))
    (worker, server) = stage.submit("itc-dtf")
    found = stage.where([worker, server])
    assert {node for node, _ in found.values()} == {"node-23", "node-24"}, "the cell of VC default"
    assert found[worker][1] == [0, 1, 2, 3]
    assert len(found[server][1]) == 1


def test_sku_types_and_gangs(stage: Stage) -> None:
    stage.scene(load(2))
    names = stage.submit("itc-no-type")
    assert set(stage.runs(names)) == {"node-18", "node-26"}
    stage.drop(names)
    whole = stage.submit("itc-gang")
    stage.waits(whole)
    stage.runs(stage.submit("itc-gang4"))  # who waits blocks nobody
    stage.scene(load(2))
    (first, second) = stage.submit("itc-buddy")
    stage.runs([first, second])
    found = stage.api.await_bound([first, second])
    assert sorted([*devices(found[first]), *devices(found[second])]) == [0, 1]


def test_elastic_and_opportunistic(stage: Stage) -> None:
    stage.scene(load(1))
    names = stage.submit("itc-elastic")
    assert len(set(stage.runs_in_part(names, 4))) == 1, "as far as the quota goes: one node"
    stage.drop(names)
    assert len(set(stage.runs(stage.submit("itc-oppo")))) > 1


def test_immediate_preemption_within_a_vc(stage: Stage) -> None:
    stage.scene(load(3))
    victims = stage.submit("itc-intra-imd-preempt-test")
    stage.runs(victims)
    stage.runs(stage.submit("itc-intra-imd-preempt-prod"))
    stage.gone(victims)


@pytest.mark.versions
def test_lazy_preemption_within_a_vc(stage: Stage) -> None:
    stage.scene(load(3))
    lazy = stage.submit("itc-intra-lazy-preempt-test")
    before = stage.runs(lazy)
    stage.runs(stage.submit("itc-intra-lazy-preempt-prod"))
    assert stage.runs(lazy) == before, "they run on"
    stage.told(lazy, "GuaranteeLost")
    stage.runs(stage.submit("itc-intra-lazy-preempt-prod2"))
    stage.gone(lazy)


def test_opportunistic_pods_go_for_another_vc(stage: Stage) -> None:
    stage.scene(load(3))
    guests = stage.submit("itc-inter-preempt-oppo")
    stage.runs(guests)
    stage.runs(stage.submit("itc-inter-preempt-prod"))
    stage.gone(guests)


@pytest.mark.parametrize(("config", "job"), [(5, "itc-reconfig-4"), (6, "itc-reconfig-5")])
def test_reconfiguration_takes_quota_away(stage: Stage, config: int, job: str) -> None:
    stage.scene(load(2))
    names = stage.submit("itc-reconfig-3")
    before = stage.where(names)
    assert stage.guaranteed() == [True]
    stage.scene(load(config), keep=True)
    assert stage.where(names) == before
    assert stage.guaranteed() == [False]
    stage.told(names, "GuaranteeLost")
    stage.runs(stage.submit(job))  # takes what its VC is promised now
    stage.gone(names)


def test_reconfiguration_deletes_a_physical_cell_under_a_running_job(stage: Stage) -> None:
    stage.scene(load(2))
    names = stage.submit("itc-reconfig-1")
    before = stage.where(names)
    stage.scene(load(33), keep=True)
    stage.told(names, "GuaranteeLost")
    assert stage.where(names) == before, "it runs on"
    stage.runs(stage.submit("itc-gang4"))  # and the others go on


def test_reconfiguration_adds_a_physical_cell(stage: Stage) -> None:
    stage.scene(load(33))
    names = stage.submit("itc-k80-type")
    nodes = stage.runs_in_part(names, 4)
    running = [name for name in names if stage.api.node_of(name)]
    before = stage.where(running)
    stage.scene(load(2), keep=True)
    assert stage.guaranteed() == [True] * 4
    assert stage.where(running) == before
    (other,) = set(stage.runs(stage.submit("itc-reconfig-1")))
    assert other == "node-26"
    assert other not in nodes


def test_reconfiguration_adds_a_node(stage: Stage) -> None:
    stage.scene(load(2))
    first = stage.submit("itc-reconfig-1")
    before = stage.where(first)
    stage.scene(load(4), keep=True)
    second = stage.submit("itc-reconfig-2")
    stage.waits(second)
    assert stage.where(first) == before, "it still counts, and is not preempted"
    stage.drop(first)
    assert set(stage.runs(second)) == {"node-25", "node-26"}


def test_reconfiguration_deletes_a_node(stage: Stage) -> None:
    stage.scene(load(2))
    names = stage.submit("itc-reconfig-3")
    before = stage.where(names)
    stage.scene(load(7), keep=True)
    assert stage.where(names) == before
    bound = {node for node, _ in before.values()}
    (new,) = set(stage.runs(stage.submit("itc-gang4")))
    assert new in {"node-19", "node-23", "node-24"} - bound


def test_bad_hardware_is_avoided_and_taken_up_again(stage: Stage) -> None:
    stage.scene(load(2))
    path = "/api/v1/nodes/node-26"
    stage.api.patch(path, {"spec": {"unschedulable": True}})
    try:
        until(lambda: "it is cordoned" in json.dumps(stage.up.get("/v1/picture")), 20, "the extender has heard of it")
        names = stage.submit("itc-badnode50")
        stage.waits(names)
    finally:
        stage.api.patch(path, {"spec": {"unschedulable": None}})
    stage.runs(names)


def test_mig_instances_are_named_by_gpu_and_instance(stage: Stage) -> None:
    """Also by a door that was killed meanwhile; HiveD's annotation keeps numbering leaf cells through."""
    stage.scene(MIG)

    def run(name: str, leaves: int) -> tuple[list[str], list[int]]:
        stage.api.create(hived_pod(name, {"virtualCluster": "mig", "priority": 0, "leafCellNumber": leaves}))
        noted = stage.api.await_bound([name], 60)[name]["metadata"]["annotations"]
        return noted[ISOLATION].split(","), yaml.safe_load(noted[INFO])["leafCellIsolation"]

    told, indexes = run("four", 4)
    assert told == [f"{index // 3}:{index % 3}" for index in indexes]
    assert len({part.partition(":")[0] for part in told}) == 2, "three on a GPU, one on the other"
    stage.up.plane.programs[stage.up.program].kill()
    stage.up.start()
    others, rest = run("two", 2)
    assert sorted(told + others) == ["0:0", "0:1", "0:2", "1:0", "1:1", "1:2"]
    assert sorted(indexes + rest) == list(range(6))
    assert stage.up.get("/v1/explain/pods/default/four")["devices"] == indexes


def test_the_inspect_api_has_hiveds_fields(stage: Stage) -> None:
    stage.scene(load(2))
    names = stage.submit("itc-buddy")
    stage.runs(names)
    (group,) = stage.up.get("/v1/inspect/affinitygroups/")["items"]
    assert set(group["status"]) >= {"vc", "priority", "state", "physicalPlacement", "virtualPlacement", "allocatedPods"}
    found = json.dumps(stage.up.get("/v1/inspect/clusterstatus"))
    for field in (
        "cellType",
        "cellAddress",
        "cellState",
        "cellHealthiness",
        "cellPriority",
        "cellChildren",
        "isNodeLevel",
    ):
        assert f'"{field}"' in found
