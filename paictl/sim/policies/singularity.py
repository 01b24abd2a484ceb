"""Singularity: jobs are preempted, moved and resized transparently; guaranteed jobs keep a share of their size."""

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
    """Numbers of devices on which `gpus` replicas can be time-sliced evenly: the divisors of `gpus`, rising."""
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
        """Waiting guaranteed jobs: heaps of numbers by promised devices; only the first of a heap can be the next."""
        self._promised_devices = 0
        """Devices promised to running guaranteed jobs."""
        self._elastic: list[int] = []
        """Numbers of running guaranteed jobs that can use more than their promise, rising."""
        self._others: list[int] = []
        """Numbers of opportunistic jobs, rising."""
        self._guests: set[int] = set()
        """Numbers of running opportunistic jobs."""

    def plan(self, moment: Trigger) -> None:
        """Recompute all shares. Only arrivals and ends change them, and only the first job of each heap can start."""
        for job in moment.ended:
            self._leave(job)
        for job in moment.arrived:
            self._jobs[job.number] = job
            if job.share is Share.GUARANTEED:
                heappush(self._lines.setdefault(self._promised(job), []), job.number)
            else:
                self._others.append(job.number)  # numbers rise
        targets = self._shares()
        for number in sorted((*self._elastic, *self._guests)):  # shrink first, so that the others find free devices
            job = self._jobs[number]
            devices, target = self.held(job), targets.get(number, 0)
            if target < len(devices):
                self._shrink(job, devices, target)
        for number, target in targets.items():
            job = self._jobs[number]
            devices = self.held(job)
            if target > len(devices):
                self._grow(job, devices, target)

    def _leave(self, job: JobView) -> None:
        del self._jobs[job.number]
        if job.share is Share.GUARANTEED:
            self._promised_devices -= self._promised(job)
            if self._promised(job) < job.gpus:
                self._elastic.remove(job.number)
        else:
            del self._others[bisect_left(self._others, job.number)]
            self._guests.discard(job.number)

    def _shares(self) -> Mapping[int, int]:
        """Devices by job, for all jobs whose number can change: running, starting, then opportunistic jobs."""
        free = self.cluster.size - self._promised_devices
        counts = {number: self._promised(self._jobs[number]) for number in self._elastic}
        for number, promised in self._starting(free):
            counts[number] = promised
            free -= promised
        for number in sorted(counts):
            free -= self._widen(number, counts, free)
        for number in self._others:
            if not free:
                break
            free -= self._widen(number, counts, free)
        return counts

    def _widen(self, number: int, counts: dict[int, int], free: int) -> int:
        """Give a job as many of the `free` devices as its replicas can use; returns how many."""
        current = counts.get(number, 0)
        widest = max((size for size in steps(self._jobs[number].gpus) if size - current <= free), default=current)
        if widest > current:
            counts[number] = widest
        return max(0, widest - current)

    def _starting(self, free: int) -> list[tuple[int, int]]:
        """(number, promised devices) of waiting guaranteed jobs whose promise fits, in the order of arrival."""
        starting: list[tuple[int, int]] = []
        while ahead := [(line[0], promised) for promised, line in self._lines.items() if promised <= free]:
            number, promised = min(ahead)
            heappop(self._lines[promised])
            if not self._lines[promised]:
                del self._lines[promised]
            starting.append((number, promised))
            free -= promised
        return starting

    def _promised(self, job: JobView) -> int:
        return next(size for size in steps(job.gpus) if size >= self.p.sla * job.gpus)

    def _shrink(self, job: JobView, devices: Devices, target: int) -> None:
        self.placement.give(devices[target:])
        if not target:  # an opportunistic job: guaranteed ones keep their promise
            self._guests.discard(job.number)
            self.let_go(job)
            self.act(Preempt(job))
            return
        self.hold(job, devices[:target])
        self.act(Resize(job, devices[:target]))

    def _grow(self, job: JobView, devices: Devices, target: int) -> None:
        guaranteed = job.share is Share.GUARANTEED
        added = self.placement.take(job, target - len(devices))
        if added is None:
            if guaranteed and not devices:
                heappush(self._lines.setdefault(self._promised(job), []), job.number)
            return
        if not guaranteed:
            self._guests.add(job.number)
        elif not devices:
            self._promised_devices += self._promised(job)
            if self._promised(job) < job.gpus:
                insort(self._elastic, job.number)
        grown = tuple(sorted((*devices, *added)))
        self.hold(job, grown)
        self.act(Resize(job, grown) if devices else Start(job, grown))
