"""EASY backfill for `hived`: the same foresight as on a cluster, asked of the core that places the jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import TYPE_CHECKING

from paictl.units import Millis
from paictl.workload.backfill import Foresight, LineGang, StartPromise

if TYPE_CHECKING:
    from paictl.sim.placement.cells import Cells
    from paictl.sim.view import JobView


class SimulatedStarts:
    """Who of each tenant has a promised start, and what became of the promises."""

    def __init__(self, cells: Cells, factor: float, runs: Mapping[int, JobView]) -> None:
        self._cells = cells
        self._factor = factor
        self._runs = runs
        self._ends: dict[int, Millis] = {}
        """Planned ends of those that run, by number."""
        self._promises: dict[int, Millis] = {}
        """The first start that a job was promised."""
        self._made: dict[str, tuple[int, int, Millis, StartPromise | None]] = {}
        self._heads: dict[str, int] = {}
        """The job with a promise, by tenant."""
        self.late = 0
        """Promises that did not hold."""
        self.overtook = 0
        """Jobs that started while another had a promise."""

    def limit(self, job: JobView) -> Millis:
        """How long it may run: as the trace says, else its duration times the factor."""
        return job.limit if job.limit is not None else Millis(max(1000, ceil(job.work * self._factor)))

    def began(self, job: JobView, now: Millis) -> None:
        """It runs from now on."""
        self._ends[job.number] = Millis(now + self.limit(job))
        if (promise := self._promises.get(job.number)) is not None:
            self.late += now > promise
        if self._heads.get(job.vc) == job.number:
            del self._heads[job.vc]
        elif job.vc in self._heads:
            self.overtook += 1

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
                self._promises.setdefault(head.number, made.at)
        return known[3]

    def _foresight(self, now: Millis) -> Foresight:
        return Foresight(self._cells.engine, now, lambda group: self._ends.get(int(group)))

    def _gang(self, job: JobView) -> LineGang:
        return LineGang(self._cells.request(job), self.limit(job))

    def counted(self) -> dict[str, float]:
        """Promises made and broken, and jobs that overtook."""
        return {"promises": len(self._promises), "promises_broken": self.late, "backfilled": self.overtook}
