"""A key has the name that it had before HiveD 0.3.

Why: HiveD 0.3 renamed gpuTypes to skuTypes, reservationId to pinnedCellId and reservedCells to pinnedCells, and
silently ignores the old names: cells are not pinned, and OpenPAI finds no SKUs.

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
    -  - {cellType: NODE, cellAddress: worker2, pinnedCellId: web-box}
    +  - {cellType: NODE, cellAddress: worker2, reservationId: web-box}
    @@
    -    pinnedCells:
    -    - {pinnedCellId: web-box}
    +    reservedCells:
    +    - {reservationId: web-box}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, Severity, rule
from paictl.config.models.hived import hived
from paictl.config.reading.nodes import MappingNode

_NEW = {"gpuTypes": "skuTypes", "reservationId": "pinnedCellId", "reservedCells": "pinnedCells"}


@rule("HVD536", "renamed-key", ERROR)
def check(document: Document) -> Findings:
    """Each old key; a warning for gpuTypes in a file for HiveD alone, which has no use for SKUs."""
    model = hived(document)
    alone = Severity.WARNING if document.host is None else None
    yield from _old(model.physical, "gpuTypes", alone)
    for cell in model.cells:
        yield from _old(cell.spec, "reservationId")
    for vc in model.vcs:
        yield from _old(vc.spec, "reservedCells")
        for name in ("pinnedCells", "reservedCells"):
            for entry in vc.spec.sequence(name).mappings():
                yield from _old(entry, "reservationId")


def _old(holder: MappingNode, name: str, severity: Severity | None = None) -> Findings:
    key = holder.key(name)
    if key is None:
        return
    new = _NEW[name]
    if new in holder:
        yield Finding(key, f"{name} is the old name of {new}, which stands beside it", "remove it", (), severity)
    else:
        edits = (Edit(key, new),) if key.plain else ()
        yield Finding(key, f"{name} is the old name of {new} and has no effect", f"rename it to {new}", edits, severity)
