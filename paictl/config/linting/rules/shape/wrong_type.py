"""A value has another type than the one that is read.

Why: OpenPAI and HiveD take what they find: a string where a number belongs ends in a crash without a name, or in a
comparison that is never true.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
    +    NODE: {childCellType: GPU, childCellNumber: "4", isNodeLevel: true}
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import any_of, dotted, found, of_keyword, wanted_types
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import Node, ScalarNode
from paictl.config.reading.schema import Violation
from paictl.config.reading.values import resolve
from paictl.units import parse_quantity

HIVED_CONFIG = ("hivedscheduler", "config")

_TAGS = {"integer": "int", "number": "float", "boolean": "bool"}


@rule("SHP101", "wrong-type", ERROR)
def check(document: Document) -> Findings:
    """Every value of a wrong type, but for those that only lack quotes (SHP102)."""
    for violation in of_keyword(document, "type"):
        types = wanted_types(violation)
        if "string" in types and isinstance(violation.node, ScalarNode) and violation.node.tag != "null":
            continue
        message = f"{dotted(violation.path)} must be {any_of(types)}, not {found(violation.node)}"
        if document.kind is FileKind.SERVICES and violation.path == HIVED_CONFIG:
            yield _without_bar(document, violation.node)
            continue
        bare = _bare(violation, types)
        if bare is not None:
            yield Finding(violation.node, message, f"remove the quotes: {bare}", (Edit(violation.node, bare),))
        else:
            yield Finding(violation.node, message, _advice(violation, types))


def _without_bar(document: Document, node: Node) -> Finding:
    """The cells stand below ``config:``, but a text is what OpenPAI reads there."""
    key = document.top.mapping("hivedscheduler").key("config")
    message = "hivedscheduler.config must be a text, and these lines are a mapping: '|' is missing behind 'config:'"
    return Finding(key or node, message, "write config: |")


def _advice(violation: Violation, types: list[str]) -> str:
    """What to write, made of what stands there where that is clear."""
    node = violation.node
    if isinstance(node, ScalarNode) and "integer" in types:
        amount = parse_quantity(node.text) if violation.path[-1:] == ("memoryMB",) else None
        if amount is not None:
            return f"write {amount.mebibytes}: a number of MiB without a unit"
        digits = re.match(r"\d{1,9}(?=[^\d.]|$)", node.text)
        return (
            f"write {digits[0]}: a number and nothing else" if digits else "write a whole number in digits, such as 1"
        )
    if isinstance(node, ScalarNode) and types == ["array"] and node.tag != "null":
        return "write each item in a line of its own, behind '- '"
    return f"write {any_of(types)} here"


def _bare(violation: Violation, types: list[str]) -> str | None:
    """The text without quotes where that alone gives a wanted type."""
    node = violation.node
    if not isinstance(node, ScalarNode) or node.style not in ("'", '"'):
        return None
    tag = resolve(node.text)[0]
    return node.text if any(_TAGS.get(name) == tag for name in types) else None
