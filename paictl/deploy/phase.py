"""What the phases of a deployment have in common, and their order."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Final

from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Machine
from paictl.deploy.site import Site
from paictl.plan.run import Phase

RIGHT: Final = "everything is up to date"
ORDER: Final = (
    "connect",
    "facts",
    "preflight",
    "lock",
    "artifacts",
    "runtime",
    "control-plane",
    "settings",
    "join-masters",
    "network",
    "join-workers",
    "devices",
    "labels",
    "node-dns",
    "pod-security",
    "storage",
    "verify",
)


class OrderedPhase(Phase):
    """A phase of a fixed `order`: it needs all before it, for a host that failed is not gone on with."""

    order: ClassVar[tuple[str, ...]]
    name: str
    says: str

    @property
    def id(self) -> str:
        """The name that the plan and the run folder know it by."""
        return self.name

    @property
    def title(self) -> str:
        """What it does."""
        return self.says

    @property
    def needs(self) -> frozenset[str]:
        """All before it."""
        return frozenset(self.order[: self.order.index(self.name)])


class DeployPhase(OrderedPhase):
    """A phase of a deployment: it knows the site, and which hosts have something to do in it."""

    order = ORDER

    def __init__(self, site: Site) -> None:
        self.site = site

    @abstractmethod
    def changes(self, facts: HostFacts) -> list[str]:
        """What it would change on a host, one line each; empty if nothing."""

    def due(self) -> list[Machine]:
        """The machines that it has to do something on."""
        return [machine for machine in self.site.machines if self.changes(self.site.facts[machine.name])]

    def should_run(self) -> str:
        """Skipped where the hosts, as they were found, need nothing."""
        return "" if self.due() else RIGHT
