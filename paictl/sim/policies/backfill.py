"""First in, first out, but whoever fits may overtake."""

from __future__ import annotations

from paictl.sim.policies.queue import Queue
from paictl.sim.view import JobView


class Backfill(Queue):
    """Every waiting job is tried in the order of (submission, row of the trace) and starts if there is a place for it.

    Nothing is reserved for those who wait, so large jobs can starve (this is not EASY backfill, which knows durations).
    With `placement=consolidate` it is what Tiresias' paper calls "best-effort". Example: `backfill`.
    """

    id = "backfill"
    title = "first in, first out; whoever fits overtakes"
    paper = "Tiresias (NSDI'19) §6, baseline; simulator SymbioticLab/Tiresias@959f9b0 `--schedule=fjf`"

    def key(self, _: JobView, /) -> int:
        """None beside the order of arrival."""
        return 0
