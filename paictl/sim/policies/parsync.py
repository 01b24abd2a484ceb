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
_OWN: Final = -1
"""The version of a view that is not the truth of any instant."""


@frozen
class ParSyncParameters(Parameters):
    """`parsync:strategy=latency,schedulers=20,gap=2`."""

    strategy: Literal["adaptive", "latency", "quality", "statesync"] = parameter(
        "adaptive", "which slots are preferred"
    )
    schedulers: int = parameter(8, "number of parallel schedulers; each job belongs to one", 1, 10_000)
    partitions: int = parameter(
        16, "number of partitions of the cluster; at least the number of schedulers", 1, 1_000_000
    )
    gap: Span = parameter(Span(2000), "maximum age of a partition's view (G)", most=1e9)
    decide: Span = parameter(Span(50), "time a scheduler takes for one decision", most=1e9)
    patience: Span = parameter(Span(1500), "adaptive: a job that has waited this long prefers latency over quality")
    variance: float = parameter(0.5, "range of device scores: 1 - variance to 1 + variance", most=1)


@dataclass(slots=True)
class _Scheduler:
    """One scheduler: its line, and what it believes to be free in each partition."""

    number: int
    views: list[set[int]]
    taste: list[int]
    """What each device is worth to it, in thousandths: the common score, and a little of its own."""
    seen: list[int]
    """By partition: the version of the truth that its view is; `_OWN` where it has changed the view since."""
    line: deque[JobView] = field(default_factory=deque)
    fresh: int = 0
    """The partition that was refreshed last."""


