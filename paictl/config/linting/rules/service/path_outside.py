"""A script or template lies outside the service's own folder.

Why: paths are put behind `src/<service>/deploy/`; an absolute one is looked for in there, and one with `..` belongs to
another service, whose templates are removed when that one is done.

Passes::

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

Fails with::

    # pylon.service.yaml
    -stop-script: stop.sh
    +stop-script: ../pylon2/stop.sh
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.service import service_of


@rule("GRF804", "path-outside", ERROR)
def check(document: Document) -> Findings:
    """Every path that is absolute or leaves the folder."""
    service = service_of(document)
    for path in (*service.scripts.values(), *service.templates):
        if path.text.startswith("/") or ".." in path.text.split("/"):
            yield Finding(path, f"{path.text!r} is not below the service's folder", "write a path within the folder")
