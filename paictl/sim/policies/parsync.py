"""ParSync: several schedulers of one cluster, each with a partly stale view that is refreshed part by part."""

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
"""Range of a scheduler's individual score of a device, in thousandths."""
_OWN: Final = -1
"""The version of a view that the scheduler itself has changed."""


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
    """One scheduler: its queue, and its view of the free devices of each partition."""

    number: int
    views: list[set[int]]
    taste: list[int]
    """By device: its score for this scheduler in thousandths, the common score plus an individual one."""
    seen: list[int]
    """By partition: the version that the view shows; `_OWN` if the scheduler has changed the view since."""
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
        """By partition: the devices that are really free."""
        self._version = [0] * self._parts
        """By partition: raised with each change of its free devices."""
        dice = Dice(setup.seed, "scores")
        spread = round(parameters.variance * 1000)
        self._score = [1000 + dice.between(-spread, spread) for _ in range(size)]
        self._schedulers = [
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
        """The time of the next turn of any scheduler; None: no job waits."""
        self._counts = {"conflicts": 0, "commits": 0, "quality": 0}

    # --- time

    def ended(self, _: JobView, devices: Devices, /) -> None:
        """Free the devices; schedulers see it when they refresh."""
        if self._next is not None:
            self._refresh((self.now - 1) // self._step())  # earlier refreshes show the state before this event
        for device in devices:
            self._open[device % self._parts].add(device)
        self._changed(devices)

    def plan(self, moment: Trigger) -> None:
        """Refresh the views that are due, then let a scheduler decide if it is its turn."""
        self._pass_turns()
        for job in moment.arrived:
            self._schedulers[self._arrived % len(self._schedulers)].line.append(job)
            self._arrived += 1
        self._refresh(self.now // self._step())
        if self._next is None or self.now >= self._next:
            self._round()
        self._next = Millis(max(self.now + 1, self._next or 0)) if self._waits() else None

    def wake(self) -> Millis | None:
        """The next turn with an effect: of a scheduler whose view has room for its first job by then.

        All turns before belong to schedulers without room in their views or without jobs. They are skipped, and the
        next event catches up on their refreshes: an event for each turn would be one every few milliseconds of
        simulated time.
        """
        if self._next is None:
            return None
        turns = [
            turn
            for scheduler in self._schedulers
            if scheduler.line and (turn := self._useful_turn(scheduler)) is not None
        ]
        return min(turns, default=None)

    def _useful_turn(self, scheduler: _Scheduler) -> Millis | None:
        """The first turn at which a scheduler's view has room for its first job; None: not before another event."""
        assert self._next is not None  # noqa: S101 `wake` asks only then
        since = self._holds(scheduler, scheduler.line[0])
        if since is None:
            return None
        pause, number = self._pause(), len(self._schedulers)
        soonest = max(0, -(-(since - self._next) // pause))
        ahead = (scheduler.number - self._turn - 1 - soonest) % number
        return Millis(self._next + (soonest + ahead) * pause)

    def _holds(self, scheduler: _Scheduler, job: JobView) -> int | None:
        """From when on the scheduler's view has room for a job: now, or after a refresh; None: not before an event."""
        room = sum(self._count(job, view) for view in scheduler.views)
        if room >= job.gpus:
            return self.now
        step = self._step()
        if self.p.strategy == "statesync":
            room = sum(self._count(job, row) for row in self._open)
            return (self._tick + 1) * step if room >= job.gpus else None
        for tick in range(self._tick + 1, self._tick + self._parts + 1):
            part = (tick + scheduler.number) % self._parts
            if scheduler.seen[part] != self._version[part]:
                room += self._count(job, self._open[part]) - self._count(job, scheduler.views[part])
                if room >= job.gpus:
                    return tick * step
        return None

    def _count(self, job: JobView, view: set[int]) -> int:
        return len(view) if job.gpu_type is None else sum(1 for _ in self._able(job, view))

    def _changed(self, devices: Iterable[int]) -> None:
        for part in {device % self._parts for device in devices}:
            self._version[part] += 1

    def _pass_turns(self) -> None:
        """Skip the turns before now, which had no effect."""
        if self._next is None:
            return
        pause = self._pause()
        if (missed := -(-(self.now - self._next) // pause)) > 0:
            self._turn += missed
            self._next = Millis(self._next + missed * pause)

    def _pause(self) -> int:
        """Milliseconds between the decisions of two schedulers."""
        return max(1, int(self.p.decide) // len(self._schedulers))

    def _step(self) -> int:
        span = self.p.gap if self.p.strategy == "statesync" else self.p.gap // self._parts
        return max(1, int(span))

    def _waits(self) -> bool:
        return any(scheduler.line for scheduler in self._schedulers)

    def _refresh(self, tick: int) -> None:
        """Apply all refreshes up to a tick, with the present state; of each partition only the last one matters."""
        if tick <= self._tick:
            return
        if self.p.strategy == "statesync":
            for scheduler in self._schedulers:
                for part in range(self._parts):
                    self._show(scheduler, part)
        else:
            for missed in range(max(self._tick + 1, tick - self._parts + 1), tick + 1):
                for scheduler in self._schedulers:
                    scheduler.fresh = (missed + scheduler.number) % self._parts  # a different partition for each
                    self._show(scheduler, scheduler.fresh)
        self._tick = tick

    def _show(self, scheduler: _Scheduler, part: int) -> None:
        """Refresh a scheduler's view of a partition."""
        if scheduler.seen[part] != self._version[part]:
            scheduler.views[part] = set(self._open[part])
            scheduler.seen[part] = self._version[part]

    # --- decisions

    def _round(self) -> None:
        """Let the next scheduler decide, and set the time of the turn after it."""
        self._turn += 1
        scheduler = self._schedulers[self._turn % len(self._schedulers)]
        if scheduler.line:
            self._decide(scheduler)
        self._next = Millis(self.now + self._pause())

    def _decide(self, scheduler: _Scheduler) -> None:
        """Commit the first job of a scheduler's queue, or record a conflict if slots are taken."""
        job = scheduler.line[0]
        slots = self._choose(scheduler, job)
        if len(slots) < job.gpus:
            return
        conflicts = {device for device in slots if device not in self._open[device % self._parts]}
        for device in conflicts or slots:
            part = device % self._parts
            scheduler.views[part].discard(device)
            scheduler.seen[part] = _OWN
        if conflicts:
            self._counts["conflicts"] += 1
            return
        scheduler.line.popleft()
        devices = tuple(sorted(slots))
        for device in devices:
            self._open[device % self._parts].discard(device)
        self._changed(devices)
        self._counts["commits"] += len(devices)
        self._counts["quality"] += sum(self._score[device] for device in devices)
        self.hold(job, devices)
        self.act(Start(job, devices))

    def _choose(self, scheduler: _Scheduler, job: JobView) -> list[int]:
        """Up to as many slots of the scheduler's view as the job needs: the best, or the most recently refreshed."""
        fast = self.p.strategy == "latency" or (
            self.p.strategy == "adaptive" and self.now - job.submit > self.p.patience
        )
        if not fast:
            visible = (device for view in scheduler.views for device in self._able(job, view))
            return nlargest(job.gpus, visible, key=lambda device: (scheduler.taste[device], -device))
        slots: list[int] = []
        for back in range(self._parts):
            view = self._able(job, scheduler.views[(scheduler.fresh - back) % self._parts])
            slots += nlargest(job.gpus - len(slots), view, key=lambda device: (scheduler.taste[device], -device))
            if len(slots) == job.gpus:
                break
        return slots

    def _able(self, job: JobView, view: Iterable[int]) -> Iterable[int]:
        """The devices of a view on which a job may run."""
        kind, type_of = job.gpu_type, self.cluster.type_of
        return view if kind is None else [device for device in view if type_of[device] == kind]

    def counted(self) -> Mapping[str, float]:
        """Number of conflicts, and the mean score of assigned slots (1.0 is the mean of all slots)."""
        slots = self._counts["commits"]
        return {
            "conflicts": self._counts["conflicts"],
            "quality": self._counts["quality"] / slots / 1000 if slots else 0.0,
        }
