"""A physical cell has a pinnedCellId that no virtual cluster names.

Why: The cell is then shared like any other, although somebody meant it to be reserved; HiveD says nothing.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
      - {cellType: NODE, cellAddress: worker2, pinnedCellId: web-box}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
      web:
        pinnedCells:
        - {pinnedCellId: web-box}

Fails with::

    # hivedscheduler.yaml
    -  web:
    -    pinnedCells:
    -    - {pinnedCellId: web-box}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.reading.nodes import ScalarNode, SequenceNode


@rule("HVD519", "unclaimed-pinned-cell", WARNING)
def check(document: Document) -> Findings:
    """Each pinned cell that is named nowhere, not even in the wrong place (HVD522) or by a wrong id (HVD518)."""
    model = hived(document)
    if "virtualClusters" not in document.top or any(p.pin_id and p.pin_id not in model.pins for p in model.promises):
        return  # most likely that is what names it: SHP103, SHP104 or HVD518
    misplaced = set(_misplaced(model))
    for name, cell in model.pins.items():
        if cell not in model.claimed and name not in misplaced and cell.pin is not None:
            message = f"no virtual cluster names the pinned cell {name}"
            yield Finding(cell.pin, message, "name it under pinnedCells of a virtual cluster, or remove the id")


def _misplaced(model: HivedConfig) -> Iterator[str]:
    """Pinned cell ids that stand inside entries of virtualCells."""
    for vc in model.vcs:
        for entry, key in vc.misplaced:
            value = entry.get(key.text)
            if isinstance(value, ScalarNode):
                yield value.text
            elif isinstance(value, SequenceNode):
                for item in value.mappings():
                    yield from (entry.value.text for entry in item if isinstance(entry.value, ScalarNode))
