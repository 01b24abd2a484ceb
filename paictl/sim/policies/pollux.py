"""Pollux: devices and batch sizes together, by goodput, in a genetic search in each round."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Final

import numpy as np

from paictl.frozen import frozen
from paictl.sim.cluster import Devices
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.policies.base import Setup
from paictl.sim.policies.batch_tuning import MOST_REPLICAS, BatchTuning, Learner, TuningParameters
from paictl.sim.policies.parameters import parameter
from paictl.sim.programs.genetic import Allotment, searched
from paictl.sim.view import JobView

_WIDEST: Final = 16
"""Nodes of one job (the published code)."""
_PATIENCE: Final = 10
"""Generations without anything better, where nobody measures."""
_RESTART: Final = 30.0
"""Seconds that a restart is taken to cost."""


@frozen
class PolluxParameters(TuningParameters):
    """`pollux:generations=100`; the defaults are those of the published runs."""

    population: int = parameter(100, "population size of the search", least=2, most=10_000)
    generations: int = parameter(100, "number of generations of the search", least=1, most=100_000)
    most: int = parameter(256, "number of jobs considered in a round: running ones, then the oldest", least=1)


class Pollux(BatchTuning):
    """Searches for the allocation with the best harmonic mean of speedups, each against a fair share of the cluster.

    A speedup is predicted from a job's own measurements at its best batch size. A job may at most double the number
    of devices it has tried. A job that would restart counts less, the more often it has restarted. Example:
    `pollux:interval=60`.
    """

    id = "pollux"
    title = "goodput of elastic jobs with their batch sizes, by a genetic search each round"
    paper = "Qiao et al., OSDI'21; petuum/adaptdl osdi21-artifact@c793c70"
    Parameters = PolluxParameters
    blind = True
    choices = (
        "NSGA-II with the operators of the published code; each round has its own random stream by seed",
        "all devices count as equal, as in the paper; on mixed types, a job stays on one type",
        "at most one multi-node job on each node, as in the paper",
        "an elastic job without a training profile has the speedups of its trace; one that is not elastic gets its "
        "request or nothing; a round without arrivals, ends and measurements changes nothing",
        "a job's model is fitted again for a new number of nodes or replicas, and after a quarter more "
        "measurements; the published code fits after each one",
        "if no job has a profile, a search ends after 10 generations without improvement",
    )

    def __init__(self, parameters: PolluxParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._population: tuple[list[int], Any] = ([], None)
        """Jobs by number, and the last population of their allocations."""
        self._tables: dict[int, tuple[tuple[int, int, int], Any]] = {}
        self._rounds = 0
        types = list(self.cluster.types)
        self._sizes = np.array([node.devices for node in self.cluster.nodes], dtype=np.int64)
        self._kinds = np.array([types.index(node.type) for node in self.cluster.nodes], dtype=np.int64)

    def left(self, job: JobView, /) -> None:
        """Forget it."""
        self._tables.pop(job.number, None)

    def turn(self) -> None:
        """Search, and place what is found."""
        jobs = self._considered()
        if not jobs:
            return
        base = np.array([self._row(self.held(job)) for job in jobs], dtype=np.int64)
        problem = self._problem(jobs, base)
        self._rounds += 1
        seed = (self.setup.seed * 1_000_003 + self._rounds) & 0x7FFFFFFF
        patience = self.p.generations if self.learners else _PATIENCE
        best, population = searched(
            problem, self._adapted(jobs, base), seed, self.p.population, self.p.generations, patience
        )
        self._population = [job.number for job in jobs], population
        self._place(jobs, base, best)

    def _considered(self) -> Sequence[JobView]:
        """Those that were served least first."""
        jobs = list(self.jobs.values())
        if len(jobs) > self.p.most:
            running = sum(job.running for job in jobs)
            jobs.sort(key=lambda job: (not job.running, job.number))
            jobs = jobs[: max(self.p.most, running)]
        return sorted(jobs, key=lambda job: (job.attained(self.now), job.submit, job.number))

    def _row(self, devices: Devices) -> list[int]:
        row = [0] * len(self.cluster.nodes)
        for device in devices:
            row[self.cluster.node_of[device]] += 1
        return row

    def _adapted(self, jobs: Sequence[JobView], base: Any) -> Any:
        """The last population with the jobs of now, new ones without devices."""
        numbers, states = self._population
        if states is None:
            return base[None]
        column = {number: place for place, number in enumerate(numbers)}
        made = np.zeros((len(states), *base.shape), dtype=np.int64)
        for place, job in enumerate(jobs):
            if job.number in column:
                made[:, place] = states[:, column[job.number]]
        return made

    # --- what the search knows

    def _problem(self, jobs: Sequence[JobView], base: Any) -> Allotment:
        fair = ceil(self.cluster.size / len(jobs))
        limits = [self._limit(job) for job in jobs]
        nodes = min(_WIDEST, len(self._sizes))
        speedups = np.zeros((len(jobs), nodes + 1, max(limits) + 1))
        for place, (job, limit) in enumerate(zip(jobs, limits, strict=True)):
            speedups[place, 1:, 1 : limit + 1] = self._table(job, limit, fair, nodes)
        return Allotment(
            base=base,
            speedups=speedups,
            factors=np.array([self._factor(job) for job in jobs]),
            limits=np.array(limits, dtype=np.int64),
            exact=np.array([job.number not in self.learners and job.elastic is None for job in jobs]),
            sizes=self._sizes,
            kinds=self._kinds,
            allowed=np.array([self._allowed(job) for job in jobs]),
        )

    def _limit(self, job: JobView) -> int:
        learner = self.learners.get(job.number)
        if learner is not None:
            most = max(learner.training.replicas(kind) for kind in learner.training.types)
            return min(max(2 * learner.most(""), 1), MOST_REPLICAS, most, self.cluster.size)
        return min(job.elastic[1] if job.elastic else job.gpus, max(job.gpus, self.cluster.size))

    def _factor(self, job: JobView) -> float:
        age = (self.now - job.submit) / 1000
        return max(0.0, age - self.restarts_of(job) * _RESTART) / (age + _RESTART)

    def _allowed(self, job: JobView) -> list[bool]:
        learner, allowed = self.learners.get(job.number), []
        for node in self.cluster.nodes:
            able = job.gpu_type in (None, node.type)
            if learner is not None:
                able = able and learner.training.times(node.type) is not None
            elif job.throughput:
                able = able and job.throughput.get(node.type, 0.0) > 0
            allowed.append(able)
        return allowed

    def _table(self, job: JobView, limit: int, fair: int, nodes: int) -> Any:
        """Speedups on 1 to `nodes` nodes with 1 to `limit` devices."""
        learner = self.learners.get(job.number)
        key = (-1 if learner is None else learner.version, limit, fair)
        known = self._tables.get(job.number)
        if known is None or known[0] != key:
            known = key, self._computed(job, learner, limit, fair, nodes)
            self._tables[job.number] = known
        return known[1]

    def _computed(self, job: JobView, learner: Learner | None, limit: int, fair: int, nodes: int) -> Any:
        counts = np.arange(1, limit + 1)
        if learner is None:
            least, most = job.elastic or (job.gpus, job.gpus)
            rates = [
                (1.0 if n == job.gpus else job.scaling.get(n, n / job.gpus)) * job.gpus if least <= n <= most else 0.0
                for n in range(1, limit + 1)
            ]
            return np.broadcast_to(np.array(rates) / fair, (nodes, limit))
        if learner.noise is None:
            return np.broadcast_to(counts / fair, (nodes, limit))
        kind = next(iter(learner.training.types))
        bound = learner.training.bound or learner.training.fixed or learner.training.batches[1]
        pairs = [(n, r) for n in range(1, nodes + 1) for r in range(n, limit + 1)]
        computed = learner.goodputs(kind, [n for n, _ in pairs] + [1], [r for _, r in pairs] + [fair], bound).goodput
        base = float(computed[-1])
        made = np.zeros((nodes, limit))
        for (n, r), value in zip(pairs, computed, strict=False):
            made[n - 1, r - 1] = value / base if base > 0 else r / fair
        return made

    # --- places

    def _place(self, jobs: Sequence[JobView], base: Any, best: Any) -> None:
        changed = [place for place in range(len(jobs)) if (base[place] != best[place]).any()]
        book = NodeBook(self.cluster)
        for place, job in enumerate(jobs):
            if place not in changed:
                book.claim(self.held(job))
        for place in changed:
            if jobs[place].running:
                self.take(jobs[place])
        for place in changed:
            taken = [
                device for node, count in enumerate(best[place].tolist()) if count for device in book.take(node, count)
            ]
            if taken:
                self.start_on(jobs[place], tuple(sorted(taken)))
