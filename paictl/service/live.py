"""What is seen of services on a cluster, and what a plan would destroy there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from paictl.cluster.interface import Configuration, Services, ServiceView
from paictl.config.pushing.compare import FileDifference
from paictl.config.reading.keypath import parse_dotted
from paictl.service.catalogue import Catalogue
from paictl.service.plan import Action, DataLoss, ServicePlan, ServiceState
from paictl.service.readiness import ObservedCluster


class LiveServicePorts(Services, Configuration, Protocol):
    """What is looked at to know how services are."""


def observe(cluster: LiveServicePorts, seen: Iterable[ServiceView] | None = None) -> ObservedCluster:
    """States, reasons and pushed files of a cluster, of what was `seen` just now where it was."""
    views = {view.name: view for view in (cluster.services() if seen is None else seen)}
    versions = cluster.configurations()
    files = tuple(versions[-1].files) if versions else ()
    details = {name: view.reason for name, view in views.items() if (view.running or view.failed) and not view.ready}
    return ObservedCluster({name: _state(view) for name, view in views.items()}, files, details)


def _state(view: ServiceView) -> ServiceState:
    if view.failed:
        return ServiceState.FAILED
    if not view.running:
        return ServiceState.STOPPED
    return ServiceState.RUNNING if view.ready else ServiceState.STARTING


def readers_of(differences: Iterable[FileDifference], catalogue: Catalogue) -> tuple[str, ...]:
    """The services that read something that differs, in start order; comments alone concern none."""
    changed = {difference.name: {_top(change.path) for change in difference.changes} for difference in differences}

    def reads(reference: str) -> bool:
        file, _, section = reference.partition(":")
        return bool(changed.get(file)) and (not section or section in changed[file])

    return tuple(service.name for service in catalogue if any(map(reads, service.configuration)))


def _top(path: str) -> str:
    return path.partition(".")[0] if not path.startswith('"') else parse_dotted(path)[0]


def losses_on(plan: ServicePlan, cluster: Services) -> tuple[DataLoss, ...]:
    """What a plan destroys on a cluster: as the cluster says, else as the descriptions of the services say."""
    described = {loss.service: loss.data for loss in plan.losses}
    found: list[DataLoss] = []
    for step in plan.steps:
        if step.action is Action.DELETE:
            there = cluster.losses(step.service)
            data = described.get(step.service, ()) if there is None else tuple(there)
            if data:
                found.append(DataLoss(step.service, data))
    return tuple(found)
