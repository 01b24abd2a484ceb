"""Conservative backfill: every waiting job has a reservation, which no other job may delay."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Mapping
from itertools import islice
from math import inf
from typing import ClassVar, Literal

from paictl.frozen import frozen
from paictl.sim.actions import Start, Trigger
from paictl.sim.placement.count import Count
from paictl.sim.policies.base import Setup
from paictl.sim.policies.limits import Limited, LimitParameters
from paictl.sim.policies.parameters import parameter
from paictl.sim.view import JobView
from paictl.units import Millis

Parts = Mapping[str, int]
"""Devices by type."""


class Profile:
    """Planned free devices of each type over time: steps that begin at rising instants; the last step never ends."""

    def __init__(self, total: Parts) -> None:
        self._times = [0]
        self._rows = {kind: [number] for kind, number in total.items()}
        self._none_before: dict[tuple[str, int, int], int] = {}
        """(type, devices, milliseconds) → an instant before which there is no such place. A search starts there: the
        next days are full, and each of thousands of reservations would search all of them. It stays valid while
        devices are only reserved."""

    def pass_to(self, now: int) -> None:
        """Drop the steps before `now`."""
        place = bisect_right(self._times, now) - 1
        del self._times[:place]
        self._times[0] = now
        for row in self._rows.values():
            del row[:place]

    def change(self, parts: Parts, start: int, end: int) -> None:
        """Add `parts` to the free devices from `start` until `end`; negative numbers reserve devices."""
        first, last = self._cut(start), self._cut(end)
        for kind, number in parts.items():
            row = self._rows[kind]
            for place in range(first, last):
                row[place] += number
            if number > 0:
                self._none_before.clear()

    def earliest(self, kind: str | None, number: int, length: int) -> tuple[int, Parts]:
        """(start, devices by type) of the first `length` milliseconds in which `number` devices are free throughout.

        The cluster must have that many. Without a type: all of the type that has them first; of several types only if
        no type has that many.
        """
        kinds = [kind] if kind is not None else [name for name, row in self._rows.items() if row[-1] >= number]
        if not kinds:
            return self._mixed(number, length)
        starts = [(self._start(kind, number, length), place) for place, kind in enumerate(kinds)]
        start, place = min(starts)
        return start, {kinds[place]: number}

    def merge(self) -> None:
        """Merge neighbouring steps that are equal."""
        rows = list(self._rows.values())
        same = [place for place in range(1, len(self._times)) if all(row[place] == row[place - 1] for row in rows)]
        for place in reversed(same):
            del self._times[place]
            for row in rows:
                del row[place]

    def _cut(self, at: int) -> int:
        """The index of the step that begins at an instant; split a step if there is none."""
        place = bisect_left(self._times, at)
        if place == len(self._times) or self._times[place] != at:
            self._times.insert(place, at)
            for row in self._rows.values():
                row.insert(place, row[place - 1])
        return place

    def _start(self, kind: str, number: int, length: int) -> int:
        times, row = self._times, self._rows[kind]
        least = 1 << max(0, length.bit_length() - 1)
        key = kind, number, least  # lengths rounded down to powers of two, as almost every job has another length
        start: int | None = None
        bound: int | None = None
        for place in range(max(0, bisect_right(times, self._none_before.get(key, 0)) - 1), len(row)):
            if row[place] < number:
                start = None
                continue
            if start is None:
                start = times[place]
            span = times[place + 1] - start if place + 1 < len(times) else inf
            if bound is None and span >= least:
                bound = self._none_before[key] = start
            if span >= length:
                return start
        raise AssertionError("the last step has all devices")

    def _mixed(self, number: int, length: int) -> tuple[int, Parts]:
        """As `earliest`, taking the devices of each type that are free throughout, in the order of the types."""
        for place, start in enumerate(self._times):
            last = bisect_left(self._times, start + length)
            least = {kind: min(row[place:last]) for kind, row in self._rows.items()}
            if sum(least.values()) >= number:
                break
        parts: dict[str, int] = {}
        for kind, free in least.items():
            if part := min(free, number):
                parts[kind] = part
                number -= part
        return start, parts


@frozen
class ConservativeParameters(LimitParameters):
    """Placement by count only, and the number of reservations."""

    placement: Literal["count"] = parameter("count", "reservations count devices and do not choose them")
    depth: int = parameter(0, "reserve for at most this many waiting jobs; the others follow in order; 0: for all")


class Conservative(Limited):
    """Each job gets a reservation: the earliest interval as long as its limit in which enough devices are free
    throughout.

    When a job ends before its limit, all reservations are computed again in the order of submission, and none gets
    later. Example: `conservative:depth=500`.
    """

    id = "conservative"
    title = "conservative backfill: a reservation for every job, by run-time limits"
    paper = "Mu'alem and Feitelson, IEEE TPDS 12(6), 2001; Slurm's sched/backfill has the same with a depth"
    choices = (
        "the time to process an early end grows with the square of the number of reservations: use `depth` if "
        "thousands of jobs wait",
        "a job that accepts any type gets a reservation on one type; on several only if no type has enough devices",
        "with `overrun=run`, a job may run past its limit, which can break promises to others",
    )
    Parameters: ClassVar[type[LimitParameters]] = ConservativeParameters

    def __init__(self, parameters: ConservativeParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._profile = Profile(self.cluster.types)
        self._line: deque[JobView] = deque()
        """Jobs that wait without a reservation."""
        self._reserved: dict[int, tuple[JobView, int, Parts]] = {}
        """By number, rising: (job, start, devices)."""
        self._starts: list[tuple[int, int]] = []
        """(start, number) of all reservations, rising."""
        self._parts: dict[int, tuple[Parts, int]] = {}
        """By running job: (devices that it takes from the profile, until when)."""

    def schedule(self, moment: Trigger, freed: bool) -> None:
        """Compress if devices are free early, reserve for jobs that arrived, start jobs whose reservation begins."""
        self._profile.pass_to(self.now)
        for job in moment.ended:
            self._give_back(job)
        if freed:
            self._extend()
            self._compress()
        self._line += [job for job in moment.arrived if job.gpus <= self._most(job)]
        self._fill()
        while self._starts and self._starts[0][0] <= self.now:
            _, number = self._starts.pop(0)
            self._begin(number)
            self._fill()

    def wake(self) -> Millis | None:
        """At the first limit or the first reservation."""
        first = super().wake()
        if self._starts:
            start = Millis(self._starts[0][0])
            first = start if first is None else min(first, start)
        return first

    def _most(self, job: JobView) -> int:
        """The number of devices on which a job may run; an elastic job that asks for more waits forever."""
        return self.cluster.size if job.gpu_type is None else self.cluster.types.get(job.gpu_type, 0)

    def _fill(self) -> None:
        """Reserve for waiting jobs, up to the depth."""
        depth = self.p.depth or len(self._line) + len(self._reserved)
        for job in list(islice(self._line, max(0, depth - len(self._reserved)))):
            self._line.popleft()
            start, parts = self._profile.earliest(job.gpu_type, job.gpus, self.limit(job))
            self._reserve(job, start, parts)
            self.promise(job, start)

    def _reserve(self, job: JobView, start: int, parts: Parts) -> None:
        self._reserved[job.number] = job, start, parts
        insort(self._starts, (start, job.number))
        self._profile.change(_minus(parts), start, start + self.limit(job))

    def _begin(self, number: int) -> None:
        """Start a job whose reservation begins."""
        job, start, parts = self._reserved.pop(number)
        assert isinstance(self.placement, Count)  # noqa: S101 - the only placement there is
        devices = self.placement.take_parts(parts)
        self.hold(job, devices)
        self.act(Start(job, devices))
        self.began(job)
        self._parts[number] = parts, start + self.limit(job)
        if any(other < number for other in islice(self._reserved, 1)):
            self.overtakes(job)

    # --- early ends

    def _give_back(self, job: JobView) -> None:
        """Free the rest of the time for which a job that ended was planned."""
        parts, end = self._parts.pop(job.number)
        if end > self.now:
            self._profile.change(parts, self.now, end)

    def _extend(self) -> None:
        """Reserve more time for jobs that run past their limits."""
        for end, number, _ in self.planned:
            parts, before = self._parts[number]
            if end > before:
                self._profile.change(_minus(parts), max(before, self.now), end)
                self._parts[number] = parts, end

    def _compress(self) -> None:
        """Recompute all reservations, one by one in the order of submission, while the others stay in place."""
        moved = {}
        for number, (job, start, parts) in self._reserved.items():
            end = start + self.limit(job)
            self._profile.change(parts, max(start, self.now), end)
            at, new = self._profile.earliest(job.gpu_type, job.gpus, self.limit(job))
            self._profile.change(_minus(new), at, at + self.limit(job))
            moved[number] = job, at, new
        self._reserved = moved
        self._starts = sorted((start, number) for number, (_, start, _) in moved.items())
        self._profile.merge()


def _minus(parts: Parts) -> Parts:
    return {kind: -number for kind, number in parts.items()}
