"""Optimus: devices one by one to the job whose completion they bring forward most."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from paictl.frozen import frozen
from paictl.sim.actions import Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.rates import Rates
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis


@frozen
class OptimusParameters(Parameters):
    """`optimus:interval=10m`."""

    interval: Span = parameter(Span(600_000), "how often all allocations are made anew", least=0.001, most=1e9)


def sizes(job: JobView) -> list[int]:
    """Numbers of devices a job may have, rising: measured ones, or all that it is elastic to."""
    least, most = job.elastic or (job.gpus, job.gpus)
    if job.scaling:
        return [number for number in sorted({*job.scaling, job.gpus}) if least <= number <= most]
    return list(range(least, most + 1))


def pace(job: JobView, number: int) -> float:
    """Rate with so many devices."""
    return 1.0 if number == job.gpus else job.scaling.get(number, number / job.gpus)


class _Left:
    """Devices that are left for jobs of one type, and for all together."""

    def __init__(self, devices: int, types: Mapping[str, int]) -> None:
        self._all = devices
        self._of = dict(types)

    def take(self, job: JobView, number: int) -> bool:
        """Take so many for a job; False, and nothing is taken, if there are not so many for it."""
        kind = job.gpu_type
        if number > self._all or (kind is not None and number > self._of.get(kind, 0)):
            return False
        self._all -= number
        if kind is not None:
            self._of[kind] -= number
        return True


def allocate(
    jobs: Sequence[JobView], left: Mapping[int, float], devices: int, types: Mapping[str, int] | None = None
) -> dict[int, int]:
    """Devices by job number: everybody its fewest, modest jobs first, then greedily by gain per device.

    `left` is the remaining work by job number, `types` how many of the devices are of each type, for jobs that run on
    one only. A gain is how much sooner a job would end; where a step of the curve brings nothing, a later one may (a
    curve with a dent), so the best next size is taken, not the very next.
    """
    given: dict[int, int] = {}
    heap: list[tuple[float, int, int, JobView]] = []
    free = _Left(devices, types or {})
    for job in sorted(jobs, key=lambda one: (sizes(one)[0], one.number)):
        least = sizes(job)[0]
        if free.take(job, least):
            given[job.number] = least
            _push(heap, job, least, left[job.number])
    while heap:
        _, _, wanted, job = heapq.heappop(heap)
        if not free.take(job, wanted - given[job.number]):
            continue
        given[job.number] = wanted
        _push(heap, job, wanted, left[job.number])
    return given


def _push(heap: list[tuple[float, int, int, JobView]], job: JobView, now: int, left: float) -> None:
    row = sizes(job)
    best: tuple[float, int] | None = None
    for number in row[bisect_right(row, now) :]:
        gain = (left / pace(job, now) - left / pace(job, number)) / (number - now)
        if gain > 0 and (best is None or gain > best[0]):
            best = gain, number
    if best is not None:
        heapq.heappush(heap, (-best[0], job.number, best[1], job))


def split(free: Sequence[tuple[int, int]], number: int) -> list[tuple[int, int]] | None:
    """(node, devices) with the same number on each of as few nodes as can be (Theorem 1); None if that is impossible.

    `free`: (node, its free devices), the emptiest first.
    """
    for count in range(1, min(len(free), number) + 1):
        if number % count == 0 and free[count - 1][1] >= number // count:
            return [(node, number // count) for node, _ in free[:count]]
    return None


class Optimus(Policy):
    """Knows how long a job has to go and how fast it would be; resizes everybody at each interval.

    Example: `optimus:interval=60,resume=30`.
    """

    id = "optimus"
    title = "least remaining time by marginal gain, elastic jobs"
    paper = "Peng et al., EuroSys'18; the variant for all-reduce jobs of petuum/adaptdl osdi21-artifact@c793c70"
    knows = frozenset({Knowledge.DURATION, Knowledge.SCALING})
    Parameters = OptimusParameters
    choices = (
        "remaining work and speeds are those of the trace: what its two fitted curves would say of a job that they fit "
        "(`programs.curves` fits them; a test recovers the paper's parameters)",
        "one dimension: a device is a worker and its share of a server; the paper's gain by dominant share then orders "
        "jobs as the gain per device does",
        "the printed equation (9) swaps the shares of servers and workers; text and code agree with what is done here",
        "a job changes its size by a checkpoint and a restart, as in the paper: a preemption, and it pays `resume`",
        "jobs that are not elastic get what they ask for, in the order of arrival",
        "where a job cannot be split evenly it goes to the emptiest nodes",
    )

    def __init__(self, parameters: OptimusParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._jobs: dict[int, JobView] = {}

    def plan(self, moment: Trigger) -> None:
        """Nothing happens between two intervals."""
        for job in moment.arrived:
            self._jobs[job.number] = job
        for job in moment.ended:
            del self._jobs[job.number]
        if self.now % self.p.interval == 0:
            self._turn()

    def wake(self) -> Millis | None:
        """The end of the interval."""
        return Millis((self.now // self.p.interval + 1) * self.p.interval) if self._jobs else None

    def make_rates(self) -> Rates:
        """Where a job is matters: it is placed by node."""
        return Rates(self.cluster, located=True, overhead=self.p.overhead)

    def ended(self, _: JobView, devices: Devices, /) -> None:
        """Its devices wait for the next interval."""

    def _turn(self) -> None:
        jobs = list(self._jobs.values())
        left = {job.number: job.remaining(self.now) / ONE for job in jobs}
        given = allocate(jobs, left, self.cluster.size, self.cluster.types)
        book = NodeBook(self.cluster)
        kept = self._kept(given)
        for number in sorted(kept):
            book.claim(self._jobs[number].devices)
        placed = {number: self._jobs[number].devices for number in kept}
        # who runs on one type only goes first: the others take what is left, wherever it is
        for number in sorted(set(given) - kept, key=lambda one: (self._jobs[one].gpu_type is None, given[one], one)):
            placed[number] = self._place(book, self._jobs[number], given[number])
        for job in jobs:
            if job.running and placed.get(job.number) != job.devices:
                self.act(Preempt(job))
                self.let_go(job)
        for number, devices in sorted(placed.items()):
            self.hold(self._jobs[number], devices)
            if number not in kept:
                self.act(Start(self._jobs[number], devices))

    def _kept(self, given: Mapping[int, int]) -> set[int]:
        """Who stays where it is: whoever keeps its size, and does not stand where another must go."""
        jobs = self._jobs
        kept = {number for number, many in given.items() if jobs[number].running and many == len(jobs[number].devices)}
        for kind, room in self.cluster.types.items():
            lacking = sum(many for one, many in given.items() if jobs[one].gpu_type == kind and one not in kept) - room
            on = {one: sum(self.cluster.type_of[device] == kind for device in jobs[one].devices) for one in kept}
            lacking += sum(on.values())
            for one in sorted(kept, reverse=True):
                if lacking > 0 and on[one] and jobs[one].gpu_type is None:
                    kept.discard(one)
                    lacking -= on[one]
        return kept

    def _place(self, book: NodeBook, job: JobView, number: int) -> Devices:
        nodes = self.cluster.nodes
        free = sorted(
            (
                (node, len(book.free_on(node)))
                for node in range(len(nodes))
                if book.free_on(node) and job.gpu_type in (None, nodes[node].type)
            ),
            key=lambda row: (-row[1], row[0]),
        )
        parts = split(free, number)
        if parts is None:
            parts, rest = [], number
            for node, count in free:
                if rest:
                    parts.append((node, min(count, rest)))
                    rest -= parts[-1][1]
        return tuple(sorted(device for node, count in parts for device in book.take(node, count)))
