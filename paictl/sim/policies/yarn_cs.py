"""Philly's scheduler: fair share between tenants, gangs, and locality that is relaxed step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import Literal

from paictl.frozen import frozen
from paictl.sim.actions import Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.locality import ANYWHERE, Locality
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.hived_parameters import shares
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.view import JobView
from paictl.units import Millis


@frozen
class YarnParameters(Parameters):
    """Waiting times, and the conditions of preemption."""

    hold: Span = parameter(Span(150_000), "how long a job holds partial devices while it waits for more")
    backoff: Span = parameter(Span(120_000), "how long it waits before the next try")
    relax: int = parameter(3, "number of tries before it relaxes locality")
    threshold: float = parameter(0.9, "utilization above which jobs of tenants over their share may be preempted")
    checkpoint: bool = parameter(True, "whether a preempted job keeps its progress")
    quotas: Literal["demand", "equal"] = parameter(
        "demand",
        "quotas if the cluster has none: devices by the tenants' GPU time in the trace, or the same number for each",
    )


@dataclass(slots=True)
class Waiting:
    """A job that has not started, with its tries and the devices that it holds."""

    job: JobView
    tries: int = 0
    held: Devices = ()
    until: int = 0
    """End of its hold, or of its back-off."""
    holds: bool = False
    cause: str = ""
    """Why it has waited since `since`."""
    since: int = 0


class YarnCs(Policy):
    """Each tenant has a share of the devices; unused shares are lent. A job takes all its devices at once, or holds
    some for a while. Then it releases them, waits, and tries again; after some tries it accepts less locality.

    Example: `yarn-cs:hold=120,backoff=120,relax=3`.
    """

    id = "yarn-cs"
    title = "Philly's YARN: fair share, locality relaxed after retries, preemption from 90 % use"
    paper = "Jeon et al., Analysis of large-scale multi-tenant GPU clusters (ATC'19) §2.3, §3.1"
    choices = (
        "the number of tries before locality is relaxed is not published: 3, then 3 more",
        "tenants are served by devices in use relative to quota; jobs of tenants over their share are preempted "
        "newest first",
        "a wait counts as `fair share` if the tenant would exceed its quota and too few devices are idle; otherwise "
        "it counts as `fragmentation`. Idle quota is lent.",
        "a preempted job resumes from a checkpoint (`checkpoint=false`: from the beginning)",
        "held devices count as in use for the threshold, but not for the tenant",
    )
    Parameters = YarnParameters
    placement: Locality

    def __init__(self, parameters: YarnParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        nodes = [node.devices for node in self.cluster.nodes]
        self.quota = dict(setup.cluster.spec.quotas) or shares(setup.tenants, nodes, equal=parameters.quotas == "equal")
        self.used: dict[str, int] = defaultdict(int)
        self._waiting: dict[int, Waiting] = {}
        """By number, so in the order of arrival within a tenant."""
        self._running: dict[str, dict[int, JobView]] = defaultdict(dict)
        """By tenant, in the order of the starts."""
        self._holding: set[int] = set()
        """Numbers of jobs in their holding time, whether or not they hold devices; never iterated unsorted."""
        self._parts: dict[str, tuple[int, Fraction]] = {}
        """By tenant: (devices in use, devices in use / quota)."""
        self._timers: list[tuple[Millis, int]] = []
        self._delays: dict[int, dict[str, int]] = defaultdict(dict)
        self._counts: dict[str, float] = defaultdict(float)

    def make_placement(self) -> Placer:
        """Servers, racks, domains."""
        return Locality(self.cluster)

    # --- events

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Free the devices and update the tenant's use."""
        super().ended(job, devices)
        self.used[job.vc] -= len(devices)
        self._running[job.vc].pop(job.number, None)

    def plan(self, moment: Trigger) -> None:
        """Try jobs that arrived or whose back-off is over; jobs that hold devices try again if any were freed."""
        for job in moment.arrived:
            self._waiting[job.number] = Waiting(job, since=self.now)
        trying = {job.number for job in moment.arrived} | set(self._due())
        if moment.ended:
            trying |= self._holding
        for waiting in self._by_share(trying):
            self._try(waiting)

    def _due(self) -> Iterator[int]:
        while self._timers and self._timers[0][0] <= self.now:
            at, number = heappop(self._timers)
            waiting = self._waiting.get(number)
            if waiting is None or waiting.until != at:
                continue
            if waiting.holds:
                self._let_go(waiting)
            else:
                yield number

    def _by_share(self, trying: set[int]) -> Iterator[Waiting]:
        """Jobs to try: next is always the first job of the tenant with the least use by its quota."""
        lines: dict[str, list[int]] = defaultdict(list)
        for number in sorted(trying, reverse=True):
            if number in self._waiting:
                lines[self._waiting[number].job.vc].append(number)
        while lines:
            vc = min(lines, key=lambda vc: (self._part(vc), vc))
            yield self._waiting[lines[vc].pop()]
            if not lines[vc]:
                del lines[vc]

    def _part(self, vc: str) -> Fraction:
        used = self.used[vc]
        cached = self._parts.get(vc)
        if cached is None or cached[0] != used:
            self._parts[vc] = cached = used, Fraction(used, max(1, self.quota.get(vc, 0)))
        return cached[1]

    # --- one job

    def _try(self, waiting: Waiting) -> None:
        job = waiting.job
        held = waiting.held
        if held:
            self.placement.give(held)
            waiting.held = ()
        devices = self.placement.at(job, job.gpus, self._degree(waiting))
        if devices is None:
            devices = self._by_force(waiting)
        if devices is not None:
            self._begin(waiting, devices)
            return
        self._blame(waiting)
        if not waiting.holds:
            waiting.holds = True
            self._holding.add(job.number)
            self._until(waiting, self.p.hold)
        waiting.held = self.placement.some(job, job.gpus, self._degree(waiting)) if self.p.hold else ()

    def _degree(self, waiting: Waiting) -> int:
        relaxed: int = waiting.tries // max(1, self.p.relax)
        return min(ANYWHERE, relaxed)

    def _begin(self, waiting: Waiting, devices: Devices) -> None:
        job = waiting.job
        self._charge(waiting)
        del self._waiting[job.number]
        self._holding.discard(job.number)
        first = next((other for other in self._waiting.values() if other.job.vc == job.vc), None)
        self._counts["starts"] += 1
        self._counts["out_of_order"] += first is not None and first.job.number < job.number
        self._counts[f"starts_at_degree.{self._degree(waiting)}"] += 1
        self.used[job.vc] += len(devices)
        self._running[job.vc][job.number] = job
        self.hold(job, devices)
        self.act(Start(job, devices))

    def _let_go(self, waiting: Waiting) -> None:
        """The holding time is over: release all devices and back off."""
        if waiting.held:
            self.placement.give(waiting.held)
        waiting.held, waiting.holds = (), False
        self._holding.discard(waiting.job.number)
        waiting.tries += 1
        self._until(waiting, self.p.backoff)

    def _until(self, waiting: Waiting, span: int) -> None:
        at = Millis(self.now + max(1, span))
        waiting.until = at
        heappush(self._timers, (at, waiting.job.number))

    def wake(self) -> Millis | None:
        """The next end of a hold or of a back-off."""
        return self._timers[0][0] if self._timers else None

    # --- preemption

    def _by_force(self, waiting: Waiting) -> Devices | None:
        """Devices for a job, taken from jobs of tenants over their share, newest first.

        None unless the cluster is nearly full, the job's own tenant stays within its share, and preemption makes room.
        """
        job, book = waiting.job, self.placement
        if self.used[job.vc] + job.gpus > self.quota.get(job.vc, 0):
            return None
        if self.cluster.size - book.free < self.p.threshold * self.cluster.size:
            return None
        victims: list[JobView] = []
        over = {vc: used - self.quota.get(vc, 0) for vc, used in sorted(self.used.items())}
        candidates = sorted(
            ((other.since, other.number, other) for vc in over if over[vc] > 0 for other in self._running[vc].values()),
            reverse=True,
        )
        for _, _, other in candidates:
            # a job that started at this instant stays, and no tenant is brought below its share
            if over[other.vc] < len(self.held(other)) or not other.running:
                continue
            over[other.vc] -= len(self.held(other))
            victims.append(other)
            book.give(self.held(other))
            if (devices := book.at(job, job.gpus, self._degree(waiting))) is not None:
                self._evict(victims)
                return devices
        for other in victims:
            book.claim(self.held(other))
        return None

    def _evict(self, victims: list[JobView]) -> None:
        for job in victims:
            self.used[job.vc] -= len(self.held(job))
            del self._running[job.vc][job.number]
            self.let_go(job)
            self.act(Preempt(job, keep=self.p.checkpoint))
            self._counts["fair_share_preemptions"] += 1
            self._waiting[job.number] = waiting = Waiting(job, since=self.now, cause="fair-share")
            self._until(waiting, self.p.backoff)

    # --- causes of delay

    def _blame(self, waiting: Waiting) -> None:
        """Determine the cause for which the job waits from now on."""
        self._charge(waiting)
        gpus, vc = waiting.job.gpus, waiting.job.vc
        idle = self.cluster.size - sum(self.used.values())
        over = self.used[vc] + gpus > self.quota.get(vc, 0)
        waiting.cause = "fair-share" if over and idle < gpus else "fragmentation"

    def _charge(self, waiting: Waiting) -> None:
        span = self.now - waiting.since
        waiting.since = self.now
        if span and waiting.cause:
            delays = self._delays[waiting.job.number]
            delays[waiting.cause] = delays.get(waiting.cause, 0) + span
            for name in (waiting.job.vc, _size_class(waiting.job.gpus)):
                self._counts[f"delay_causes.{name}.{waiting.cause}"] += span / 1000

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """Milliseconds by cause of delay."""
        return {f"delay.{cause}": span for cause, span in sorted(self._delays.pop(job.number, {}).items())}

    def counted(self) -> Mapping[str, float]:
        """`delay_causes.TENANT.CAUSE` and `delay_causes.gpus-SIZE.CAUSE` in seconds, and counts of events."""
        return dict(sorted(self._counts.items()))


def _size_class(gpus: int) -> str:
    return "gpus-1" if gpus == 1 else "gpus-2-4" if gpus <= 4 else "gpus-5-8" if gpus <= 8 else "gpus-over-8"
