"""Backfill for `hived`: the same foresight as on a cluster, asked of the core that places the jobs."""

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
"""A job that waits: (-priority, turn, job)."""


def limit_of(job: JobView, factor: float) -> Millis:
    """How long a job may run: as the trace says, else its duration times the factor."""
    return job.limit if job.limit is not None else Millis(max(1000, ceil(job.work * factor)))


class SimulatedStarts:
    """Who of each tenant has a promised start, and what became of the promises."""

    def __init__(
        self, cells: Cells, factor: float, runs: Mapping[int, JobView], mode: str = BackfillMode.EASY,
        windows: Windows = NO_WINDOWS, reserved: KeptCells | None = None,
    ) -> None:  # fmt: skip
        self._cells = cells
        self._factor = factor
        self._runs = runs
        self._windows = windows
        self._reserved = reserved
        self._ends: dict[int, Millis] = {}
        """Planned ends of those that run, by number."""
        self._promises: dict[int, Millis] = {}
        """The first start that a job was promised which has not started since."""
        self._promised = 0
        """Promises ever made."""
        self._made: dict[str, tuple[int, int, Millis, StartPromise | None]] = {}
        self._heads: dict[str, int] = {}
        """The job with a promise, by tenant."""
        rules = BackfillRules([BackfillRule("", BackfillMode(mode))])
        self._lines = StartPromises(rules, self._end_of)
        """The promises to all in line, where not only the head has one."""
        self._lines.reserved = reserved
        self.promises_all = (  # as doors fall back
            rules.mode("") is BackfillMode.CONSERVATIVE and not windows and reserved is None
        )
        self.late = 0
        """Promises that did not hold."""
        self.overtook = 0
        """Jobs that started while another had a promise."""

    def _end_of(self, group: str) -> Millis | None:
        return self._ends.get(self._cells.number_of(group))

    def limit(self, job: JobView) -> Millis:
        """How long it may run: as the trace says, else its duration times the factor."""
        return limit_of(job, self._factor)

    def began(self, job: JobView, now: Millis) -> None:
        """It runs from now on."""
        self._ends[job.number] = Millis(now + self.limit(job))
        promise = self._promises.pop(job.number, None)  # if it is preempted later, it gets another one
        if promise is not None:
            self.late += now > promise
        if self._heads.get(job.vc) == job.number:
            del self._heads[job.vc]
        elif job.vc in self._heads or self._goes_before(job):
            self.overtook += 1

    def moved(self, job: JobView, now: Millis) -> None:
        """It starts again elsewhere, and may run as long as from the beginning."""
        self._ends[job.number] = Millis(now + self.limit(job))

    def renumber(self, job: JobView, after: JobView) -> None:
        """Its next attempt keeps its devices, and its planned end."""
        if job.number in self._ends:
            self._ends[after.number] = self._ends.pop(job.number)

    def gone(self, job: JobView) -> None:
        """It does not run any more."""
        self._ends.pop(job.number, None)

    def head(self, vc: str, first: Callable[[], JobView]) -> int:
        """The number of the job that is promised a start: who has it keeps it until it starts."""
        return self._heads.setdefault(vc, first().number)

    def delays(self, job: JobView, head: JobView, now: Millis) -> bool:
        """Whether a job would delay the promised start of another if it started now."""
        promise = self._promise(head, now)
        return promise is not None and self._foresight(now).delayed(self._gang(job), promise)

    def window(self, head: JobView, now: Millis) -> Millis | None:
        """For how long a job may run that certainly does not delay it; None if nothing is promised."""
        promise = self._promise(head, now)
        return None if promise is None or promise.at is None else Millis(promise.at - now)

    def _promise(self, head: JobView, now: Millis) -> StartPromise | None:
        version = self._cells.engine.version
        known = self._made.get(head.vc)
        if known is None or known[:3] != (head.number, version, now):
            made = self._foresight(now).promise([self._gang(head)])
            known = self._made[head.vc] = head.number, version, now, made
            if made is not None and made.at is not None:
                self._note(head.number, made.at)
        return known[3]

    # --- a promise for each in line

    def _goes_before(self, job: JobView) -> bool:
        """Whether a job starts before one that came earlier and has a promise."""
        return any(int(group) < job.number for group in self._lines.planned.get(self._cells.request(job).vc, ()))

    def next_start(self, now: Millis) -> Millis | None:
        """When the next of those starts at the latest who are not the head of their line."""
        return self._lines.next_start(now)

    def harmless(self, rows: Iterable[Row], heap: list[Row], now: Millis) -> Row | None:
        """The job of a kind that may start now; None if each would delay another. `rows` are all that wait in its VC.

        Of those without a promise the first is asked about, and the first that would end before all promised starts.
        """
        vc = self._cells.request(heap[0][2]).vc  # as the core calls it
        starts = self._line(vc, rows, now)
        if starts is None:
            return heap[0]
        times = starts.times()
        mine = {str(row[2].number): row for row in heap}
        promised = sorted((at, mine[group]) for group, at in times.items() if group in mine)
        window = min(times.values(), default=now) - now
        short = min((row for row in heap if self.limit(row[2]) <= window), key=lambda row: row[:2], default=None)
        foresight, asked = self._lines.foresight(self._cells.engine, now, NO_WINDOWS), set[int]()
        for row in (*(row for _, row in promised), heap[0], short):
            if row is not None and row[2].number not in asked:
                asked.add(row[2].number)
                if foresight.delayed_by(self._gang(row[2]), starts) is None:
                    return row
        return None

    def _line(self, vc: str, rows: Iterable[Row], now: Millis) -> LineStarts | None:
        waiting = list(rows)

        def lines() -> dict[str, list[LineGang]]:
            known = self._lines.planned.get(vc) or {self._lines.heads.get(vc, ""): now}
            first = nsmallest(
                self._lines.rules.most(vc), waiting,
                key=lambda row: (row[0], known.get(str(row[2].number), FOREVER), row[1]),
            )  # fmt: skip
            return {vc: [self._gang(job) for _, _, job in first]}

        starts = self._lines.renew(self._cells.engine, now, NO_WINDOWS, lines, [vc])[0].get(vc)
        for group, at in ({} if starts is None else starts.times()).items():
            self._note(int(group), at)
        return starts

    def _note(self, number: int, at: Millis) -> None:
        """A job that waits is promised a start; the first promise counts."""
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
