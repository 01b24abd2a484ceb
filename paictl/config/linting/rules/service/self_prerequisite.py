"""A service needs itself.

Why: prerequisites are started first, without end: the deployment ends with a RecursionError.

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
    prerequisite: [cluster-configuration, pylon]
    template-list: [pylon.yaml, start.sh]
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
from paictl.config.reading.problem import Finding, Severity

ID = "GRF802"
NAME = "self-prerequisite"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Every prerequisite that is the service itself."""
    service = service_of(document)
    for name in service.prerequisites:
        if name.text == service.name:
            yield Finding(name, f"service {name.text!r} is its own prerequisite", "remove it")
