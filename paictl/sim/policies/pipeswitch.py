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

    resume: Span = parameter(Span(30), "changing over to a job that ran before")
    profile: Span = parameter(Span(30), "changing over to a job for the first time: its model is on the host already")


class PipeSwitch(Ranked):
    """Jobs with a deadline (inference) preempt those without (training) at once; training has what is left.

    Example: `pipeswitch` against `pipeswitch:resume=6,profile=6`, what stopping one process and starting another costs.
    """

    id = "pipeswitch"
    title = "inference preempts training on the same devices, changing over in milliseconds"
    paper = "Bai et al., OSDI'20, from secondary source only: 5.4 to 34.6 ms a change, seconds for stop-and-start"
    knows = frozenset({Knowledge.DEADLINE})
    Parameters = PipeSwitchParameters
    choices = (
        "a change costs 30 ms, near the paper's largest (34.6 ms); it is the job's that is changed to",
        "inference is what has a deadline, and goes by it; training goes by its arrival",
    )

    def key(self, job: JobView, *, runs: bool) -> Key:
        """Inference by deadline, then training by arrival."""
        del runs
        return (0, job.deadlines[0].time) if job.deadlines else (1, 0)
