"""Sia: an integer program in each round chooses the type and the number of devices of each job together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from paictl.frozen import frozen
from paictl.sim.cluster import Devices
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.policies.base import Setup
from paictl.sim.policies.batch_tuning import MOST_REPLICAS, BatchTuning, Fitting, Learner, TuningParameters
from paictl.sim.policies.parameters import parameter
from paictl.sim.programs.linear import Option, chosen
from paictl.sim.view import JobView

_BELIEVED: Final = 30.0
"""Assumed cost of a restart in seconds, if the trace does not give it."""


@frozen
class SiaParameters(TuningParameters):
    """`sia:power=-0.5`; the defaults are those of the published runs."""

    power: float = parameter(-0.5, "exponent of goodput: the lower, the fairer", least=-10.0, most=-0.01)
    idle: float = parameter(1.1, "cost of a job without devices; its smallest configuration costs 1", least=0.01)
    most: int = parameter(256, "number of jobs considered in a round: running ones, then the oldest", least=1)


class DeviceConfiguration(NamedTuple):
    """Devices of one type."""

    kind: str
    nodes: int
    replicas: int


class Sia(BatchTuning):
    """Chooses one configuration (type, nodes, devices) for each job so that normalized goodput is large and fair.

    Goodput is predicted from a job's own measurements; for an untried type, from the speed of one device. A job may
    at most double the number of devices it has tried. Example: `sia:interval=60`.
    """

    id = "sia"
    title = "goodput of elastic jobs on mixed devices, by an integer program each round"
    paper = "Jayaram Subramanya et al., SOSP'23; siasosp23/artifacts@aaf7a0d"
    Parameters = SiaParameters
    fitting = Fitting(more=1.0, afresh=True, tolerance=1e-5)
    choices = (
        "configurations are powers of two within a node, then whole nodes",
        "a job starts on one device, because nothing is known yet",
        "HiGHS and CBC may choose different optima: values are rounded to two digits, as in the published code",
        "a job's restart time is known from its application, as in the published code; 30 s without it",
        "a job without a training profile runs on its requested (or elastic) number of devices, on any type by its "
        "rates; a round without arrivals, ends and measurements changes nothing",
        "a job's model is fitted after each new measurement, always from the same start and to 1e-5, as in the "
        "published code: fits that go on from the last one, less often and to the end, change which jobs move",
        "a job that changes its nodes but not its devices per node continues at once",
    )

    def __init__(self, parameters: SiaParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._current: dict[int, DeviceConfiguration] = {}
        self._goodputs: dict[int, tuple[int, int, dict[DeviceConfiguration, float]]] = {}
        """By job: (version of its learner, limit of replicas, value of each configuration)."""
        self._sizes = {
            kind: max(node.devices for node in self.cluster.nodes if node.type == kind) for kind in self.cluster.types
        }
        self._configurations = {kind: self._configurations_of(kind) for kind in self.cluster.types}
        self._programs = 0

    def _configurations_of(self, kind: str) -> list[DeviceConfiguration]:
        size, total = self._sizes[kind], self.cluster.types[kind]
        within = [1 << power for power in range(size.bit_length()) if 1 << power < size]
        whole = range(size, min(total, max(MOST_REPLICAS, size)) + 1, size)
        return [DeviceConfiguration(kind, -(-number // size), number) for number in (*within, *whole)]

    def left(self, job: JobView, /) -> None:
        """Forget the job."""
        self._current.pop(job.number, None)
        self._goodputs.pop(job.number, None)

    def counted(self) -> Mapping[str, float]:
        """Also the number of programs that were solved."""
        return {**super().counted(), "programs": self._programs}

    # --- the program

    def turn(self) -> None:
        """Solve the program and place the chosen configurations."""
        jobs = self._considered()
        options = [self._options(job) for job in jobs]
        fixed = {
            place: self._current[job.number]
            for place, job in enumerate(jobs)
            if job.number in self._current and self.restarting(job)
        }
        places = chosen(
            [[Option(config.kind, config.replicas, cost) for config, cost in row.items()] for row in options],
            self.cluster.types,
            self.p.idle,
            {place: list(options[place]).index(config) for place, config in fixed.items()},
        )
        self._programs += 1
        configurations = {
            job.number: list(row)[place]
            for job, row, place in zip(jobs, options, places, strict=True)
            if place is not None
        }
        self._place(configurations)

    def _considered(self) -> Sequence[JobView]:
        """Running jobs, then the oldest waiting ones, at most `most`, in the order of arrival."""
        jobs = list(self.jobs.values())
        if len(jobs) <= self.p.most:
            return jobs
        jobs.sort(key=lambda job: (not job.running, job.number))
        return sorted(jobs[: max(self.p.most, len(self._current))], key=lambda job: job.number)

    def _options(self, job: JobView) -> dict[DeviceConfiguration, float]:
        """The cost of each configuration of a job in the objective."""
        learner, held = self.learners.get(job.number), self._current.get(job.number)
        values = self._fixed_values(job) if learner is None else self._measured_values(job, learner)
        if held is not None and held not in values:
            values = {**values, held: 1.0}
        factor = self._factor(job, learner) if held is not None else 1.0
        return {
            config: round((value * (1.0 if config == held else factor)) ** self.p.power, 2)
            if value * factor > 0
            else self.p.idle * 1e3
            for config, value in values.items()
        }

    def _factor(self, job: JobView, learner: Learner | None) -> float:
        """Factor of a job's goodput if it restarts now."""
        cost = _BELIEVED if learner is None else learner.training.believed
        age = (self.now - job.submit) / 1000
        return max(0.0, age - self.restarts_of(job) * cost) / (age + cost) if age >= cost else 1.0

    def _measured_values(self, job: JobView, learner: Learner) -> dict[DeviceConfiguration, float]:
        """Predicted goodput of each configuration, as a multiple of the least one."""
        kinds = [kind for kind in self.cluster.types if learner.training.times(kind) and job.gpu_type in (None, kind)]
        tried = [kind for kind in kinds if learner.most(kind)]
        if not tried:
            return {DeviceConfiguration(kind, 1, 1): 1.0 for kind in kinds}
        limit = max(
            min(max(2 * learner.most(kind), 1), MOST_REPLICAS, learner.training.replicas(kind)) for kind in kinds
        )
        cached = self._goodputs.get(job.number)
        if cached is None or cached[:2] != (learner.version, limit):
            cached = learner.version, limit, self._computed_values(job, learner, kinds, tried[0], limit)
            self._goodputs[job.number] = cached
        return cached[2]

    def _computed_values(
        self, job: JobView, learner: Learner, kinds: Sequence[str], first: str, limit: int
    ) -> dict[DeviceConfiguration, float]:
        training = learner.training
        bound = training.bound or int(job.facts.get("batch_size", training.batches[1]))
        goodputs: dict[DeviceConfiguration, float] = {}
        for kind in kinds:
            rows = [config for config in self._configurations[kind] if config.replicas <= limit]
            replicas = [config.replicas for config in rows]
            like, ratio = kind, 1.0
            if not learner.most(kind):
                like, ratio = first, self._ratio(training.times(kind), training.times(first))
            size = self._sizes[like]
            nodes = [config.nodes if like == kind else -(-config.replicas // size) for config in rows]
            predicted = learner.goodputs(like, nodes, replicas, bound).goodput * ratio
            goodputs |= {config: float(value) for config, value in zip(rows, predicted, strict=True) if value > 0}
        least = min(goodputs.values(), default=1.0)
        return {config: value / least for config, value in goodputs.items()}

    @staticmethod
    def _ratio(training: object, reference: object) -> float:
        speed, reference_speed = getattr(training, "alone", 0.0), getattr(reference, "alone", 0.0)
        return speed / reference_speed if speed and reference_speed else 1.0

    def _fixed_values(self, job: JobView) -> dict[DeviceConfiguration, float]:
        """Values for a job without a training profile, on its requested and its elastic numbers of devices."""
        least, most = job.elastic or (job.gpus, job.gpus)
        values: dict[DeviceConfiguration, float] = {}
        for kind, total in self.cluster.types.items():
            rate = job.throughput.get(kind, 0.0) if job.throughput else 1.0
            if rate <= 0 or job.gpu_type not in (None, kind):
                continue
            numbers = {config.replicas for config in self._configurations[kind] if least <= config.replicas <= most}
            for number in sorted({*numbers, job.gpus}):
                if number <= total:
                    scaled = 1.0 if number == job.gpus else job.scaling.get(number, number / job.gpus)
                    values[DeviceConfiguration(kind, -(-number // self._sizes[kind]), number)] = rate * scaled
        lowest = min(values.values(), default=1.0)
        weight = job.gpus if job.elastic is None else 1
        return {config: weight * value / lowest for config, value in values.items() if value > 0}

    # --- places

    def _place(self, configurations: Mapping[int, DeviceConfiguration]) -> None:
        """Start, stop and move jobs; a job that keeps its configuration stays, unless that would spread another job."""
        placed: dict[int, Devices] = {}
        for kind in self.cluster.types:
            numbers = [number for number, config in configurations.items() if config.kind == kind]
            stay = {
                number: self.held(self.jobs[number])
                for number in numbers
                if self._current.get(number) == configurations[number]
            }
            packed = self._packed(kind, configurations, numbers, stay, tight=True)
            placed |= (
                packed if packed is not None else self._packed(kind, configurations, numbers, {}, tight=False) or {}
            )
        for number in [number for number in self._current if number not in configurations]:
            self.take(self.jobs[number])
        moved = [number for number in configurations if self.held(self.jobs[number]) != placed[number]]
        before = {number: self.held(self.jobs[number]) for number in moved}
        for number in moved:
            if before[number]:
                self.take(self.jobs[number])
        for number in moved:
            old, devices = before[number], placed[number]
            same = bool(old) and self._current.get(number) == configurations[number] and self._alike(old, devices)
            self.start_on(self.jobs[number], devices, restart=not same)
        self._current = dict(configurations)

    def _alike(self, old: Devices, new: Devices) -> bool:
        return sorted(self.rates.placement(old)) == sorted(self.rates.placement(new))

    def _packed(
        self,
        kind: str,
        configurations: Mapping[int, DeviceConfiguration],
        numbers: Sequence[int],
        stay: Mapping[int, Devices],
        *,
        tight: bool,
    ) -> dict[int, Devices] | None:
        """Devices by job number, large jobs first, best fit; None if `tight` and a job would need more nodes."""
        book = NodeBook(self.cluster)
        for held in stay.values():
            book.claim(held)
        placed = dict(stay)
        for number in sorted((n for n in numbers if n not in stay), key=lambda n: (-configurations[n].replicas, n)):
            config, devices = configurations[number], list[int]()
            nodes = 0
            while len(devices) < config.replicas:
                rest = config.replicas - len(devices)
                free, node = min(
                    (
                        (free, row[0])
                        for pool in book.pools_for(kind)
                        for free, row in enumerate(pool.by_free)
                        if free and row
                    ),
                    key=lambda at: (at[0] < rest, at[0] if at[0] >= rest else -at[0], at[1]),
                )
                devices += book.take(node, min(free, rest))
                nodes += 1
            if tight and nodes > config.nodes:
                return None
            placed[number] = tuple(sorted(devices))
        return placed
