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

Fails with::

    # pylon.service.yaml
    -prerequisite: [cluster-configuration]
    +prerequisite: [cluster-configuration, drivers]
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Bundle, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.service import services_by_name

_HINT = "remove it, or add the description of that service"


@rule("XRF961", "service-unknown-prerequisite", WARNING)
def check(bundle: Bundle) -> Findings:
    """Every prerequisite that nobody describes."""
    services = services_by_name(bundle)
    for service in services.values():
        for name in service.prerequisites:
            if name.text and name.text not in services:
                message = f"service {service.name!r} needs {name.text!r}, which is not described here"
                yield Finding(name, message, *suggested(name, services, _HINT))
