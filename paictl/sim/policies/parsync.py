"""ParSync: several schedulers of one cluster, each with a view of it that is refreshed in parts and so partly stale."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, Literal

from paictl.frozen import frozen
from paictl.sim.actions import Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.dice import Dice
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.view import JobView
from paictl.units import Millis

_TASTE: Final = 100
"""How much schedulers differ about a device, in thousandths."""


@frozen
class ParSyncParameters(Parameters):
    """`parsync:strategy=latency,schedulers=20,gap=2`."""

    strategy: Literal["adaptive", "latency", "quality", "statesync"] = parameter(
        "adaptive", "which slots are preferred"
    )
    schedulers: int = parameter(8, "how many decide at the same time; a job is one scheduler's", 1, 10_000)
    partitions: int = parameter(16, "parts of the cluster; at least as many as schedulers are used", 1, 1_000_000)
    gap: Span = parameter(Span(2000), "how old a part of a view gets (G)", most=1e9)
    decide: Span = parameter(Span(50), "time a scheduler takes for one decision", most=1e9)
    patience: Span = parameter(Span(1500), "adaptive: latency goes first for a job that has waited that long")
    variance: float = parameter(0.5, "how much devices differ in score: 1 - variance to 1 + variance", most=1)


@dataclass(slots=True)
class _Scheduler:
    """One scheduler: its line, and what it believes to be free in each partition."""

    number: int
    views: list[set[int]]
    taste: list[int]
    """What each device is worth to it, in thousandths: the common score, and a little of its own."""
    line: deque[JobView] = field(default_factory=deque)
    fresh: int = 0
    """The partition that was refreshed last."""


class ParSync(Policy):
    """Every scheduler takes slots from its own view; the cluster refuses what is taken already, which is a conflict.

    At each `gap / partitions` a scheduler refreshes one partition, each another one; under `statesync` all of them at
    each `gap`. Counts conflicts and the mean score of the slots that were given (`quality`). Example:
    `parsync:strategy=quality,schedulers=20,partitions=20`.
    """

    id = "parsync"
    title = "parallel schedulers with partly stale views; optimistic commits"
    paper = "Feng et al., ATC'21, from secondary source only; no trace or code of it is public"
    Parameters = ParSyncParameters
    choices = (
        "jobs go to schedulers in turn, and each scheduler decides about the first of its line, one every `decide`",
        "schedulers decide one after the other, evenly spaced; whoever finds a slot taken has a conflict, knows better "
        "about it from then on, and decides again when it is its turn",
        "a device has one score for everybody and a little of its own for each scheduler (0.1): the more the common "
        "ones differ, the more all schedulers like the same devices best",
        "a scheduler knows at once what it took itself, and what ended only when it refreshes",
        "a job that finds nothing in a view waits in front of the line until a refresh",
    )

    def __init__(self, parameters: ParSyncParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        size = self.cluster.size
        self._parts = min(size, max(parameters.partitions, parameters.schedulers))
        self._members = [range(part, size, self._parts) for part in range(self._parts)]
        self._free = set(range(size))
        dice = Dice(setup.seed, "scores")
        spread = round(parameters.variance * 1000)
        self._score = [1000 + dice.between(-spread, spread) for _ in range(size)]
        self._who = [
            _Scheduler(
                number,
                [set(row) for row in self._members],
                [score + dice.between(-_TASTE, _TASTE) for score in self._score],
            )
            for number in range(max(1, parameters.schedulers))
        ]
        self._tick = 0
        self._turn = 0
        self._arrived = 0
        self._next: Millis | None = None
        self._changed = Millis(0)
        """When the truth, or what a scheduler may know of it, last changed otherwise than by a refresh."""
        self._failures = 0
        """Decisions since then that could not be made, by schedulers whose views are all as the truth is."""
        self._counts = {"conflicts": 0, "commits": 0, "quality": 0}

    # --- time

    def ended(self, _: JobView, devices: Devices, /) -> None:
        """Free in truth; schedulers see it when they refresh."""
        self._catch_up()
        self._free.update(devices)
        self._change()

    def plan(self, moment: Trigger) -> None:
        """Refresh what is due, then let a scheduler decide if its time has come."""
        self._catch_up()
        if moment.arrived:
            self._change()
        for job in moment.arrived:
            self._who[self._arrived % len(self._who)].line.append(job)
            self._arrived += 1
        self._refresh()
        if self._next is None or self.now >= self._next:
            self._round()
        self._next = Millis(max(self.now + 1, self._next or 0)) if self._waits() else None

    def wake(self) -> Millis | None:
        """The next decision or refresh, while anybody waits and it could make a difference."""
        if self._next is None or self._asleep:
            return None
        return min(self._next, Millis((self._tick + 1) * self._step()))

    @property
    def _asleep(self) -> bool:
        """Whether every scheduler knows the truth and has found no place for its first job: only an event helps."""
        return self._failures >= len(self._who)

    def _change(self) -> None:
        self._changed, self._failures = self.now, 0

    def _catch_up(self) -> None:
        """Count the turns and refreshes since everybody fell asleep: none of them would have changed anything."""
        if not self._asleep or self._next is None:
            return
        pause = self._pause()
        if (missed := -(-(self.now - self._next) // pause)) > 0:
            self._turn += missed
            self._next = Millis(self._next + missed * pause)
        self._tick = max(self._tick, (self.now - 1) // self._step())
        for one in self._who:
            one.fresh = (self._tick + one.number) % self._parts

    def _pause(self) -> int:
        """Between the decisions of two schedulers."""
        return max(1, int(self.p.decide) // len(self._who))

    def _step(self) -> int:
        span = self.p.gap if self.p.strategy == "statesync" else self.p.gap // self._parts
        return max(1, int(span))

    def _waits(self) -> bool:
        return any(one.line for one in self._who)

    def _refresh(self) -> None:
        """All ticks since the last time; of several only the last of each partition shows."""
        tick = self.now // self._step()
        if self.p.strategy == "statesync":
            if tick > self._tick:
                for one in self._who:
                    one.views = [self._free.intersection(row) for row in self._members]
        else:
            for missed in range(max(self._tick + 1, tick - self._parts + 1), tick + 1):
                for one in self._who:
                    one.fresh = (missed + one.number) % self._parts  # each another one
                    one.views[one.fresh] = self._free.intersection(self._members[one.fresh])
        self._tick = tick

    # --- decisions

    def _round(self) -> None:
        """One scheduler decides; the next one does so a little later."""
        self._turn += 1
        one = self._who[self._turn % len(self._who)]
        if one.line:
            self._decide(one)
        if not self._asleep and self.now - self._changed > self.p.gap + self._parts:  # all was refreshed since then
            self._failures += 1
        self._next = Millis(self.now + self._pause())

    def _decide(self, one: _Scheduler) -> None:
        """Commit the first job of a line, or learn that its slots are taken."""
        job = one.line[0]
        wanted = self._choose(one, job)
        if len(wanted) < job.gpus:
            return
        taken = [device for device in wanted if device not in self._free]
        for device in wanted:
            one.views[device % self._parts].discard(device)
        if taken:
            for device in wanted:
                if device in self._free:
                    one.views[device % self._parts].add(device)
            self._counts["conflicts"] += 1
            self._change()
            return
        one.line.popleft()
        self._change()
        devices = tuple(sorted(wanted))
        self._free.difference_update(devices)
        self._counts["commits"] += len(devices)
        self._counts["quality"] += sum(self._score[device] for device in devices)
        self.hold(job, devices)
        self.act(Start(job, devices))

    def _choose(self, one: _Scheduler, job: JobView) -> list[int]:
        """Slots of its view: the best ones, or the most recently seen ones."""
        fast = self.p.strategy == "latency" or (
            self.p.strategy == "adaptive" and self.now - job.submit > self.p.patience
        )
        if not fast:
            known = (device for view in one.views for device in self._able(job, view))
            return nlargest(job.gpus, known, key=lambda device: (one.taste[device], -device))
        found: list[int] = []
        for back in range(self._parts):
            view = self._able(job, one.views[(one.fresh - back) % self._parts])
            found += nlargest(job.gpus - len(found), view, key=lambda device: (one.taste[device], -device))
            if len(found) == job.gpus:
                break
        return found

    def _able(self, job: JobView, view: Iterable[int]) -> Iterable[int]:
        """Those of a view on which a job may run."""
        kind, type_of = job.gpu_type, self.cluster.type_of
        return view if kind is None else [device for device in view if type_of[device] == kind]

    def counted(self) -> Mapping[str, float]:
        """Conflicts, and the mean score of a slot that was given (1.0 is the mean of all)."""
        given = self._counts["commits"]
        return {
            "conflicts": self._counts["conflicts"],
            "quality": self._counts["quality"] / given / 1000 if given else 0.0,
        }
