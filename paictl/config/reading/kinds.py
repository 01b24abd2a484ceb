"""Which kind of file is this: told by name first where the name says it, else by content."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

from paictl.config.reading.nodes import Mapping, Node


class Kind(Enum):
    """The kinds of file that paictl knows; the value is what ``--kind`` takes."""

    MASTER_CSV = "master-csv"
    WORKER_CSV = "worker-csv"
    CONFIG = "config"
    LAYOUT = "layout"
    SERVICES = "services"
    SERVICE_DEFAULTS = "service-defaults"
    HIVED = "hived"
    JOB = "job"
    SERVICE = "service"
    LAB = "lab"
    UNKNOWN = "unknown"
    """Text that cannot be placed; only the rules about YAML itself apply."""

    @property
    def title(self) -> str:
        """How messages call it."""
        return _TITLES[self]

    @property
    def is_csv(self) -> bool:
        """Whether the file is a host list."""
        return self in (Kind.MASTER_CSV, Kind.WORKER_CSV)


_TITLES = {
    Kind.MASTER_CSV: "list of masters (master.csv)",
    Kind.WORKER_CSV: "list of workers (worker.csv)",
    Kind.CONFIG: "cluster settings (config.yaml)",
    Kind.LAYOUT: "machine layout (layout.yaml)",
    Kind.SERVICES: "service settings (services-configuration.yaml)",
    Kind.SERVICE_DEFAULTS: "default section of one service",
    Kind.HIVED: "hivedscheduler configuration (hivedscheduler.yaml)",
    Kind.JOB: "job (OpenPAI protocol v2)",
    Kind.SERVICE: "service description (service.yaml)",
    Kind.LAB: "guided lab (lab.yaml)",
    Kind.UNKNOWN: "file of unknown kind",
}


@dataclass(frozen=True, slots=True)
class _Signature:
    """Top-level keys that tell one kind from the others; `common` ones stand in files of other programs as well."""

    kind: Kind
    keys: frozenset[str]
    common: frozenset[str] = frozenset()

    def score(self, keys: Set[str]) -> int:
        """How many keys of the kind a file has; none at all if those that it has are all common ones."""
        own = len(keys & self.keys)
        return own + len(keys & self.common) if own or len(keys & self.common) == len(keys) > 1 else 0


def _signature(kind: Kind, keys: str, common: str = "") -> _Signature:
    return _Signature(kind, frozenset(keys.split()), frozenset(common.split()))


_SIGNATURES = (
    _signature(Kind.JOB, "protocolVersion taskRoles jobRetryCount"),
    _signature(Kind.HIVED, "physicalCluster virtualClusters kubeApiServerAddress webServerAddress"),
    _signature(Kind.LAYOUT, "machine-list machine-sku default-machine-properties kubernetes"),
    _signature(
        Kind.SERVICE,
        "cluster-type template-list start-script stop-script delete-script deploy-rules prerequisite",
    ),
    _signature(Kind.LAB, "lab goal steps checks near-misses questions"),
    _signature(Kind.SERVICE_DEFAULTS, "service_type"),
    _signature(
        Kind.SERVICES,
        "rest-server webportal hivedscheduler pylon internal-storage database-controller log-manager device-plugin "
        "job-exporter storage-manager docker-cache prometheus-pushgateway marketplace-db marketplace-restserver "
        "marketplace-webportal dshuttle yarn-frameworklauncher hadoop-resource-manager",
        "cluster grafana prometheus alert-manager authentication postgresql node-exporter k8s-dashboard fluentd "
        "cleaner drivers zookeeper",
    ),
    _signature(
        Kind.CONFIG,
        "user password docker_image_tag branch_name ssh_key_file_path docker_registry_domain enable_hived_scheduler "
        "qos-switch openpai_kube_network_plugin enable_docker_cache",
    ),
)

_NAMES: tuple[tuple[str, Kind], ...] = (
    (r"master.*\.csv", Kind.MASTER_CSV),
    (r"worker.*\.csv", Kind.WORKER_CSV),
    (r".*\bmaster.*\.csv", Kind.MASTER_CSV),
    (r".*\bworker.*\.csv", Kind.WORKER_CSV),
    (r"services?-configuration.*\.ya?ml", Kind.SERVICES),
    (r"(.*[.-])?service\.ya?ml", Kind.SERVICE),
    (r"lab\.ya?ml", Kind.LAB),
    (r"hived.*\.ya?ml", Kind.HIVED),
    (r"layout.*\.ya?ml", Kind.LAYOUT),
    (r"config\.ya?ml", Kind.CONFIG),
    (r"defaults-.*\.ya?ml", Kind.SERVICE_DEFAULTS),
)


def kind_by_name(path: str) -> Kind | None:
    """The kind that a file name promises, or None."""
    name = PurePath(path).name.lower()
    return next((kind for pattern, kind in _NAMES if re.fullmatch(pattern, name)), None)


def kind_by_content(root: Node | None) -> Kind | None:
    """The kind whose own top-level keys are met most often; ties go to the earlier signature."""
    scores = _scores(root)
    best = max(scores.values(), default=0)
    return next((kind for kind, score in scores.items() if score == best), None) if best else None


def recognise(path: str, root: Node | None) -> Kind | None:
    """The kind of a file: the one that its name promises if it has a key of that kind, else by content, else by name.

    Default sections have no keys that all of them share; where they stand says what they are.
    """
    named, told = kind_by_name(path), kind_by_content(root)
    if named is not None and _has_key_of(named, root):
        return named
    if told in (None, Kind.SERVICES, Kind.CONFIG) and _is_default_section(path):
        return Kind.SERVICE_DEFAULTS
    return told or named


def _has_key_of(kind: Kind, root: Node | None) -> bool:
    """Whether a file has any key of a kind, be it a common one."""
    keys = root.entries.keys() if isinstance(root, Mapping) else frozenset()
    return any(keys & (one.keys | one.common) for one in _SIGNATURES if one.kind is kind)


def _scores(root: Node | None) -> dict[Kind, int]:
    if not isinstance(root, Mapping):
        return {}
    return {signature.kind: signature.score(root.entries.keys()) for signature in _SIGNATURES}


def _is_default_section(path: str) -> bool:
    """Whether a file stands where OpenPAI keeps defaults, src/<service>/config/<service>.yaml, or is called so."""
    parts = PurePath(path).parts[-3:]
    in_place = len(parts) == 3 and parts[1] == "config" and PurePath(parts[2]).stem == parts[0]
    return in_place or kind_by_name(path) is Kind.SERVICE_DEFAULTS
