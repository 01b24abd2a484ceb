"""Whether a service does its work, and if not, why not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from paictl.frozen import frozen
from paictl.service.catalogue import Catalogue, Service
from paictl.service.plan import ServiceState, States


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
    chains = [f"needs {_chain(need, catalogue, observed)}" for need in missing]
    return Readiness(name, state, (*_own(service, state, observed), *_configuration(service, observed), *chains))


def _own(service: Service, state: ServiceState, observed: ObservedCluster) -> list[str]:
    detail = observed.details.get(service.name)
    if detail:
        return [f"is {state}: {detail}"]
    if state is ServiceState.RUNNING:
        return []
    if state is ServiceState.STARTING:
        return ["is starting"]
    return [f"is {state}: start it with paictl service start -n {service.name}"]


def _configuration(service: Service, observed: ObservedCluster) -> list[str]:
    """Files that it reads and nobody pushed; a missing section is no reason, each section has defaults."""
    files = dict.fromkeys(reference.partition(":")[0] for reference in service.configuration)
    return [f"reads {file}, which was never pushed" for file in files if file not in observed.files]


def _chain(need: str, catalogue: Catalogue, observed: ObservedCluster) -> str:
    """A service that does not run, and behind it the one to blame: the first that lacks nothing itself."""
    state = observed.states.get(need, ServiceState.ABSENT)
    for deeper in catalogue[need].prerequisites:
        if observed.states.get(deeper, ServiceState.ABSENT) is not ServiceState.RUNNING:
            return f"{need} ({state}), which needs {_chain(deeper, catalogue, observed)}"
    return f"{need} ({state})"
