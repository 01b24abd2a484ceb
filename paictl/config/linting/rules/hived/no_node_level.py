"""No cell type of a chain is node-level.

Why: HiveD places a pod on one node, which is a cell of the type with isNodeLevel: true. Without one it does not know
where machines begin, and takes the addresses of other cells for node names.

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
    +    NODE: {childCellType: GPU, childCellNumber: 4}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_types import DeclaredChain


@rule("HVD503", "no-node-level", ERROR)
def check(document: Document) -> Findings:
    """Each chain without a node level; chains that share their lower types share the mistake."""
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        if chain.node_levels or chain.types[2] in seen:
            continue
        seen.add(chain.types[2])
        guessed = _machine(chain)
        at = model.types.by_name[guessed].key
        hint = f"set isNodeLevel: true on the type that is one machine, perhaps {guessed}"
        yield Finding(at, f"no cell type of the chain {chain.name} is node-level", hint)


def _machine(chain: DeclaredChain) -> str:
    """The type that sounds like a machine, else the top one."""
    return next((name for name in chain.types[2:] if "node" in name.lower()), chain.name)
