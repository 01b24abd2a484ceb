"""A virtual cluster is promised nothing.

Why: Its users can only run opportunistic jobs, which anybody's guaranteed job preempts.

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
     virtualClusters:
    +  web: {}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode


@rule("HVD532", "vc-without-cells", WARNING)
def check(document: Document) -> Findings:
    """Each virtual cluster with neither virtual nor pinned cells."""
    for entry in document.top.mapping("virtualClusters"):
        if not isinstance(entry.value, MappingNode):
            continue
        lists = ("virtualCells", "pinnedCells", "reservedCells")
        if any(_is_filled(entry.value, name) for name in lists):
            continue
        message = f"virtual cluster {entry.name} is promised no cells"
        yield Finding(entry.key, message, "add virtualCells or pinnedCells, or remove it")


def _is_filled(spec: MappingNode, name: str) -> bool:
    """Whether something stands under a key, be it of the wrong shape, which the schema reports."""
    value = spec.get(name)
    return isinstance(value, MappingNode) or len(spec.sequence(name)) > 0
