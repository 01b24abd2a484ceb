"""Service descriptions against each other and against their folders.

Passes::

    # cluster-configuration.service.yaml
    cluster-type: [k8s]
    template-list: [start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh

    # pylon.service.yaml
    cluster-type: [k8s]
    prerequisite: [cluster-configuration]
    template-list: [pylon.yaml, start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
    deploy-rules:
    - in: pai-master
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from paictl.config.linting.rule import ERROR, WARNING, Bundle, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.service import FILE_NAME, ServiceFile, service_of, services_by_name
from paictl.config.reading.kinds import FileKind
from paictl.i18n import text

_HINT = "remove it, or add the description of that service"


@rule("XRF961", "service-unknown-prerequisite", WARNING)
def service_prerequisite(bundle: Bundle) -> Findings:
    """A service needs another one that is not among the given descriptions.

    Why: the deployment silently skips a prerequisite that it does not know, and the intended order is lost, as with
    `drivers`, which OpenPAI dropped.

    Fails with::

        # pylon.service.yaml
        -prerequisite: [cluster-configuration]
        +prerequisite: [cluster-configuration, drivers]
    """
    services = services_by_name(bundle)
    for service in services.values():
        for name in service.prerequisites:
            if name.text and name.text not in services:
                message = text(
                    "service {service!r} needs {name!r}, which is not described here",
                    service=service.name,
                    name=name.text,
                )
                yield Finding(name, message, *suggested(name, services, _HINT))


@rule("XRF962", "service-cycle", ERROR)
def service_cycle(bundle: Bundle) -> Findings:
    """Services depend on each other in a cycle.

    Why: prerequisites are started first, without end: the deployment ends with a RecursionError that names none of
    them.

    Fails with::

        # cluster-configuration.service.yaml
         refresh-script: refresh.sh
        +prerequisite: [pylon]
    """
    # One finding a circle, at the prerequisite that closes it.
    services = services_by_name(bundle)
    done: set[str] = set()
    for name in services:
        if name not in done:
            yield from _circles(name, services, done)


def _circles(start: str, services: dict[str, ServiceFile], done: set[str]) -> Findings:
    """The circles among what a service needs; `path` is the way there, `done` what has been looked at."""
    path = {start: iter(services[start].prerequisites)}
    while path:
        service, rest = next(reversed(path.items()))
        needed = next(
            (node for node in rest if node.text in services and node.text != service and node.text not in done), None
        )
        if needed is None:
            del path[service]
            done.add(service)
        elif needed.text in path:
            names = list(path)
            circle = [*names[names.index(needed.text) :], needed.text]
            yield Finding(
                needed,
                text("services depend on each other: {circle}", circle=" → ".join(circle)),
                "remove one of these lines",
            )
        else:
            path[needed.text] = iter(services[needed.text].prerequisites)


@rule("XRF963", "service-missing-file", ERROR)
def service_file(bundle: Bundle) -> Findings:
    """A service names a script or template that is not in its folder.

    Why: nothing checks this before the file is used: the deployment stops in the middle, with bash's exit code 127
    or a Python error. A script may also be generated from a template of the list. A description that is alone in its
    folder is not checked.

    Passes::

        # service.yaml
        cluster-type: [k8s]
        prerequisite: [cluster-configuration]
        template-list: [pylon.yaml, start.sh]
        start-script: start.sh
        stop-script: stop.sh
        delete-script: delete.sh
        refresh-script: refresh.sh
        deploy-rules:
        - in: pai-master

    Fails::

        # service.yaml
        cluster-type: [k8s]
        prerequisite: [cluster-configuration]
        template-list: [pylon.yaml, start.sh]
        start-script: start.sh
        stop-script: stop.sh
        delete-script: delete.sh
        refresh-script: refresh.sh
        deploy-rules:
        - in: pai-master

        # pylon-config.yaml
        kind: ConfigMap
    """
    # Every script and template of a service.yaml that stands beside other files and is none of them.
    for document in bundle.of(FileKind.SERVICE):
        folder = _folder(document, bundle) if PurePath(document.path).name == FILE_NAME else None
        if folder is None:
            continue
        service = service_of(document)
        made = {item.text for item in service.templates}
        for key, script in service.scripts.items():
            if script.text not in made and not folder(script.text):
                yield Finding(
                    script,
                    text("{key} {script!r} is not in the service's folder", key=key, script=script.text),
                    "add the file, or correct the key's value",
                )
        for item in service.templates:
            if not item.text.endswith(".template") and not folder(f"{item.text}.template"):
                message = text("{item}.template is not in the service's folder", item=item.text)
                yield Finding(item, message, "add the file, or remove the entry")


def _folder(document: Document, bundle: Bundle) -> Callable[[str], bool] | None:
    """Whether a path is a file of the document's folder; None where the folder holds nothing else."""
    file = Path(document.path)
    if file.is_file():
        beside = [path.name for path in file.parent.iterdir() if path != file]
        return (lambda name: (file.parent / name).is_file()) if beside else None
    names = {document.path for document in bundle.documents if PurePath(document.path).parent == file.parent} - {
        document.path
    }
    return (lambda name: str(file.parent / name) in names) if names else None
