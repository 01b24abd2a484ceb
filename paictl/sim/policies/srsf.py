"""Shortest remaining service first."""

from __future__ import annotations

from collections.abc import Hashable

from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.ranked import Ranked
from paictl.sim.state import ONE
from paictl.sim.view import JobView


class Srsf(Ranked):
    """Preemptive. Ranks jobs by remaining time times devices. Example: `srsf`."""

    id = "srsf"
    title = "shortest remaining service (time x devices) first"
    paper = "Tiresias (NSDI'19) §2, SymbioticLab/Tiresias@959f9b0 `--schedule=shortest-gpu`"
    knows = frozenset({Knowledge.DURATION})
    choices = ("for a running job, as in srtf: its remaining time runs until its end",)

    def key(self, job: JobView, *, runs: bool) -> int | float:
        """Remaining service, in millionths of a device-millisecond."""
        if not runs:
            return job.remaining(self.now) * job.gpus
        return float("inf") if job.due is None else (job.due - self.now) * job.gpus * ONE

    def lane(self, job: JobView, /) -> Hashable:
        """The number of devices: the service of a larger job falls faster, so it may overtake a smaller one."""
        return job.gpus

    def lane_rank(self, job: JobView) -> int | float:
        """The job that ends first is ahead."""
        return float("inf") if job.due is None else job.due
