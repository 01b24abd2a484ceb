"""The phases that change the machines themselves: programs, runtime, GPUs; and the pods' network."""

from __future__ import annotations

import hashlib
from typing import Final

from paictl.deploy.artifacts import verify
from paictl.deploy.desired import NVIDIA, nvidia_toml
from paictl.deploy.facts import HostFacts
from paictl.deploy.manifests import manifest_for
from paictl.deploy.phase import DeployPhase
from paictl.deploy.pushing import push
from paictl.deploy.site import pack, pack_folder
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.resources import resource_folder

DRIVER_ROOT: Final = "/run/nvidia/driver"
"""Where the service `gpu-driver` shows the driver that it has installed."""
TOOLKIT: Final = "/etc/nvidia-container-runtime/config.toml"
"""Settings of NVIDIA's container toolkit."""


class PushArtifacts(DeployPhase):
    """Verify the artifacts, push what hosts lack, put programs in their places."""

    name, says = "artifacts", "push programs and images"

    def changes(self, facts: HostFacts) -> list[str]:
        """Programs and images that the host lacks; images that were pushed already wait for the next phase."""
        differences, packed = facts.values.get("differences") or {}, {*facts.values.get("packed", ())}
        if not differences.get("programs") and set(differences.get("images") or ()) <= packed:
            return []
        return facts.lacks("programs", "images")

    def run(self, tell: Tell) -> None:
        """Verify first: no host is touched with a wrong file."""
        site, due = self.site, self.due()
        verify(site.desired.artifacts)
        with pack_folder() as folder:
            archives = {machine.name: pack(site.desired, machine, site.facts[machine.name], folder) for machine in due}
            packs = {name: str(path) for name, path in archives.items() if path is not None}
            push(site, "artifacts", tell, due, packs)


class Runtime(DeployPhase):
    """Kernel, containerd, kubelet's unit, images."""

    name, says = "runtime", "configure kernel, containerd and kubelet, import images"

    def changes(self, facts: HostFacts) -> list[str]:
        """Files, kernel settings, images and units that differ from the desired state."""
        changes = facts.lacks("files", "modes", "modules", "sysctls", "swap", "images")
        units = ["containerd", *self.site.desired.units(facts.machine)]
        idle = [name for name in units if not facts.runs(name)]
        return changes + ([text("start: {units}", units=", ".join(idle))] if idle else [])

    def run(self, tell: Tell) -> None:
        """Make it so."""
        self.site.play("runtime", tell, self.due())


class Devices(DeployPhase):
    """NVIDIA's container toolkit and the devices' description for containers (CDI), on hosts that have GPUs."""

    name, says = "devices", "give containers access to GPUs"

    def changes(self, facts: HostFacts) -> list[str]:
        """Toolkit, CDI and containerd's settings, where there are GPUs."""
        if not facts.gpus:
            return []
        changes = [] if facts.values.get("toolkit") else ["nvidia-container-toolkit"]
        if self._driver_root(facts) == "/":
            changes += [] if facts.values.get("devices") else ["/etc/cdi/nvidia.yaml"]
        changes += [TOOLKIT] if self._moved(facts) else []
        return changes + ([] if facts.values.get("gpu_runtime") == nvidia_toml(self.site.desired) else [NVIDIA])

    def _driver_root(self, facts: HostFacts) -> str:
        """Where the driver of a host is: in its own root, or where the service `gpu-driver` shows it."""
        by_service = self.site.desired.deployment.settings.driver_by_service and not facts.has_own_driver
        return DRIVER_ROOT if by_service else "/"

    def _moved(self, facts: HostFacts) -> bool:
        """Whether the toolkit does not look where the service shows its driver; other settings of it are not ours."""
        return self._driver_root(facts) == DRIVER_ROOT and bool(facts.host["gpus"].get("root") != DRIVER_ROOT)

    def should_run(self) -> str:
        """Hosts without GPUs are not asked."""
        if not any(facts.gpus for facts in self.site.facts.values()):
            return "no machine has NVIDIA GPUs"
        return super().should_run()

    def run(self, tell: Tell) -> None:
        """Install and describe."""
        artifact = self.site.desired.artifacts.find("nvidia-container-toolkit")
        archive = str(self.site.desired.artifacts.file(artifact)) if artifact else ""
        runtime = {"path": NVIDIA, "content": nvidia_toml(self.site.desired), "mode": "0644"}
        due = self.due()
        roots = {machine.name: self._driver_root(self.site.facts[machine.name]) for machine in due}
        moved = [machine.name for machine in due if self._moved(self.site.facts[machine.name])]
        self.site.play(
            "devices",
            tell,
            due,
            {
                "paictl_toolkit": archive,
                "paictl_gpu_runtime": runtime,
                "paictl_driver_roots": roots,
                "paictl_moved_drivers": moved,
            },
        )


class PodNetwork(DeployPhase):
    """flannel or Calico from the artifacts; with bridge, the right of each machine to follow the nodes by itself."""

    name, says = "network", "set up the network of the pods"

    def changes(self, facts: HostFacts) -> list[str]:
        """A manifest that the first master has not applied yet."""
        first = facts.machine is self.site.desired.deployment.first
        manifest = self.manifest() if first else ""
        applied = facts.values.get("network")
        return [text("apply {what}", what=self._network)] if manifest and applied != manifest_mark(manifest) else []

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
