"""A list names the same thing twice.

Why: where order and number matter, as for prerequisites and roles, a repeated entry is a slip of copy and paste.

Passes::

    # service.yaml
    cluster-type: [k8s]
    prerequisite: []
    template-list: [start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh

Fails::

    # service.yaml
    cluster-type: [k8s, k8s]
    prerequisite: []
    template-list: [start.sh]
    start-script: start.sh
    stop-script: stop.sh
    delete-script: delete.sh
    refresh-script: refresh.sh
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.document import Document
from paictl.config.nodes import Scalar, Sequence
from paictl.config.problem import Finding, Severity
from paictl.config.rules.shape.words import dotted, of_keyword
from paictl.config.source import place_of

ID = "SHP108"
NAME = "repeated-item"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """Every scalar after the first of its value, in lists that must not repeat any."""
    for violation in of_keyword(document, "uniqueItems"):
        if not isinstance(violation.node, Sequence):
            continue
        seen: dict[str, Scalar] = {}
        for item in violation.node.scalars():
            first = seen.setdefault(item.text, item)
            if first is not item:
                line = place_of(first).line
                yield Finding(
                    item,
                    f"{dotted(violation.path)} names {item.text!r} twice, first in line {line}",
                    "remove one of the two",
                )
