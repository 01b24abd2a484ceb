"""A path of a virtual cell does not follow the cell types from parent to child.

Why: HiveD looks at the first and the last name of a path. If the last is no type of the chain it stops at start; names
in between may be anything, and mislead whoever reads them (a warning).

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        SOCKET: {childCellType: GPU, childCellNumber: 2}
        NODE: {childCellType: SOCKET, childCellNumber: 2, isNodeLevel: true}
      physicalCells:
      - cellType: NODE
        cellAddress: worker1
        cellChildren:
        - {cellAddress: 0}
        - {cellAddress: 1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -    - {cellType: NODE, cellNumber: 1}
    +    - {cellType: NODE.SOKET, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed_part
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Severity, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_promises import PathFault, PathRole


@rule("HVD524", "wrong-cell-path", ERROR)
def check(document: Document) -> Findings:
    """Each component after the first that is not the child type of the one before."""
    for promise in hived(document).promises:
        for fault in promise.faults:
            if fault.role is not PathRole.CHAIN and fault.chain is not None:
                yield _finding(fault)


def _finding(fault: PathFault) -> Finding:
    chain = fault.chain
    assert chain is not None  # noqa: S101 - narrows the type
    below = chain.types[chain.level_of(fault.before) - 1] if chain.level_of(fault.before) > 1 else None
    known = bool(chain.level_of(fault.word))
    works = known or fault.role is PathRole.BETWEEN
    shown = fault.word or "an empty name"
    if known or below is None:
        message = f"{shown} cannot follow {fault.before} in a path of the chain {chain.name}"
    else:
        message = f"{shown} is no cell type of the chain {chain.name}"
    if fault.expected is not None:
        hint = f"write {fault.expected}" if known else f"did you mean {fault.expected!r}?"
    else:
        hint = f"below {fault.before} comes {below}" if below else f"end the path with {fault.before}"
    edits = renamed_part(fault.at, fault.word, fault.expected) if fault.expected is not None and fault.exact else ()
    return Finding(fault.at, message, hint, edits, Severity.WARNING if works else None)
