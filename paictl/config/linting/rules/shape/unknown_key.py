"""A key is not known here.

Why: the old tools ignore unknown keys in most files without a word, so a misspelt setting has no effect; in jobs the
server refuses them.

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
    +    NODE: {childCellType: GPU, childCellNum: 4, isNodeLevel: true}
"""

from __future__ import annotations

from paictl.config.linting.repairs import written
from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, Severity, rule
from paictl.config.linting.rules.shape.words import MOST_COMPARED, dotted, meant, of_keyword
from paictl.config.reading.nodes import follow
from paictl.config.reading.schema import Violation
from paictl.words import listed

_SHOWN = 20
"""Known keys that a hint names."""


@rule("SHP104", "unknown-key", ERROR)
def check(document: Document) -> Findings:
    """Every key that the schema does not declare; a warning where the tools ignore it and nothing is lost by that."""
    for number, violation in enumerate(of_keyword(document, "additionalProperties")):
        if violation.key is None:
            continue
        known = violation.schema.get("properties", {})
        name, parent = violation.key.text, violation.path[:-1]
        holder = f" in {dotted(parent)}" if parent else ""
        holder_node = follow(document.root, parent) if document.root else None
        near = meant(name, holder_node, known) if number < MOST_COMPARED else None
        severity = Severity(violation.schema.get("x-unknown-key-severity", "error"))
        if near and _is_weighty(violation, near):
            severity = Severity.ERROR
        message = f"unknown key {name!r}{holder}"
        if near and violation.key.plain:
            yield Finding(
                violation.key, message, f"did you mean {near!r}?", (Edit(violation.key, written(near)),), severity
            )
        else:
            yield Finding(violation.key, message, _advice(violation, name), (), severity)


def _advice(violation: Violation, name: str) -> str:
    """What to do about a key that resembles none: the section it belongs into, or some that are known here."""
    for start, section in violation.schema.get("x-elsewhere", {}).items():
        if name.startswith(start):
            return f"move it into {section}"
    properties = violation.schema.get("properties", {})
    offered = sorted(key for key, schema in properties.items() if not schema.get("x-legacy", False))
    return f"known keys: {listed(offered, _SHOWN)}" if offered else "remove it"


def _is_weighty(violation: Violation, meant_key: str) -> bool:
    """Whether a key that is mistyped leaves out what must be there, or a whole section: that is never just ignored."""
    described = violation.schema.get("properties", {}).get(meant_key, {})
    section = "$ref" in described or described.get("type") in ("object", "array")
    return section or meant_key in violation.schema.get("required", ())
