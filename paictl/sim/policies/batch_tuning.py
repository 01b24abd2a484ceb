"""The base of Pollux and Sia: jobs that measure themselves while they train, and choose their batch size by it.

The devices of a job change at most once an interval. Then it restarts, trains with the best batch size by its own
measurements, and chooses again at the end of each epoch and of each interval.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.goodput import BatchSize, Gradients, Placement, TrainingProfile
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.programs.steps import BestSizes, Measurement, StepModel, best_sizes, fitted
from paictl.sim.rates import Rates, TrainingRates
from paictl.sim.view import JobView
from paictl.units import Millis

MOST_REPLICAS: Final = 64
"""The most replicas of one job, as in their simulators."""


@frozen
class TuningParameters(Parameters):
    """The parameters of both policies."""

    interval: Span = parameter(Span(60_000), "interval between allocations", least=0.001, most=1e9)


class Fitting(NamedTuple):
    """When and how a job's model of a step is fitted."""

    more: float
    """A model is fitted again for new numbers of nodes or replicas, and after this multiple of the measurements."""
    afresh: bool
    """Whether each fit starts from the same values, not from the last fit."""
    tolerance: float | None
    """See `steps.fitted`."""


class Learner:
    """The measurements of one job: times of steps by type of device, and gradients."""

    def __init__(self, job: JobView, training: TrainingProfile, fitting: Fitting, *, blind: bool) -> None:
        self.job = job
        self.training = training
        self.noise: Gradients | None = None
        """Gradients of the last measured epoch."""
        self.models: dict[str, StepModel] = {}
        """By type, in the order in which they were tried."""
        self.version = 0
        """Raised with each new measurement that changes predictions."""
        self._fitting = fitting
        self._blind = blind
        """Whether all types count as one."""
        self._rows: dict[str, dict[tuple[int, int, int], Measurement]] = {}
        self._places: dict[str, set[tuple[int, int]]] = {}
        """By type: the measured (nodes, replicas)."""
        self._fitted: dict[str, int] = {}
        """By type: the number of measurements at the last fit."""
        self._most: dict[str, int] = {}

    def kind(self, kind: str) -> str:
        """The type by which models are stored."""
        return "" if self._blind else kind

    def most(self, kind: str) -> int:
        """The most replicas that the job ever had on a type; 0: it never ran there."""
        return self._most.get(self.kind(kind), 0)

    def measure(self, kind: str, placement: Placement, size: BatchSize, epoch: int) -> None:
        """Record a step of the job with this placement and batch size, in that epoch."""
        training, nodes, replicas, name = self.training, len(placement), sum(placement), self.kind(kind)
        noise = training.gradients(size.total(replicas), epoch)
        if noise != self.noise:
            self.noise = noise
            self.version += 1
        rows, places = self._rows.setdefault(name, {}), self._places.setdefault(name, set())
        if (nodes, replicas, size.local) in rows:
            return
        step, sync = training.step(kind, placement, size.local)
        rows[nodes, replicas, size.local] = Measurement(nodes, replicas, size.local, step, sync)
        fitting = self._fitting
        if (nodes, replicas) in places and len(rows) < fitting.more * self._fitted[name]:
            return
        places.add((nodes, replicas))
        self._fitted[name] = len(rows)
        self._most[name] = max(self._most.get(name, 0), replicas)
        last = None if fitting.afresh else self.models.get(name)
        self.models[name] = fitted(list(rows.values()), last, tolerance=fitting.tolerance)
        self.version += 1

    def goodputs(self, kind: str, nodes: Sequence[int], replicas: Sequence[int], bound: int) -> BestSizes:
        """Predictions for each (nodes, replicas) on a type that the job has tried, with batch sizes up to `bound`."""
        assert self.noise is not None  # noqa: S101 the job has run
        training = self.training
        return best_sizes(
            self.models[self.kind(kind)],
            self.noise,
            (training.batches[0], max(bound, training.batches[0])),
            training.local(kind),
            nodes,
            replicas,
        )

    def choose(self, kind: str, placement: Placement) -> BatchSize:
        """The batch size with which the job trains on a placement."""
        training, replicas = self.training, sum(placement)
        least, largest = training.local(kind)
        if training.fixed:
            return training.asked(training.fixed, replicas, kind, placement)
        model = self.models.get(self.kind(kind))
        if model is None or self.noise is None:
            return training.asked(max(training.batches[0], least * replicas), replicas, kind, placement)
        times = training.times(kind)
        assert times is not None  # noqa: S101 the job runs on that type
        largest = max(least, min(largest, times.most_on(placement)))
        best = best_sizes(model, self.noise, training.batches, (least, largest), [len(placement)], [replicas])
        local, most = int(best.local[0]), times.most_of(replicas)
        return training.bounded(BatchSize(local if most is None else min(local, most), int(best.passes[0])), replicas)


class _Stay:
    """A job on its devices."""

    __slots__ = ("epoch", "kind", "placement", "ready", "size")

    def __init__(self, kind: str, placement: Placement, ready: Millis, size: BatchSize) -> None:
        self.kind = kind
        self.placement = placement
        self.ready = ready
        """When the restart is over."""
        self.size = size
        self.epoch = -1
        """The epoch in which the size was chosen; -1: the job is restarting."""


