"""A node has more devices than a machine can have, or the cluster more cells than a scheduler can hold (an error).

Why: The numbers of children multiply from level to level; HiveD makes an object of every cell and runs out of memory.

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
    +    NODE: {childCellType: GPU, childCellNumber: 4000, isNodeLevel: true}
"""

from __future__ import annotations

from paictl.cells.spec import MAX_CELLS, MAX_LEVELS
from paictl.config.linting.rule import WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.hived_types import DeclaredChain

_PLAUSIBLE = 1024
"""Devices of one node; cells of CPU cores are the most numerous."""


@rule("HVD540", "huge-node", WARNING)
def check(document: Document) -> Findings:
    """Each node-level type whose cells have more devices than is plausible; the top cell that is one too many."""
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        if not chain.node_level or not chain.countable or chain.leaves[chain.node_level] <= _PLAUSIBLE:
            continue
        name = chain.types[chain.node_level]
        if name not in seen:
            seen.add(name)
            message = f"a {name} cell, one machine, has {chain.leaves[chain.node_level]:,} {chain.leaf_type} devices"
            at = model.types.by_name[name].spec.get("childCellNumber") or model.types.by_name[name].key
            yield Finding(at, message, "check childCellNumber of the types below it")
    yield from _too_many(model)


def _too_many(model: HivedConfig) -> Findings:
    """What `paictl.cells` refuses to build: the first top cell with which there are too many cells, or levels."""
    total = 0
    for top in model.tops:
        if top.cell is None or not top.cell.chain.countable:
            continue
        total += _cells(top.cell.chain)
        if total > MAX_CELLS or top.cell.chain.top > MAX_LEVELS:
            message = f"with it the cluster has more than {MAX_CELLS:,} cells"
            if total <= MAX_CELLS:
                message = f"its chain has more than {MAX_LEVELS} levels"
            hint = "check childCellNumber of the types below it"
            yield Finding(top.at, f"{message}, the scheduler takes no more", hint, severity=Severity.ERROR)
            return


def _cells(chain: DeclaredChain) -> int:
    """Cells of all levels in a top cell."""
    cells = 1
    for fanout in chain.fanout[2:]:
        cells = min(1 + fanout * cells, MAX_CELLS + 1)
    return cells
