"""The base of policies: parameters, a placement, and a list of actions that grows while the policy decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final, Literal

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.actions import Action, Preempt, Start, Trigger
from paictl.sim.cluster import Cluster, Devices
from paictl.sim.job import ResourceRequest
from paictl.sim.knowledge import NOTHING, Knowledge
from paictl.sim.placement import PLACEMENTS
from paictl.sim.placement.base import Placer
from paictl.sim.policies.parameters import ParameterError, Span, parameter
from paictl.sim.rates import Costs, Rates
from paictl.sim.view import JobView
from paictl.units import Millis
from paictl.workload.windows import Windows

NO_WINDOWS: Final = Windows()

Where = Literal["count", "consolidate"]
"""The values of `placement=`; a policy that has more declares them."""


@frozen
class Parameters:
    """The parameters of every policy; a subclass adds a policy's own, or declares one again with another default."""

    placement: Where = parameter("count", "where devices come from: count (anywhere), consolidate (fewest nodes)")
    suspend: Span = parameter(Span(0), "cost of a preempted job's next start")
    resume: Span = parameter(Span(0), "cost of a restart")
    resume_log: Span = parameter(Span(0), "times (1 + log2 devices), added to resume")
    migrate: Span = parameter(Span(0), "cost of a move")
    resize: Span = parameter(Span(0), "cost of a change in the number of devices")
    profile: Span = parameter(Span(0), "before a job's first start")
    overhead: float = parameter(0.0, "share of every rate that the mechanism costs", most=0.99)


@frozen
class Setup:
    """The cluster and the run that a policy is made for."""

    cluster: Cluster
    seed: int = 0
    history: Sequence[int] = ()
    """GPU time (device-milliseconds at the reference) of jobs like those that will come; only for policies that
    declare DISTRIBUTION."""
    requests: Sequence[ResourceRequest] = ()
    """The requests of jobs like those that will come, one each; only for policies that declare REQUESTS."""
    tenants: Mapping[str, int] = field(default_factory=dict)
    """The VCs of the trace, each with the GPU time of its jobs, from which default quotas follow."""
    windows: Windows = NO_WINDOWS
    """Maintenance windows, known from the beginning; jobs that run there when one begins are interrupted as by a
    failure."""


class Policy(ABC):
    """A policy: class attributes say what it is, `plan` what it does.

    `plan` uses `start`, `preempt` and `act`; the devices of jobs that ended are back in `self.placement` before it is
    called. Keep what you need to know of jobs in sorted structures of your own, so that a decision looks only at what
    the event can change and not at every waiting job.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    """One line."""
    paper: ClassVar[str]
    """Its source; "from secondary source only" if the paper was not available."""
    knows: frozenset[Knowledge] = NOTHING
    transparent: bool = False
    """Whether it can run any job on fewer devices than the job asked for."""
    tunes: bool = False
    """Whether it chooses batch sizes: a job with a training profile may then have any number of devices that the
    profile allows, and `rates` must know what follows (`rates.TrainingRates`)."""
    shares: bool = False
    """Whether it places shares of devices, CPUs and memory. Under all other policies a share gets a whole device, and
    jobs without devices are left out."""
    endures: bool = False
    """Whether it supports devices that fail: it takes devices from `self.placement` alone and never counts on more than
    are free or held; or it overrides `hardware`."""
    choices: tuple[str, ...] = ()
    """Our answers to what the paper leaves open, and why."""
    Parameters: ClassVar[type[Any]] = Parameters

    def __init__(self, parameters: Any, setup: Setup) -> None:
        self.p = parameters
        self.setup = setup
        self.cluster = setup.cluster
        self.placement = self.make_placement()
        self.costs = Costs(
            parameters.suspend,
            parameters.resume,
            parameters.resume_log,
            parameters.migrate,
            parameters.resize,
            parameters.profile,
        )
        self.rates = self.make_rates()
        self.now = Millis(0)
        self._held: dict[int, Devices] = {}
        self._actions: list[Action] = []

    # --- to be overridden

    @abstractmethod
    def plan(self, moment: Trigger) -> None:
        """Look at what happened and act."""

    def wake(self) -> Millis | None:
        """The time of the next decision if no event comes before it; None: wait for an event."""
        return None

    def make_placement(self) -> Placer:
        """The placement; override for one with parameters."""
        name = self.p.placement
        if name not in PLACEMENTS:
            raise ParameterError(
                text("it does not support placement {name!r}", name=name),
                where=f"policy {self.id}",
                hint=text("one of: {names}", names=", ".join(PLACEMENTS)),
            )
        return PLACEMENTS[name](self.cluster)

    def make_rates(self) -> Rates:
        """The rates at which jobs progress; override if the paper has another model."""
        return Rates(self.cluster, located=self.placement.located, overhead=self.p.overhead)

    def notes(self, _: JobView, /) -> Mapping[str, float]:
        """Columns for a job's row of the results, once it has left."""
        return _NO_NOTES

    def counted(self) -> Mapping[str, float]:
        """Counters for the results."""
        return _NO_NOTES

    # --- to be used in `plan`

    def start(self, job: JobView, number: int | None = None) -> bool:
        """Start a job on devices that the placement chooses; False, and nothing changes, if there is no place."""
        devices = self.placement.take(job, job.gpus if number is None else number)
        if devices is None:
            return False
        self._held[job.number] = devices
        self._actions.append(Start(job, devices))
        return True

    def preempt(self, job: JobView, *, keep: bool = True) -> None:
        """Take a running job's devices away."""
        self.placement.give(self._held.pop(job.number))
        self._actions.append(Preempt(job, keep))

    def act(self, action: Action) -> None:
        """Add any other action; keep `self.placement` in step with it yourself, and `hold` the job's devices."""
        self._actions.append(action)

    def hold(self, job: JobView, devices: Devices) -> None:
        """Record a job's devices, which are freed when it ends."""
        self._held[job.number] = devices

    def let_go(self, job: JobView) -> None:
        """Forget a job's devices without freeing them in `self.placement`."""
        self._held.pop(job.number, None)

    def held(self, job: JobView) -> Devices:
        """A job's devices, including actions of this decision."""
        return self._held.get(job.number, ())

    # --- for the engine

    def decide(self, moment: Trigger) -> Sequence[Action]:
        """Free the devices of jobs that ended, then plan."""
        self.now = moment.now
        self._actions = []
        for job in moment.ended:
            self.ended(job, self._held.pop(job.number, ()))
        if moment.failed or moment.repaired:
            self.hardware(moment.failed, moment.repaired)
        self.plan(moment)
        return self._actions

    def hardware(self, failed: Devices, repaired: Devices) -> None:
        """Devices failed (jobs on them have ended) or were repaired; override if the policy keeps other books than the
        placement."""
        if repaired:
            self.placement.repair(repaired)
        if failed:
            self.placement.fail(failed)

    def ended(self, _: JobView, devices: Devices, /) -> None:
        """Free the devices of a job that ended; override if the placement needs to know more."""
        if devices:
            self.placement.give(devices)


_NO_NOTES: Mapping[str, float] = {}
