"""Backfill for `hived`: the same foresight as on a cluster, with the core that places the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from math import ceil
from typing import TYPE_CHECKING

from paictl.units import Millis
from paictl.workload.backfill import (
    FOREVER,
    NO_WINDOWS,
    BackfillMode,
    BackfillRule,
    BackfillRules,
    Foresight,
    KeptCells,
    LineGang,
    LineStarts,
    StartPromise,
)
from paictl.workload.startpromises import StartPromises

if TYPE_CHECKING:
    from paictl.sim.placement.cells import Cells
    from paictl.sim.view import JobView
    from paictl.workload.windows import Windows


Row = tuple[int, int, "JobView"]
"""A waiting job: (-priority, turn, job)."""


def limit_of(job: JobView, factor: float) -> Millis:
    """The run-time limit of a job: that of the trace, else its duration times `factor`."""
    return job.limit if job.limit is not None else Millis(max(1000, ceil(job.work * factor)))


class SimulatedStarts:
    """The promised starts of each tenant's jobs, and whether they were kept."""

    def __init__(
        self,
        cells: Cells,
        factor: float,
        runs: Mapping[int, JobView],
        mode: str = BackfillMode.EASY,
        windows: Windows = NO_WINDOWS,
        reserved: KeptCells | None = None,
    ) -> None:
        self._cells = cells
        self._factor = factor
        self._runs = runs
        self._windows = windows
        self._reserved = reserved
        self._ends: dict[int, Millis] = {}
        """By running job: its planned end."""
        self._promises: dict[int, Millis] = {}
        """By job that has not started since: its first promised start."""
        self._promised = 0
        """Number of promises so far."""
        self._cached: dict[str, tuple[int, int, Millis, StartPromise | None]] = {}
        self._heads: dict[str, int] = {}
        """By tenant: the number of the job with a promise."""
        rules = BackfillRules([BackfillRule("", BackfillMode(mode))])
        self._lines = StartPromises(rules, self._end_of)
        """The promises to all jobs in line (`conservative`)."""
        self._lines.reserved = reserved
        self.promises_all = (  # the doors fall back to `easy` in the same cases
            rules.mode("") is BackfillMode.CONSERVATIVE and not windows and reserved is None
        )
        self.late = 0
        """Number of promises that were broken."""
        self.overtook = 0
        """Number of jobs that started while another job had a promise."""

    def _end_of(self, group: str) -> Millis | None:
        return self._ends.get(self._cells.number_of(group))

    def limit(self, job: JobView) -> Millis:
        """The run-time limit of a job: that of the trace, else its duration times the factor."""
        return limit_of(job, self._factor)

    def began(self, job: JobView, now: Millis) -> None:
        """Plan the end of a job that starts now, and account for its promise."""
        self._ends[job.number] = Millis(now + self.limit(job))
        promise = self._promises.pop(job.number, None)  # if it is preempted later, it gets another one
        if promise is not None:
            self.late += now > promise
        if self._heads.get(job.vc) == job.number:
            del self._heads[job.vc]
        elif job.vc in self._heads or self._goes_before(job):
            self.overtook += 1

    def moved(self, job: JobView, now: Millis) -> None:
        """Plan the end of a job that restarts elsewhere: its limit begins again."""
        self._ends[job.number] = Millis(now + self.limit(job))

    def renumber(self, job: JobView, after: JobView) -> None:
        """Hand the planned end of a job to its next attempt, which keeps its devices."""
        if job.number in self._ends:
            self._ends[after.number] = self._ends.pop(job.number)

    def gone(self, job: JobView) -> None:
        """Forget a job that no longer runs."""
        self._ends.pop(job.number, None)

    def head(self, vc: str, first: Callable[[], JobView]) -> int:
        """The number of the tenant's job with a promise, which keeps it until it starts; `first()` gives a new one."""
        return self._heads.setdefault(vc, first().number)

    def delays(self, job: JobView, head: JobView, now: Millis) -> bool:
        """Whether a job would delay the promised start of another if it started now."""
        promise = self._promise(head, now)
        return promise is not None and self._foresight(now).delayed(self._gang(job), promise)

    def window(self, head: JobView, now: Millis) -> Millis | None:
        """A run time with which no job delays the promised start; None if nothing is promised."""
        promise = self._promise(head, now)
        return None if promise is None or promise.at is None else Millis(promise.at - now)

    def _promise(self, head: JobView, now: Millis) -> StartPromise | None:
        version = self._cells.engine.version
        cached = self._cached.get(head.vc)
        if cached is None or cached[:3] != (head.number, version, now):
            promise = self._foresight(now).promise([self._gang(head)])
            cached = self._cached[head.vc] = head.number, version, now, promise
            if promise is not None and promise.at is not None:
                self._note(head.number, promise.at)
        return cached[3]

    # --- a promise for each job in line

    def _goes_before(self, job: JobView) -> bool:
        """Whether a job starts before an earlier one that has a promise."""
        return any(int(group) < job.number for group in self._lines.planned.get(self._cells.request(job).vc, ()))

    def next_start(self, now: Millis) -> Millis | None:
        """The next promised start of a job that is not the head of its line."""
        return self._lines.next_start(now)

    def harmless(self, rows: Iterable[Row], heap: list[Row], now: Millis) -> Row | None:
        """The job of a kind (`heap`) that may start now; None if each would delay another.

        `rows`: all waiting jobs of its VC. Tried are the jobs with a promise, the first job, and the first that would
        end before all promised starts.
        """
        vc = self._cells.request(heap[0][2]).vc  # the name in the core
        starts = self._line(vc, rows, now)
        if starts is None:
            return heap[0]
        times = starts.times()
        rows_by_group = {str(row[2].number): row for row in heap}
        promised = sorted((at, rows_by_group[group]) for group, at in times.items() if group in rows_by_group)
        window = min(times.values(), default=now) - now
        short = min((row for row in heap if self.limit(row[2]) <= window), key=lambda row: row[:2], default=None)
        foresight, tried = self._lines.foresight(self._cells.engine, now, NO_WINDOWS), set[int]()
        for row in (*(row for _, row in promised), heap[0], short):
            if row is not None and row[2].number not in tried:
                tried.add(row[2].number)
                if foresight.delayed_by(self._gang(row[2]), starts) is None:
                    return row
        return None

    def _line(self, vc: str, rows: Iterable[Row], now: Millis) -> LineStarts | None:
        waiting = list(rows)

        def lines() -> dict[str, list[LineGang]]:
            starts = self._lines.planned.get(vc) or {self._lines.heads.get(vc, ""): now}
            first = nsmallest(
                self._lines.rules.most(vc),
                waiting,
                key=lambda row: (row[0], starts.get(str(row[2].number), FOREVER), row[1]),
            )
            return {vc: [self._gang(job) for _, _, job in first]}

        starts = self._lines.renew(self._cells.engine, now, NO_WINDOWS, lines, [vc])[0].get(vc)
        for group, at in ({} if starts is None else starts.times()).items():
            self._note(int(group), at)
        return starts

    def _note(self, number: int, at: Millis) -> None:
        """Record a promise to a waiting job; only the first one counts."""
        self._promised += number not in self._promises
        self._promises.setdefault(number, at)

    def _foresight(self, now: Millis) -> Foresight:
        windows = self._windows.current(now) if self._windows else NO_WINDOWS
        return Foresight(self._cells.engine, now, self._end_of, windows, self._reserved)

    def _gang(self, job: JobView) -> LineGang:
        return LineGang(self._cells.request(job), self.limit(job))

    def counted(self) -> dict[str, float]:
        """Promises made and broken, and jobs that overtook."""
        return {"promises": self._promised, "promises_broken": self.late, "backfilled": self.overtook}
