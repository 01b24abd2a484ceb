"""The twelve phases of a deployment, each a playbook or a question to the API, skipped where nothing is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paictl.deploy.installing import Devices, PushArtifacts, Runtime
from paictl.deploy.joining import ControlPlane, JoinMasters, JoinWorkers
from paictl.deploy.looking import Connect, Facts, SameVersion
from paictl.deploy.network import PodNetwork
from paictl.deploy.nodes import AllReady, Labels
from paictl.deploy.phase import DeployPhase
from paictl.deploy.site import Site
from paictl.frozen import frozen
from paictl.plan.phase import Phase

PHASES: Final[tuple[type[DeployPhase], ...]] = (
    Connect, Facts, SameVersion, PushArtifacts, Runtime, ControlPlane, JoinMasters, PodNetwork, JoinWorkers, Devices,
    Labels, AllReady,
)  # fmt: skip
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
        HostChange(kind.name, machine.name, tuple(found))
        for kind in PHASES
        for machine in site.machines
        if (found := kind(site).changes(site.facts[machine.name]))
    )


def phases(site: Site, names: Sequence[str] = ()) -> list[Phase]:
    """All phases, or some by their names."""
    return [kind(site) for kind in PHASES if not names or kind.name in names]
