"""The services that paictl knows, from `templates/<service>/service.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from paictl.config.models.services import GONE
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_file
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.source import place_of
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.resources import resource_folder
from paictl.service.order import ServiceError, start_order

FILE_NAME = "service.yaml"
ALIASES: Final = {"drivers": "gpu-driver"}
"""Names that OpenPAI's services had, of those that go by another name here."""


@frozen
class DeployRule:
    """Where the pods of a service stand: on machines with the label, or (`wanted` false) on those without it."""

    label: str
    wanted: bool

    def __str__(self) -> str:
        return f"{'in' if self.wanted else 'not in'} {self.label}"


@frozen
class Service:
    """A service as its description says.

    `embedded` is one sentence on what it means on the embedded cluster; `data` is what deleting it loses;
    `configuration` names what it reads, as ``FILE`` or ``FILE:SECTION``.
    """

    name: str
    description: str
    embedded: str
    cluster_types: tuple[str, ...] = ()
    prerequisites: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()
    deploy_rules: tuple[DeployRule, ...] = ()


@frozen
class Catalogue:
    """Services by name, in the order in which they start."""

    services: Mapping[str, Service]

    def __iter__(self) -> Iterator[Service]:
        return iter(self.services.values())

    def __contains__(self, name: object) -> bool:
        return name in self.services

    def __len__(self) -> int:
        return len(self.services)

    def __getitem__(self, name: str) -> Service:
        """The service of a name; raises `ServiceError` with the name that was most likely meant."""
        service = self.services.get(ALIASES.get(name, name))
        if service is None and name in GONE:
            raise ServiceError(text("paictl no longer has a service {name}", name=name), hint=GONE[name])
        if service is None:
            hint = did_you_mean(name, self.services) or "list them with: paictl service list"
            raise ServiceError(text("no service {name!r}", name=name), hint=hint)
        return service

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """Name → names of what the service needs, in start order."""
        return {service.name: service.prerequisites for service in self}

    def known(self, names: Iterable[str]) -> frozenset[str]:
        """The names as a set; raises `ServiceError` for a name that is not a service."""
        return frozenset(self[name].name for name in names)


def catalogue_of(services: Iterable[Service]) -> Catalogue:
    """The catalogue of some services; raises `ServiceError` for dangling or circular prerequisites."""
    by_name = {service.name: service for service in services}
    order = start_order({name: service.prerequisites for name, service in by_name.items()})
    return Catalogue({name: by_name[name] for name in order})


def load_catalogue(folder: Path | None = None) -> Catalogue:
    """Read the descriptions below a folder, by default those that paictl comes with.

    Raises `ServiceError` for a description that cannot be used, with its place.
    """
    root = folder or resource_folder("templates")
    return catalogue_of(_read(path) for path in sorted(root.glob(f"*/{FILE_NAME}")))


def _read(path: Path) -> Service:
    document = load_file(str(path), FileKind.SERVICE)[0]
    if document.fatal or not isinstance(document.root, MappingNode):
        raise ServiceError(
            "is not a service description", where=str(path), hint=text("see: paictl config validate {path}", path=path)
        )
    top = document.top
    return Service(
        path.parent.name,
        _sentence(document, "description"),
        _sentence(document, "embedded"),
        _words(top, "cluster-type"),
        _words(top, "prerequisite"),
        _words(top, "data"),
        _words(top, "configuration"),
        tuple(_deploy_rules(top)),
    )


def _sentence(document: Document, key: str) -> str:
    scalar = document.top.text(key)
    if scalar is None or not scalar.text.strip():
        where = str(place_of(document.beginning))
        raise ServiceError(
            text("has no {key!r}", key=key), where=where, hint=text("add {key}: a sentence about the service", key=key)
        )
    return scalar.text.strip()


def _words(top: MappingNode, key: str) -> tuple[str, ...]:
    return tuple(scalar.text for scalar in top.sequence(key).scalars())


def _deploy_rules(top: MappingNode) -> Iterator[DeployRule]:
    for rule in top.sequence("deploy-rules").mappings():
        for key, wanted in (("in", True), ("notin", False)):
            label = rule.text(key)
            if label is not None:
                yield DeployRule(label.text, wanted)
