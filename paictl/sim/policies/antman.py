"""AntMan: jobs with a guarantee own their devices, opportunistic ones live on what is left of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from math import fsum

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.job import Share
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.antman_rates import AntManRates
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import parameter
from paictl.sim.rates import Rates
from paictl.sim.view import JobView


@frozen
class AntManParameters(Parameters):
    """`antman:epsilon=0.02`."""

    epsilon: float = parameter(
        0.0,
        "share of its rate that a guaranteed job loses while it shares a device (the paper: at most 0.04)",
        most=0.99,
    )
    busy: float = parameter(0.8, "opportunistic jobs use only devices below this utilization")
    followers: int = parameter(
        0,
        "maximum number of opportunistic jobs on one device; 0: as long as it stays below the utilization limit",
        least=0,
    )
    auto: bool = parameter(True, "a job that has to wait for quota or devices runs as opportunistic in the meantime")


class AntMan(Policy):
    """Quota decides which jobs are guaranteed. Opportunistic jobs never slow a guaranteed job by more than `epsilon`.

    A guaranteed job that does not find all its devices reserves the free ones; only opportunistic jobs run there
    until it starts. Example: `antman:epsilon=0.02`.
    """

    id = "antman"
    title = "guaranteed jobs by quota, opportunistic jobs on the unused part of their devices"
    paper = "Xiao et al., OSDI'20"
    knows = frozenset({Knowledge.UTILISATION})
    Parameters = AntManParameters
    choices = (
        "an opportunistic job gets 1 - utilization of the guaranteed job on its busiest device, divided equally "
        "among several (policies.md, A.6); if the trace has the times of the stages of a step, it uses the CPUs, "
        "the device or the network while the guaranteed job does not",
        "without quotas, every job that did not request to be opportunistic is guaranteed as soon as there are devices",
        "one reservation at a time, for the job that arrived first: otherwise two jobs with half their devices "
        "could wait for each other",
        "any wait counts as a `long expected wait`: with auto=true, a job that cannot be guaranteed now runs as "
        "opportunistic",
    )

    def __init__(self, parameters: AntManParameters, setup: Setup) -> None:
        self._leading: set[int] = set()
        super().__init__(parameters, setup)
        self._quota = dict(setup.cluster.spec.quotas)
        self._used: dict[str, int] = {}
        self._lead: dict[int, JobView] = {}
        """The guaranteed job on each device that has one."""
        self._guests: dict[int, list[JobView]] = {}
        self._claims: dict[str, list[JobView]] = {}
        """By tenant, in the order of arrival: those that may get a guarantee and have none, waiting or running."""
        self._waiting: dict[str, dict[tuple[int, str | None], list[JobView]]] = {}
        """By tenant, and by size and type: those that wait and may run without a guarantee, in the order of arrival."""
        self._open = list(range(self.cluster.size))
        """Devices without a guaranteed job, rising."""
        self._loads = [0.0] * self.cluster.size
        self._room: dict[str | None, list[tuple[float, int]]] = {None: []}
        """(load, device) of those that are less busy than `busy`, the least busy first; by type, None: of any."""
        for device, kind in enumerate(self.cluster.type_of):
            for row in (self._room[None], self._room.setdefault(kind, [])):
                if self.p.busy > 0:
                    row.append((0.0, device))
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
                insort(self._open, device)
        else:
            self._low.pop(job.number, None)
            self._withdraw(job)
            for device in devices:
                self._guests[device].remove(job)
        self._weigh(devices)

    def plan(self, moment: Trigger) -> None:
        """Guarantees first, in the order of arrival; then whoever can live on what is left."""
        for job in moment.arrived:
            lines = self._waiting.setdefault(job.vc, {})
            if self._follows(job):
                lines.setdefault((job.gpus, job.gpu_type), []).append(job)
            if job.share is not Share.OPPORTUNISTIC:
                self._claims.setdefault(job.vc, []).append(job)
        self._guarantee()
        self._follow()

    # --- guarantees

    def _guarantee(self) -> None:
        firsts = {vc: claims[0] for vc, claims in self._claims.items() if claims}
        while firsts:
            job = min(firsts.values(), key=lambda job: job.number)
            if not self._lead_by(job):
                del firsts[job.vc]  # first in, first out within a tenant
                if len(self._lead) >= self.cluster.size or (not self._quota and self._reserved is not None):
                    break
            elif claims := self._claims[job.vc]:
                firsts[job.vc] = claims[0]
            else:
                del firsts[job.vc]

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
            kind, type_of = job.gpu_type, self.cluster.type_of
            free = [device for device in self._open if device not in kept and (kind is None or type_of[device] == kind)]
            if len(free) < job.gpus:
                self._reserve(job, free)
                return False
            devices = self._compact(free, job.gpus)
        if self._reserved is not None and self._reserved[0] is job:
            self._reserved = None
        self._leave_low(job)
        self._withdraw(job)
        self._leading.add(job.number)
        self._used[job.vc] = self._used.get(job.vc, 0) + job.gpus
        for device in devices:
            self._lead[device] = job
            del self._open[bisect_left(self._open, device)]
        self._weigh(devices)
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
            self._weigh(self.held(job))
        elif self._follows(job):
            _strike(self._waiting[job.vc][job.gpus, job.gpu_type], job)

    def _withdraw(self, job: JobView) -> None:
        """It wants a guarantee no more."""
        if job.share is not Share.OPPORTUNISTIC:
            _strike(self._claims[job.vc], job)

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
                key=lambda each: (
                    len(by_node[each]) < left,
                    abs(len(by_node[each]) - left),
                    self._crowd(by_node[each]),
                    each,
                ),
            )
            row = sorted(by_node.pop(node), key=lambda device: (len(self._guests.get(device, ())), device))
            taken += row[:left]
        return tuple(sorted(taken))

    def _crowd(self, devices: Iterable[int]) -> int:
        return sum(len(self._guests.get(device, ())) for device in devices)

    # --- those who follow

    def _follows(self, job: JobView) -> bool:
        """Whether it may run without a guarantee."""
        return self.p.auto or job.share is Share.OPPORTUNISTIC

    def _follow(self) -> None:
        """Start those that wait, tenant by tenant, in the order of arrival, where there is room.

        Room only shrinks meanwhile, so of the jobs of one size and type only the first can be the next.
        """
        for lines in self._waiting.values():
            passed = -1
            while (job := self._next(lines, passed)) is not None:
                passed = job.number
                devices = tuple(sorted(device for _, device in self._room[job.gpu_type][: job.gpus]))
                _strike(lines[job.gpus, job.gpu_type], job)
                self._low[job.number] = job
                for device in devices:
                    self._guests.setdefault(device, []).append(job)
                self._weigh(devices)
                self.hold(job, devices)
                self.act(Colocate(job, devices))

    def _next(self, lines: dict[tuple[int, str | None], list[JobView]], passed: int) -> JobView | None:
        """The first for which there is room; none behind one for whose type there is no room at all.

        Those up to the number `passed` were looked at already: for them there was too little.
        """
        best: JobView | None = None
        blocks = False
        for (gpus, kind), line in lines.items():
            room = len(self._room.get(kind, ()))
            place = 0 if room else bisect_right(line, passed, key=lambda other: other.number)
            if place < len(line) and (gpus <= room or not room) and (best is None or line[place].number < best.number):
                best, blocks = line[place], not room
        return None if blocks else best

    def _weigh(self, devices: Iterable[int]) -> None:
        """Look again how busy these are."""
        for device in devices:
            before, after = self._loads[device], self._load(device)
            if before == after:
                continue
            self._loads[device] = after
            for kind in (None, self.cluster.type_of[device]):
                row = self._room[kind]
                if before < self.p.busy:
                    del row[bisect_left(row, (before, device))]
                if after < self.p.busy:
                    insort(row, (after, device))

    def _load(self, device: int) -> float:
        """How busy a device is: everything on it, at most 1."""
        lead = self._lead.get(device)
        if self.p.followers and len(self._guests.get(device, ())) >= self.p.followers:
            return 1.0
        busy = (0.0 if lead is None else lead.gpu_util) + fsum(job.gpu_util for job in self._guests.get(device, ()))
        return min(1.0, busy)


def _strike(line: list[JobView], job: JobView) -> None:
    """Take a job out of a line that is in the order of arrival."""
    del line[bisect_left(line, job.number, key=lambda other: other.number)]
