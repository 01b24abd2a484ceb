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
    - in: pai-maser
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.service import LABELS
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "GRF808"
NAME = "misspelt-label"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """Every label that resembles one of OpenPAI's and is none."""
    for rule in document.top.sequence("deploy-rules").mappings():
        for key in ("in", "notin"):
            label = rule.text(key)
            if label is None or label.text in LABELS:
                continue
            hint, edits = suggested(label, LABELS, "")
            if hint:
                yield Finding(label, f"label {label.text!r} is almost one of OpenPAI's own", hint, edits)
