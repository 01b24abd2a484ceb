"""The phase that applies changed settings to a cluster that runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from paictl.deploy.cluster_settings import CONTROL_PLANE, changed_sections, noted_settings
from paictl.deploy.encryption import change_keys, encryption_changes, rewrite_secrets, states_of, steps_to
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.joining import api
from paictl.deploy.kubeadm import changed_configuration
from paictl.deploy.nodes import patiently
from paictl.deploy.phase import DeployPhase
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.kube.client import MERGE

TAINT: Final = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


class Settings(DeployPhase):
    """Changed settings of kubelet, the control plane and kube-proxy, on a cluster that runs."""

    name, says = "settings", "apply changed settings to the running cluster"

    def changes(self, facts: HostFacts) -> list[str]:
        """What differs from the note of a machine that has joined."""
        if not facts.joined(self.site.cluster):
            return []
        deployment = self.site.desired.deployment
        sections = changed_sections(deployment, facts)
        changes = [f"{name}: {', '.join(lines)}" for name, lines in sections.items()]
        if facts.machine.role is Role.MASTER:
            encrypts = deployment.settings.hardening.encrypts
            changes += encryption_changes(encrypts, facts, first=facts.machine == deployment.first)
        return changes

    def run(self, tell: Tell) -> None:
        """First the configuration that the cluster keeps, then masters one by one, then all workers."""
        site = self.site
        deployment, due = site.desired.deployment, self.due()
        sections = {machine.name: changed_sections(deployment, site.facts[machine.name]) for machine in due}
        steps = {machine.name: self._steps(machine, sections[machine.name]) for machine in due}
        everywhere = {name for section in sections.values() for name in section}
        first = steps.setdefault(deployment.first.name, self._steps(deployment.first, {}))
        first["configuration"] = changed_configuration(deployment, site.desired.version, site.desired.images)
        first["proxy"] = "kube_proxy" in everywhere
        if "jobs_on_masters" in everywhere:
            self._taint(tell)
        variables = {"paictl_settings": steps, "paictl_seconds": int(site.timeout)}
        encrypts = deployment.settings.hardening.encrypts
        keys = steps_to(encrypts, states_of(site))
        if keys.before:
            change_keys(site, keys.before, tell)
        if keys.rewrite and not encrypts:  # while all API servers can still read what is encrypted
            rewrite_secrets(site, tell)
        site.play("settings", tell, [machine for machine in site.machines if machine.name in steps], variables)
        if keys.after:
            change_keys(site, keys.after, tell)
        if keys.rewrite and encrypts:
            rewrite_secrets(site, tell)

    def _steps(self, machine: Machine, sections: Mapping[str, Any]) -> dict[str, Any]:
        """What the module paictl_settings does on a machine."""
        deployment = self.site.desired.deployment
        return {
            "configuration": "",
            "proxy": False,
            "kubelet": "kubelet" in sections,
            "control_plane": any(name in sections for name in CONTROL_PLANE),
            "etcd": "etcd_arguments" in sections,
            "healthz": int(deployment.settings.kubelet.get("healthzPort", 10248)),
            "note": json.dumps(noted_settings(deployment, machine)),
        }

    def _taint(self, tell: Tell) -> None:
        """Let masters run jobs, or no more; what runs there stays."""
        client, jobs = api(self.site), self.site.desired.deployment.settings.jobs_on_masters
        for machine in self.site.desired.deployment.masters:
            path = f"/api/v1/nodes/{machine.name}"
            node = patiently(partial(client.get, path))
            others = [taint for taint in node["spec"].get("taints", []) if taint["key"] != TAINT["key"]]
            body = {"spec": {"taints": others if jobs else [*others, TAINT]}}
            patiently(partial(client.request, "PATCH", path, body, kind=MERGE))
        tell(text("masters run jobs: {jobs}", jobs=jobs), "")
