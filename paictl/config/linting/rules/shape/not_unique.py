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

Fails with::

    # service.yaml
    -cluster-type: [k8s]
    +cluster-type: [k8s, k8s]
"""

from __future__ import annotations

import json

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted, of_keyword, shown
from paictl.config.reading.nodes import Node, ScalarNode, SequenceNode, to_data
from paictl.config.reading.source import place_of


@rule("SHP108", "repeated-item", WARNING)
def check(document: Document) -> Findings:
    """Every item after the first of its value, in lists that must not repeat any."""
    for violation in of_keyword(document, "uniqueItems"):
        if not isinstance(violation.node, SequenceNode):
            continue
        seen: dict[str, Node] = {}
        for item in violation.node:
            first = seen.setdefault(_value(item), item)
            if first is not item:
                line = place_of(first).line
                yield Finding(
                    item,
                    f"{dotted(violation.path)} names {shown(item)} twice, first in line {line}",
                    "remove one of the two",
                )


def _value(node: Node) -> str:
    """What JSON Schema compares: values, in which the order of keys does not count and 1.0 is 1."""
    if isinstance(node, ScalarNode) and isinstance(node.value, float) and node.value.is_integer():
        return str(int(node.value))
    return json.dumps(to_data(node), sort_keys=True)
