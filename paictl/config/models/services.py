"""What services-configuration.yaml says, the defaults of OpenPAI, and the images of our services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from paictl.config.models import per_document
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import Entry, MappingNode, ScalarNode
from paictl.config.reading.schema import SCHEMA_NAMES, Schema, keys_with_schema
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.resources import resource_folder

SCHEDULE_START, SCHEDULE_END = 15000, 40000
"""Ports that jobs get on hosts unless rest-server says otherwise."""

EPHEMERAL_START, EPHEMERAL_END = 32768, 60999
"""Ports that Linux gives to outgoing connections (net.ipv4.ip_local_port_range)."""

_DEFAULT_PORTS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("rest-server", ("server-port",), 9186),
    ("webportal", ("server-port",), 9286),
    ("grafana", ("port",), 3000),
    ("prometheus", ("port",), 9091),
    ("alert-manager", ("port",), 9093),
    ("alert-manager", ("alert-handler", "port"), 9095),
    ("pylon", ("port",), 80),
    ("node-exporter", ("port",), 9100),
    ("job-exporter", ("port",), 9102),
    ("log-manager", ("port",), 9103),
    ("postgresql", ("port",), 5432),
    ("database-controller", ("write-merger-port",), 9748),
)
"""Section, key and default of the ports that OpenPAI always takes on its hosts."""

_OPTIONAL_PORTS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("pylon", ("ssl", "port"), 443),
    ("hivedscheduler", ("webservice-port",), 30096),
    ("prometheus-pushgateway", ("port",), 9097),
    ("docker-cache", ("service_nodeport",), 30500),
    ("marketplace-db", ("port",), 9291),
    ("marketplace-restserver", ("server-port",), 9292),
    ("marketplace-webportal", ("server-port",), 9293),
)
"""The same of services that only run where their section is written."""

FIXED_PORTS = {
    22: "SSH",
    2379: "etcd",
    2380: "etcd",
    6443: text("the Kubernetes API server"),
    9090: text("the Kubernetes dashboard"),
    10250: text("the kubelet"),
}
"""Ports of a host that no setting moves."""


GONE = {
    "pylon": "webportal and rest-server have addresses of their own; put an Ingress or a load balancer before them",
    "postgresql": "frameworkcontroller keeps jobs and their history as objects of Kubernetes",
    "database-controller": "frameworkcontroller writes jobs to the cluster by itself",
    "log-manager": "the cluster keeps logs itself: paictl job logs",
    "internal-storage": "services that keep data have volumes of their own",
}
"""Services of OpenPAI that paictl gave up, each with what took its place; their sections stay valid."""

DRIVER: Final = "gpu-driver"
"""The service that installs GPU drivers; its images depend on the nodes' operating systems."""
DRIVER_IMAGE: Final = "nvidia-driver-"
"""How names of images of drivers begin; the system follows, as ``ubuntu24.04``."""

STANDARD_NAME = "services-configuration.yaml"
"""The file that OpenPAI reads."""

NEAR_NAMES = frozenset({"service-configuration.yaml", "service-configuration.yml", "services-configuration.yml"})
"""What it is called by mistake, in textbooks too."""


@frozen
class HostPort:
    """A port that a service takes on a host; `node` is None where it is the service's default."""

    section: str
    key: str
    number: int
    default: int
    node: ScalarNode | None

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"{self.section}.{self.key}"


@frozen
class UserGroup:
    """A group of users; `place` is the key that holds it."""

    place: str
    name: ScalarNode
    node: MappingNode

    @property
    def acls(self) -> MappingNode:
        """What the group may do."""
        return self.node.at("extension", "acls")


@frozen
class ServiceSettings:
    """Service settings: `ports` with the defaults counted in, `groups` with administrators and default first."""

    top: MappingNode
    ports: tuple[HostPort, ...]
    groups: tuple[UserGroup, ...]

    @property
    def schedule_ports(self) -> tuple[int, int]:
        """First and last port that jobs may get."""
        rest = self.top.mapping("rest-server")
        start, end = rest.integer("schedule-port-start"), rest.integer("schedule-port-end")
        return (SCHEDULE_START if start is None else start, SCHEDULE_END if end is None else end)


@per_document
def described_keys(document: Document) -> list[tuple[tuple[str | int, ...], Entry, Schema]]:
    """(path, key with value, its subschema) of every key that the schema knows, outermost first."""
    return list(keys_with_schema(document.top, SCHEMA_NAMES[FileKind.SERVICES]))


@per_document
def services_of(document: Document) -> ServiceSettings:
    """The settings in a document."""
    return ServiceSettings(document.top, tuple(_ports(document.top)), tuple(_groups(document.top)))


def _ports(top: MappingNode) -> Iterator[HostPort]:
    for section, keys, default in _DEFAULT_PORTS:
        yield _port(top, section, keys, default)
    for section, keys, default in _OPTIONAL_PORTS:
        if keys[0] in top.mapping(section) or (len(keys) == 1 and section in top):
            yield _port(top, section, keys, default)


def _port(top: MappingNode, section: str, keys: tuple[str, ...], default: int) -> HostPort:
    holder = top.at(section, *keys[:-1])
    number = holder.integer(keys[-1])
    node = holder.scalar(keys[-1]) if number is not None else None
    return HostPort(section, ".".join(keys), default if number is None else number, default, node)


def _groups(top: MappingNode) -> Iterator[UserGroup]:
    manager = top.at("authentication", "group-manager")
    nodes = [(place, manager.mapping(place)) for place in ("admin-group", "default-group")]
    nodes.extend(("grouplist", node) for node in manager.sequence("grouplist").mappings())
    for place, node in nodes:
        name = node.text("groupname")
        if name is not None:
            yield UserGroup(place, name, node)


FILE_NAME: Final = "images.yaml"


def load_images(folder: Path | None = None) -> dict[str, str]:
    """Name → reference as written, where a reference without a tag gets the version of paictl."""
    path = (folder or resource_folder("templates")) / FILE_NAME
    images = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(images, dict) or not all(isinstance(reference, str) for reference in images.values()):
        raise PaictlError("is not a mapping of names to references", where=str(path))
    return {str(name): str(reference) for name, reference in images.items()}
