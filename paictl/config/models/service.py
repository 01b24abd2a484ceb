"""What service descriptions (service.yaml) say, and the graph that several of them form."""

from __future__ import annotations

from pathlib import PurePath

from paictl.config.models import per_document
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import ScalarNode
from paictl.frozen import frozen

SCRIPTS = ("start-script", "stop-script", "delete-script", "refresh-script", "upgraded-script")
"""Keys that name a script."""

LABELS = ("pai-master", "pai-worker", "pai-storage")
"""Labels that OpenPAI itself gives to machines."""

FILE_NAME = "service.yaml"


@frozen
class ServiceFile:
    """One service; `name` is None where neither file nor folder says it."""

    document: Document
    name: str | None
    prerequisites: tuple[ScalarNode, ...]
    scripts: dict[str, ScalarNode]
    templates: tuple[ScalarNode, ...]


@per_document
def service_of(document: Document) -> ServiceFile:
    """The service in a document."""
    top = document.top
    return ServiceFile(
        document,
        service_name(document.path),
        tuple(top.sequence("prerequisite").scalars()),
        {key: script for key in SCRIPTS if (script := top.text(key)) is not None and script.text},
        tuple(item for item in top.sequence("template-list").scalars() if item.text),
    )


def service_name(path: str) -> str | None:
    """`src/pylon/deploy/service.yaml`, `pylon/service.yaml` and `pylon.service.yaml` all describe pylon."""
    place = PurePath(path)
    for suffix in (".service.yaml", ".service.yml"):
        if place.name.endswith(suffix):
            return place.name.removesuffix(suffix) or None
    folder = place.parent.parent if place.parent.name == "deploy" else place.parent
    return folder.name or None


@per_document
def services_by_name(bundle: Bundle) -> dict[str, ServiceFile]:
    """The services that files given together describe; empty unless there are several, as a graph needs."""
    files = [service_of(document) for document in bundle.of(FileKind.SERVICE)]
    named = {service.name: service for service in files if service.name is not None}
    return named if len(named) > 1 else {}
