"""The path of a virtual cell does not begin with the type of a top cell.

Why: A path starts at the type of an entry of physicalCells; HiveD stops at start for any other.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        RACK: {childCellType: NODE, childCellNumber: 2}
      physicalCells:
      - cellType: RACK
        cellChildren:
        - {cellAddress: worker1}
        - {cellAddress: worker2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: RACK.NODE, cellNumber: 2}

Fails with::

    # hivedscheduler.yaml
    -    - {cellType: RACK.NODE, cellNumber: 2}
    +    - {cellType: NODE, cellNumber: 2}
"""

from __future__ import annotations

import re

from paictl.config.linting.repairs import renamed_part
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_promises import PathFault, PathRole


@rule("HVD523", "unknown-chain", ERROR)
def check(document: Document) -> Findings:
    """Each path whose first component is no chain."""
    model = hived(document)
    reported = {top.at.text for top in model.tops if top.cell is None}
    for promise in model.promises:
        for fault in promise.faults:
            if fault.role is PathRole.CHAIN and model.chains and fault.word not in reported:
                yield _finding(fault, list(model.chains))


def _finding(fault: PathFault, chains: list[str]) -> Finding:
    edits = renamed_part(fault.at, fault.word, fault.expected) if fault.expected is not None and fault.exact else ()
    if fault.chain is not None:
        message = f"{fault.word} is not the type of a top cell, but lies in {fault.chain.name}"
        hint = f"write {fault.expected}" if fault.expected else "start with the type of the top cell that is meant"
        return Finding(fault.at, message, hint, edits)
    shown = ", ".join(chains[:8]) + (", …" if len(chains) > 8 else "")
    dotted = re.sub(r"[/:>]+", ".", fault.word)
    if dotted.partition(".")[0] in chains:
        return Finding(fault.at, f"no top cell is of the type {fault.word!r}", f"separate the types by dots: {dotted}")
    hint = f"did you mean {fault.expected!r}?" if fault.expected else f"start with one of: {shown}"
    return Finding(fault.at, f"no top cell is of the type {fault.word!r}", hint, edits)
