"""Plans carried out on a cluster: a phase a step, each waiting until its service does its work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from paictl.cluster.interface import Services, ServiceView
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.plan import run
from paictl.plan.events import Listener
from paictl.plan.phase import Phase, Tell
from paictl.service.catalogue import Catalogue
from paictl.service.order import ServiceError, needed_by
from paictl.service.plan import Action, Plan, ServiceStep


class NotReadyError(PaictlError):
    """A service was started and does not do its work in time."""

    exit_code = ExitCode.UNREACHABLE


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a service may take to get ready, and how often it is asked, in seconds; tests have a clock of theirs."""

    deadline: float = 300.0
    every: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep


@dataclass(frozen=True, slots=True)
class ServiceOutcome:
    """What became of a step; `error` is None if it was done and the service does what it should."""

    step: ServiceStep
    error: PaictlError | None = None


def wait_ready(cluster: Services, name: str, patience: Patience, tell: Tell) -> None:
    """Wait until a service does its work, telling why it does not yet whenever that changes.

    Raises `NotReadyError` with the last reason after the deadline, or at once if the service is gone.
    """
    end, said = patience.clock() + patience.deadline, ""
    while True:
        view = next((view for view in cluster.services() if view.name == name), None)
        if view is not None and view.ready:
            return
        reason = _reason(view)
        if view is None or patience.clock() >= end:
            raise NotReadyError(
                text("is not ready after {deadline:g} s: {reason}", deadline=patience.deadline, reason=reason),
                where=f"service {name}",
                hint=text("look again with: paictl service status -n {name}; or wait longer with --timeout", name=name),
            )  # fmt: skip
        if reason != said:
            tell(reason, name)
            said = reason
        patience.sleep(min(patience.every, max(end - patience.clock(), 0)))


def _reason(view: ServiceView | None) -> str:
    return "it is gone" if view is None else view.reason or "it does not say why"


@dataclass(frozen=True, slots=True)
class ServicePhase(Phase):
    """One step, or several of a restart that the cluster takes as one request; `after` are ids of what it needs."""

    steps: tuple[ServiceStep, ...]
    cluster: Services
    patience: Patience
    after: frozenset[str] = frozenset()

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
        return self.after

    def run(self, tell: Tell) -> None:
        """Ask the cluster; to refresh is to restart, which loads the configuration that was pushed last."""
        started = [step.service for step in self.steps if step.action in (Action.START, Action.REFRESH)]
        match [*dict.fromkeys(step.action for step in self.steps)]:
            case [Action.START]:
                self.cluster.set_service(started[0], running=True)
            case [Action.STOP]:
                self.cluster.set_service(self.steps[0].service, running=False)
            case [Action.DELETE]:
                self.cluster.wipe_service(self.steps[0].service)
            case _:
                self.cluster.restart_services(started)
        for name in started:
            wait_ready(self.cluster, name, self.patience, tell)


def carry_out(
    plan: Plan, catalogue: Catalogue, cluster: Services, listen: Listener = lambda _: None,
    patience: Patience | None = None,
) -> tuple[ServiceOutcome, ...]:  # fmt: skip
    """Do the steps of a plan in their order; `listen` hears of everything.

    A step that the cluster refuses does not keep others from being done, but nothing is started that needs a service
    whose start was refused or that does not get ready. Whoever calls has asked before data are destroyed.
    """
    phases = list(_phases(plan, catalogue, cluster, patience or Patience()))
    found = run.carry_out(phases, listen)
    outcomes: list[ServiceOutcome] = []
    for phase, outcome in zip(phases, found, strict=True):
        error = outcome.error
        if outcome.status is run.Status.BLOCKED:
            missing = outcome.by.rpartition(" ")[2]
            error = ServiceError(
                text("needs {missing}, which did not start", missing=missing), where=phase.steps[0].service
            )
        outcomes += [ServiceOutcome(step, error) for step in phase.steps]
    return tuple(outcomes)


def _phases(plan: Plan, catalogue: Catalogue, cluster: Services, patience: Patience) -> Iterator[ServicePhase]:
    starts: dict[str, str] = {}
    for steps in _together(plan):
        after: frozenset[str] = frozenset()
        if any(step.action is Action.START for step in steps):
            needed = needed_by(catalogue.graph, [step.service for step in steps])
            after = frozenset(starts[name] for name in needed if name in starts)
        phase = ServicePhase(steps, cluster, patience, after)
        yield phase
        starts |= {step.service: phase.id for step in steps if step.action is Action.START}


def _together(plan: Plan) -> Iterator[tuple[ServiceStep, ...]]:
    """Steps by what is asked for at once: all of a restart, unless it starts what did not run; else each alone."""
    started = {step.service for step in plan.steps if step.action is Action.START}
    stopped = {step.service for step in plan.steps if step.action is Action.STOP}
    if plan.request.action is Action.RESTART and started == stopped and started:
        yield plan.steps
    else:
        yield from ((step,) for step in plan.steps)
