"""Singularity: any job can be preempted, moved and resized without knowing it; a tier is promised a part of theirs."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from functools import cache
from heapq import heappop, heappush

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

    sla: float = parameter(0.7, "share of its request that a started guaranteed job always keeps", most=1)
    overhead: float = parameter(0.03, "share of every rate that the device proxy costs", most=0.99)
    resume: Span = parameter(Span(20_000), "cost of a restart")
    resize: Span = parameter(Span(20_000), "cost of a resize")
    migrate: Span = parameter(Span(20_000), "cost of a move")


@cache
def steps(gpus: int) -> list[int]:
    """Numbers of devices that replicas can be time-sliced on evenly: the divisors of how many there are, rising."""
    return [number for number in range(1, gpus + 1) if gpus % number == 0]


class Singularity(Policy):
    """Guaranteed jobs start with their promised share. Remaining devices first complete these jobs, then serve the
    others.

    A job keeps its world size. On fewer devices its replicas take turns, so it slows down in proportion and its total
    work stays the same. Example: `singularity:sla=0.5`.
    """

    id = "singularity"
    title = "transparent elasticity: shares of devices by tier, work-conserving"
    paper = "Shukla et al., arXiv 2202.07848, from secondary source only; no trace or figure of it is public"
    transparent = True
    Parameters = SingularityParameters
    endures = True
    choices = (
        "two tiers: guaranteed jobs are promised `sla` of their devices, opportunistic jobs nothing",
        "rate = devices / asked * (1 - overhead), 3 % as the paper's bound; a resize, resume or move costs 20 s",
        "sizes are divisors of the request, so that replicas are sliced evenly",
        "in the order of arrival: promised shares (running jobs before waiting ones), then the rest of guaranteed "
        "jobs, then opportunistic jobs; a job never loses its promised share",
    )

    def __init__(self, parameters: SingularityParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._jobs: dict[int, JobView] = {}
        self._lines: dict[int, list[int]] = {}
        """Guaranteed jobs that wait: heaps of numbers by promised part, of which only the first can be the next."""
        self._kept = 0
        """Devices promised to guaranteed jobs that run."""
        self._elastic: list[int] = []
        """Guaranteed jobs that run and ask for more than they were promised, by number."""
        self._others: list[int] = []
        """Opportunistic jobs, by number."""
        self._guests: set[int] = set()
        """Those of them that run."""

    def plan(self, moment: Trigger) -> None:
        """Share anew: only arrivals and ends change anything, and of those who wait only the first of each part."""
        for job in moment.ended:
            self._leave(job)
        for job in moment.arrived:
            self._jobs[job.number] = job
            if job.share is Share.GUARANTEED:
                heappush(self._lines.setdefault(self._promised(job), []), job.number)
            else:
                self._others.append(job.number)  # numbers rise
        wanted = self._shares()
        for number in sorted((*self._elastic, *self._guests)):  # first everybody who gives, so that the others find it
            job = self._jobs[number]
            have, want = self.held(job), wanted.get(number, 0)
            if want < len(have):
                self._shrink(job, have, want)
        for number, want in wanted.items():
            job = self._jobs[number]
            have = self.held(job)
            if want > len(have):
                self._grow(job, have, want)

    def _leave(self, job: JobView) -> None:
        del self._jobs[job.number]
        if job.share is Share.GUARANTEED:
            self._kept -= self._promised(job)
            if self._promised(job) < job.gpus:
                self._elastic.remove(job.number)
        else:
            del self._others[bisect_left(self._others, job.number)]
            self._guests.discard(job.number)

    def _shares(self) -> Mapping[int, int]:
        """Devices by job, of all whose number of devices can change: who runs, then who starts, then the others."""
        left = self.cluster.size - self._kept
        given = {number: self._promised(self._jobs[number]) for number in self._elastic}
        for number, part in self._starting(left):
            given[number] = part
            left -= part
        for number in sorted(given):
            left -= self._widen(number, given, left)
        for number in self._others:
            if not left:
                break
            left -= self._widen(number, given, left)
        return given

    def _widen(self, number: int, given: dict[int, int], left: int) -> int:
        """Give a job as much more of what is left as its replicas can use; how much that is."""
        have = given.get(number, 0)
        most = max((size for size in steps(self._jobs[number].gpus) if size - have <= left), default=have)
        if most > have:
            given[number] = most
        return max(0, most - have)

    def _starting(self, left: int) -> list[tuple[int, int]]:
        """Guaranteed jobs that wait and whose promised part is left, in the order of arrival: (number, part)."""
        found: list[tuple[int, int]] = []
        while ahead := [(line[0], part) for part, line in self._lines.items() if part <= left]:
            number, part = min(ahead)
            heappop(self._lines[part])
            if not self._lines[part]:
                del self._lines[part]
            found.append((number, part))
            left -= part
        return found

    def _promised(self, job: JobView) -> int:
        return next(size for size in steps(job.gpus) if size >= self.p.sla * job.gpus)

    def _shrink(self, job: JobView, have: Devices, want: int) -> None:
        self.placement.give(have[want:])
        if not want:  # an opportunistic one: who was promised something keeps that
            self._guests.discard(job.number)
            self.let_go(job)
            self.act(Preempt(job))
            return
        self.hold(job, have[:want])
        self.act(Resize(job, have[:want]))

    def _grow(self, job: JobView, have: Devices, want: int) -> None:
        guaranteed = job.share is Share.GUARANTEED
        more = self.placement.take(job, want - len(have))
        if more is None:
            if guaranteed and not have:
                heappush(self._lines.setdefault(self._promised(job), []), job.number)
            return
        if not guaranteed:
            self._guests.add(job.number)
        elif not have:
            self._kept += self._promised(job)
            if self._promised(job) < job.gpus:
                insort(self._elastic, job.number)
        devices = tuple(sorted((*have, *more)))
        self.hold(job, devices)
        self.act(Resize(job, devices) if have else Start(job, devices))
