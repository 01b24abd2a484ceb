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

Fails with::

    # pylon.service.yaml
     - in: pai-master
    +- notin: pai-master
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule


@rule("GRF805", "contradictory-rules", ERROR)
def check(document: Document) -> Findings:
    """Every notin with the label of an in."""
    rules = list(document.top.sequence("deploy-rules").mappings())
    wanted = {label.text for item in rules if (label := item.text("in"))}
    for item in rules:
        label = item.text("notin")
        if label is not None and label.text in wanted:
            yield Finding(label, f"label {label.text!r} is both asked for and forbidden", "remove one of the two rules")
