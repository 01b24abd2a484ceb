"""HiveD's own answers, as recorded (`tests/data/hived-answers.txt`): the same paths, status codes, texts and fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from paictl.doors.core import DoorOptions
from tests.conftest import ROOT
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Caller, Harness, gang, served

SWITCHES = {
    "physicalCluster": {
        "cellTypes": {
            "SW": {"childCellType": "GPU", "childCellNumber": 2},
            "NODE": {"childCellType": "SW", "childCellNumber": 2, "isNodeLevel": True},
            "POOL": {"childCellType": "NODE", "childCellNumber": 4},
        },
        "physicalCells": [{"cellType": "POOL", "cellChildren": [{"cellAddress": name} for name in NODES]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 2}]},
        "B": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 1}]},
    },
}


class Recorded(NamedTuple):
    """A call and HiveD's answer; long answers were cut when they were recorded."""

    method: str
    path: str
    status: int
    text: str

    @property
    def fields(self) -> set[str]:
        return set(re.findall(r'"([a-zA-Z]+)":', self.text))


def recorded() -> list[Recorded]:
    lines = [
        line for line in (ROOT / "tests/data/hived-answers.txt").read_text().splitlines() if not line.startswith("#")
    ]
    found = []
    for head, text in zip(lines[::2], lines[1::2], strict=True):
        method, path, status = head.split()
        found.append(Recorded(method, path, int(status), text))
    return found


ALL = recorded()
BUSY = next(index for index, one in enumerate(ALL) if one.path.endswith("/g1"))


@pytest.fixture(scope="module")
def idle() -> Iterator[Caller]:
    harness = Harness(spec(**SWITCHES))
    harness.open(NODES)
    with served(harness) as caller:
        yield caller


@pytest.fixture(scope="module")
def busy() -> Iterator[Caller]:
    """A gang that is preempted, one that preempts it, an opportunistic pod, a bad node."""
    harness = Harness(spec(**SWITCHES), DoorOptions(own_preemption=False))
    harness.open(NODES)
    for made in gang("g1", 2, 4):
        harness.run(made)
    harness.run(gang("o1", 1, 2, "B", -1)[0])
    harness.core.node_gone("n3")
    with served(harness) as caller:
        high = harness.create(gang("h1", 1, 4, priority=9)[0])
        caller.filter(high, NODES)
        body = {"Pod": high, "NodeNameToMetaVictims": {name: {"Pods": []} for name in NODES}}
        assert caller.call("POST", "/v1/extender/preempt", body)[1]["NodeNameToMetaVictims"]
        yield caller


@pytest.mark.parametrize("one", ALL[:BUSY], ids=lambda one: f"{one.method} {one.path}")
def test_on_an_idle_cluster(idle: Caller, one: Recorded) -> None:
    status, answer = idle.call(one.method, one.path)
    assert status == one.status
    try:
        wanted = json.loads(one.text)
    except ValueError:  # cut
        text = json.dumps(answer, separators=(",", ":"))
        assert one.fields <= set(re.findall(r'"([a-zA-Z]+)":', text))
        assert set(re.findall(r'"([a-zA-Z]+)":', text)) <= one.fields | {"physicalCluster", "virtualClusters", "A", "B"}
        return
    if one.path == "/":
        assert set(wanted["paths"]) <= set(answer["paths"])
    else:
        assert answer == wanted


@pytest.mark.parametrize("one", ALL[BUSY:], ids=lambda one: one.path)
def test_with_gangs_that_run_and_preempt(busy: Caller, one: Recorded) -> None:
    status, answer = busy.call(one.method, one.path)
    assert status == one.status
    text = json.dumps(answer)
    missing = one.fields - set(re.findall(r'"([a-zA-Z]+)":', text))
    assert not missing
    if one.path.endswith("affinitygroups/"):
        assert {"BeingPreempted", "Preempting"} <= {item["status"]["state"] for item in answer["items"]}
