"""Gangs all or none: under random arrivals and departures, and while every process is killed again and again."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.e2e_kube.churn import Churn, gang
from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.gates import gates
from tests.e2e_kube.kubeapi import Json, KubeApi, until
from tests.e2e_kube.rig import Rig, rig

NODES = 12
KILLS = int(os.environ.get("PAICTL_KILLS", "30"))
"""Random kills for each way of asking, a third of them of each process; 180 are 60 of each, in some ten minutes."""
CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
            "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 4},
        },
        "physicalCells": [
            {"cellType": "RACK", "cellChildren": [{"cellAddress": f"gang-{4 * r + i}"} for i in range(4)]}
            for r in range(NODES // 4)
        ],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "RACK", "cellNumber": 1}]},
        "B": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 4}]},
        "C": {"virtualCells": [{"cellType": "RACK.NODE.SWITCH", "cellNumber": 4}]},
    },
}
DEVICES = {f"gang-{i}": {0, 1, 2, 3} for i in range(NODES)}


@pytest.fixture(scope="module", params=["pod-scheduling-enable", "nvidia.com/gpu", "gates"])
def up(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    plugin, folder = request.param != "pod-scheduling-enable", tmp_path_factory.mktemp("gangs")
    door, deadline = (gates, "--pin-deadline") if request.param == "gates" else (rig, "--bind-deadline")
    with door(plane, api, CONFIG, folder, deadline, "10", plugin=plugin) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    """The next test has gangs of the same names, whatever became of this one."""
    yield
    api.delete_all()


@pytest.mark.usefixtures("up")
def test_two_hundred_arrivals_and_departures(api: KubeApi) -> None:
    churn = Churn(api, ("A", "B", "C"), DEVICES, seed=11)
    for number in range(200):
        churn.step()
        if number % 5 == 0:
            churn.check_whole()
    churn.settle()
    assert churn.checks >= 40
    assert any(pod["spec"].get("nodeName") for pod in api.pods())


def test_kills_at_random_moments(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    """At random moments, and at chosen ones: between a filter and its bind, during an eviction, during a recovery.

    After each of them, whatever ran before runs on, and at the end all of it is known.
    """
    churn = Churn(api, ("A", "B", "C"), DEVICES, seed=12, raided=("A",))
    dice = random.Random(5)  # noqa: S311
    moments = [_before_binding, _during_eviction, _during_recovery]
    victims = [up.program, "kube-scheduler", "kube-apiserver"] * (KILLS // 3)
    dice.shuffle(victims)
    for number, name in enumerate(victims):
        for _ in range(dice.randrange(1, 4)):
            churn.step()
        churn.await_running()
        ran = churn.running()
        if number % 10 == 9:
            moments[number // 10 % 3](up, plane, api, number)
        time.sleep(dice.random() * 0.8)
        plane.programs[name].kill()
        time.sleep(dice.random() * 0.3)
        plane.programs[name].start()
        until(lambda: answers(f"{plane.server}/readyz", plane.context), 60, "the API server is back")
        churn.check()
        churn.check_survivors(ran)
    plane.await_scheduler()
    until(lambda: answers(f"{up.url}/readyz"), 60, lambda: plane.programs[up.program].tail())
    churn.settle(150)
    churn.check()
    assert churn.checks > KILLS
    assert churn.survived > KILLS // 2, "kills met pods that ran"
    _survivors(up, api, churn)
    api.delete_all()
    until(lambda: up.get("/v1/inspect/affinitygroups/")["items"] is None, 60, "nothing is held for pods that are gone")


def _survivors(up: Rig, api: KubeApi, churn: Churn) -> None:
    """Every gang that is whole in the API server and runs is known with all its pods; something survived."""
    bound: dict[str, set[str]] = {}
    for pod in api.pods():
        if pod["spec"].get("nodeName"):
            bound.setdefault(pod["metadata"]["labels"]["gang"], set()).add(pod["metadata"]["uid"])
    assert bound, "nothing runs after all these kills"
    known = {item["metadata"]["name"]: item["status"] for item in up.get("/v1/inspect/affinitygroups/")["items"]}
    for name, uids in bound.items():
        assert set(known[f"default/{name}"]["allocatedPods"]) == uids
    running = [name for name in churn.alive if name in bound]
    assert all(len(bound[name]) == churn.sizes[name] for name in running), "a gang that runs has all its pods"


def _ready(up: Rig, plane: ControlPlane) -> None:
    until(lambda: answers(f"{plane.server}/readyz", plane.context), 60, "the API server answers")
    plane.await_scheduler()
    until(lambda: answers(f"{up.url}/readyz"), 60, lambda: plane.programs[up.program].tail())


def _again(up: Rig, plane: ControlPlane) -> None:
    plane.programs[up.program].kill()
    plane.programs[up.program].start()


def _before_binding(up: Rig, plane: ControlPlane, api: KubeApi, number: int) -> None:
    """Devices are assumed or pinned, and the binding has not come: kube-scheduler stands still."""
    _ready(up, plane)
    pod = api.create(gang(f"between-{number}", 1, 1, "C")[0])
    plane.programs["kube-scheduler"].freeze()
    try:
        if up.program == "extender":
            up.post("/v1/extender/filter", {"Pod": pod, "NodeNames": sorted(DEVICES)})
        else:  # it is pinned, or waits
            until(lambda: not _gated(api, pod) or api.events(pod["metadata"]["name"]), 20, "it was looked at")
        _again(up, plane)
    finally:
        plane.programs["kube-scheduler"].thaw()
    _ready(up, plane)
    api.delete(f"between-{number}-0")


def _gated(api: KubeApi, pod: Json) -> bool:
    found = api.pod(pod["metadata"]["name"])
    return found is not None and bool(found["spec"].get("schedulingGates"))


def _during_eviction(up: Rig, plane: ControlPlane, api: KubeApi, number: int) -> None:
    """Victims are on their way out, and the one who wanted them gone dies."""
    _ready(up, plane)
    for pod in gang(f"urgent-{number}", 4, 4, "A", 100):
        api.create(pod)
    name = f"urgent-{number}-0"
    until(lambda: api.node_of(name) or any(e["reason"] == "Preempting" for e in api.events(name)), 30, "it asked")
    _again(up, plane)
    _ready(up, plane)
    for i in range(4):
        api.delete(f"urgent-{number}-{i}")


def _starts(up: Rig, plane: ControlPlane) -> int:
    return plane.programs[up.program].log.read_text().count("answering on")


def _has_started(up: Rig, plane: ControlPlane, times: int) -> bool:
    return _starts(up, plane) >= times


def _during_recovery(up: Rig, plane: ControlPlane, api: KubeApi, number: int) -> None:
    """It dies again and again before it knows all pods."""
    _ready(up, plane)
    begun = _starts(up, plane)
    for more in range(1, 4):
        _again(up, plane)
        until(partial(_has_started, up, plane, begun + more), 20, "it has begun")
    _ready(up, plane)
    assert api.pods() is not None, number
