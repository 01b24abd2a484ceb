"""A service is not for clusters on Kubernetes.

Why: there are no others since v1.0: the service is passed over without a word.

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
    cluster-type: [yarn]
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

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "GRF806"
NAME = "not-for-kubernetes"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """A cluster-type without k8s."""
    kinds = document.top.sequence("cluster-type")
    words = [kind.text for kind in kinds.scalars()]
    if words and "k8s" not in words and all(word in ("yarn", "k8s") for word in words):
        yield Finding(kinds.items[0], "the service is for YARN only and never deployed", "write k8s")
