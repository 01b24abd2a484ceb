"""Whether a service does its work, and if not, why not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from paictl.service.catalogue import Catalogue, Service
from paictl.service.plan import State, States


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a cluster.

    `details` holds what the cluster itself says about a service (why it failed, what it waits for); `files` are the
    names of the configuration files that were pushed.
    """

    states: States
    files: Collection[str] = ()
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Readiness:
    """`ready` iff there are no `reasons`; each is one line without a full stop, the nearest first."""

    service: str
    state: State
    reasons: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the service runs and has all that it needs."""
        return not self.reasons


def readiness_of(name: str, catalogue: Catalogue, sight: Sight) -> Readiness:
    """The readiness of one service; raises `ServiceError` for an unknown one.

    A running service without one of its prerequisites is not ready: it is there, but cannot do its work.
    """
    service = catalogue[name]
    state = sight.states.get(name, State.ABSENT)
    missing = [need for need in service.prerequisites if sight.states.get(need) is not State.RUNNING]
    chains = [f"needs {_chain(need, catalogue, sight)}" for need in missing]
    return Readiness(name, state, (*_own(service, state, sight), *_configuration(service, sight), *chains))


def _own(service: Service, state: State, sight: Sight) -> list[str]:
    detail = sight.details.get(service.name)
    if detail:
        return [f"is {state}: {detail}"]
    if state is State.RUNNING:
        return []
    if state is State.STARTING:
        return ["is starting"]
    return [f"is {state}: start it with paictl service start -n {service.name}"]


def _configuration(service: Service, sight: Sight) -> list[str]:
    """Files that it reads and nobody pushed; a missing section is no reason, each section has defaults."""
    files = dict.fromkeys(reference.partition(":")[0] for reference in service.configuration)
    return [f"reads {file}, which was never pushed" for file in files if file not in sight.files]


def _chain(need: str, catalogue: Catalogue, sight: Sight) -> str:
    """A service that does not run, and behind it the one to blame: the first that lacks nothing itself."""
    state = sight.states.get(need, State.ABSENT)
    for deeper in catalogue[need].prerequisites:
        if sight.states.get(deeper, State.ABSENT) is not State.RUNNING:
            return f"{need} ({state}), which needs {_chain(deeper, catalogue, sight)}"
    return f"{need} ({state})"
