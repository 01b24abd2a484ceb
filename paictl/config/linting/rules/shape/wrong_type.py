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

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import any_of, dotted, found, of_keyword, wanted_types
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.schema import Violation
from paictl.config.reading.values import resolve

_TAGS = {"integer": "int", "number": "float", "boolean": "bool"}


@rule("SHP101", "wrong-type", ERROR)
def check(document: Document) -> Findings:
    """Every value of a wrong type, but for those that only lack quotes (SHP102)."""
    for violation in of_keyword(document, "type"):
        types = wanted_types(violation)
        if "string" in types and isinstance(violation.node, ScalarNode) and violation.node.tag != "null":
            continue
        message = f"{dotted(violation.path)} must be {any_of(types)}, not {found(violation.node)}"
        bare = _bare(violation, types)
        if bare is not None:
            yield Finding(violation.node, message, f"remove the quotes: {bare}", (Edit(violation.node, bare),))
        else:
            yield Finding(violation.node, message, f"write {any_of(types)} here")


def _bare(violation: Violation, types: list[str]) -> str | None:
    """The text without quotes where that alone gives a wanted type."""
    node = violation.node
    if not isinstance(node, ScalarNode) or node.style not in ("'", '"'):
        return None
    tag = resolve(node.text)[0]
    return node.text if any(_TAGS.get(name) == tag for name in types) else None
