"""What a policy sees of a job: the user's request, what can be observed, and what the policy declares to know."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import ceil
from typing import ClassVar

from paictl.sim.cluster import Devices
from paictl.sim.goodput import TrainingProfile
from paictl.sim.job import Deadline, DeadlineKind, Share
from paictl.sim.knowledge import Knowledge, KnowledgeError
from paictl.sim.state import ONE, JobProgress
from paictl.units import Millis
from paictl.workload.job import Restart


class JobView:
    """A job as its scheduler sees it; the same object for its whole life, and always up to date.

    `number` is its position in the order of (submission, row of the trace): the final tie-breaker.
    """

    __slots__ = ("_state", "gpu_milli", "gpus", "number", "pod", "priority", "submit", "user", "vc")

    _knows: ClassVar[frozenset[Knowledge]] = frozenset(Knowledge)
    """What the policy with this class of views has declared."""

    def __init__(self, state: JobProgress) -> None:
        job = state.job
        self._state = state
        self.number = state.number
        self.gpus = job.gpus
        """Devices it asks for."""
        self.gpu_milli = job.gpu_milli
        """Thousandths of each device; only policies that place fractional devices need it."""
        self.pod = job.pod
        """Devices that must be on one node, 0 if that is left to the placement."""
        self.submit = job.submit
        self.user = job.user
        self.vc = job.vc
        self.priority = job.priority

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self._knows, self._state)

    # --- the request

    @property
    def id(self) -> str:
        """As in the trace."""
        return self._state.job.id

    @property
    def share(self) -> Share:
        """Guaranteed by its tenant's quota, or opportunistic."""
        return self._state.job.share

    @property
    def gpu_type(self) -> str | None:
        """The only device type it may run on."""
        return self._state.job.gpu_type

    @property
    def pinned_cell(self) -> str:
        """The pinned cell of its tenant in which it runs, empty if it names none."""
        return self._state.job.pinned_cell

    @property
    def reservation(self) -> str:
        """Its reservation, empty if it names none."""
        return self._state.job.reservation

    @property
    def restart(self) -> Restart:
        """What restarts if a failure takes some of its devices."""
        return self._state.job.restart

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """The device types that will do, if there are several."""
        return self._state.job.gpu_types

    @property
    def cpu_milli(self) -> int:
        """Thousandths of a core of one node."""
        return self._state.job.cpu_milli

    @property
    def memory_mib(self) -> int:
        """Memory of one node."""
        return self._state.job.memory_mib

    @property
    def elastic(self) -> tuple[int, int] | None:
        """Fewest and most devices; None if only `gpus` will do."""
        return self._state.job.elastic

    @property
    def limit(self) -> Millis | None:
        """Run-time limit given by its user; None if there is none."""
        return self._state.job.limit

    # --- what any policy can observe

    @property
    def devices(self) -> Devices:
        """The devices that it holds."""
        return self._state.devices

    @property
    def running(self) -> bool:
        """Whether it holds devices."""
        return bool(self._state.devices)

    @property
    def first_start(self) -> Millis | None:
        """None: it has not started yet."""
        return self._state.first_start

    @property
    def since(self) -> Millis:
        """Since when it has been running or waiting."""
        state = self._state
        return Millis(state.held_since if state.devices else state.waiting_since)

    @property
    def preemptions(self) -> int:
        """How often it lost its devices."""
        return self._state.preemptions

    def ran(self, now: Millis) -> Millis:
        """Time in which it held devices."""
        state = self._state
        return Millis(state.ran + (now - state.held_since if state.devices else 0))

    def attained(self, now: Millis) -> int:
        """Service: devices times the time it held them (device-milliseconds)."""
        state = self._state
        return state.service + (now - state.held_since) * len(state.devices)

    # --- what a policy must declare

    @property
    def work(self) -> Millis:
        """Run time on its reference (DURATION), even if it will die before; that is not known."""
        return self._state.job.work

    def remaining(self, now: Millis) -> int:
        """Units of work that are left (DURATION); a millisecond on its reference is a million of them."""
        state = self._state
        return state.left_at(now) + state.never_done

    @property
    def due(self) -> Millis | None:
        """When it will be done if nothing changes; None if it makes no progress (DURATION)."""
        return self._state.due()

    @property
    def throughput(self) -> Mapping[str, float]:
        """Rate by device type (THROUGHPUT)."""
        return self._state.job.throughput

    @property
    def iterations(self) -> int:
        """Steps in `work` (THROUGHPUT)."""
        return self._state.job.iterations

    @property
    def scaling(self) -> Mapping[int, float]:
        """Rate by number of devices (SCALING)."""
        return self._state.job.scaling

    @property
    def sensitivity(self) -> Mapping[str, float]:
        """Rate by smallest level that holds its devices (LOCALITY)."""
        return self._state.job.sensitivity

    @property
    def spread(self) -> Mapping[int, float]:
        """Rate by number of nodes (LOCALITY)."""
        return self._state.job.spread

    @property
    def skew(self) -> float:
        """Largest tensor by model size (SKEW)."""
        return self._state.job.skew

    @property
    def urge(self) -> DeadlineKind:
        """What its deadline means (DEADLINE)."""
        return self._state.job.urge

    @property
    def deadlines(self) -> tuple[Deadline, ...]:
        """Instants and values (DEADLINE)."""
        return self._state.job.deadlines

    @property
    def gpu_util(self) -> float:
        """How busy it keeps a device alone (UTILISATION)."""
        return self._state.job.gpu_util

    @property
    def gpu_mem(self) -> float:
        """Part of a device's memory it needs (UTILISATION)."""
        return self._state.job.gpu_mem

    @property
    def coloc(self) -> Mapping[str, float]:
        """Rate beside other models (COLOCATION)."""
        return self._state.job.coloc

    @property
    def beside(self) -> Mapping[str, float]:
        """Rate while jobs of other models are near (COLOCATION)."""
        return self._state.job.beside

    @property
    def model(self) -> str:
        """Name of the network (MODEL)."""
        return self._state.job.model

    @property
    def rate(self) -> int:
        """Current units of work a millisecond; a million is the rate on its reference (RATE)."""
        return self._state.rate

    @property
    def training(self) -> TrainingProfile | None:
        """How it trains (TRAINING); read step times only of placements that it has run on."""
        return self._state.job.training

    def epoch(self, now: Millis) -> int:
        """The epoch, from 0, of a job with a training profile (TRAINING)."""
        state = self._state
        training, whole = state.job.training, state.job.work * ONE
        return training.epoch((whole - state.left_at(now)) / whole) if training is not None and whole else 0

    def epoch_ends(self, now: Millis) -> Millis | None:
        """When its epoch ends if nothing changes; None if it makes no progress or has no profile (TRAINING)."""
        state = self._state
        training = state.job.training
        if training is None or not state.rate:
            return None
        left = state.job.work * ONE * (1 - training.ends[self.epoch(now)] / training.ends[-1])
        begins = max(state.begins, now)
        return Millis(begins + max(1, ceil((state.left_at(now) - left) / state.rate)))

    @property
    def facts(self) -> Mapping[str, float]:
        """Numbers for a single policy (FACTS)."""
        return self._state.job.facts


