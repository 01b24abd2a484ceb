"""A service needs one that is not among the descriptions given together.

Why: the deployment passes over a prerequisite that it does not know, without a word; the order that the line was
written for is gone, as with `drivers`, which OpenPAI dropped.

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

Fails::

    # cluster-configuration.service.yaml
    cluster-type: [k8s]
    template-list: [start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh

    # pylon.service.yaml
    cluster-type: [k8s]
    prerequisite: [cluster-configuration, drivers]
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

from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.service import services_by_name
from paictl.config.reading.document import Bundle
from paictl.config.reading.problem import Finding, Severity

ID = "XRF961"
NAME = "service-unknown-prerequisite"
SEVERITY = Severity.WARNING

_HINT = "remove it, or add the description of that service"


def check(bundle: Bundle) -> Iterator[Finding]:
    """Every prerequisite that nobody describes."""
    services = services_by_name(bundle)
    for service in services.values():
        for name in service.prerequisites:
            if name.text and name.text not in services:
                message = f"service {service.name!r} needs {name.text!r}, which is not described here"
                yield Finding(name, message, *suggested(name, services, _HINT))
