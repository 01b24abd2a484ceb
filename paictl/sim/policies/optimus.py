"""Optimus: devices one by one to the job whose completion they bring forward most."""

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
    """Numbers of devices a job may have, rising: measured ones, or all that it is elastic to."""
    least, most = job.elastic or (job.gpus, job.gpus)
    if job.scaling:
        return [number for number in sorted({*job.scaling, job.gpus}) if least <= number <= most]
    return list(range(least, most + 1))


class _Left:
    """Devices that are left for jobs of one type, and for all together."""

    def __init__(self, devices: int, types: Mapping[str, int]) -> None:
        self.all = devices
        self._of = dict(types)

    def take(self, job: JobView, number: int) -> bool:
        """Take so many for a job; False, and nothing is taken, if there are not so many for it."""
        kind = job.gpu_type
        if number > self.all or (kind is not None and number > self._of.get(kind, 0)):
            return False
        self.all -= number
        if kind is not None:
            self._of[kind] -= number
        return True


class TaskCounts(NamedTuple):
    """What a job has: parameter servers and workers (devices)."""

    servers: int
    workers: int


Pace = Callable[[JobView, int, int], float]
"""Rate of a job with so many servers and workers."""


class MarginalGains:
    """Servers and devices by marginal gain: everybody its fewest, modest jobs first, then the step that brings most.

    `left` tells the remaining work of a job, `types` how many of the devices are of each type, for jobs that run on
    one only, `servers` how many there are in all (0: every worker has its own, uncounted). A gain is how much sooner a
    job would end, divided by the part of all servers or devices that it takes; where a step of the curve brings
    nothing, a later one may (a curve with a dent), so the best next size is taken, not the very next.
    """

    def __init__(
        self,
        left: Callable[[JobView], float],
        devices: int,
        types: Mapping[str, int] | None = None,
        *,
        pace: Pace = exact_pace,
        servers: int = 0,
    ) -> None:
        self.given: dict[int, TaskCounts] = {}
        self._left = left
        self._pace = pace
        self._devices = devices
        self._servers = servers
        self._free, self._spare = _Left(devices, types or {}), servers
        self._heap: list[tuple[float, int, TaskCounts, JobView]] = []
        self._full: set[tuple[int, bool]] = set()
        """(job, whether of servers): no room was found for a step of that kind."""

    def of(self, jobs: Iterable[JobView]) -> dict[int, TaskCounts]:
        """By job number; whoever does not find even its fewest is absent. The jobs that need the fewest come first."""
        for job in jobs:
            least = sizes(job)[0]
            if least > self._free.all or (self._servers and not self._spare):
                break  # nor is there room for anybody behind it
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
        now = self.given[job.number]
        if step.workers > now.workers:
            return self._free.take(job, step.workers - now.workers)
        self._spare -= 1
        return self._spare >= 0

    def _push(self, job: JobView) -> None:
        now, left = self.given[job.number], self._left(job)
        before = left / self._pace(job, now.servers, now.workers)
        best: tuple[float, TaskCounts] | None = None
        for step, part in self._steps(job, now):
            gain = (before - left / self._pace(job, step.servers, step.workers)) / part
            if gain > 0 and (best is None or gain > best[0]):
                best = gain, step
        if best is not None:
            heapq.heappush(self._heap, (-best[0], job.number, best[1], job))

    def _steps(self, job: JobView, now: TaskCounts) -> Iterator[tuple[TaskCounts, float]]:
        """Each with the part of all devices or servers that it takes."""
        if (job.number, False) not in self._full:
            row = sizes(job)
            for number in row[bisect_right(row, now.workers) :]:
                part = (number - now.workers) / self._devices
                yield TaskCounts(now.servers if self._servers else number, number), part
        if self._servers and now.servers < now.workers and (job.number, True) not in self._full:
            yield TaskCounts(now.servers + 1, now.workers), 1 / self._servers


def split(free: Sequence[tuple[int, int]], number: int) -> list[tuple[int, int]] | None:
    """(node, devices) with the same number on each of as few nodes as can be (Theorem 1); None if that is impossible.

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
        "a trace tells no losses: each job has a curve (facts loss.b0 to loss.b2 and epochs, or the usual shape and 30 "
        "to 300 epochs by the seed) whose owner stops where the job ends in the trace",
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
        """(fewest devices, number) of all jobs, in order."""
        self._given: dict[int, TaskCounts] = {}
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
            self._given.pop(job.number, None)
            self._estimates.forget(job)
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
        left = cache(lambda job: self._estimates.left(job, self.now))
        servers = self.p.servers * len(self.cluster.nodes)
        allocation = MarginalGains(
            left, self.cluster.size, self.cluster.types, pace=self._estimates.pace, servers=servers
        )
        given = allocation.of(self._jobs[number] for _, number in self._line)
        book = NodeBook(self.cluster)
        kept = self._kept(given)
        for number in sorted(kept):
            book.claim(self._jobs[number].devices)
        placed = {number: self._jobs[number].devices for number in kept}
        # who runs on one type only goes first: the others take what is left, wherever it is
        for number in sorted(
            set(given) - kept, key=lambda one: (self._jobs[one].gpu_type is None, *given[one][::-1], one)
        ):
            placed[number] = self._place(book, self._jobs[number], given[number].workers)
        for number in sorted(self._given.keys() - kept):
            self.act(Preempt(self._jobs[number]))
            self.let_go(self._jobs[number])
        for number, devices in sorted(placed.items()):
            job, share = self._jobs[number], given[number]
            self.hold(job, devices)
            if number not in kept:
                self.act(Start(job, devices, round(ONE * slowed(job, *share)) if servers else ONE))
        self._given = given

    def _kept(self, given: Mapping[int, TaskCounts]) -> set[int]:
        """Who stays where it is: whoever keeps its size, and does not stand where another must go."""
        jobs = self._jobs
        kept = {
            number for number, share in given.items()
            if jobs[number].running and share.workers == len(jobs[number].devices)
            and share == self._given.get(number)
        }  # fmt: skip
        for kind, room in self.cluster.types.items():
            lacking = (
                sum(n.workers for one, n in given.items() if jobs[one].gpu_type == kind and one not in kept) - room
            )
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

    def counted(self) -> Mapping[str, float]:
        """With fitted curves: how wrong the predicted epochs were."""
        if not isinstance(self._estimates, Fitted):
            return {}
        parts: dict[str, list[float]] = {"early": [], "late": []}
        for done, error in self._estimates.errors:
            parts["early" if done < 0.5 else "late"].append(error)
        return {f"epoch_error_{when}": fsum(errors) / len(errors) for when, errors in parts.items() if errors}
