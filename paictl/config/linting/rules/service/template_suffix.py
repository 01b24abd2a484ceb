"""An entry of the template list has the suffix `.template`.

Why: the suffix is added by the deployment, which would look for `….template.template`.

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

Fails::

    # pylon.service.yaml
    cluster-type: [k8s]
    prerequisite: [cluster-configuration]
    template-list: [pylon.yaml.template, start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
    deploy-rules:
    - in: pai-master
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.service import service_of
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Edit, Finding, Severity

ID = "GRF803"
NAME = "template-suffix"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Every entry with the suffix."""
    for item in service_of(document).templates:
        if item.text.endswith(".template"):
            bare = item.text.removesuffix(".template")
            edits = (Edit(item, bare),) if item.plain else ()
            yield Finding(
                item, f"{item.text!r} has the suffix .template, which is added anyway", f"write {bare}", edits
            )
