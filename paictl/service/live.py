"""Between services and a cluster: what is seen of them there, and plans carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from paictl.cluster.interface import Configuration, Services, ServiceView
from paictl.config.pushing.compare import FileDifference
from paictl.config.reading.keypath import parse_dotted
from paictl.errors import PaictlError
from paictl.service.catalogue import Catalogue
from paictl.service.order import ServiceError, needed_by
from paictl.service.plan import Action, Loss, Plan, State, Step
from paictl.service.readiness import Sight


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step; `error` is None if the cluster acknowledged it."""

    step: Step
    error: PaictlError | None = None


class Ports(Services, Configuration, Protocol):
    """What is looked at to know how services are."""


def sight_of(cluster: Ports) -> Sight:
    """States, reasons and pushed files of a cluster."""
    views = {view.name: view for view in cluster.services()}
    versions = cluster.configurations()
    files = tuple(versions[-1].files) if versions else ()
    details = {name: view.reason for name, view in views.items() if view.running and not view.ready}
    return Sight({name: _state(view) for name, view in views.items()}, files, details)


def _state(view: ServiceView) -> State:
    return State.RUNNING if view.running else State.STOPPED


def readers_of(differences: Iterable[FileDifference], catalogue: Catalogue) -> tuple[str, ...]:
    """The services that read something that differs, in start order; comments alone concern none."""
    changed = {difference.name: {_top(change.path) for change in difference.changes} for difference in differences}

    def reads(reference: str) -> bool:
        file, _, section = reference.partition(":")
        return bool(changed.get(file)) and (not section or section in changed[file])

    return tuple(service.name for service in catalogue if any(map(reads, service.configuration)))


def _top(path: str) -> str:
    return path.partition(".")[0] if not path.startswith('"') else parse_dotted(path)[0]


def losses_on(plan: Plan, cluster: Services) -> tuple[Loss, ...]:
    """What a plan destroys on a cluster: as the cluster says, else as the descriptions of the services say."""
    described = {loss.service: loss.data for loss in plan.losses}
    found: list[Loss] = []
    for step in plan.steps:
        if step.action is Action.DELETE:
            there = cluster.losses(step.service)
            data = described.get(step.service, ()) if there is None else tuple(there)
            if data:
                found.append(Loss(step.service, data))
    return tuple(found)


def carry_out(
    plan: Plan, catalogue: Catalogue, cluster: Services, tell: Callable[[Step], None] = lambda _: None
) -> tuple[Outcome, ...]:
    """Do the steps of a plan in their order; `tell` hears of each before it is done.

    A step that the cluster refuses does not keep others from being done, but nothing is started that needs a service
    whose start was refused. Whoever calls has asked before data are destroyed (`losses_on`).
    """
    outcomes: list[Outcome] = []
    failed: set[str] = set()
    for step in plan.steps:
        error: PaictlError | None = None
        missing = sorted(failed & needed_by(catalogue.graph, [step.service]))
        if step.action is Action.START and missing:
            error = ServiceError(f"needs {missing[0]}, which did not start", where=step.service)
        else:
            tell(step)
            error = _done(step, cluster)
        if error is not None:
            failed.add(step.service)
        outcomes.append(Outcome(step, error))
    return tuple(outcomes)


def _done(step: Step, cluster: Services) -> PaictlError | None:
    """Ask the cluster for a step; to refresh is to stop and start, which loads the configuration pushed last."""
    try:
        if step.action is Action.DELETE:
            cluster.wipe_service(step.service)
            return None
        if step.action is not Action.START:
            cluster.set_service(step.service, running=False)
        if step.action in (Action.START, Action.REFRESH):
            cluster.set_service(step.service, running=True)
    except PaictlError as error:
        return error
    return None
