"""A service names a script or template that is not in its folder.

Why: nobody looks before the file is used: the deployment stops in the middle, with bash's exit code 127 or a Python
error. A script may also be made from a template of the list. A description alone in its folder is not judged.

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

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from paictl.config.linting.rule import ERROR, Bundle, Document, Finding, Findings, rule
from paictl.config.models.service import FILE_NAME, service_of
from paictl.config.reading.kinds import FileKind


@rule("XRF963", "service-missing-file", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every script and template of a service.yaml that stands beside other files and is none of them."""
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
                    f"{key} {script.text!r} is not in the service's folder",
                    "add the file, or correct the key's value",
                )
        for item in service.templates:
            if not item.text.endswith(".template") and not folder(f"{item.text}.template"):
                message = f"{item.text}.template is not in the service's folder"
                yield Finding(item, message, "add the file, or remove the entry")


def _folder(document: Document, bundle: Bundle) -> Callable[[str], bool] | None:
    """Whether a path is a file of the document's folder; None where the folder holds nothing else."""
    here = Path(document.path)
    if here.is_file():
        beside = [path.name for path in here.parent.iterdir() if path != here]
        return (lambda name: (here.parent / name).is_file()) if beside else None
    names = {one.path for one in bundle.documents if PurePath(one.path).parent == here.parent} - {document.path}
    return (lambda name: str(here.parent / name) in names) if names else None
