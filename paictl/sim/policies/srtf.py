"""Shortest remaining time first."""

from __future__ import annotations

from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.ranked import Ranked
from paictl.sim.state import ONE
from paictl.sim.view import JobView


class Srtf(Ranked):
    """Preemptive. Ranks jobs by remaining run time, regardless of their number of devices. Example:
    `srtf:resume=60`."""

    id = "srtf"
    title = "shortest remaining time first"
    paper = "textbook; Tiresias (NSDI'19), SymbioticLab/Tiresias@959f9b0 `--schedule=shortest`"
    knows = frozenset({Knowledge.DURATION})
    choices = (
        "a running job is ranked by its end, including the remaining cost of its start; a waiting job by its "
        "remaining work on the reference device",
    )

    def key(self, job: JobView, *, runs: bool) -> int | float:
        """Remaining time, in millionths of a millisecond."""
        if not runs:
            return job.remaining(self.now)
        return float("inf") if job.due is None else (job.due - self.now) * ONE

    def lane_rank(self, job: JobView) -> int | float:
        """The job that ends first is always ahead, because time passes equally for all of them."""
        return float("inf") if job.due is None else job.due
