"""Defragmentation through the extender's door: by the Eviction API, gang by gang, with respect for budgets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from paictl.cluster.defrag import DefragMove, GangPods
from paictl.cluster.interface import Cluster
from paictl.operate.defrag import MovingError, make_room
from paictl.scheduler.defrag import RoomRequest
from paictl.units import Millis
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.jobrig import SPACE, JobRig, opened, rack_of_jobs, request, role
from tests.e2e_kube.kubeapi import KubeApi, until
from tests.e2e_kube.test_jobs import PATIENCE, awaited, runs

ROOM = RoomRequest(7, "NODE")
TIMEOUT = Millis(60_000)
BUDGETS = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets"


@pytest.fixture(scope="module")
def jobs(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    with rack_of_jobs(plane, api, tmp_path_factory.mktemp("defrag")) as made:
        yield made


@pytest.fixture
def cluster(jobs: JobRig) -> Iterator[Cluster]:
    yield opened(jobs.plane)
    jobs.forget_jobs()


def nodes_of(cluster: Cluster, key: str) -> set[str]:
    return {task.node for task in cluster.job(key).tasks}


def metric(jobs: JobRig, name: str) -> str:
    """What the extender says of its virtual cluster A; empty for nothing."""
    line = f'paictl_extender_{name}{{vc="A"}} '
    lines = jobs.rig.text("/metrics").splitlines()
    return next((one.removeprefix(line) for one in lines if one.startswith(line)), "")


def scatter(cluster: Cluster, api: KubeApi) -> None:
    """Two small jobs on two nodes, so that one has to move for seven whole nodes."""
    for name, size in (("keep1", 1), ("fill1", 3), ("keep2", 2), ("fill2", 2)):
        cluster.submit([request(name, {"worker": role(size)}, priority="oppo")])
        awaited(cluster, f"ann~{name}", runs)
    assert nodes_of(cluster, "ann~keep1") != nodes_of(cluster, "ann~keep2")
    for name in ("fill1", "fill2"):
        cluster.stop_job(f"ann~{name}")
    until(lambda: len([pod for pod in api.pods(SPACE) if pod["status"]["phase"] == "Running"]) == 2, PATIENCE, "gone")


def test_gangs_move_one_by_one_and_a_budget_is_respected(cluster: Cluster, api: KubeApi, jobs: JobRig) -> None:
    scatter(cluster, api)
    made = cluster.plan_moves([ROOM])
    assert [move.key for move in made.moves] == ["ann~keep1"], "the one that loses least"
    pod = next(pod for pod in api.pods(SPACE) if "keep1" in pod["metadata"]["name"])
    label = {"paictl.io/job": pod["metadata"]["labels"]["paictl.io/job"]}
    spec = {"minAvailable": 1, "selector": {"matchLabels": label}}
    api.call("POST", BUDGETS, {"metadata": {"name": "all"}, "spec": spec})
    try:
        until(lambda: "disruptionsAllowed" in (api.get(f"{BUDGETS}/all").get("status") or {}), 60, "the budget counts")
        with pytest.raises(MovingError, match="cannot be evicted now"):
            make_room(cluster, made, TIMEOUT)
    finally:
        api.call("DELETE", f"{BUDGETS}/all")
    assert cluster.windows() == ()
    assert {one["metadata"]["uid"] for one in api.pods(SPACE)} >= {pod["metadata"]["uid"]}, "nothing has moved"
    held = []

    def moved(move: DefragMove) -> None:
        held.append((move.key, [one.nodes for one in cluster.windows()]))
        planned = f"{float(made.weight)}"
        until(lambda: metric(jobs, "defrag_planned_weight_device_seconds") == planned, 20, "the plan's weight")

    make_room(cluster, made, TIMEOUT, moved)
    until(lambda: metric(jobs, "defrag_moves_total") == "1.0", 20, "the move is counted")
    until(lambda: metric(jobs, "defrag_planned_weight_device_seconds") == "0.0", 20, "no plan is under way")
    assert metric(jobs, "defrag_moves_failed_total") == "0.0"
    (room,) = made.rooms
    assert room.plan is not None
    assert held == [("ann~keep1", [room.plan.nodes])]
    job = awaited(cluster, "ann~keep1", runs)
    assert nodes_of(cluster, "ann~keep1") == nodes_of(cluster, "ann~keep2")
    assert sorted((task.node, task.devices) for task in job.tasks) == sorted(made.moves[0].after)
    assert cluster.plan_moves([ROOM]).moves == ()
    assert cluster.windows() == ()
    cluster.submit([request("big", {"worker": role(4, 7)}, priority="oppo")])
    awaited(cluster, "ann~big", runs)


def cordon(api: KubeApi, off: bool) -> None:
    for node in api.get("/api/v1/nodes")["items"]:
        api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": off}})


def test_a_gang_that_does_not_come_back_in_time_is_counted(
    cluster: Cluster, api: KubeApi, jobs: JobRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = float(metric(jobs, "defrag_moves_failed_total") or 0)
    scatter(cluster, api)
    plan, evict = cluster.plan_moves([ROOM]), cluster.evict_gang

    def evict_for_long(gang: GangPods) -> None:
        cordon(api, True)
        evict(gang)

    monkeypatch.setattr(cluster, "evict_gang", evict_for_long)
    try:
        with pytest.raises(MovingError, match="0 of 1 gangs were moved: ann~keep1 has not come back"):
            make_room(cluster, plan, Millis(2_000))
    finally:
        cordon(api, False)
    until(lambda: metric(jobs, "defrag_moves_failed_total") == f"{before + 1}", 20, "the failure is counted")
    until(lambda: metric(jobs, "defrag_planned_weight_device_seconds") == "0.0", 20, "no plan is under way")
    awaited(cluster, "ann~keep1", runs)
