"""Pod Security of namespaces: the labels that `deploy.pod_security` asks for, and the phase that sets them.

A namespace that has our labels says so in an annotation, which is how a level that nobody wants any more is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from paictl.deploy.facts import HostFacts
from paictl.deploy.joining import api
from paictl.deploy.nodes import patiently
from paictl.deploy.phase import RIGHT, DeployPhase
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.kube.client import MERGE, KubeClient
from paictl.remote.kube.objects import create

LABELS: Final = "pod-security.kubernetes.io"
MODES: Final = ("enforce", "audit", "warn")
OURS: Final = "paictl.io/pod-security"
"""The annotation of namespaces whose labels are ours: the level that they were given."""
_PATH: Final = "/api/v1/namespaces"

Levels = Mapping[str, str]
"""Level by namespace."""


def labels_of(level: str, version: str) -> dict[str, str]:
    """The labels of a namespace for a level, as a Kubernetes version (``v1.37.1``) understands it."""
    major, minor, *_ = version.removeprefix("v").split(".")
    number = f"v{major}.{minor}"
    return {f"{LABELS}/{mode}{end}": value for mode in MODES for end, value in (("", level), ("-version", number))}


def changes_to(namespaces: Mapping[str, Any], levels: Levels, version: str) -> dict[str, dict[str, Any]]:
    """The metadata that differs, by namespace; None stands for a label or annotation that goes.

    Where a level is not wanted any more, labels go that still are as they were given; what others set since stays.
    """
    changes: dict[str, dict[str, Any]] = {}
    for name, level in levels.items():
        about = namespaces.get(name, {}).get("metadata", {})
        labels = _other(about.get("labels") or {}, labels_of(level, version))
        noted = _other(about.get("annotations") or {}, {OURS: level})
        if labels or noted:
            changes[name] = {"labels": labels, "annotations": noted}
    for name, namespace in namespaces.items():
        about = namespace["metadata"]
        own_level = (about.get("annotations") or {}).get(OURS)
        if own_level is None or name in levels:
            continue
        labels = about.get("labels") or {}
        ours = [mode for mode in MODES if labels.get(f"{LABELS}/{mode}") == own_level]
        removed = [f"{LABELS}/{mode}{end}" for mode in ours for end in ("", "-version")]
        changes[name] = {"labels": dict.fromkeys(removed), "annotations": {OURS: None}}
    return changes


def _other(present: Mapping[str, str], target: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in target.items() if present.get(key) != value}


def namespaces_of(client: KubeClient) -> dict[str, Any]:
    """All namespaces by name."""
    return {item["metadata"]["name"]: item for _, page in client.list(_PATH) for item in page}


def weaker(client: KubeClient, levels: Levels) -> list[str]:
    """Namespaces that do not enforce the desired level, each with the level that it enforces."""
    namespaces = namespaces_of(client)
    lines: list[str] = []
    for name, level in levels.items():
        about = namespaces.get(name, {}).get("metadata", {})
        now = (about.get("labels") or {}).get(f"{LABELS}/enforce")
        if now != level:
            lines.append(text("{name} enforces {now}, not {level}", name=name, now=now or text("nothing"), level=level))
    return lines


class PodSecurity(DeployPhase):
    """Labels of namespaces, which are made where they are missing and never deleted."""

    name, says = "pod-security", "set Pod Security of namespaces"

    def changes(self, facts: HostFacts) -> list[str]:
        """What a new cluster gets; the note of one that runs says what changes, in the phase `settings`."""
        deployment = self.site.desired.deployment
        if facts.machine != deployment.first or facts.joined(self.site.cluster):
            return []
        return [f"{name}: {level}" for name, level in deployment.settings.pod_security.items()]

    def should_run(self) -> str:
        """Skipped where all namespaces are as they shall be, as the API says."""
        return "" if self._changes(api(self.site)) else RIGHT

    def run(self, tell: Tell) -> None:
        """Make missing namespaces and set labels; raises `KubeError` for what the API server refuses."""
        client = api(self.site)
        for name, metadata in self._changes(client).items():
            patiently(partial(_set, client, name, metadata))
            level = metadata["annotations"].get(OURS, self._levels.get(name)) or text("no level set by paictl")
            tell(f"{name}: {level}", "")

    def _changes(self, client: KubeClient) -> dict[str, dict[str, Any]]:
        return changes_to(patiently(partial(namespaces_of, client)), self._levels, self.site.desired.version)

    @property
    def _levels(self) -> Levels:
        return self.site.desired.deployment.settings.pod_security


def _set(client: KubeClient, name: str, metadata: Mapping[str, Any]) -> None:
    """Change a namespace, which is made if it is missing; one that goes meanwhile is not missed."""
    create(client, _PATH, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    client.request("PATCH", f"{_PATH}/{name}", {"metadata": metadata}, kind=MERGE)
