"""The phases of a deployment, each a playbook or a question to the API, skipped where nothing is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paictl.deploy.addons import DefaultStorage, NodeDns
from paictl.deploy.inspection import Connect, Facts, SameVersion
from paictl.deploy.installing import Devices, PodNetwork, PushArtifacts, Runtime
from paictl.deploy.joining import ControlPlane, JoinMasters, JoinWorkers
from paictl.deploy.locking import Lock
from paictl.deploy.nodes import AllReady, Labels
from paictl.deploy.phase import RIGHT, DeployPhase
from paictl.deploy.pod_security import PodSecurity
from paictl.deploy.reconfiguring import Settings
from paictl.deploy.site import Site
from paictl.frozen import frozen
from paictl.plan.run import Phase


class LockForChanges(Lock):
    """Nobody is kept out where there is nothing to change."""

    def should_run(self) -> str:
        """Skipped where the hosts, as they were found, need nothing."""
        return "" if planned(self.site) else RIGHT


PHASES: Final[tuple[type[DeployPhase], ...]] = (
    Connect,
    Facts,
    SameVersion,
    LockForChanges,
    PushArtifacts,
    Runtime,
    ControlPlane,
    Settings,
    JoinMasters,
    PodNetwork,
    JoinWorkers,
    Devices,
    Labels,
    NodeDns,
    PodSecurity,
    DefaultStorage,
    AllReady,
)
"""In their order."""
LOOKING: Final = ("connect", "facts")
"""The phases of `plan`: they change nothing."""


@frozen
class HostChange:
    """What a phase would change on a host."""

    phase: str
    host: str
    what: tuple[str, ...]


def planned(site: Site) -> tuple[HostChange, ...]:
    """What all phases would change, from the facts."""
    return tuple(
        HostChange(kind.name, machine.name, tuple(changes))
        for kind in PHASES
        for machine in site.machines
        if (changes := kind(site).changes(site.facts[machine.name]))
    )


def phases(site: Site, names: Sequence[str] = ()) -> list[Phase]:
    """All phases, or some by their names."""
    return [kind(site) for kind in PHASES if not names or kind.name in names]
