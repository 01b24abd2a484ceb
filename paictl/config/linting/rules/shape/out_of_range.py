"""A number, or a count of things, is too small or too large.

Why: a negative or zero count passes HiveD's parser and ends in an index error, or counts as nothing, later on.

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
    +    NODE: {childCellType: GPU, childCellNumber: 0, isNodeLevel: true}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted, of_keyword, shown
from paictl.config.reading.schema import Violation

_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters long",
    "maxLength": "at most {} characters long",
    "minItems": "a list of at least {}",
    "maxItems": "a list of at most {}",
    "minProperties": "a mapping of at least {}",
    "maxProperties": "a mapping of at most {}",
}


@rule("SHP106", "out-of-range", ERROR)
def check(document: Document) -> Findings:
    """Every value outside the limits that the schema sets."""
    for violation in of_keyword(document, *_LIMITS):
        yield Finding(
            violation.node,
            f"{dotted(violation.path)} must be {_limit(violation)}",
            _advice(violation),
        )


def _advice(violation: Violation) -> str:
    if violation.keyword == "minimum":
        return f"write {violation.wanted} or more"
    if violation.keyword == "maximum":
        return f"write {violation.wanted} or less"
    return str(violation.schema.get("description", "correct the value")).rstrip(".")


def _limit(violation: Violation) -> str:
    if violation.keyword in ("minLength", "minItems", "minProperties") and violation.wanted == 1:
        return "filled in, not empty"
    return f"{_LIMITS[violation.keyword].format(violation.wanted)}, not {shown(violation.node)}"
