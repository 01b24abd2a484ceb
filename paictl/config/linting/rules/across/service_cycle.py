"""Services need each other in a circle.

Why: prerequisites are started first, without end: the deployment ends with a RecursionError that names none of them.

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

    # cluster-configuration.service.yaml
     refresh-script: refresh.sh
    +prerequisite: [pylon]
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.service import ServiceFile, services_by_name


@rule("XRF962", "service-cycle", ERROR)
def check(bundle: Bundle) -> Findings:
    """One finding a circle, at the prerequisite that closes it."""
    services = services_by_name(bundle)
    done: set[str] = set()
    for name in services:
        if name not in done:
            yield from _circles(name, services, done)


def _circles(start: str, services: dict[str, ServiceFile], done: set[str]) -> Findings:
    """The circles among what a service needs; `path` is the way there, `done` what has been looked at."""
    path = {start: iter(services[start].prerequisites)}
    while path:
        here, rest = next(reversed(path.items()))
        needed = next((one for one in rest if one.text in services and one.text != here and one.text not in done), None)
        if needed is None:
            del path[here]
            done.add(here)
        elif needed.text in path:
            names = list(path)
            circle = [*names[names.index(needed.text) :], needed.text]
            yield Finding(needed, f"services need each other: {' → '.join(circle)}", "remove one of these lines")
        else:
            path[needed.text] = iter(services[needed.text].prerequisites)
