"""Counting leaves says what the core would: the same promises, and the same who would delay them."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from paictl.scheduler.book import Book
from paictl.scheduler.decision import Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import LeafHealth, NodeHealth
from paictl.scheduler.groups import Group, GroupsByVc
from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.backfill import Foresight, LineGang
from paictl.workload.roomcount import RoomCount, has_room

OPERATIONS = 20_000 if os.environ.get("PAICTL_SOAK") else 220
HOUR = 3_600_000
MEMBERS = (
    ((1, 1),),
    ((1, 3),),
    ((2, 1),),
    ((2, 2),),
    ((4, 1),),
    ((4, 2),),
    ((1, 2), (4, 1)),
    ((1, 1), (2, 2)),
)
"""(devices of a pod, number of such pods) of gangs."""


def cluster(*, recovery: bool) -> dict[str, Any]:
    """Two kinds of nodes in three chains, one pinned cell; A and B are promised parts of each."""
    kinds = {
        "SOCKET": {"childCellType": "GPU", "childCellNumber": 2},
        "NODE": {"childCellType": "SOCKET", "childCellNumber": 2, "isNodeLevel": True},
        "RACK": {"childCellType": "NODE", "childCellNumber": 3},
        "BIG": {"childCellType": "OTHER", "childCellNumber": 8, "isNodeLevel": True},
    }

    def rack(first: int, pin: str = "") -> dict[str, Any]:
        nodes: list[dict[str, Any]] = [{"cellAddress": f"n{number}"} for number in range(first, first + 3)]
        if pin:
            nodes[0]["pinnedCellId"] = pin
        return {"cellType": "RACK", "cellChildren": nodes}

    bigs = [{"cellType": "BIG", "cellAddress": f"b{number}"} for number in range(2)]
    return {
        "lazyPreemptionRecovery": recovery,
        "physicalCluster": {"cellTypes": kinds, "physicalCells": [rack(0, "PIN"), rack(3), *bigs]},
        "virtualClusters": {
            "A": {
                "virtualCells": [
                    {"cellType": "RACK.NODE", "cellNumber": 2},
                    {"cellType": "RACK.NODE.SOCKET", "cellNumber": 2},
                    {"cellType": "BIG", "cellNumber": 1},
                ],
                "pinnedCells": [{"pinnedCellId": "PIN"}],
            },
            "B": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 1}, {"cellType": "BIG", "cellNumber": 1}]},
        },
    }


class Shields:
    """Some groups are shielded, and all lose something."""

    def loss(self, group: Group, vc: str) -> int:
        return 1 + len(group.name) + (vc == group.vc)

    def shields(self, group: Group) -> bool:
        return group.name.endswith(("1", "2", "3"))


@dataclass
class History:
    """A cluster in which gangs come, start (preempting others) and end, as they like."""

    rng: random.Random
    priorities: tuple[int, ...]
    recovery: bool = False
    """Whether groups that lost their guarantee get it back."""
    now: int = 0
    number: int = 0
    limits: dict[str, int | None] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=dict)
    waiting: list[LineGang] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine.from_config(cluster(recovery=self.recovery))
        self.book = Book(self.engine)
        for name in self.engine.state.physical.nodes:
            self.engine.observe(NodeHealth(name, healthy=True))

    def end_of(self, group: str) -> Millis | None:
        limit = self.limits[group]
        return None if limit is None else Millis(self.began.get(group, self.now) + limit)

    def foresight(self, *, counts: bool) -> Foresight:
        made = Foresight(self.engine, Millis(self.now), self.end_of)
        made.counts = counts
        return made

    def gang(self) -> LineGang:
        rng, self.number = self.rng, self.number + 1
        name, kind = f"g{self.number}", rng.choice(("", "", "GPU", "OTHER"))
        members = rng.choice(MEMBERS)
        pinned = "PIN" if rng.random() < 0.1 else ""
        vc = "A" if pinned else rng.choice("AAB")
        lazy = rng.random() < 0.4
        priority = rng.choice(self.priorities)
        request = PodRequest(
            name,
            name,
            vc,
            priority,
            members[-1][0],
            name,
            members,
            leaf_type="" if pinned else kind,
            pinned_id=pinned if priority >= 0 else "",
            lazy_preemption=lazy,
        )
        limit = rng.choice((None, *(hours * HOUR for hours in (1, 2, 2, 3, 5, 8))))
        self.limits[name] = limit
        return LineGang(request, None if limit is None else Millis(limit))

    def start(self, gang: LineGang, *, wholly: bool) -> bool:
        """Place all pods of a gang, if there is room; not `wholly`: victims are left for a while."""
        request = gang.request
        pods = [size for size, number in request.members for _ in range(number)]
        for place, size in enumerate(pods):
            pod = replace(request, uid=f"{request.uid}-{place}", leaf_number=size)
            try:
                found = self.book.place(pod)
                while wholly and isinstance(decision := getattr(found, "decision", None), Preempt):
                    for _, uids in decision.victims:
                        for uid in uids:
                            self.book.gone(uid)
                    found = self.book.place(pod)
            except RequestError:
                return False
            if not self.book.holds(pod.uid):
                return False
        self.began[request.group] = self.now
        return True

    def end(self, name: str) -> None:
        group = self.engine.state.groups.by_name.get(name)
        if group is not None:
            for uid in (*sorted(group.preempting), *(uid for row in group.pods for uid in row if uid)):
                self.book.gone(uid)

    def step(self) -> None:
        rng, running = self.rng, sorted(self.engine.state.groups.by_name)
        self.now += rng.randrange(HOUR // 4)
        match rng.randrange(24):
            case 0:
                self.engine.observe(LeafHealth(rng.choice(("n1", "n4", "b0")), 0, rng.random() < 0.2))
            case 1 | 2 | 3:
                for name, device in sorted(self.node(leaf) for leaf in self.engine.state.health.bad_leaves):
                    self.engine.observe(LeafHealth(name, device, healthy=True))
            case 4 | 5 | 6 | 7 if running:
                self.end(rng.choice(running))
            case _:
                gang = self.gang()
                if not self.start(gang, wholly=rng.random() < 0.9):
                    self.waiting.append(gang)
        placed = self.engine.state.groups.by_name
        self.waiting = [gang for gang in self.waiting[-8:] if gang.request.group not in placed]

    def node(self, leaf: Any) -> tuple[str, int]:
        tree = self.engine.state.physical
        return tree.node_name(leaf), tree.device(leaf)


@pytest.mark.parametrize("shields", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_promises_and_delays_are_those_of_the_core(seed: int, *, shields: bool) -> None:
    rng = random.Random(seed)  # noqa: S311 - a property test
    history = History(rng, ((0, 1, 2, -1), (0, 0, 0, -1))[seed % 2], recovery=seed > 1)
    if shields:
        history.engine.sparing = Shields()
    counted = promised = delayed = 0
    for _ in range(OPERATIONS):
        history.step()
        by_vc = GroupsByVc(history.engine.state.groups.by_name)
        for vc in "AB":
            assert history.engine.by_vc.of(vc) == by_vc.of(vc)
            line = [gang for gang in history.waiting if gang.request.vc == vc and gang.request.guaranteed]
            ours, core = history.foresight(counts=True), history.foresight(counts=False)
            for gang in line:
                counted += RoomCount.of(history.engine, gang.request) is not None
                room = has_room(history.engine, gang.request)
                assert room in (None, core.fits(gang))
            promise = core.promise(line)
            assert ours.promise(line) == promise
            if promise is None or promise.at is None:
                continue
            promised += 1
            for gang in (*line, history.gang(), history.gang(), history.gang()):
                if gang.request.vc == vc and gang.request.guaranteed:
                    late = core.delayed(gang, promise)
                    assert ours.delayed(gang, promise) == late, (gang, promise)
                    delayed += late
    assert counted > OPERATIONS / 10
    assert promised > OPERATIONS / 20
    assert delayed
