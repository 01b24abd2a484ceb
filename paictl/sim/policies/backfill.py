"""First in, first out, but jobs that fit may overtake."""

from __future__ import annotations

from paictl.sim.policies.queue import Queue
from paictl.sim.view import JobView


class Backfill(Queue):
    """Waiting jobs are tried in the order of (submission, row of the trace). Each starts if there is a place for it.

    Nothing is reserved for waiting jobs, so large jobs can starve (unlike EASY backfill, which knows durations). With
    `placement=consolidate` it is what Tiresias' paper calls "best-effort". Example: `backfill`.
    """

    id = "backfill"
    title = "first in, first out; jobs that fit overtake"
    paper = "Tiresias (NSDI'19) §6, baseline; simulator SymbioticLab/Tiresias@959f9b0 `--schedule=fjf`"

    def key(self, _: JobView, /) -> int:
        """The same for all jobs: they go by the order of arrival."""
        return 0
