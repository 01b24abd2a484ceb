"""The phase of the pods' network."""

from __future__ import annotations

import hashlib

from paictl.deploy.facts import HostFacts
from paictl.deploy.manifests import manifest_for
from paictl.deploy.phase import DeployPhase
from paictl.i18n import text
from paictl.plan.phase import Tell
from paictl.resources import resource_folder


class PodNetwork(DeployPhase):
    """flannel or Calico from the artifacts; with bridge, the right of each machine to follow the nodes by itself."""

    name, says = "network", "set up the network of the pods"

    def changes(self, facts: HostFacts) -> list[str]:
        """A manifest that the first master has not applied yet."""
        first = facts.machine is self.site.desired.deployment.first
        manifest = self.manifest() if first else ""
        known = facts.values.get("network")
        return [text("apply {what}", what=self._network)] if manifest and known != manifest_mark(manifest) else []

    @property
    def _network(self) -> str:
        return self.site.desired.deployment.settings.network

    def manifest(self) -> str:
        """The manifest with the network of the pods in it; empty where the network takes none."""
        if self._network == "none":
            return ""
        if self._network == "bridge":
            return (resource_folder("playbooks") / "files" / "bridge.yaml").read_text(encoding="utf-8")
        artifacts = self.site.desired.artifacts
        path = artifacts.file(artifacts.need(self._network))
        return manifest_for(self._network, path, self.site.desired.deployment.settings.pods)

    def should_run(self) -> str:
        """Skipped where something else does it."""
        return "you bring your own" if self._network == "none" else super().should_run()

    def run(self, tell: Tell) -> None:
        """Apply the manifest."""
        manifest = self.manifest()
        variables = {"paictl_manifest": manifest, "paictl_mark": manifest_mark(manifest)}
        self.site.play("network", tell, [self.site.desired.deployment.first], variables)


def manifest_mark(manifest: str) -> str:
    """By which a host knows the manifest that it has applied."""
    return hashlib.sha256(manifest.encode()).hexdigest()
