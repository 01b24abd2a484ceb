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

Fails::

    # cluster-configuration.service.yaml
    cluster-type: [k8s]
    template-list: [start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
    prerequisite: [pylon]

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

from collections.abc import Iterator

from paictl.config.document import Bundle
from paictl.config.model.service import services_by_name
from paictl.config.problem import Finding, Severity

ID = "XRF962"
NAME = "service-cycle"
SEVERITY = Severity.ERROR


def check(bundle: Bundle) -> Iterator[Finding]:
    """One finding a circle, at the prerequisite that closes it."""
    services = services_by_name(bundle)
    done: set[str] = set()
    for start in services:
        path: list[str] = []
        waiting = [(start, iter(services[start].prerequisites))] if start not in done else []
        path.extend(name for name, _ in waiting)
        while waiting:
            name, rest = waiting[-1]
            needed = next((one for one in rest if one.text in services and one.text != name), None)
            if needed is None:
                waiting.pop()
                done.add(path.pop())
            elif needed.text in path:
                circle = [*path[path.index(needed.text) :], needed.text]
                yield Finding(needed, f"services need each other: {' → '.join(circle)}", "remove one of these lines")
            elif needed.text not in done:
                waiting.append((needed.text, iter(services[needed.text].prerequisites)))
                path.append(needed.text)
