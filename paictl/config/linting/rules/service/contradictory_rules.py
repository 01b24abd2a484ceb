"""The deploy rules ask for a label and forbid it.

Why: no machine satisfies both, so that the service runs nowhere.

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
    template-list: [pylon.yaml, start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
    deploy-rules:
    - in: pai-master
    - notin: pai-master
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "GRF805"
NAME = "contradictory-rules"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Every notin with the label of an in."""
    rules = list(document.top.sequence("deploy-rules").mappings())
    wanted = {label.text for rule in rules if (label := rule.text("in"))}
    for rule in rules:
        label = rule.text("notin")
        if label is not None and label.text in wanted:
            yield Finding(label, f"label {label.text!r} is both asked for and forbidden", "remove one of the two rules")
