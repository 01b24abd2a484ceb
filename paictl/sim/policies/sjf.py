"""Shortest job first, without preemption."""

from __future__ import annotations

from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.queue import Queue
from paictl.sim.view import JobView


class Sjf(Queue):
    """Waiting jobs are tried by run time, shortest first, and start if there is a place. Running jobs keep running.
    Example: `sjf`."""

    id = "sjf"
    title = "shortest job first, no preemption"
    paper = "textbook; as a baseline in Tiresias (NSDI'19)"
    knows = frozenset({Knowledge.DURATION})
    choices = ("a job that does not fit is skipped, as in all policies of Tiresias' simulator except fifo",)

    def key(self, job: JobView, /) -> int:
        """The job's work, in milliseconds at the reference."""
        return job.work
