"""Plans carried out on a cluster: a phase a step, each waiting until its service does its work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

from paictl.cluster.interface import Services, ServiceView
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan import run
from paictl.plan.events import Listener
from paictl.plan.run import Phase, Tell
from paictl.service.catalogue import Catalogue
from paictl.service.order import ServiceError, needed_by, users_of
from paictl.service.plan import Action, ServicePlan, ServiceRequest, ServiceStep


class NotReadyError(PaictlError):
    """A service was started and does not do its work in time."""

    exit_code = ExitCode.UNREACHABLE


@frozen
class Patience:
    """How long a service may take to get ready, and how often it is asked, in seconds; tests have a clock of theirs."""

    deadline: float = 300.0
    every: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


@frozen
class ServiceOutcome:
    """What became of a step; `error` is None if it was done and the service does what it should.

    `dependants` are the services that were not started because of it.
    """

    step: ServiceStep
    error: PaictlError | None = None
    dependants: tuple[str, ...] = ()


class SharedPoll:
    """What several waiting callers see of the services: who asks during a look shares the next one with all others."""

    def __init__(self, cluster: Services) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._began = 0.0
        self._views: Sequence[ServiceView] = ()

    def view(self, name: str) -> ServiceView | None:
        """A service as it is now, None if it is not there; never older than the call."""
        asked = time.monotonic()
        with self._lock:
            if self._began < asked:
                began = time.monotonic()
                self._views, self._began = self._cluster.services(), began
            return next((view for view in self._views if view.name == name), None)


def wait_ready(
    looks: SharedPoll, name: str, patience: Patience, tell: Tell, stop: threading.Event | None = None
) -> None:
    """Wait until a service does its work, telling why it does not yet whenever that changes.

    Raises `NotReadyError` with the last reason after the deadline, at once if the service is gone, or when `stop` is
    set.
    """
    end, reported = patience.clock() + patience.deadline, ""
    while True:
        view = looks.view(name)
        if view is not None and view.ready:
            return
        reason = _reason(view)
        if view is None or patience.clock() >= end or (stop is not None and stop.is_set()):
            raise NotReadyError(
                text("is not ready after {deadline:g} s: {reason}", deadline=patience.deadline, reason=reason),
                where=f"service {name}",
                hint=text("check with paictl service status -n {name}, or wait longer with --timeout", name=name),
            )
        if reason != reported:
            tell(reason, name)
            reported = reason
        patience.sleep(min(patience.every, max(end - patience.clock(), 0)))


def wait_stopped(
    looks: SharedPoll, name: str, patience: Patience, tell: Tell, stop: threading.Event | None = None
) -> None:
    """Wait until nothing of a service runs any more; raises `NotReadyError` after the deadline."""
    end, reported = patience.clock() + patience.deadline, ""
    while (view := looks.view(name)) is not None and view.running:
        if patience.clock() >= end or (stop is not None and stop.is_set()):
            raise NotReadyError(
                text("has not stopped after {deadline:g} s: {reason}", deadline=patience.deadline, reason=view.reason),
                where=f"service {name}",
                hint=text("check with paictl service status -n {name}, or wait longer with --timeout", name=name),
            )
        if view.reason != reported:
            tell(view.reason, name)
            reported = view.reason
        patience.sleep(min(patience.every, max(end - patience.clock(), 0)))


def _reason(view: ServiceView | None) -> str:
    return "it is gone" if view is None else view.reason or "it does not say why"


@frozen
class PhaseOrder:
    """What a phase needs done, and what has to have ended before it."""

    needs: frozenset[str] = frozenset()
    follows: frozenset[str] = frozenset()


@frozen
class _RunContext:
    """What all phases of a run share."""

    cluster: Services
    patience: Patience
    request: ServiceRequest
    looks: SharedPoll
    stop: threading.Event = field(default_factory=threading.Event)


@frozen
class ServicePhase(Phase):
    """One step, or several of a restart that the cluster takes as one request."""

    steps: tuple[ServiceStep, ...]
    ground: _RunContext
    order: PhaseOrder

    @property
    def id(self) -> str:
        """The action and the services."""
        return "+".join(f"{step.action.value} {step.service}" for step in self.steps)

    @property
    def title(self) -> str:
        """The same, for people."""
        return ", ".join(f"{step.action.value} {step.service}" for step in self.steps)

    @property
    def needs(self) -> frozenset[str]:
        """The starts without which a start makes no sense."""
        return self.order.needs

    @property
    def follows(self) -> frozenset[str]:
        """The stops of those who need a service that stops, and so on."""
        return self.order.follows

    def interrupt(self) -> None:
        """Wait no longer."""
        self.ground.stop.set()

    def run(self, tell: Tell) -> None:
        """Ask the cluster, and wait until it is so."""
        ground, name = self.ground, self.steps[0].service
        cluster, force = ground.cluster, ground.request.take_over
        started = [step.service for step in self.steps if step.action in (Action.START, Action.REFRESH)]
        match [*dict.fromkeys(step.action for step in self.steps)]:
            case [Action.START]:
                cluster.set_service(name, running=True, take_over=force)
            case [Action.STOP]:
                cluster.set_service(name, running=False)
                wait_stopped(ground.looks, name, ground.patience, tell, ground.stop)
            case [Action.DELETE]:
                cluster.wipe_service(name, with_data=ground.request.with_data)
            case [Action.REFRESH]:
                cluster.refresh_service(name, take_over=force)
            case _:
                cluster.restart_services(started, take_over=force)
        for service in started:
            wait_ready(ground.looks, service, ground.patience, tell, ground.stop)


def carry_out(
    plan: ServicePlan,
    catalogue: Catalogue,
    cluster: Services,
    listen: Listener = lambda _: None,
    patience: Patience | None = None,
    *,
    workers: int = 1,
) -> tuple[ServiceOutcome, ...]:
    """Do the steps of a plan in their order, up to `workers` at a time; `listen` hears of everything.

    A step that the cluster refuses does not keep others from being done, but nothing is started that needs a service
    whose start was refused or that does not get ready. Whoever calls has asked before data are destroyed.
    """
    ground = _RunContext(cluster, patience or Patience(), plan.request, SharedPoll(cluster))
    phases = list(_phases(plan, catalogue, ground))
    results = run.carry_out(phases, listen, workers=workers)
    outcomes: list[ServiceOutcome] = []
    lost: dict[str, list[str]] = {}
    for phase, outcome in zip(phases, results, strict=True):
        error = outcome.error
        if outcome.status is run.PhaseStatus.BLOCKED:
            missing = outcome.by.rpartition(" ")[2]
            lost.setdefault(missing, []).extend(step.service for step in phase.steps)
            error = ServiceError(
                text("needs {missing}, which did not start", missing=missing), where=phase.steps[0].service
            )
        outcomes += [ServiceOutcome(step, error) for step in phase.steps]
    return tuple(replace(outcome, dependants=tuple(lost.get(outcome.step.service, ()))) for outcome in outcomes)


def _phases(plan: ServicePlan, catalogue: Catalogue, ground: _RunContext) -> Iterator[ServicePhase]:
    known: dict[tuple[Action, str], str] = {}
    for steps in _together(plan):
        action, names = steps[-1].action, [step.service for step in steps]
        phase = ServicePhase(steps, ground, _order(action, names, catalogue, known))
        yield phase
        known |= {(step.action, step.service): phase.id for step in steps}


def _order(
    action: Action, names: Sequence[str], catalogue: Catalogue, known: dict[tuple[Action, str], str]
) -> PhaseOrder:
    """A start needs the starts of its prerequisites and follows all stops; a stop follows those of its users."""
    needed, users = needed_by(catalogue.graph, names), users_of(catalogue.graph, names)
    same = {name: phase for (what, name), phase in known.items() if what is action}
    match action:
        case Action.START:
            stops = frozenset(phase for (what, _), phase in known.items() if what is Action.STOP)
            return PhaseOrder(frozenset(same[name] for name in needed if name in same), stops)
        case Action.REFRESH:
            return PhaseOrder(follows=frozenset(same[name] for name in needed if name in same))
        case _:
            return PhaseOrder(follows=frozenset(same[name] for name in users if name in same))


def _together(plan: ServicePlan) -> Iterator[tuple[ServiceStep, ...]]:
    """Steps by what is asked for at once: all of a restart, unless it starts what did not run; else each alone."""
    started = {step.service for step in plan.steps if step.action is Action.START}
    stopped = {step.service for step in plan.steps if step.action is Action.STOP}
    if plan.request.action is Action.RESTART and started == stopped and started:
        yield plan.steps
    else:
        yield from ((step,) for step in plan.steps)
