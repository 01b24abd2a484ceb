"""PipeSwitch: training fills the gaps that inference leaves, because changing over costs milliseconds."""

from __future__ import annotations

from paictl.frozen import frozen
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Parameters
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.policies.queue import Key
from paictl.sim.policies.ranked import Ranked
from paictl.sim.view import JobView


@frozen
class PipeSwitchParameters(Parameters):
    """`pipeswitch:resume=6,profile=6` is stop-and-start."""

    resume: Span = parameter(Span(30), "time to switch to a job that ran before")
    profile: Span = parameter(Span(30), "time to switch to a job for the first time (its model is already on the host)")


class PipeSwitch(Ranked):
    """Jobs with a deadline (inference) preempt jobs without one (training) at once. Training gets the remaining
    devices.

    Example: compare `pipeswitch` with `pipeswitch:resume=6,profile=6`, the cost of stopping one process and starting
    another.
    """

    id = "pipeswitch"
    title = "inference preempts training on the same devices; switching takes milliseconds"
    paper = "Bai et al., OSDI'20, from secondary source only: 5.4 to 34.6 ms a change, seconds for stop-and-start"
    knows = frozenset({Knowledge.DEADLINE})
    Parameters = PipeSwitchParameters
    choices = (
        "a switch costs 30 ms, near the paper's largest (34.6 ms); the job that starts pays it",
        "jobs with a deadline are inference, ordered by deadline; training jobs are ordered by arrival",
    )

    def key(self, job: JobView, *, runs: bool) -> Key:
        """Inference by deadline, then training by arrival."""
        del runs
        return (0, job.deadlines[0].time) if job.deadlines else (1, 0)