class BatchTuning(Policy):
    """Devices change only at the end of an interval; a subclass allocates them in `turn`."""

    knows = frozenset({Knowledge.TRAINING, Knowledge.SCALING, Knowledge.THROUGHPUT, Knowledge.FACTS})
    tunes = True
    blind = False
    """Whether all types of devices count as one."""
    fitting = Fitting(more=1.25, afresh=False, tolerance=None)
    rates: TrainingRates

    def __init__(self, parameters: Any, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.jobs: dict[int, JobView] = {}
        """Jobs that have not ended, in the order of arrival."""
        self.learners: dict[int, Learner] = {}
        """Of the jobs that have a training profile."""
        self.restarts: dict[int, int] = {}
        """By job, the number of its starts."""
        self._stays: dict[int, _Stay] = {}
        self._ended = [0, 0]
        """Number of ended jobs, and their restarts."""
        self._news = False

    # --- to be overridden

    @abstractmethod
    def turn(self) -> None:
        """An interval is over: reallocate devices with `take` and `start_on`."""

    def left(self, job: JobView, /) -> None:
        """A job ended."""

    # --- for subclasses

    def start_on(self, job: JobView, devices: Devices, *, restart: bool = True) -> None:
        """Run a waiting job on these free devices; without `restart` it continues at once."""
        self.act(Start(job, devices))
        self.hold(job, devices)
        self.restarts[job.number] = self.restarts.get(job.number, 0) + restart
        learner = self.learners.get(job.number)
        if learner is None:
            return
        kind, placement = self.cluster.type_of[devices[0]], self.rates.placement(devices)
        ready = Millis(self.now + round(learner.training.restart * 1000) * restart)
        stay = self._stays[job.number] = _Stay(kind, placement, ready, learner.choose(kind, placement))
        self.rates.sizes.pop(job.number, None)
        if not restart:
            self._train(job, stay)

    def take(self, job: JobView) -> None:
        """Take a running job's devices away; it waits."""
        self.act(Preempt(job))
        self.let_go(job)
        self._stays.pop(job.number, None)
        self.rates.sizes.pop(job.number, None)

    def restarting(self, job: JobView) -> bool:
        """Whether the job holds devices but makes no progress yet."""
        stay = self._stays.get(job.number)
        return stay is not None and stay.ready > self.now

    def restarts_of(self, job: JobView) -> int:
        """How often the job was restarted."""
        return max(0, self.restarts.get(job.number, 0) - 1)

    # --- the interval

    def plan(self, moment: Trigger) -> None:
        """Update the jobs; let jobs measure and choose; at the end of an interval, `turn`."""
        for job in moment.arrived:
            self.jobs[job.number] = job
            if job.training is not None:
                self.learners[job.number] = Learner(job, job.training, self.fitting, blind=self.blind)
        for job in moment.ended:
            self._forget(job)
        self._news = self._news or bool(moment.arrived or moment.ended)
        over = self.now % self.p.interval == 0
        for number, stay in self._stays.items():
            self._advance(self.jobs[number], stay, over=over)
        if over and (self._news or self.learners):
            before = len(self._actions)
            self.turn()
            self._news = len(self._actions) > before  # turn again until nothing changes

    def wake(self) -> Millis | None:
        """The end of the interval, of an epoch, or of a restart."""
        if not self.jobs:
            return None
        times = []
        if self._news or self.learners:
            times.append(Millis((self.now // self.p.interval + 1) * self.p.interval))
        for number, stay in self._stays.items():
            end = stay.ready if stay.epoch < 0 else self.jobs[number].epoch_ends(self.now)
            if end is not None:
                times.append(max(end, Millis(self.now + 1)))
        return min(times, default=None)

    def make_rates(self) -> Rates:
        """Rates that follow from batch sizes."""
        return TrainingRates(self.cluster, overhead=self.p.overhead)

    def ended(self, _: JobView, devices: Devices, /) -> None:
        """Nothing: its devices are free at the next interval."""

    def counted(self) -> Mapping[str, float]:
        """Mean number of restarts of a job."""
        jobs, restarts = self._ended
        return {"restarts": restarts / jobs if jobs else 0.0}

    def _forget(self, job: JobView) -> None:
        self._ended = [self._ended[0] + 1, self._ended[1] + self.restarts_of(job)]
        for book in (self.jobs, self.learners, self.restarts, self._stays, self.rates.sizes):
            book.pop(job.number, None)
        self.left(job)

    def _advance(self, job: JobView, stay: _Stay, *, over: bool) -> None:
        """Measure and choose, if the interval or an epoch is over."""
        if self.now < stay.ready:
            return
        if stay.epoch < 0:
            self._train(job, stay)
            return
        epoch = job.epoch(self.now)
        if not over and epoch == stay.epoch:
            return
        learner = self.learners[job.number]
        learner.measure(stay.kind, stay.placement, stay.size, stay.epoch)
        size = learner.choose(stay.kind, stay.placement)
        if size != stay.size or epoch != stay.epoch:
            stay.size = size
            self._train(job, stay)

    def _train(self, job: JobView, stay: _Stay) -> None:
        """Update the rate to the present batch size and epoch."""
        self.rates.sizes[job.number] = stay.size
        stay.epoch = job.epoch(self.now)
        self.act(Colocate(job, self.held(job)))
