"""A value that must be a string is read as something else, because it stands without quotes.

Why: YAML reads `no` and `off` as false, `1.10` as 1.1, `012` as 10 and `12:30` as 750. Where a string is wanted the
old tools go on with that other value: a tag `1.10` pulls the image 1.1.

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
         - {cellType: NODE, cellNumber: 1}
    +  "2": {}
    +kubeApiServerAddress: 12:30
"""

from __future__ import annotations

import json
import re

from paictl.config.linting.rule import WARNING, Document, Edit, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted, of_keyword, wanted_types
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.schema import Violation


@rule("SHP102", "not-a-string", WARNING)
def check(document: Document) -> Findings:
    """Every unquoted value that is no string where a string is wanted."""
    for violation in of_keyword(document, "type"):
        node = violation.node
        if "string" not in wanted_types(violation) or not isinstance(node, ScalarNode) or node.tag == "null":
            continue
        quoted = json.dumps(_meant(violation, node), ensure_ascii=False)
        secret = violation.schema.get("x-secret", False)
        written, read = ("the value", "another type") if secret else (node.text, _reading(node))
        yield Finding(
            node,
            f"{dotted(violation.path)} must be a string, but {written} is read as {read}",
            "put it in quotes" if secret else f"put it in quotes: {quoted}",
            () if secret else (Edit(node, quoted),),
        )


def _meant(violation: Violation, node: ScalarNode) -> str:
    """The string that was most likely meant: `yes` where only "true" and "false" are understood is "true"."""
    pattern = violation.schema.get("pattern")
    if pattern and isinstance(node.value, bool) and not re.search(pattern, node.text):
        return str(node.value).lower()
    return node.text


def _reading(node: ScalarNode) -> str:
    kind = "boolean" if node.tag == "bool" else "number"
    return f"the {kind} {json.dumps(node.value)}"
