"""The phases that change nothing: log in, look, judge."""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import Any, Final

from paictl.deploy.certs import RENEW
from paictl.deploy.cluster_settings import refuse_fixed
from paictl.deploy.facts import HostFacts
from paictl.deploy.locking import refuse_locked
from paictl.deploy.phase import DeployPhase
from paictl.deploy.preflight.checking import judged_quickly
from paictl.deploy.preflight.node_checks import check_node, nodes_in
from paictl.deploy.preflight.verdict import Level
from paictl.deploy.site import DeployError, Site
from paictl.deploy.versions import version_of
from paictl.errors import ExitCode
from paictl.i18n import text
from paictl.plan.run import Tell

_SHOWN: Final = 4


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

    name, says = "facts", "inspect all machines"

    def run(self, tell: Tell) -> None:
        """Collect the facts, and record when."""
        began = time.time()
        result = self.site.play("facts", tell, self.site.machines)
        for machine in self.site.machines:
            facts: Any = result.hosts[machine.name].facts["paictl_facts"]
            self.site.facts[machine.name] = HostFacts(machine, facts)
        self.site.looked = (began, time.time())


def refuse_other_version(site: Site) -> None:
    """Raise `DeployError` if the cluster's Kubernetes version differs from the artifacts'.

    Programs of another version are only ever put in place by an upgrade: in its order, on nodes that were drained.
    """
    wished = version_of(site.desired.version)
    versions = {
        version_of(fact.version): name
        for name, fact in site.facts.items()
        if fact.joined(site.cluster) and fact.version and version_of(fact.version) != wished
    }
    if not versions:
        return
    version, host = max(versions), versions[max(versions)]
    message = text(
        "the cluster runs Kubernetes {there}, but the artifacts are for {wished}", there=version, wished=wished
    )
    hint = text("use artifacts for {version}; nothing was changed", version=version)
    if version < wished:
        hint = text("to upgrade: {command}; nothing was changed", command=f"paictl deploy upgrade --to {wished}")
    raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint, where=host)


def refuse_other_nodes(site: Site) -> None:
    """Raise `DeployError` for a machine that is a different node than the lists say."""
    nodes = nodes_in(fact.host for fact in site.facts.values())
    verdicts = [(machine, check_node(machine, site.facts[machine.name].host, nodes)) for machine in site.machines]
    wrong = [(machine, verdict) for machine, verdict in verdicts if verdict.level is Level.FAIL]
    if not wrong:
        return
    message = "; ".join(
        text(
            "{host}: {found}, but the list says {wanted}", host=machine.name, found=verdict.found, wanted=verdict.wanted
        )
        for machine, verdict in wrong[:_SHOWN]
    )
    hint = text("{fix}; nothing was changed", fix=wrong[0][1].fix)
    raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)


def refuse_ended(site: Site) -> None:
    """Raise `DeployError` where certificates have ended: the API does not answer, and nothing can be applied."""
    ended = {
        name: list(fact.values.get("ended") or ()) for name, fact in site.facts.items() if fact.joined(site.cluster)
    }
    lines = [
        f"{name}: {', '.join(PurePosixPath(path).name for path in paths[:_SHOWN])}"
        for name, paths in ended.items()
        if paths
    ]
    if lines:
        message = text("certificates have expired on {hosts}", hosts="; ".join(lines[:_SHOWN]))
        hint = text("renew them: {command}; nothing was changed", command=f"{RENEW} -m … -w … -c …")
        raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)


class Preflight(Connect):
    """Refuse what cannot work while nothing has been changed."""

    name, says = "preflight", "check what was found"

    def run(self, tell: Tell) -> None:
        """Judge; raises `DeployError` naming every host that must not be touched."""
        refuse_locked(self.site)
        refuse_other_nodes(self.site)
        checked = judged_quickly(self.site.desired.deployment, self.site.facts, self.site.looked)
        failed = [failure for failure in checked.failures if failure[2].level is Level.FAIL]
        for host, check, verdict in checked.failures:
            if check == "node":
                tell(text("{found}, but the list says {wanted}", found=verdict.found, wanted=verdict.wanted), host)
        for host, check, verdict in failed:
            tell(text("{check}: {found} ({fix})", check=check, found=verdict.found, fix=verdict.fix), host)
        if failed:
            host, check, first = failed[0]
            message = text(
                "{host}: {check}: {found}, expected: {wanted}",
                host=host,
                check=check,
                found=first.found,
                wanted=first.wanted,
            )
            if len(failed) > 1:
                message = text("{first}; and {count} more", first=message, count=len(failed) - 1)
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=first.fix or None)
        refuse_ended(self.site)


class SameVersion(Preflight):
    """The same for a deployment, which is no upgrade."""

    def run(self, tell: Tell) -> None:
        """Judge; another version is refused, too, and what a running cluster or the services cannot take."""
        refuse_other_version(self.site)
        super().run(tell)
        refuse_fixed(self.site)
        self.site.judge(self.site)
