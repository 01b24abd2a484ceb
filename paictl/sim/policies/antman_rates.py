"""How fast jobs run under AntMan: guaranteed ones as if alone, opportunistic ones on what these leave of a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import fsum
from typing import Final

from paictl.sim.cluster import Cluster
from paictl.sim.job import Job
from paictl.sim.rates import Rates
from paictl.sim.state import ONE, JobProgress

_STAGES: Final = ("stage.cpu", "stage.gpu", "stage.network")
"""Facts of a job: how much of each step it spends there, in milliseconds (Muri's traces)."""

Step = tuple[float, ...]
"""The length of a step, then of its stages; milliseconds."""


class AntManRates(Rates):
    """A guaranteed job runs as if alone; the others share what it leaves, in equal parts."""

    def __init__(self, cluster: Cluster, leading: set[int], epsilon: float, overhead: float) -> None:
        super().__init__(cluster, overhead=overhead)
        self._leading = leading
        self._epsilon = epsilon

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """Units of work a millisecond."""
        rate = self.alone(state.job, state.devices) * (1.0 - self.overhead)
        if company:
            rate *= self._part(state, company)
        return round(rate * ONE)

    def _part(self, state: JobProgress, company: Sequence[JobProgress]) -> float:
        if state.number in self._leading:
            return 1.0 - self._epsilon
        leaders = [other.job for other in company if other.number in self._leading]
        room = min((_beside(state.job, leader) for leader in leaders), default=1.0)
        return room / (1 + len(company) - len(leaders))


def _beside(job: Job, leader: Job) -> float:
    """The part of its rate that a guaranteed job on its devices leaves to another job."""
    own, other = _step(job), _step(leader)
    if own is None or other is None:
        return max(0.0, 1.0 - leader.gpu_util)
    return interleaved(own, other)


def _step(job: Job) -> Step | None:
    if not job.iterations or not all(name in job.facts for name in _STAGES):
        return None
    return job.work / job.iterations, *(job.facts[name] for name in _STAGES)


@lru_cache(maxsize=4096)
def interleaved(own: Step, leader: Step) -> float:
    """The rate of a job whose stages run only while the leader is not in the same stage.

    Both go through their stages in turn, again and again; the leader waits for nobody. One step of the job is walked
    through from the beginning of a step of the leader. A stage that the leader never leaves is never done: 0.
    """
    period = fsum(leader[1:])
    steps, stage, elapsed = 0, 1, 0.0  # where the leader is
    for place, time in enumerate(own[1:], 1):
        open_ = period - leader[place]
        if time <= 0:
            continue
        if open_ <= 0:
            return 0.0
        whole, left = divmod(time, open_)
        steps += int(whole)
        while left > 0:
            if stage != place:
                span = leader[stage] - elapsed
                if span > left:
                    elapsed += left
                    break
                left -= span
            stage, elapsed = stage + 1, 0.0
            if stage == len(leader):
                stage, steps = 1, steps + 1
    taken = (steps + (fsum(leader[1:stage]) + elapsed) / period) * leader[0]
    return min(1.0, own[0] / taken) if taken > 0 else 1.0
