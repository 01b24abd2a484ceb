"""Gangs all or none: under random arrivals and departures, and while every process is killed again and again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e_kube.churn import Churn
from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.kubeapi import KubeApi, until
from tests.e2e_kube.rig import Rig, rig

NODES = 12
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


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(plane, api, CONFIG, tmp_path_factory.mktemp("gangs"), "--bind-deadline", "10") as made:
        yield made


@pytest.mark.usefixtures("up")
def test_two_hundred_arrivals_and_departures(api: KubeApi) -> None:
    churn = Churn(api, ("A", "B", "C"), DEVICES, seed=11)
    for number in range(200):
        churn.step()
        if number % 5 == 0:
            churn.check()
    churn.settle()
    assert any(pod["spec"].get("nodeName") for pod in api.pods())
    api.delete_all()


def test_sixty_kills(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    churn, dice = Churn(api, ("A", "B", "C"), DEVICES, seed=12), random.Random(5)  # noqa: S311
    for number in range(60):
        for _ in range(dice.randrange(1, 4)):
            churn.step()
        time.sleep(dice.random() * 0.8)
        victim = plane.programs[dice.choice(["extender", "extender", "kube-scheduler", "kube-apiserver"])]
        victim.kill()
        time.sleep(dice.random() * 0.3)
        victim.start()
        if number % 4 == 0:
            until(lambda: answers(f"{plane.server}/readyz", plane.context), 60, "the API server is back")
            churn.check()
    until(lambda: answers(f"{plane.server}/readyz", plane.context), 60, "the API server is back")
    plane.await_scheduler()
    until(lambda: answers(f"{up.url}/readyz"), 60, lambda: plane.programs["extender"].tail())
    churn.settle(150)
    churn.check()
    api.delete_all()
    until(lambda: up.get("/v1/inspect/affinitygroups/")["items"] is None, 60, "nothing is held for pods that are gone")
