"""AntMan: jobs with a guarantee own their devices, opportunistic ones live on what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Trigger
from paictl.sim.cluster import Cluster, Devices
from paictl.sim.job import Share
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import parameter
from paictl.sim.rates import Rates
from paictl.sim.state import ONE, JobProgress
from paictl.sim.view import JobView


@frozen
class AntManParameters(Parameters):
    """`antman:epsilon=0.02`."""

    epsilon: float = parameter(
        0.0, "part of its rate that a guaranteed job loses while it has company (the paper: at most 0.04)", most=0.99
    )
    busy: float = parameter(0.8, "opportunistic jobs go to devices that are less busy than this")
    auto: bool = parameter(True, "a job that would wait for quota or devices runs opportunistically meanwhile")


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
        room = 1.0 - max((other.job.gpu_util for other in company if other.number in self._leading), default=0.0)
        beside = sum(other.number not in self._leading for other in company)
        return max(0.0, room) / (1 + beside)


class AntMan(Policy):
    """Quota decides who is guaranteed; opportunistic jobs never cost a guaranteed one more than `epsilon`.

    A guaranteed job that does not find all its devices reserves those there are; only opportunistic jobs run there
    until it starts. Example: `antman:epsilon=0.02`.
    """

    id = "antman"
    title = "guaranteed jobs by quota, opportunistic ones on what these leave of a device"
    paper = "Xiao et al., OSDI'20"
    knows = frozenset({Knowledge.UTILISATION})
    Parameters = AntManParameters
    choices = (
        "an opportunistic job gets 1 - utilisation of the guaranteed job on its busiest device, in equal parts where "
        "there are several (policies.md, A.6)",
        "without quotas every job that did not ask to be opportunistic is guaranteed as soon as there are devices",
        "one reservation at a time, of the job that came first: two halves would wait for each other",
        "`long expected wait` is any wait: with auto=true who cannot be guaranteed now runs opportunistically",
    )

    def __init__(self, parameters: AntManParameters, setup: Setup) -> None:
        self._leading: set[int] = set()
        super().__init__(parameters, setup)
        self._quota = dict(setup.cluster.spec.quotas)
        self._used: dict[str, int] = {}
        self._lead: dict[int, JobView] = {}
        """The guaranteed job on each device that has one."""
        self._guests: dict[int, list[JobView]] = {}
        self._waiting: dict[str, list[JobView]] = {}
        self._low: dict[int, JobView] = {}
        """Running without a guarantee, by number."""
        self._reserved: tuple[JobView, set[int]] | None = None

    def make_rates(self) -> Rates:
        """Who leads a device is not slowed down by those who follow."""
        return AntManRates(self.cluster, self._leading, self.p.epsilon, self.p.overhead)

    # --- who is where

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Free its devices."""
        if job.number in self._leading:
            self._leading.discard(job.number)
            self._used[job.vc] -= job.gpus
            for device in devices:
                del self._lead[device]
        else:
            self._low.pop(job.number, None)
            for device in devices:
                self._guests[device].remove(job)

    def plan(self, moment: Trigger) -> None:
        """Guarantees first, in the order of arrival; then whoever can live on what is left."""
        for job in moment.arrived:
            self._waiting.setdefault(job.vc, []).append(job)
        self._guarantee()
        self._follow()

    # --- guarantees

    def _guarantee(self) -> None:
        blocked: set[str] = set()
        wanted = [*self._low.values(), *(job for line in self._waiting.values() for job in line)]
        for job in sorted(wanted, key=lambda one: one.number):
            if job.share is Share.OPPORTUNISTIC or job.vc in blocked:
                continue
            if not self._lead_by(job):
                blocked.add(job.vc)  # first in, first out within a tenant
                if len(self._lead) >= self.cluster.size or (not self._quota and self._reserved is not None):
                    break

    def _lead_by(self, job: JobView) -> bool:
        """Make a job guaranteed: where it runs already, else on devices without a guaranteed job."""
        if self._quota and self._used.get(job.vc, 0) + job.gpus > self._quota.get(job.vc, 0):
            return False
        kept: set[int] = set()
        if self._reserved is not None and self._reserved[0] is not job:
            kept = self._reserved[1]
        own = self.held(job)
        if own and not any(device in self._lead or device in kept for device in own):
            devices = own
        else:
            free = [device for device in self._fitting(job) if device not in self._lead and device not in kept]
            if len(free) < job.gpus:
                self._reserve(job, free)
                return False
            devices = self._compact(free, job.gpus)
        if self._reserved is not None and self._reserved[0] is job:
            self._reserved = None
        self._leave_low(job)
        self._leading.add(job.number)
        self._used[job.vc] = self._used.get(job.vc, 0) + job.gpus
        for device in devices:
            self._lead[device] = job
        self.hold(job, devices)
        self.act(Colocate(job, devices))
        return True

    def _reserve(self, job: JobView, free: Iterable[int]) -> None:
        if self._reserved is None or self._reserved[0] is job or self._reserved[0].number > job.number:
            self._reserved = job, set(free)

    def _leave_low(self, job: JobView) -> None:
        if job.number in self._low:
            del self._low[job.number]
            for device in self.held(job):
                self._guests[device].remove(job)
        else:
            self._waiting[job.vc].remove(job)

    def _fitting(self, job: JobView) -> Iterable[int]:
        kind, type_of = job.gpu_type, self.cluster.type_of
        return (device for device in range(self.cluster.size) if kind is None or type_of[device] == kind)

    def _compact(self, free: Sequence[int], number: int) -> Devices:
        """On as few nodes as can be, then those with the fewest followers."""
        by_node: dict[int, list[int]] = {}
        for device in free:
            by_node.setdefault(self.cluster.node_of[device], []).append(device)
        taken: list[int] = []
        while len(taken) < number:
            left = number - len(taken)
            node = min(
                by_node,
                key=lambda one: (
                    len(by_node[one]) < left,
                    abs(len(by_node[one]) - left),
                    self._crowd(by_node[one]),
                    one,
                ),
            )
            row = sorted(by_node.pop(node), key=lambda device: (len(self._guests.get(device, ())), device))
            taken += row[:left]
        return tuple(sorted(taken))

    def _crowd(self, devices: Iterable[int]) -> int:
        return sum(len(self._guests.get(device, ())) for device in devices)

    # --- those who follow

    def _follow(self) -> None:
        loads = {device: self._load(device) for device in range(self.cluster.size)}
        for line in list(self._waiting.values()):
            for job in list(line):
                if not (self.p.auto or job.share is Share.OPPORTUNISTIC):
                    continue
                room = sorted((loads[device], device) for device in self._fitting(job) if loads[device] < self.p.busy)
                if not room:
                    break
                if len(room) < job.gpus:
                    continue
                devices = tuple(sorted(device for _, device in room[: job.gpus]))
                line.remove(job)
                self._low[job.number] = job
                for device in devices:
                    self._guests.setdefault(device, []).append(job)
                    loads[device] = self._load(device)
                self.hold(job, devices)
                self.act(Colocate(job, devices))

    def _load(self, device: int) -> float:
        """How busy a device is: everything on it, at most 1."""
        lead = self._lead.get(device)
        busy = (0.0 if lead is None else lead.gpu_util) + fsum(job.gpu_util for job in self._guests.get(device, ()))
        return min(1.0, busy)
