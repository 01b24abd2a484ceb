"""The phases that change nothing: log in, look, judge."""

from __future__ import annotations

from typing import Any

from paictl.deploy.facts import HostFacts, obstacles
from paictl.deploy.phase import DeployPhase
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from paictl.plan.phase import Tell


class Connect(DeployPhase):
    """Log in everywhere, before anything else is tried."""

    name, says = "connect", "log in on all machines"

    def changes(self, facts: HostFacts) -> list[str]:  # noqa: ARG002 - it changes nothing
        """Nothing."""
        return []

    def should_run(self) -> str:
        """Always."""
        return ""

    def run(self, tell: Tell) -> None:
        """Log in, become root, find Python."""
        self.site.play("connect", tell, self.site.machines)


class Facts(Connect):
    """Look at all machines: what they are, and what they lack."""

    name, says = "facts", "look at all machines"

    def run(self, tell: Tell) -> None:
        """Look, and keep what was found."""
        result = self.site.play("facts", tell, self.site.machines)
        for machine in self.site.machines:
            found: Any = result.hosts[machine.name].facts["paictl_facts"]
            self.site.facts[machine.name] = HostFacts(machine, found)


class Preflight(Connect):
    """Refuse what cannot work while nothing has been changed."""

    name, says = "preflight", "check what was found"

    def run(self, tell: Tell) -> None:
        """Judge; raises `DeployError` naming every host that must not be touched."""
        found = [one for facts in self.site.facts.values() for one in obstacles(facts, self.site.cluster)]
        for one in found:
            tell(one.message + (f" ({one.hint})" if one.hint else ""), one.host)
        if found:
            more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
            raise DeployError(f"{found[0]}{more}", exit_code=ExitCode.NEGATIVE, hint=found[0].hint or None)
