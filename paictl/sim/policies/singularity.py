"""Singularity: any job can be preempted, moved and resized without knowing it; a tier is promised a part of theirs."""

from __future__ import annotations

from collections.abc import Mapping

from paictl.frozen import frozen
from paictl.sim.actions import Preempt, Resize, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.job import Share
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.view import JobView


@frozen
class SingularityParameters(Parameters):
    """`singularity:sla=0.7,resize=20`."""

    sla: float = parameter(0.7, "part of what it asked for that a guaranteed job always has once it started", most=1)
    overhead: float = parameter(0.03, "part of every rate that the device proxy costs", most=0.99)
    resume: Span = parameter(Span(20_000), "a job that starts again pays this")
    resize: Span = parameter(Span(20_000), "a job that is resized pays this")
    migrate: Span = parameter(Span(20_000), "a job that moves pays this")


def steps(gpus: int) -> list[int]:
    """Numbers of devices that replicas can be time-sliced on evenly: the divisors of how many there are, rising."""
    return [number for number in range(1, gpus + 1) if gpus % number == 0]


class Singularity(Policy):
    """Guaranteed jobs start with the part they were promised; what is left makes jobs whole, then serves the others.

    A job keeps its world size: on fewer devices its replicas take turns, so it slows down in proportion and its work
    stays the same. Example: `singularity:sla=0.5`.
    """

    id = "singularity"
    title = "transparent elasticity: shares of devices by tier, work-conserving"
    paper = "Shukla et al., arXiv 2202.07848, from secondary source only; no trace or figure of it is public"
    transparent = True
    Parameters = SingularityParameters
    choices = (
        "two tiers: guaranteed jobs are promised `sla` of their devices, opportunistic ones nothing",
        "rate = devices / asked * (1 - overhead), 3 % as the paper's bound; a resize, resume or move costs 20 s",
        "sizes are divisors of what was asked for, so that replicas are sliced evenly",
        "in the order of arrival: promised parts (whoever runs before whoever waits), then guaranteed jobs whole, then "
        "opportunistic ones; whoever has its promised part never loses it",
    )

    def __init__(self, parameters: SingularityParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._jobs: dict[int, JobView] = {}

    def plan(self, moment: Trigger) -> None:
        """Share anew: only arrivals and ends change anything."""
        for job in moment.arrived:
            self._jobs[job.number] = job
        for job in moment.ended:
            del self._jobs[job.number]
        wanted = self._shares()
        for job in list(self._jobs.values()):  # first everybody who gives, so that the others find it
            have, want = self.held(job), wanted.get(job.number, 0)
            if have and want < len(have):
                self._shrink(job, have, want)
        for number, want in wanted.items():
            have = self.held(self._jobs[number])
            if want > len(have):
                self._grow(self._jobs[number], have, want)

    def _shares(self) -> Mapping[int, int]:
        """Devices by job."""
        left = self.cluster.size
        given: dict[int, int] = {}
        tiers = sorted(self._jobs.values(), key=lambda job: (job.share is Share.OPPORTUNISTIC, job.number))
        for job in sorted(tiers, key=lambda job: (not self.held(job), job.number)):
            if job.share is Share.GUARANTEED:
                part = self._promised(job)
                if part <= left:
                    given[job.number] = part
                    left -= part
        for job in tiers:
            if job.share is Share.GUARANTEED and job.number not in given:
                continue
            have = given.get(job.number, 0)
            most = max((size for size in steps(job.gpus) if size - have <= left), default=have)
            if most > have:
                given[job.number] = most
                left -= most - have
        return given

    def _promised(self, job: JobView) -> int:
        return next(size for size in steps(job.gpus) if size >= self.p.sla * job.gpus)

    def _shrink(self, job: JobView, have: Devices, want: int) -> None:
        self.placement.give(have[want:])
        if not want:
            self.let_go(job)
            self.act(Preempt(job))
            return
        self.hold(job, have[:want])
        self.act(Resize(job, have[:want]))

    def _grow(self, job: JobView, have: Devices, want: int) -> None:
        more = self.placement.take(job, want - len(have))
        if more is None:
            return
        devices = tuple(sorted((*have, *more)))
        self.hold(job, devices)
        self.act(Resize(job, devices) if have else Start(job, devices))
