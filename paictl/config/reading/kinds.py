"""Which kind of file is this: told by name first where the name says it, else by content."""

from __future__ import annotations

import re
from collections.abc import Set
from enum import Enum
from pathlib import PurePath

from paictl.config.reading.nodes import MappingNode, Node
from paictl.frozen import frozen


class FileKind(Enum):
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
        return self in (FileKind.MASTER_CSV, FileKind.WORKER_CSV)


_TITLES = {
    FileKind.MASTER_CSV: "list of masters (master.csv)",
    FileKind.WORKER_CSV: "list of workers (worker.csv)",
    FileKind.CONFIG: "cluster settings (config.yaml)",
    FileKind.LAYOUT: "machine layout (layout.yaml)",
    FileKind.SERVICES: "service settings (services-configuration.yaml)",
    FileKind.SERVICE_DEFAULTS: "default section of one service",
    FileKind.HIVED: "hivedscheduler configuration (hivedscheduler.yaml)",
    FileKind.JOB: "job (OpenPAI protocol v2)",
    FileKind.SERVICE: "service description (service.yaml)",
    FileKind.LAB: "guided lab (lab.yaml)",
    FileKind.UNKNOWN: "file of unknown kind",
}


@frozen
class _Signature:
    """Top-level keys that tell one kind from the others; `common` ones stand in files of other programs as well."""

    kind: FileKind
    keys: frozenset[str]
    common: frozenset[str] = frozenset()

    def score(self, keys: Set[str]) -> int:
        """How many keys of the kind a file has; none at all if those that it has are all common ones."""
        own = len(keys & self.keys)
        return own + len(keys & self.common) if own or len(keys & self.common) == len(keys) > 1 else 0


def _signature(kind: FileKind, keys: str, common: str = "") -> _Signature:
    return _Signature(kind, frozenset(keys.split()), frozenset(common.split()))


_SIGNATURES = (
    _signature(FileKind.JOB, "protocolVersion taskRoles jobRetryCount"),
    _signature(FileKind.HIVED, "physicalCluster virtualClusters kubeApiServerAddress webServerAddress"),
    _signature(FileKind.LAYOUT, "machine-list machine-sku default-machine-properties", "kubernetes"),
    _signature(
        FileKind.SERVICE,
        "cluster-type template-list start-script stop-script delete-script deploy-rules prerequisite",
    ),
    _signature(FileKind.LAB, "lab near-misses", "goal steps checks questions"),
    _signature(FileKind.SERVICE_DEFAULTS, "service_type"),
    _signature(
        FileKind.SERVICES,
        "rest-server webportal hivedscheduler pylon internal-storage database-controller log-manager device-plugin "
        "dra-driver gpu-driver job-exporter storage-manager docker-cache prometheus-pushgateway marketplace-db "
        "marketplace-restserver "
        "marketplace-webportal dshuttle yarn-frameworklauncher hadoop-resource-manager",
        "cluster grafana prometheus alert-manager authentication postgresql node-exporter k8s-dashboard fluentd "
        "cleaner drivers zookeeper",
    ),
    _signature(
        FileKind.CONFIG,
        "docker_image_tag docker_registry_domain enable_hived_scheduler qos-switch openpai_kube_network_plugin "
        "enable_docker_cache",
        "user password branch_name ssh_key_file_path",
    ),
)

_NAMES: tuple[tuple[str, FileKind], ...] = (
    (r"master.*\.csv", FileKind.MASTER_CSV),
    (r"worker.*\.csv", FileKind.WORKER_CSV),
    (r".*\bmaster.*\.csv", FileKind.MASTER_CSV),
    (r".*\bworker.*\.csv", FileKind.WORKER_CSV),
    (r"services?-configuration.*\.ya?ml", FileKind.SERVICES),
    (r"(.*[.-])?service\.ya?ml", FileKind.SERVICE),
    (r"lab\.ya?ml", FileKind.LAB),
    (r"hived.*\.ya?ml", FileKind.HIVED),
    (r"layout.*\.ya?ml", FileKind.LAYOUT),
    (r"config\.ya?ml", FileKind.CONFIG),
    (r"defaults-.*\.ya?ml", FileKind.SERVICE_DEFAULTS),
)


def kind_by_name(path: str) -> FileKind | None:
    """The kind that a file name promises, or None."""
    name = PurePath(path).name.lower()
    return next((kind for pattern, kind in _NAMES if re.fullmatch(pattern, name)), None)


def kind_by_content(root: Node | None) -> FileKind | None:
    """The kind whose own top-level keys are met most often; ties go to the earlier signature."""
    scores = _scores(root)
    best = max(scores.values(), default=0)
    return next((kind for kind, score in scores.items() if score == best), None) if best else None


def own_keys() -> frozenset[str]:
    """Top-level keys that stand in no other program's files: one of them is enough to know a file as ours."""
    return frozenset[str]().union(*(signature.keys for signature in _SIGNATURES))


def recognise(path: str, root: Node | None) -> FileKind | None:
    """The kind of a file: the one that its name promises if it has a key of that kind, else by content, else by name.

    Default sections have no keys that all of them share; where they stand says what they are.
    """
    named, kind = kind_by_name(path), kind_by_content(root)
    if named is not None and _has_key_of(named, root):
        return named
    if kind in (None, FileKind.SERVICES, FileKind.CONFIG) and _is_default_section(path):
        return FileKind.SERVICE_DEFAULTS
    return kind or named


def _has_key_of(kind: FileKind, root: Node | None) -> bool:
    """Whether a file has any key of a kind, be it a common one."""
    keys = root.entries.keys() if isinstance(root, MappingNode) else frozenset()
    return any(keys & (signature.keys | signature.common) for signature in _SIGNATURES if signature.kind is kind)


def _scores(root: Node | None) -> dict[FileKind, int]:
    if not isinstance(root, MappingNode):
        return {}
    return {signature.kind: signature.score(root.entries.keys()) for signature in _SIGNATURES}


def _is_default_section(path: str) -> bool:
    """Whether a file stands where OpenPAI keeps defaults, src/<service>/config/<service>.yaml, or is called so."""
    parts = PurePath(path).parts[-3:]
    in_place = len(parts) == 3 and parts[1] == "config" and PurePath(parts[2]).stem == parts[0]
    return in_place or kind_by_name(path) is FileKind.SERVICE_DEFAULTS
