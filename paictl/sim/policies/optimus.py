"""Optimus: each device goes to the job whose completion it brings forward most."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import fsum
from typing import Literal, NamedTuple

from paictl.frozen import frozen
from paictl.sim.actions import Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.optimus_estimates import Exact, Fitted, exact_pace, slowed
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.rates import Rates
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis


@frozen
class OptimusParameters(Parameters):
    """`optimus:interval=10m`."""

    interval: Span = parameter(Span(600_000), "how often all allocations are recomputed", least=0.001, most=1e9)
    estimate: Literal["exact", "fitted"] = parameter(
        "exact", "remaining work and speeds: from the trace, or from curves fitted to measurements"
    )
    noise: float = parameter(0.05, "for estimate=fitted: maximum relative error of each measurement", most=0.9)
    servers: int = parameter(
        0, "parameter servers per node, assigned to jobs beside devices; 0: as many as workers, not counted"
    )


def sizes(job: JobView) -> list[int]:
    """Numbers of devices that a job may have, rising: the measured ones, or its whole elastic range."""
    least, most = job.elastic or (job.gpus, job.gpus)
    if job.scaling:
        return [number for number in sorted({*job.scaling, job.gpus}) if least <= number <= most]
    return list(range(least, most + 1))


class _FreeDevices:
    """Free devices of each type, and in all."""

    def __init__(self, devices: int, types: Mapping[str, int]) -> None:
        self.total = devices
        self._by_type = dict(types)

    def take(self, job: JobView, number: int) -> bool:
        """Take devices for a job; False, and nothing changes, if too few are free."""
        kind = job.gpu_type
        if number > self.total or (kind is not None and number > self._by_type.get(kind, 0)):
            return False
        self.total -= number
        if kind is not None:
            self._by_type[kind] -= number
        return True


class TaskCounts(NamedTuple):
    """The parameter servers and workers (devices) of a job."""

    servers: int
    workers: int


Pace = Callable[[JobView, int, int], float]
"""(job, servers, workers) -> rate, 1 at the job's requested size."""


class MarginalGains:
    """Servers and devices by marginal gain: first each job's minimum, smallest first, then the step that gains most.

    `remaining` gives the remaining work of a job, `types` the number of devices of each type (for jobs that run on
    one type only), `servers` the number of parameter servers (0: each worker has its own, uncounted). The gain of a
    step is how much sooner the job would end, divided by the part of all servers or devices that it takes. If a curve
    has a dent, a larger step may gain where the next one does not, so the best of all larger sizes is tried.
    """

    def __init__(
        self,
        remaining: Callable[[JobView], float],
        devices: int,
        types: Mapping[str, int] | None = None,
        *,
        pace: Pace = exact_pace,
        servers: int = 0,
    ) -> None:
        self.given: dict[int, TaskCounts] = {}
        self._remaining = remaining
        self._pace = pace
        self._devices = devices
        self._servers = servers
        self._free, self._spare = _FreeDevices(devices, types or {}), servers
        self._heap: list[tuple[float, int, TaskCounts, JobView]] = []
        self._full: set[tuple[int, bool]] = set()
        """(job, whether the step adds a server) of steps for which there is no room."""

    def of(self, jobs: Iterable[JobView]) -> dict[int, TaskCounts]:
        """The counts by job number; a job whose minimum does not fit is absent. `jobs` come by minimum, least first."""
        for job in jobs:
            least = sizes(job)[0]
            if least > self._free.total or (self._servers and not self._spare):
                break  # no later job fits either
            if self._free.take(job, least):
                self.given[job.number] = TaskCounts(1 if self._servers else least, least)
                self._spare -= 1
                self._push(job)
        while self._heap:
            _, _, step, job = heapq.heappop(self._heap)
            if self._take(job, step):
                self.given[job.number] = step
            else:
                self._full.add((job.number, step.workers == self.given[job.number].workers))
            self._push(job)
        return self.given

    def _take(self, job: JobView, step: TaskCounts) -> bool:
        counts = self.given[job.number]
        if step.workers > counts.workers:
            return self._free.take(job, step.workers - counts.workers)
        self._spare -= 1
        return self._spare >= 0

    def _push(self, job: JobView) -> None:
        counts, remaining = self.given[job.number], self._remaining(job)
        before = remaining / self._pace(job, counts.servers, counts.workers)
        best: tuple[float, TaskCounts] | None = None
        for step, part in self._steps(job, counts):
            gain = (before - remaining / self._pace(job, step.servers, step.workers)) / part
            if gain > 0 and (best is None or gain > best[0]):
                best = gain, step
        if best is not None:
            heapq.heappush(self._heap, (-best[0], job.number, best[1], job))

    def _steps(self, job: JobView, counts: TaskCounts) -> Iterator[tuple[TaskCounts, float]]:
        """(larger counts, the part of all devices or servers that the step takes)."""
        if (job.number, False) not in self._full:
            row = sizes(job)
            for number in row[bisect_right(row, counts.workers) :]:
                part = (number - counts.workers) / self._devices
                yield TaskCounts(counts.servers if self._servers else number, number), part
        if self._servers and counts.servers < counts.workers and (job.number, True) not in self._full:
            yield TaskCounts(counts.servers + 1, counts.workers), 1 / self._servers


