"""Settings of `deploy:` that changed after a cluster began: which take effect and how, and which are refused and why.

One table has every key; a test compares it with the schema and with `DeploySettings`. What a machine was configured
with is kept on it (`NOTE`), so that a key that was taken out of config.yaml is a change, too. Settings that a running
cluster cannot change are read from the masters' own files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from paictl.deploy.control_plane import component_arguments
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.kubeadm import all_api_server_arguments, kube_proxy_configuration, kubelet_configuration
from paictl.deploy.site import DeployError, Site
from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.i18n import text

_NETWORKS: Final = {"10-paictl.conflist": "bridge", "10-flannel.conflist": "flannel", "10-calico.conflist": "calico"}
"""The CNI configuration that each network writes."""


class Effect(StrEnum):
    """How a change of a key takes effect on a running cluster."""

    FILES = "files"
    """A file, image or kernel setting of the hosts has its value, and is compared on each of them."""
    OBSERVED = "observed"
    """The phase `devices` compares it with what hosts with GPUs show."""
    APPLIED = "applied"
    """A manifest has its value; the first master keeps which one it has applied."""
    NOTED = "noted"
    """A section of the note on the hosts; the phase `settings` applies it."""
    EACH_TIME = "each time"
    """It says how paictl itself works, and nothing keeps it."""
    FIXED = "fixed"
    """The cluster keeps what it began with; another value is refused, with `advice`."""


@frozen
class KeyRule:
    """A key of config.yaml: fields of `DeploySettings` that it fills, the effect of a change, and what to do instead.

    `section` is the section of the note that has a noted key, `fact` the value of the masters that a fixed key has.
    """

    key: str
    fields: tuple[str, ...]
    effect: Effect
    section: str = ""
    fact: str = ""
    advice: str = ""


_EXTRA: Final = "openpai_kubespray_extra_var"
_REBUILD: Final = "keep the old value, or move to a new cluster: paictl deploy backup, then reset and apply"
_UPGRADE: Final = "paictl deploy upgrade --to VERSION"
_SITE: Final = "certificates and kubeconfigs of all machines name it; keep the old value"
_IMAGES: Final = "manifests of the running cluster name its images; to fetch them elsewhere, use registry_mirrors"

KEYS: Final = (
    KeyRule("cluster_name", ("cluster",), Effect.FIXED, fact="cluster", advice=_REBUILD),
    KeyRule("kubernetes_version", ("version",), Effect.FIXED, fact="version", advice=_UPGRADE),
    KeyRule("artifacts", ("artifacts",), Effect.FILES),
    KeyRule("image_repository", ("repository",), Effect.FIXED, fact="repository", advice=_IMAGES),
    KeyRule("registry_mirrors", ("mirrors", "insecure"), Effect.FILES),
    KeyRule("registry_credentials", ("accounts",), Effect.FILES),
    KeyRule("proxy", ("proxies",), Effect.FILES),
    KeyRule("api_address", ("api_address",), Effect.FIXED, fact="endpoint", advice=_SITE),
    KeyRule("api_endpoint", ("endpoint",), Effect.FIXED, fact="endpoint", advice=_SITE),
    KeyRule("ssh_port", ("login",), Effect.EACH_TIME),
    KeyRule("ssh_hosts", ("login",), Effect.EACH_TIME),
    KeyRule("ssh_agent", ("login",), Effect.EACH_TIME),
    KeyRule("bastion", ("login",), Effect.EACH_TIME),
    KeyRule("network", ("network",), Effect.FIXED, fact="network", advice=_REBUILD),
    KeyRule("firewall", ("closed_ports", "exempt_namespaces"), Effect.FILES),
    KeyRule("proxy_mode", ("proxy_mode",), Effect.NOTED, "kube_proxy"),
    KeyRule("swap", ("swap_allowed",), Effect.NOTED, "kubelet"),
    KeyRule("jobs_on_masters", ("jobs_on_masters",), Effect.NOTED, "jobs_on_masters"),
    KeyRule("offline", ("offline",), Effect.NOTED, "offline"),
    KeyRule("gpu_driver", ("driver_by_service",), Effect.OBSERVED),
    KeyRule("ignore_preflight_errors", ("ignored_checks",), Effect.EACH_TIME),
    KeyRule("secrets_encryption", ("encrypts",), Effect.NOTED, "api_server_arguments"),
    KeyRule("audit_log", ("audit",), Effect.NOTED, "api_server_arguments"),
    KeyRule("oidc", ("oidc",), Effect.NOTED, "api_server_arguments"),
    KeyRule("feature_gates", ("gates",), Effect.NOTED, "component_arguments"),
    KeyRule("pod_security", ("pod_security",), Effect.NOTED, "pod_security"),
    KeyRule("storage_class", ("storage_class",), Effect.APPLIED),
    KeyRule("node_dns", ("node_dns",), Effect.NOTED, "kubelet"),
    KeyRule("etcd_arguments", ("etcd",), Effect.NOTED, "etcd_arguments"),
    KeyRule("api_server_arguments", ("api_server",), Effect.NOTED, "api_server_arguments"),
    KeyRule("kubelet", ("kubelet",), Effect.NOTED, "kubelet"),
    KeyRule("kube_proxy", ("kube_proxy",), Effect.NOTED, "kube_proxy"),
    KeyRule("containerd", ("containerd",), Effect.FILES),
    KeyRule(f"{_EXTRA}.kube_pods_subnet", ("pods",), Effect.FIXED, fact="pods", advice=_REBUILD),
    KeyRule(f"{_EXTRA}.kube_service_addresses", ("services",), Effect.FIXED, fact="services", advice=_REBUILD),
    KeyRule(f"{_EXTRA}.dns_domain", ("domain",), Effect.FIXED, fact="domain", advice=_REBUILD),
)
"""Every key of `deploy:`, and those of OpenPAI without one of ours; the others fill a field of a key of ours."""

_SECTIONS: Final[Mapping[str, Callable[[Deployment], Any]]] = {
    "kubelet": kubelet_configuration,
    "kube_proxy": kube_proxy_configuration,
    "api_server_arguments": all_api_server_arguments,
    "component_arguments": lambda deployment: component_arguments(deployment.settings.hardening),
    "etcd_arguments": lambda deployment: dict(deployment.settings.etcd),
    "jobs_on_masters": lambda deployment: deployment.settings.jobs_on_masters,
    "offline": lambda deployment: deployment.settings.offline,
    "pod_security": lambda deployment: dict(deployment.settings.pod_security),
}
_OF_THE_FIRST: Final = ("kube_proxy", "offline", "pod_security")
_BEFORE: Final[Mapping[str, Any]] = {"pod_security": {}}
"""What a cluster has of sections that notes of earlier versions of paictl lack."""
_RESTORED: Final = "restored"
"""In a note: a backup was restored, so it lacks the sections about what is in etcd (playbooks/files/paictl_etcd.py)."""
CONTROL_PLANE: Final = ("api_server_arguments", "component_arguments", "etcd_arguments")
"""Sections whose change makes masters write the manifests of their control plane again."""


def noted_settings(deployment: Deployment, machine: Machine) -> dict[str, Any]:
    """The sections of a machine's note: kubelet's on all, the control plane's on masters, the rest on the first."""
    names = ["kubelet"]
    if machine.role is Role.MASTER:
        names += [*CONTROL_PLANE, "jobs_on_masters"]
    if machine == deployment.first:
        names += _OF_THE_FIRST
    sections: dict[str, Any] = json.loads(json.dumps({name: _SECTIONS[name](deployment) for name in names}))
    return sections


