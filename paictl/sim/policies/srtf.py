"""Shortest remaining time first."""

from __future__ import annotations

from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.ranked import Ranked
from paictl.sim.state import ONE
from paictl.sim.view import JobView


class Srtf(Ranked):
    """Preemptive; ranks by the run time that is left, however many devices a job has. Example: `srtf:resume=60`."""

    id = "srtf"
    title = "shortest remaining time first"
    paper = "textbook; Tiresias (NSDI'19), SymbioticLab/Tiresias@959f9b0 `--schedule=shortest`"
    knows = frozenset({Knowledge.DURATION})
    choices = (
        "a job that runs is ranked by when it would be done, what its start still costs included; one that waits by "
        "its remaining work on its reference",
    )

    def key(self, job: JobView, *, runs: bool) -> int | float:
        """Remaining time, in millionths of a millisecond."""
        if not runs:
            return job.remaining(self.now)
        return float("inf") if job.due is None else (job.due - self.now) * ONE

    def lane_rank(self, job: JobView) -> int | float:
        """Who is done first is always ahead: time passes for all of them alike."""
        return float("inf") if job.due is None else job.due
