"""No promised start is broken, over random operations on the queue and the core of a cluster on this machine."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from paictl.cluster.embedded.dispatch import Bound, Dispatcher, Evicted
from paictl.cluster.scheduling import JobExplanation, JobSituation
from paictl.cluster.values import JobState
from paictl.cluster.whywaits import without_instants
from paictl.scheduler.book import Book
from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.backfill import BackfillMode, BackfillRule, BackfillRules
from paictl.workload.reservations import Reservation, Reservations
from paictl.workload.reserved import ReservedCells
from paictl.workload.startpromises import StartPromises
from paictl.workload.windows import Window, Windows
from tests.unit.scheduler.support import config, healthy, pod

OPERATIONS = 34_000 if os.environ.get("PAICTL_SOAK") else 150
MINUTE = 60_000


@dataclass
class Line:
    """A queue with one virtual cluster of three nodes of four devices, and jobs that end by themselves or at limits."""

    rng: random.Random
    now: int = 0
    limits: dict[str, Millis | None] = field(default_factory=dict)
    ends: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Real end and job of the pods that run, by uid."""
    began: dict[str, int] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    made: dict[str, list[PodRequest]] = field(default_factory=dict)
    kept: int = 0
    overtook: int = 0
    mode: BackfillMode = BackfillMode.EASY
    alike: bool = False
    """Whether most gangs ask for the same."""
    troubled: bool = False
    """Whether devices of a type of which A and B are promised none fail, are in maintenance and reserved."""
    struck: bool = False
    """Whether nodes and devices of A and B fail and heal, on a larger cluster."""
    failed: set[tuple[str, int]] = field(default_factory=set)
    """Nodes (with -1) and devices that are bad."""
    planned_beside: int = 0
    """Promised starts behind the first one, seen while hardware was bad."""
    windows: Windows = field(default_factory=Windows)
    moved_up: int = 0
    """How often one of a kind went before an older one of it."""
    most: int = 0
    """Promised starts in one line at an instant."""

    def __post_init__(self) -> None:
        self.queue = Dispatcher()
        rules = BackfillRules([BackfillRule("", self.mode)])
        self.queue.backfill = StartPromises(rules, self.end_of)
        plain = twice_as_large() if self.struck else config(A={"NODE": 3}, B={"NODE": 1})
        self.queue.resume(Book(healthy(with_other_devices() if self.troubled else plain)))

    def end_of(self, group: str) -> Millis | None:
        limit = self.limits[group]
        return (
            None if limit is None else Millis(self.began.get(group, self.now) + limit)
        )  # one that still preempts has not begun

    def submit(self, number: int) -> None:
        rng, group = self.rng, f"g{number}"
        self.limits[group] = rng.choice((None, *(Millis(hours * 60 * MINUTE) for hours in (1, 1, 2, 3, 5, 8) * 6)))
        pods, leaves = rng.choice(((1, 1), (1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (3, 4), (4, 1)))
        vc, priority = rng.choice(("A", "A", "A", "B")), rng.choice((0, 0, 0, 0, -1))
        if self.alike:
            self.limits[group], vc, (pods, leaves) = Millis(120 * MINUTE), "A", rng.choice(((3, 4), (1, 4)))
        self.made[group] = [
            pod(f"{group}-{index}", vc, leaves, group=group, pods=pods, priority=priority) for index in range(pods)
        ]
        self.enqueue(group)

    def enqueue(self, group: str) -> None:
        for made in self.made[group]:
            self.queue.add(made, int(group[1:]), self.limits[group])

    def restart(self) -> None:
        """A job that runs starts again, at its old place in the queue."""
        running = sorted({group for _, group in self.ends.values()})
        if running:
            group = self.rng.choice(running)
            for made in self.made[group]:
                self.ends.pop(made.uid, None)
                self.queue.remove(made.uid, self.now / 1000)
            self.began.pop(group, None)
            self.enqueue(group)
            self.compare_firsts()

    def trouble(self) -> None:
        rng, node, seconds = self.rng, self.rng.choice(("m0", "m1")), self.now / 1000
        until, off = Millis(self.now + 300 * MINUTE), self.rng.random() < 0.5
        match rng.randrange(4):
            case 0:
                self.queue.report(node, off, seconds)
            case 1:
                self.queue.report_device(node, 0, off, seconds)
            case 2:
                self.windows = Windows() if off else Windows((Window("w", (node,), Millis(self.now), until),))
                self.queue.waiting.reconsider()
            case _:
                kept = Reservations((Reservation("r", Millis(self.now), until, nodes=(node,)),))
                self.queue.reserve(None if off else ReservedCells(kept, lambda _: ""))

    def strike(self) -> None:
        """Hardware fails, and promises may break, or it heals."""
        nodes = sorted(self.queue.nodes or ())
        place = self.rng.choice(nodes), self.rng.choice((-1, -1, 0, 3))
        seconds, heals = self.now / 1000, bool(self.failed) and self.rng.random() < 0.6
        if heals:
            place = self.rng.choice(sorted(self.failed))
            self.failed.discard(place)
        elif len({node for node, _ in self.failed} | {place[0]}) <= 2:
            self.failed.add(place)
            self.promised.clear()
        else:
            return
        if place[1] < 0:
            self.queue.report(place[0], heals, seconds)
        else:
            self.queue.report_device(*place, heals, seconds)

    def settle(self) -> None:
        while actions := self.queue.next(self.now / 1000, self.windows):
            for action in actions:
                match action:
                    case Bound(uid, _):
                        self.start(uid)
                    case Evicted(uids, _):
                        for uid in uids:
                            self.ends.pop(uid, None)
                            self.queue.remove(uid, self.now / 1000)
            self.compare_firsts()
        for vc, starts in self.queue.starts(Millis(self.now), self.windows).items():
            times = starts.times()
            if self.failed and starts.plan is None:  # only its first gang has a start, as others let it
                for name in [name for name in self.promised if self.queue.vc_of(name) == vc]:
                    del self.promised[name]
                continue
            assert (starts.plan is not None) == (self.mode is BackfillMode.CONSERVATIVE)
            self.planned_beside += bool(self.failed) and len(times) > 1
            if starts.plan is not None and self.queue.backfill is not None:
                assert times == self.queue.backfill.planned.get(vc, {}), "what is shown is what was settled"
            if self.troubled and self.mode is BackfillMode.EASY:
                assert self.queue.backfill is not None
                assert self.queue.engine is not None
                asked = self.queue.backfill.foresight(self.queue.engine, Millis(self.now), self.windows)
                asked.counts = False
                assert asked.promise(self.queue._lines()[vc]) == starts.head, "what is counted is what the core says"
            self.most = max(self.most, len(times))
            for group, at in times.items():
                assert at <= self.promised.get(group, at), f"{group}: {at} is later than {self.promised[group]}"
                assert at > self.now, "a gang starts when its time has come"
                self.promised[group] = at

    def compare_firsts(self) -> None:
        """Of each kind goes first who is preempting, else who is promised the first start, else who came first."""
        queue, promises = self.queue, self.queue.backfill
        assert promises is not None
        assert queue.engine is not None
        firsts, waiting = queue._firsts(), {*queue.engine.state.groups.waiting.values()}
        for key, bucket in queue.waiting.buckets.items():
            vc = queue.waiting.head(bucket).vc
            planned, head = promises.planned.get(vc, {}), promises.heads.get(vc)
            preempting = [row for row in bucket.order if row[2] in waiting]
            promised = sorted((planned[row[2]], row) for row in bucket.order if row[2] in planned)
            heads = [row for row in bucket.order if not planned and row[2] == head]
            plain = [*preempting, *(row for _, row in promised), *heads, bucket.order[0]][0]
            assert firsts.get(key, bucket.order[0]) == plain
            self.moved_up += plain != bucket.order[0]

    def start(self, uid: str) -> None:
        group = uid.partition("-")[0]
        if group not in self.began:
            self.began[group] = self.now
            if group in self.promised:
                assert self.now <= self.promised.pop(group), group
                self.kept += 1
            elif self.queue.backfill is not None and (self.queue.backfill.heads or self.queue.backfill.planned):
                self.overtook += 1
        limit = self.limits[group]
        real = self.rng.choice((0.2, 0.7, 1, 1)) * (9 * 60 * MINUTE if limit is None else limit)
        self.ends[uid] = self.began[group] + round(real), group

    def let_pass(self, span: int) -> None:
        until = self.now + span
        while (at := self.next_event()) <= until:
            self.now = max(self.now, at)
            for uid in [uid for uid, (end, _) in self.ends.items() if end == at]:
                del self.ends[uid]
                self.queue.remove(uid, self.now / 1000)
            self.settle()
        self.now = until
        self.settle()

    def next_event(self) -> int:
        """When a pod ends, or a gang is to start."""
        assert self.queue.backfill is not None
        ends = min((end for end, _ in self.ends.values()), default=self.now + 1000 * 60 * MINUTE)
        start = self.queue.backfill.next_start(Millis(self.now))
        return ends if start is None else min(ends, start)

    def cancel(self) -> None:
        """A job is stopped, whether it waits or runs."""
        group = f"g{self.rng.randrange(len(self.limits))}"
        for index in range(4):
            self.ends.pop(f"{group}-{index}", None)
            self.queue.remove(f"{group}-{index}", self.now / 1000)
        self.promised.pop(group, None)


def twice_as_large() -> dict[str, Any]:
    """Two pools of four nodes: A is promised one as a whole and nodes of the other, as B is."""
    found = config(A={"POOL": 1, "NODE": 2}, B={"NODE": 2})
    names = [f"m{number}" for number in range(4)]
    found["physicalCluster"]["physicalCells"].append(
        {"cellType": "POOL", "cellChildren": [{"cellAddress": name} for name in names]}
    )
    return found


def with_other_devices() -> dict[str, Any]:
    """The cluster of `config` with two nodes of another type, which are promised to C."""
    found = config(A={"NODE": 3}, B={"NODE": 1})
    cluster = found["physicalCluster"]
    cluster["cellTypes"] |= {
        "OLD-NODE": {"childCellType": "OLD", "childCellNumber": 4, "isNodeLevel": True},
        "OLD-POOL": {"childCellType": "OLD-NODE", "childCellNumber": 2},
    }
    cluster["physicalCells"].append(
        {"cellType": "OLD-POOL", "cellChildren": [{"cellAddress": name} for name in ("m0", "m1")]}
    )
    found["virtualClusters"]["C"] = {"virtualCells": [{"cellType": "OLD-POOL.OLD-NODE", "cellNumber": 2}]}
    return found


@pytest.mark.parametrize("mode", list(BackfillMode))
@pytest.mark.parametrize("seed", [0, 1, 2, 13])
def test_no_promised_start_is_broken(seed: int, mode: BackfillMode) -> None:
    line = Line(random.Random(seed), mode=mode)  # noqa: S311 - a property test
    play(line)
    assert line.kept > OPERATIONS / 50
    assert line.overtook > OPERATIONS / 50
    assert (line.most > 4) == (mode is BackfillMode.CONSERVATIVE)


@pytest.mark.parametrize("mode", list(BackfillMode))
def test_trouble_with_other_devices_breaks_no_promise_and_takes_none_away(mode: BackfillMode) -> None:
    line = Line(random.Random(3), mode=mode, troubled=True)  # noqa: S311 - a property test
    play(line)
    assert line.kept > OPERATIONS / 50


@pytest.mark.parametrize("seed", range(6))
def test_conservative_promises_hold_beside_bad_hardware_until_more_fails(seed: int) -> None:
    line = Line(random.Random(seed), mode=BackfillMode.CONSERVATIVE, struck=True)  # noqa: S311 - a property test
    play(line)
    assert line.kept
    assert line.planned_beside > 0


@pytest.mark.parametrize("mode", list(BackfillMode))
def test_an_older_gang_that_starts_again_does_not_go_before_its_like_with_a_promise(mode: BackfillMode) -> None:
    line = Line(random.Random(1), mode=mode, alike=True)  # noqa: S311 - a property test
    play(line)
    assert line.moved_up > 0


def play(line: Line) -> None:
    """Random operations; what must hold is asserted on the way."""
    number = 0
    for _ in range(OPERATIONS):
        match line.rng.randrange(10):
            case 0 if number:
                line.cancel()
            case 9 if line.troubled:
                line.trouble()
            case 9 if line.struck:
                line.strike()
            case 9:
                line.restart()
            case 1 | 2 | 3 | 4:
                line.let_pass(line.rng.randrange(1, 100) * MINUTE)
            case _:
                line.submit(number)
                number += 1
        line.settle()


@pytest.mark.parametrize("mode", list(BackfillMode))
def test_a_gang_that_preempts_starts_before_one_of_its_kind_that_is_promised_a_start(mode: BackfillMode) -> None:
    line = Line(random.Random(0), mode=mode)  # noqa: S311 - a property test
    for number, (name, vc, pods, priority) in enumerate([("g0", "B", 4, -1), ("g1", "A", 3, 0), ("g2", "A", 3, 0)]):
        line.limits[name] = Millis(60 * MINUTE)
        for index in range(pods):
            made = pod(f"{name}-{index}", vc, 4, group=name, pods=pods, priority=priority)
            line.queue.add(made, number, line.limits[name])
        if name != "g1":
            line.settle()
    assert {group for _, group in line.ends.values()} == {"g1"}
    assert line.promised == {"g2": 60 * MINUTE}


def test_the_head_of_a_line_stays_in_it_while_one_of_its_kind_preempts() -> None:
    line = Line(random.Random(0))  # noqa: S311 - a property test
    for number, (name, vc, pods, priority) in enumerate(
        [("g0", "B", 4, -1), *((f"g{i}", "A", 3, 0) for i in range(1, 9))]
    ):
        line.limits[name] = Millis(60 * MINUTE)
        for index in range(pods):
            made = pod(f"{name}-{index}", vc, 4, group=name, pods=pods, priority=priority)
            line.queue.add(made, number, line.limits[name])
        if name == "g0":
            line.settle()
    assert line.queue.backfill is not None
    assert isinstance(line.queue.next(0)[-1], Evicted)
    line.queue.backfill.heads["A"] = "g8"
    assert line.queue._lines()["A"][0].request.group == "g8"


def test_without_the_promises_of_the_door_only_whom_a_gang_would_delay_is_told() -> None:
    line = Line(random.Random(0), mode=BackfillMode.CONSERVATIVE)  # noqa: S311 - a property test
    for number, (name, pods, hours) in enumerate([("first", 1, 10), ("big", 3, 5), ("late", 1, 11)]):
        line.limits[name] = Millis(hours * 60 * MINUTE)
        for index in range(pods):
            line.queue.add(pod(f"{name}-{index}", "A", 4, group=name, pods=pods), number, line.limits[name])
        line.settle()
    starts, known = (
        line.queue.starts(Millis(0), Windows())["A"],
        JobExplanation("late", JobState.WAITING, JobSituation.NO_ROOM),
    )
    assert line.queue.engine is not None
    assert line.queue.backfill is not None
    foresight = line.queue.backfill.foresight(line.queue.engine, Millis(0), Windows())
    big, late = (promise.gang for promise in starts.promises)
    found = without_instants(known, foresight, late, starts, lambda group: f"ann~{group}")
    assert (found.situation, found.start, found.longest) == (JobSituation.BACKFILL, None, None)
    assert str(found.reason) == "it would delay ann~big, which is promised a start"
    assert without_instants(known, foresight, big, starts, str) == known
