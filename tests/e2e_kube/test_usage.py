"""Accounts of device time, by both doors on a real API server: over a kill, a restart and a change of class."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.operate.usage import usage_report
from paictl.workload.usagereport import Dimension
from tests.e2e_kube.accounts import SPACE
from tests.e2e_kube.churn import gang
from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.gates import gates
from tests.e2e_kube.kubeapi import KubeApi, until
from tests.e2e_kube.rig import Rig, rig

CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": f"hours-{i}"} for i in range(2)],
    },
    "virtualClusters": {"A": {"virtualCells": [{"cellType": "NODE", "cellNumber": 2}]}},
}
BOOKS = f"/apis/paictl.io/v1alpha1/namespaces/{SPACE}/usagebooks"
LATE = 3_000
"""Milliseconds a device by which news may come late, and whole seconds be off."""


@pytest.fixture(scope="module", params=["extender", "gates"])
def up(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    door = gates if request.param == "gates" else rig
    with door(plane, api, CONFIG, tmp_path_factory.mktemp("hours"), plugin=True) as made:
        yield made


def _begin_anew(up: Rig, api: KubeApi) -> None:
    """No accounts of other tests."""
    program = up.plane.programs[up.program]
    program.stop()
    api.call("DELETE", BOOKS)
    program.start()
    until(lambda: answers(f"{up.url}/readyz"), 60, program.tail)
    until(lambda: api.get(BOOKS)["items"], 30, "the first record")


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def _is_bound(api: KubeApi, name: str) -> bool:
    return bool(api.node_of(name))


def test_what_pods_held_is_in_the_books_whatever_was_killed(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    _begin_anew(up, api)
    days = {_today()}
    spans: dict[str, list[float]] = {}
    bound = partial(_is_bound, api)
    for name, leaves in (("short", 1), ("long", 4), ("unheard", 2)):
        api.create(gang(name, 1, leaves, "A")[0])
        until(partial(bound, f"{name}-0"), 60, f"{name} is bound")
        spans[name] = [leaves, time.time()]
    program = plane.programs[up.program]
    time.sleep(4)
    api.delete("short-0")
    until(lambda: api.pod("short-0") is None, 30, "short is gone")
    spans["short"].append(time.time())
    program.stop()  # it writes down what it knows
    program.start()
    until(lambda: answers(f"{up.url}/readyz"), 60, program.tail)
    time.sleep(3)
    program.kill()
    finished = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    done = {"name": "c", "image": "i", "imageID": "i", "restartCount": 0, "ready": False}
    ended = {"state": {"terminated": {"exitCode": 0, "finishedAt": finished, "startedAt": finished}}}
    api.patch(
        "/api/v1/namespaces/default/pods/unheard-0/status",
        {"status": {"phase": "Succeeded", "containerStatuses": [done | ended]}},
    )
    spans["unheard"].append(time.time())
    time.sleep(2)
    program.start()
    until(lambda: answers(f"{up.url}/readyz"), 60, program.tail)
    time.sleep(2)
    program.stop()
    spans["long"].append(time.time())
    days.add(_today())  # another one if this has been midnight
    assert {book["spec"]["day"] for book in api.get(BOOKS)["items"]} == days
    report = usage_report(open_pinned(pin("real", str(plane.kubeconfig), "x")), None, (Dimension.VC, Dimension.JOB))
    rows = {row.key[1].partition("~")[2]: row for row in report.rows}
    for name, (number, began, over) in spans.items():
        assert abs(rows[name].guaranteed - number * 1000 * (over - began)) <= number * LATE, (name, rows[name])
    assert rows["unheard"].lost == 0
    promised = report.total.idle + report.total.guaranteed
    assert promised % 8 == 0, "eight devices for as long as accounts are kept"
    program.start()
    until(lambda: answers(f"{up.url}/readyz"), 60, program.tail)
    assert Counter(event["reason"] for event in api.events("long-0"))["Preempted"] == 0