class ParSync(Policy):
    """Every scheduler takes slots from its own view. If a slot is already taken, the cluster rejects it: a conflict.

    Every `gap / partitions`, each scheduler refreshes a different partition; with `statesync`, all partitions every
    `gap`. Reports conflicts and the mean score of assigned slots (`quality`). Example:
    `parsync:strategy=quality,schedulers=20,partitions=20`.
    """

    id = "parsync"
    title = "parallel schedulers with partly stale views; optimistic commits"
    paper = "Feng et al., ATC'21, from secondary source only; no trace or code of it is public"
    Parameters = ParSyncParameters
    choices = (
        "jobs are assigned to schedulers in turn; each scheduler decides the first job in its queue, one every "
        "`decide`",
        "schedulers decide one after the other, evenly spaced; a scheduler that finds a slot taken has a conflict, "
        "updates its view of the slot, and decides again at its next turn",
        "a device has a common score and a small individual one for each scheduler (0.1): the more the common "
        "scores differ, the more schedulers prefer the same devices",
        "a scheduler knows its own assignments at once, and finished jobs only after a refresh",
        "a job that finds no slot in a view stays at the head of the queue until a refresh",
    )

    def __init__(self, parameters: ParSyncParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        size = self.cluster.size
        self._parts = min(size, max(parameters.partitions, parameters.schedulers))
        self._members = [range(part, size, self._parts) for part in range(self._parts)]
        self._open = [set(row) for row in self._members]
        """What is free in truth, by partition."""
        self._version = [0] * self._parts
        """Raised when the truth about a partition changes."""
        dice = Dice(setup.seed, "scores")
        spread = round(parameters.variance * 1000)
        self._score = [1000 + dice.between(-spread, spread) for _ in range(size)]
        self._who = [
            _Scheduler(
                number,
                [set(row) for row in self._members],
                [score + dice.between(-_TASTE, _TASTE) for score in self._score],
                [0] * self._parts,
            )
            for number in range(max(1, parameters.schedulers))
        ]
        self._tick = 0
        self._turn = 0
        self._arrived = 0
        self._next: Millis | None = None
        """The next turn, of whoever it is; None: nobody waits."""
        self._counts = {"conflicts": 0, "commits": 0, "quality": 0}

    # --- time

    def ended(self, _: JobView, devices: Devices, /) -> None:
        """Free in truth; schedulers see it when they refresh."""
        if self._next is not None:
            self._refresh((self.now - 1) // self._step())  # with what was true until now
        for device in devices:
            self._open[device % self._parts].add(device)
        self._changed(devices)

    def plan(self, moment: Trigger) -> None:
        """Refresh what is due, then let a scheduler decide if its time has come."""
        self._pass_turns()
        for job in moment.arrived:
            self._who[self._arrived % len(self._who)].line.append(job)
            self._arrived += 1
        self._refresh(self.now // self._step())
        if self._next is None or self.now >= self._next:
            self._round()
        self._next = Millis(max(self.now + 1, self._next or 0)) if self._waits() else None

    def wake(self) -> Millis | None:
        """The next turn that can make a difference: of a scheduler whose view holds its first job by then.

        All turns before are of schedulers that do not find enough in their views, or for whom nobody waits. They, and
        the refreshes between them, are made up for by the next event: a decision for each of them would be one every
        few milliseconds of simulated time.
        """
        if self._next is None:
            return None
        turns = [
            turn for scheduler in self._who if scheduler.line and (turn := self._useful_turn(scheduler)) is not None
        ]
        return min(turns, default=None)

    def _useful_turn(self, one: _Scheduler) -> Millis | None:
        """The first turn of a scheduler with a place for its first job; None: only an event helps."""
        assert self._next is not None  # noqa: S101 `wake` asks only then
        since = self._holds(one, one.line[0])
        if since is None:
            return None
        pause, number = self._pause(), len(self._who)
        soonest = max(0, -(-(since - self._next) // pause))
        ahead = (one.number - self._turn - 1 - soonest) % number
        return Millis(self._next + (soonest + ahead) * pause)

    def _holds(self, one: _Scheduler, job: JobView) -> int | None:
        """Since when its view has enough devices for a job: now, or by the refresh that will show it enough."""
        room = sum(self._count(job, view) for view in one.views)
        if room >= job.gpus:
            return self.now
        step = self._step()
        if self.p.strategy == "statesync":
            room = sum(self._count(job, row) for row in self._open)
            return (self._tick + 1) * step if room >= job.gpus else None
        for tick in range(self._tick + 1, self._tick + self._parts + 1):
            part = (tick + one.number) % self._parts
            if one.seen[part] != self._version[part]:
                room += self._count(job, self._open[part]) - self._count(job, one.views[part])
                if room >= job.gpus:
                    return tick * step
        return None

    def _count(self, job: JobView, view: set[int]) -> int:
        return len(view) if job.gpu_type is None else sum(1 for _ in self._able(job, view))

    def _changed(self, devices: Iterable[int]) -> None:
        for part in {device % self._parts for device in devices}:
            self._version[part] += 1

    def _pass_turns(self) -> None:
        """Count the turns before now: none of them made a difference."""
        if self._next is None:
            return
        pause = self._pause()
        if (missed := -(-(self.now - self._next) // pause)) > 0:
            self._turn += missed
            self._next = Millis(self._next + missed * pause)

    def _pause(self) -> int:
        """Between the decisions of two schedulers."""
        return max(1, int(self.p.decide) // len(self._who))

    def _step(self) -> int:
        span = self.p.gap if self.p.strategy == "statesync" else self.p.gap // self._parts
        return max(1, int(span))

    def _waits(self) -> bool:
        return any(scheduler.line for scheduler in self._who)

    def _refresh(self, tick: int) -> None:
        """All ticks since the last time, to the present truth; of several only the last of each partition shows."""
        if tick <= self._tick:
            return
        if self.p.strategy == "statesync":
            for scheduler in self._who:
                for part in range(self._parts):
                    self._show(scheduler, part)
        else:
            for missed in range(max(self._tick + 1, tick - self._parts + 1), tick + 1):
                for scheduler in self._who:
                    scheduler.fresh = (missed + scheduler.number) % self._parts  # each another one
                    self._show(scheduler, scheduler.fresh)
        self._tick = tick

    def _show(self, one: _Scheduler, part: int) -> None:
        """A scheduler sees the truth about a partition."""
        if one.seen[part] != self._version[part]:
            one.views[part] = set(self._open[part])
            one.seen[part] = self._version[part]

    # --- decisions

    def _round(self) -> None:
        """One scheduler decides; the next one does so a little later."""
        self._turn += 1
        scheduler = self._who[self._turn % len(self._who)]
        if scheduler.line:
            self._decide(scheduler)
        self._next = Millis(self.now + self._pause())

    def _decide(self, one: _Scheduler) -> None:
        """Commit the first job of a line, or learn that its slots are taken."""
        job = one.line[0]
        wanted = self._choose(one, job)
        if len(wanted) < job.gpus:
            return
        taken = {device for device in wanted if device not in self._open[device % self._parts]}
        for device in taken or wanted:
            part = device % self._parts
            one.views[part].discard(device)
            one.seen[part] = _OWN
        if taken:
            self._counts["conflicts"] += 1
            return
        one.line.popleft()
        devices = tuple(sorted(wanted))
        for device in devices:
            self._open[device % self._parts].discard(device)
        self._changed(devices)
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
