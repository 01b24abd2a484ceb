"""Whether a service does its work, if not, why not, and what a plan would destroy there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Protocol

from paictl.cluster.eventtext import reasons
from paictl.cluster.interface import Configuration, Services, ServiceView
from paictl.config.pushing.compare import FileDifference
from paictl.config.reading.nodes import parse_dotted
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.service.catalogue import Catalogue, Service
from paictl.service.plan import Action, DataLoss, ServicePlan, ServiceState, States


@frozen
class ObservedCluster:
    """What can be seen of a cluster.

    `details` holds what the cluster itself says about a service (why it failed, what it waits for); `files` are the
    names of the configuration files that were pushed.
    """

    states: States
    files: Collection[str] = ()
    details: Mapping[str, str] = field(default_factory=dict)


@frozen
class Readiness:
    """`ready` iff there are no `reasons`; each is one line without a full stop, the nearest first."""

    service: str
    state: ServiceState
    reasons: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the service runs and has all that it needs."""
        return not self.reasons


def readiness_of(name: str, catalogue: Catalogue, observed: ObservedCluster) -> Readiness:
    """The readiness of one service; raises `ServiceError` for an unknown one.

    A running service without one of its prerequisites is not ready: it is there, but cannot do its work.
    """
    service = catalogue[name]
    state = observed.states.get(name, ServiceState.ABSENT)
    missing = [need for need in service.prerequisites if observed.states.get(need) is not ServiceState.RUNNING]
    chains = [text("needs {names}", names=_chain(need, catalogue, observed)) for need in missing]
    return Readiness(name, state, (*_own(service, state, observed), *_configuration(service, observed), *chains))


def _own(service: Service, state: ServiceState, observed: ObservedCluster) -> list[str]:
    detail = observed.details.get(service.name)
    if detail:
        return [text("is {state}: {detail}", state=state, detail=reasons(detail))]
    if state is ServiceState.RUNNING:
        return []
    if state is ServiceState.STARTING:
        return ["is starting"]
    return [text("is {state}: start it with paictl service start -n {name}", state=state, name=service.name)]


def _configuration(service: Service, observed: ObservedCluster) -> list[str]:
    """Files that it reads and that were not pushed; a missing section is no reason, each section has defaults."""
    files = dict.fromkeys(reference.partition(":")[0] for reference in service.configuration)
    return [text("reads {file}, which was never pushed", file=file) for file in files if file not in observed.files]


def _chain(need: str, catalogue: Catalogue, observed: ObservedCluster) -> str:
    """A service that does not run, and behind it the one to blame: the first that lacks nothing itself."""
    state = observed.states.get(need, ServiceState.ABSENT)
    for deeper in catalogue[need].prerequisites:
        if observed.states.get(deeper, ServiceState.ABSENT) is not ServiceState.RUNNING:
            deeper_chain = _chain(deeper, catalogue, observed)
            return text("{name} ({state}), which needs {names}", name=need, state=state, names=deeper_chain)
    return f"{need} ({state})"


class LiveServicePorts(Services, Configuration, Protocol):
    """What is looked at to know how services are."""


def observe(cluster: LiveServicePorts, services: Iterable[ServiceView] | None = None) -> ObservedCluster:
    """States, reasons and pushed files of a cluster, of what was `seen` just now where it was."""
    views = {view.name: view for view in (cluster.services() if services is None else services)}
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
    losses: list[DataLoss] = []
    for step in plan.steps:
        if step.action is Action.DELETE:
            there = cluster.losses(step.service)
            data = described.get(step.service, ()) if there is None else tuple(there)
            if data:
                losses.append(DataLoss(step.service, data))
    return tuple(losses)
