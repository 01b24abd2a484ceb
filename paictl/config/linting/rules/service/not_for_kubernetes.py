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

Fails with::

    # pylon.service.yaml
    -cluster-type: [k8s]
    +cluster-type: [yarn]
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule


@rule("GRF806", "not-for-kubernetes", WARNING)
def check(document: Document) -> Findings:
    """A cluster-type without k8s."""
    kinds = document.top.sequence("cluster-type")
    words = [kind.text for kind in kinds.scalars()]
    if words and "k8s" not in words and all(word in ("yarn", "k8s") for word in words):
        yield Finding(kinds.items[0], "the service is for YARN only and never deployed", "write k8s")
