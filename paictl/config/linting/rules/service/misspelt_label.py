"""A deploy rule has a label that is almost one of OpenPAI's own.

Why: labels are free, so that nobody complains: no machine bears the misspelt one, and the service runs nowhere.

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
    -- in: pai-master
    +- in: pai-maser
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.service import LABELS


@rule("GRF808", "misspelt-label", WARNING)
def check(document: Document) -> Findings:
    """Every label that resembles one of OpenPAI's and is none."""
    for item in document.top.sequence("deploy-rules").mappings():
        for key in ("in", "notin"):
            label = item.text(key)
            if label is None or label.text in LABELS:
                continue
            hint, edits = suggested(label, LABELS, "")
            if hint:
                yield Finding(label, f"label {label.text!r} is almost one of OpenPAI's own", hint, edits)