def split(free: Sequence[tuple[int, int]], number: int) -> list[tuple[int, int]] | None:
    """(node, devices), the same number on each of as few nodes as possible (Theorem 1); None if there is no even split.

    `free`: (node, its free devices), the emptiest first.
    """
    for count in range(1, min(len(free), number) + 1):
        if number % count == 0 and free[count - 1][1] >= number // count:
            return [(node, number // count) for node, _ in free[:count]]
    return None


class Optimus(Policy):
    """Knows a job's remaining time and its speed on other sizes. Resizes all jobs at each interval.

    Example: `optimus:interval=60,resume=30`.
    """

    id = "optimus"
    title = "least remaining time by marginal gain, elastic jobs"
    paper = "Peng et al., EuroSys'18; the variant for all-reduce jobs of petuum/adaptdl osdi21-artifact@c793c70"
    knows = frozenset({Knowledge.DURATION, Knowledge.SCALING, Knowledge.FACTS})
    Parameters = OptimusParameters
    choices = (
        "with estimate=exact, remaining work and speeds come from the trace, as if both curves fitted exactly",
        "with estimate=fitted a job's loss is measured after each epoch and its speed in short runs, each off by up to "
        "`noise`, and both curves are fitted; `epoch_error_early` and `epoch_error_late` are mean relative errors of "
        "the predicted epochs before and after half of a job",
        "a trace contains no losses: each job has a curve (facts loss.b0 to loss.b2 and epochs, or the usual shape "
        "and 30 to 300 epochs by the seed), and its owner stops training where the job ends in the trace",
        "one dimension (servers=0): a device is a worker and its share of a server; the paper's gain by dominant share "
        "then orders jobs as the gain per device does",
        "both dimensions (servers=N, so many per node): parameter servers are counted, not placed; the trace's scaling "
        "is with as many servers as workers, and fewer slow a job by the speed of facts speed.0 to speed.4 and batch, "
        "or of the paper's example",
        "the printed equation (9) swaps the shares of servers and workers; the text and the code agree with this "
        "implementation",
        "a job changes its size by a checkpoint and a restart, as in the paper: this counts as a preemption and "
        "costs `resume`",
        "jobs that are not elastic get their requested devices, in the order of arrival",
        "a job that cannot be split evenly goes to the emptiest nodes",
    )

    def __init__(self, parameters: OptimusParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._jobs: dict[int, JobView] = {}
        self._line: list[tuple[int, int]] = []
        """(minimum, number) of all jobs, in order."""
        self._counts: dict[int, TaskCounts] = {}
        fitted = parameters.estimate == "fitted"
        self._estimates: Exact | Fitted = Fitted(setup.seed, parameters.noise) if fitted else Exact()

    def plan(self, moment: Trigger) -> None:
        """Nothing happens between two intervals."""
        for job in moment.arrived:
            self._jobs[job.number] = job
            insort(self._line, (sizes(job)[0], job.number))
        for job in moment.ended:
            del self._jobs[job.number]
            del self._line[bisect_left(self._line, (sizes(job)[0], job.number))]
            self._counts.pop(job.number, None)
            self._estimates.forget(job)
        if self.now % self.p.interval == 0:
            self._turn()

    def wake(self) -> Millis | None:
        """The end of the interval."""
        return Millis((self.now // self.p.interval + 1) * self.p.interval) if self._jobs else None

    def make_rates(self) -> Rates:
        """The location of a job matters: it is placed by node."""
        return Rates(self.cluster, located=True, overhead=self.p.overhead)

    def ended(self, _: JobView, devices: Devices, /) -> None:
        """Nothing: its devices stay idle until the next interval."""

    def _turn(self) -> None:
        remaining = cache(lambda job: self._estimates.left(job, self.now))
        servers = self.p.servers * len(self.cluster.nodes)
        allocation = MarginalGains(
            remaining, self.cluster.size, self.cluster.types, pace=self._estimates.pace, servers=servers
        )
        counts = allocation.of(self._jobs[number] for _, number in self._line)
        book = NodeBook(self.cluster)
        staying = self._staying(counts)
        for number in sorted(staying):
            book.claim(self._jobs[number].devices)
        placed = {number: self._jobs[number].devices for number in staying}
        # jobs of one type first: the others can use what is left on any type
        for number in sorted(
            set(counts) - staying,
            key=lambda job_number: (self._jobs[job_number].gpu_type is None, *counts[job_number][::-1], job_number),
        ):
            placed[number] = self._place(book, self._jobs[number], counts[number].workers)
        for number in sorted(self._counts.keys() - staying):
            self.act(Preempt(self._jobs[number]))
            self.let_go(self._jobs[number])
        for number, devices in sorted(placed.items()):
            job, job_counts = self._jobs[number], counts[number]
            self.hold(job, devices)
            if number not in staying:
                self.act(Start(job, devices, round(ONE * slowed(job, *job_counts)) if servers else ONE))
        self._counts = counts

    def _staying(self, counts: Mapping[int, TaskCounts]) -> set[int]:
        """The jobs that stay in place: those that keep their size, unless a job of one type needs their devices."""
        jobs = self._jobs
        staying = {
            number
            for number, job_counts in counts.items()
            if jobs[number].running
            and job_counts.workers == len(jobs[number].devices)
            and job_counts == self._counts.get(number)
        }
        for kind, room in self.cluster.types.items():
            lacking = (
                sum(
                    job_counts.workers
                    for number, job_counts in counts.items()
                    if jobs[number].gpu_type == kind and number not in staying
                )
                - room
            )
            on_kind = {
                number: sum(self.cluster.type_of[device] == kind for device in jobs[number].devices)
                for number in staying
            }
            lacking += sum(on_kind.values())
            for number in sorted(staying, reverse=True):
                if lacking > 0 and on_kind[number] and jobs[number].gpu_type is None:
                    staying.discard(number)
                    lacking -= on_kind[number]
        return staying

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

    def counted(self) -> Mapping[str, float]:
        """With fitted curves: the mean relative error of the predicted epochs, early and late in a job."""
        if not isinstance(self._estimates, Fitted):
            return {}
        parts: dict[str, list[float]] = {"early": [], "late": []}
        for done, error in self._estimates.errors:
            parts["early" if done < 0.5 else "late"].append(error)
        return {f"epoch_error_{when}": fsum(errors) / len(errors) for when, errors in parts.items() if errors}
