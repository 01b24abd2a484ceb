"""A key that must be there is missing.

Why: the old tools do without a word about it: HiveD ends in a nil pointer, OpenPAI's Python in a KeyError far away
from the file.

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
    +    NODE: {childCellType: GPU, isNodeLevel: true}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Located, Span, rule
from paictl.config.linting.rules.shape.words import MOST_COMPARED, dotted, meant, of_keyword
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.config.reading.schema import Violation


@rule("SHP103", "missing-key", ERROR)
def check(document: Document) -> Findings:
    """Every missing key, but for those that stand there misspelt (SHP104 names these)."""
    for violation in of_keyword(document, "required"):
        missing = str(violation.missing)
        if _misspelt(violation, missing) or _excused(violation):
            continue
        misplaced = _one_too_deep(violation, missing)
        if misplaced is not None:
            holder, key = misplaced
            message = f"{missing!r} stands inside {holder!r}, and belongs beside it"
            yield Finding(key, message, f"indent {missing}, and all below it, as {holder} is")
            continue
        described = violation.schema.get("properties", {}).get(missing, {}).get("description")
        yield Finding(
            _place(violation),
            f"{dotted(violation.path)} lacks the key {missing!r}",
            f"add {missing}: {described.rstrip('.')}" if described else f"add {missing}",
        )


def _one_too_deep(violation: Violation, missing: str) -> tuple[str, ScalarNode] | None:
    """The key beside which the missing one belongs but inside which it stands, and where it is."""
    for entry in violation.node if isinstance(violation.node, MappingNode) else ():
        key = entry.value.key(missing) if isinstance(entry.value, MappingNode) else None
        if key is not None and missing not in violation.schema.get("properties", {}).get(entry.name, {}).get(
            "properties", {}
        ):
            return entry.name, key
    return None


def _misspelt(violation: Violation, missing: str) -> bool:
    """Whether an unknown key beside it is most likely the missing one."""
    properties = violation.schema.get("properties", {})
    if not isinstance(violation.node, MappingNode) or violation.schema.get("additionalProperties", True) is not False:
        return False
    unknown = [entry.name for entry in violation.node if entry.name not in properties]
    return any(meant(name, violation.node, properties) == missing for name in unknown[:MOST_COMPARED])


def _excused(violation: Violation) -> bool:
    """Whether a key is there that is out of place in this mapping: then a rule of its own says what to do."""
    excuses = violation.schema.get("x-not-required-beside", ())
    return isinstance(violation.node, MappingNode) and any(name in violation.node for name in excuses)


def _place(violation: Violation) -> Located:
    """The first key of the mapping: the line where the reader looks for the section."""
    node = violation.node
    first = next(iter(node), None) if isinstance(node, MappingNode) else None
    return first.key if first else Span(node.source, node.start, min(node.start + 1, node.end))
