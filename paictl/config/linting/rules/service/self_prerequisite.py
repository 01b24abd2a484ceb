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

Fails with::

    # pylon.service.yaml
    -prerequisite: [cluster-configuration]
    +prerequisite: [cluster-configuration, pylon]
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.service import service_of


@rule("GRF802", "self-prerequisite", ERROR)
def check(document: Document) -> Findings:
    """Every prerequisite that is the service itself."""
    service = service_of(document)
    for name in service.prerequisites:
        if name.text == service.name:
            yield Finding(name, f"service {name.text!r} is its own prerequisite", "remove it")
