"""Earliest deadline first, on Chronus' time grid: the baseline of SoCC'21."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.grid import Grid
from paictl.sim.policies.queue import Key
from paictl.sim.policies.ranked import Entry, Group
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis


class Ordered(Grid):
    """Keeps waiting jobs sorted, so that a decision looks only at the first jobs of each size, however many wait.

    A walk down the ranking skips jobs that do not fit. Room only falls on the way: if a job of a size does not fit, no
    later job of that size does, and the walk leaves out all of them.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: dict[Group, list[Entry]] = {}
        """Waiting jobs by placement group, each row by rank."""
        self._entries: dict[int, Entry] = {}
        self._changes: list[tuple[Millis, int]] = []
        """(time, job) of changes of keys, a heap; entries of jobs that no longer wait are void."""
        self._unranked: list[JobView] = []
        """Jobs that lost their devices in this decision: until it is applied their views show them as running."""

    @abstractmethod
    def rank(self, job: JobView) -> tuple[Key, Millis | None]:
        """The job's present key (the lowest goes first), and when it changes if the job still waits; None: never."""

    def arrives(self, job: JobView, /) -> None:
        """Add a waiting job to its row."""
        key, change = self.rank(job)
        entry = self._entries[job.number] = key, job.number, job
        insort(self._rows.setdefault(self._group(job), []), entry)
        if change is not None:
            heappush(self._changes, (change, job.number))

    def lease_ends(self) -> None:
        """Run the first jobs of the ranking that fit, and no others."""
        self._update()
        running: dict[Group, list[Entry]] = {}
        for number, job in self.running.items():
            running.setdefault((job.gpus, None), []).append((self.rank(job)[0], number, job))
        chosen: list[JobView] = []
        free = self.cluster.size

        def fits(job: JobView) -> bool:
            nonlocal free
            if job.gpus > free:
                return False
            free -= job.gpus
            chosen.append(job)
            return True

        self._walk([*map(sorted, running.values()), *self._rows.values()], fits)
        before = list(self.running.values())
        for job in chosen:
            if job.number in self.waiting:
                self._forget(job)
        self.replace(chosen)
        self._unranked = [job for job in (*before, *chosen) if job.number in self.waiting]

    def slot_ends(self) -> None:
        """Start the first waiting jobs for which there is a place."""
        self._update()
        started: list[JobView] = []

        def starts(job: JobView) -> bool:
            self.fill([job])
            if job.number in self.waiting:
                return False
            started.append(job)
            return True

        self._walk(self._rows.values(), starts)
        for job in started:
            self._forget(job)

    @staticmethod
    def _walk(rows: Iterable[list[Entry]], fits: Callable[[JobView], bool]) -> None:
        """Ask for each job by rank whether it fits; a row ends at its first job that does not."""
        heads = [(row[0], 0, row) for row in rows]
        heapify(heads)
        while heads:
            head, place, row = heappop(heads)
            if fits(head[2]) and place + 1 < len(row):
                heappush(heads, (row[place + 1], place + 1, row))

    def _update(self) -> None:
        """Rank the jobs that the last decision replaced, and rank again those whose keys have changed."""
        for job in self._unranked:
            self.arrives(job)
        self._unranked = []
        while self._changes and self._changes[0][0] <= self.now:
            _, number = heappop(self._changes)
            if number in self._entries:
                job = self._entries[number][2]
                self._forget(job)
                self.arrives(job)

    def _forget(self, job: JobView) -> None:
        """Remove a job from its row."""
        group = self._group(job)
        row = self._rows[group]
        del row[bisect_left(row, self._entries.pop(job.number))]
        if not row:
            del self._rows[group]

    def _group(self, job: JobView) -> Group:
        return job.gpus, self.placement.group(job)


class Edf(Ordered):
    """Ranks jobs by their next deadline that can be met; jobs without one come last, by submission. Example:
    `edf:lease=20m`.

    When a deadline of a soft job has passed, its next deadline counts.
    """

    id = "edf"
    title = "earliest deadline first"
    paper = "textbook (Liu and Layland, 1973); baseline of Chronus (SoCC'21)"
    knows = frozenset({Knowledge.DEADLINE})
    choices = (
        "decisions are made at Chronus' times (lease, slot), so that both can be compared",
        "a strict job that has missed its deadline keeps its rank: plain EDF does not know durations",
        "jobs without deadlines come after all others, in the order of submission",
    )

    def rank(self, job: JobView) -> tuple[Key, Millis | None]:
        """By deadline."""
        for deadline in job.deadlines:
            if deadline.time >= self.now:
                return float(deadline.time), Millis(deadline.time + 1)
        return float(job.deadlines[-1].time if job.deadlines else inf), None


class EdfInfeasibleLast(Ordered):
    """As `edf`, but jobs that can no longer meet a deadline come after the others. Example: `edf-infeasible-last`."""

    id = "edf-infeasible-last"
    title = "earliest deadline first; jobs that cannot meet theirs come last"
    paper = "textbook; the strongest simple rival of Chronus on its own traces (policies.md, D5)"
    knows = frozenset({Knowledge.DEADLINE, Knowledge.DURATION})
    choices = (
        "a job is too late if its remaining time and the cost of a resume do not fit before the deadline",
        "jobs that are too late and jobs without deadlines share one queue, by remaining time",
    )

    def rank(self, job: JobView) -> tuple[Key, Millis | None]:
        """Feasible jobs by deadline, then the others by remaining time."""
        remaining = -(-job.remaining(self.now) // ONE)
        cost = 0 if job.running or job.first_start is None else self.costs.to_start(job.gpus, again=True)
        for deadline in job.deadlines:
            if self.now + remaining + cost <= deadline.time:
                return (0, float(deadline.time)), Millis(deadline.time - remaining - cost + 1)
        return (1, float(remaining)), None