GUARDED: Mapping[str, Knowledge] = {
    "work": Knowledge.DURATION,
    "remaining": Knowledge.DURATION,
    "due": Knowledge.DURATION,
    "throughput": Knowledge.THROUGHPUT,
    "iterations": Knowledge.THROUGHPUT,
    "scaling": Knowledge.SCALING,
    "sensitivity": Knowledge.LOCALITY,
    "spread": Knowledge.LOCALITY,
    "skew": Knowledge.SKEW,
    "urge": Knowledge.DEADLINE,
    "deadlines": Knowledge.DEADLINE,
    "gpu_util": Knowledge.UTILISATION,
    "gpu_mem": Knowledge.UTILISATION,
    "coloc": Knowledge.COLOCATION,
    "beside": Knowledge.COLOCATION,
    "model": Knowledge.MODEL,
    "training": Knowledge.TRAINING,
    "epoch": Knowledge.TRAINING,
    "epoch_ends": Knowledge.TRAINING,
    "rate": Knowledge.RATE,
    "facts": Knowledge.FACTS,
}
"""Which declaration each field needs; fields that are not listed need none."""


@cache
def view_for(knows: frozenset[Knowledge]) -> type[JobView]:
    """The class of views for a policy: fields it has not declared raise `KnowledgeError`, the others cost nothing."""

    def forbidden(field: str, needed: Knowledge) -> property:
        def read(_: JobView) -> object:
            raise KnowledgeError(field, needed)

        return property(read)

    hidden = {field: forbidden(field, needed) for field, needed in GUARDED.items() if needed not in knows}
    return type("JobView", (JobView,), {"__slots__": (), "__doc__": JobView.__doc__, "_knows": knows, **hidden})


def _restored(knows: frozenset[Knowledge], state: JobProgress) -> JobView:
    """Unpickle a view: classes made by `view_for` have no name by which pickle could find them."""
    return view_for(knows)(state)