def changed_sections(deployment: Deployment, facts: HostFacts) -> dict[str, list[str]]:
    """The sections in which the note of a machine that has joined differs, each with what changes in words.

    A section noted as null was about to change when an earlier run ended (playbooks/library/paictl_settings.py).
    """
    settings = noted_settings(deployment, facts.machine)
    try:
        noted: Any = json.loads(facts.values.get("settings") or "{}")
    except ValueError:
        noted = {}
    noted = {**_BEFORE, **noted} if noted and not noted.get(_RESTORED) else noted
    return {
        name: list(_differences(noted[name], value))
        if noted.get(name) is not None
        else [text("the previously applied value is unknown")]
        for name, value in settings.items()
        if noted.get(name) != value
    }


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """``maxPods: 110 -> 50`` for each value that differs; ``-`` stands for none."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                yield from _differences(old.get(key, "-"), new.get(key, "-"), f"{name}.{key}" if name else key)
        return
    yield f"{name}: {_shown(old)} -> {_shown(new)}" if name else f"{_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def refuse_fixed(site: Site) -> None:
    """Raise `DeployError` for settings that a running cluster cannot change, each with the value that it has."""
    desired = site.desired
    bad = [
        text(
            "{key} is {now} in the running cluster but {wanted} in config.yaml", key=rule.key, now=now, wanted=expected
        )
        + f" ({rule.advice})"
        for rule in KEYS
        if rule.effect is Effect.FIXED
        for now, expected in _fixed(rule, site)
    ]
    if bad:
        name = desired.deployment.settings.cluster
        hint = text("restore the old value in config.yaml; nothing was changed")
        raise DeployError("; ".join(dict.fromkeys(bad)), exit_code=ExitCode.NEGATIVE, hint=hint, where=name)


def _fixed(rule: KeyRule, site: Site) -> Iterator[tuple[str, str]]:
    """The value that the cluster has of a fixed key and the one that is wanted, if they differ; at most one pair."""
    deployment = site.desired.deployment
    settings = deployment.settings
    if rule.fact == "version":
        return  # `refuse_other_version` compares it with the artifacts
    if rule.fact == "endpoint" and not _is_key_of_endpoint(rule, deployment):
        return
    expected = {
        "cluster": settings.cluster,
        "repository": settings.repository,
        "endpoint": deployment.endpoint,
        "network": settings.network,
        "pods": settings.pods,
        "services": settings.services,
        "domain": settings.domain,
    }[rule.fact]
    of_cluster = [site.facts[deployment.first.name]] if rule.fact == "cluster" else site.facts.values()
    for facts in of_cluster:
        now = _present(rule.fact, facts, settings.cluster)
        if now and now != expected:
            yield now, expected
            return


def _is_key_of_endpoint(rule: KeyRule, deployment: Deployment) -> bool:
    """The endpoint is a matter of api_endpoint where that is written, else of api_address."""
    return (rule.key == "api_endpoint") == bool(deployment.settings.endpoint)


def _present(fact: str, facts: HostFacts, cluster: str) -> str:
    """The value of a fixed key that a machine has; empty where it has none."""
    if fact == "cluster":
        return str(facts.values.get("begun") or "")
    if not facts.joined(cluster):
        return ""
    if fact == "network":
        files = [path.rpartition("/")[2] for path in facts.host["others"]["cni"]]
        return next((_NETWORKS[name] for name in files if name in _NETWORKS), "none" if files else "")
    return str((facts.values.get("cluster") or {}).get(fact) or "")


def notes_of(deployment: Deployment) -> dict[str, str]:
    """The note of each machine, by name, as it is written when it begins or joins a cluster."""
    return {machine.name: json.dumps(noted_settings(deployment, machine)) for machine in deployment.machines}
