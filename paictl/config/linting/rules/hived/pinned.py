"""Pinned cells: defined once, promised once.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, renamed, rule
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.placeholders import scalars_below
from paictl.config.reading.nodes import Node
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("HVD517", "repeated-pinned-id", ERROR)
def repeated_pinned_id(document: Document) -> Findings:
    """Two physical cells have the same pinnedCellId.

    Why: HiveD silently pins the last one; the other is shared like any cell.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: NODE, cellAddress: worker1}
        +  - {cellType: NODE, cellAddress: worker1, pinnedCellId: web-box}
    """
    # Each pinnedCellId that an earlier cell has.
    model = hived(document)
    for cell in model.cells:
        pin = cell.pin
        if pin is None:
            continue
        first = model.pins[pin.text]
        if first is not cell:
            line = place_of(first.pin or first.place).line
            message = text("pinnedCellId {pin} is given to two cells, first in line {line}", pin=pin.text, line=line)
            yield Finding(pin, message, "give each pinned cell an id of its own")


@rule("HVD518", "unknown-pinned-id", ERROR)
def unknown_pinned_id(document: Document) -> Findings:
    """A virtual cluster names a pinned cell that does not exist.

    Why: HiveD stops at start; the id must be the pinnedCellId of a physical cell.

    Fails with::

        # hivedscheduler.yaml
        -    - {pinnedCellId: web-box}
        +    - {pinnedCellId: web-bxo}
    """
    # Each pinned cell id of a virtual cluster that no physical cell has.
    model = hived(document)
    # A cell below a misspelt key (SHP104) is not read, but its id exists.
    unread = {pin for entry in document.top if entry.name != "virtualClusters" for pin in _pins_below(entry.value)}
    for promise in model.promises:
        if promise.pin_id is None or promise.pin_id in model.pins or promise.pin_id in unread:
            continue
        message = text(
            "no physical cell has the pinnedCellId {pin_id!r} that {vc} names", pin_id=promise.pin_id, vc=promise.vc
        )
        if promise.meant is not None:
            meant = promise.pinned
            theirs = meant is not None and any(other.pin_id == promise.meant for other in model.promises)
            edits = () if theirs else renamed(promise.at, promise.meant)
            yield Finding(promise.at, message, text("did you mean {meant!r}?", meant=promise.meant), edits)
        else:
            yield Finding(promise.at, message, _hint(model, promise.pin_id))


def _hint(model: HivedConfig, name: str) -> str:
    """What to write: the pin of the cell of that address, the one pin that is free, or a new one."""
    by_address = [cell.pin.text for cell in model.pins.values() if cell.address and cell.name == name and cell.pin]
    free = [pin for pin, cell in model.pins.items() if cell not in model.claimed]
    if by_address:
        return text("did you mean {pin!r}, the pinnedCellId of the cell {name}?", pin=by_address[0], name=name)
    if len(free) == 1:
        return text("did you mean {pin!r}, which no virtual cluster names?", pin=free[0])
    return "set it as pinnedCellId of the intended physical cell"


@rule("HVD519", "unclaimed-pinned-cell", WARNING)
def unclaimed_pinned_cell(document: Document) -> Findings:
    """A physical cell has a pinnedCellId that no virtual cluster names.

    Why: The cell is then shared like any other, although it was meant to be reserved; HiveD reports nothing.

    Fails with::

        # hivedscheduler.yaml
        -  web:
        -    pinnedCells:
        -    - {pinnedCellId: web-box}
    """
    # Each pinned cell that is named nowhere, not even in the wrong place (HVD522, SHP101, SHP104) or by a wrong id
    # (HVD518).
    model = hived(document)
    virtual_clusters = document.top.get("virtualClusters")
    if virtual_clusters is None or any(p.pin_id and p.pin_id not in model.pins for p in model.promises):
        return  # most likely that is what names it: SHP103, SHP104 or HVD518
    named = {scalar.text for path, scalar in scalars_below(virtual_clusters) if path.rpartition(".")[2] not in _QUOTA}
    for name, cell in model.pins.items():
        if cell not in model.claimed and name not in named and cell.pin is not None:
            message = text("no virtual cluster names the pinned cell {name}", name=name)
            yield Finding(cell.pin, message, "name it under pinnedCells of a virtual cluster, or remove the id")


_QUOTA: Final = ("cellType", "cellNumber")
"""Keys whose values name no pinned cell, although one may be called like a type or a number."""


def _pins_below(node: Node) -> Iterator[str]:
    """The ids that are written as pinnedCellId, at any depth."""
    for path, scalar in scalars_below(node):
        if path.rpartition(".")[2] == "pinnedCellId":
            yield scalar.text


@rule("HVD520", "pinned-cell-claimed-twice", ERROR)
def pinned_cell_claimed_twice(document: Document) -> Findings:
    """A pinned cell is promised twice.

    Why: A pinned cell exists only once. HiveD stops at start with a message that names nothing.

    Fails with::

        # hivedscheduler.yaml
             - {cellType: NODE, cellNumber: 1}
        +    pinnedCells:
        +    - {pinnedCellId: web-box}
    """
    # Each promise of a pinned cell after the first.
    model = hived(document)
    for promise in model.promises:
        first = model.claimed.get(promise.pinned) if promise.pinned is not None else None
        if first is not None and first is not promise:
            line = place_of(first.at).line
            message = text(
                "pinned cell {pin} is promised to {vc}, but in line {line} to {other}",
                pin=promise.at.text,
                vc=promise.vc,
                line=line,
                other=first.vc,
            )
            yield Finding(promise.at, message, "keep one of the two")


@rule("HVD521", "pinned-inside-pinned", ERROR)
def pinned_inside_pinned(document: Document) -> Findings:
    """A pinned cell lies inside another pinned cell, and both are promised.

    Why: The devices of the inner cell are then promised twice.

    Fails::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
            RACK: {childCellType: NODE, childCellNumber: 2}
          physicalCells:
          - cellType: RACK
            pinnedCellId: web-rack
            cellChildren:
            - {cellAddress: worker1, pinnedCellId: web-box}
            - {cellAddress: worker2}
        virtualClusters:
          default:
            pinnedCells:
            - {pinnedCellId: web-rack}
          web:
            pinnedCells:
            - {pinnedCellId: web-box}
    """
    # Each promised pinned cell that lies in a promised one.
    model = hived(document)
    for cell, promise in model.claimed.items():
        outer = model.claimed_around(cell)
        if outer is not None and cell.pin is not None and outer.pin is not None:
            owner = model.claimed[outer].vc
            message = text(
                "pinned cell {pin} of {vc} lies inside pinned cell {outer} of {owner}",
                pin=cell.pin.text,
                vc=promise.vc,
                outer=outer.pin.text,
                owner=owner,
            )
            yield Finding(cell.pin, message, "pin cells that do not overlap")


@rule("HVD522", "misplaced-pinned-cells", ERROR)
def misplaced_pinned_cells(document: Document) -> Findings:
    """Pinned cells are named inside an entry of virtualCells.

    Why: HiveD silently ignores them there, so the virtual cluster gets other cells than intended. The list pinnedCells
    belongs beside virtualCells.

    Fails with::

        # hivedscheduler.yaml
        -    pinnedCells:
        -    - {pinnedCellId: web-box}
        +    virtualCells:
        +    - cellType: NODE
        +      cellNumber: 1
        +      pinnedCells:
        +      - {pinnedCellId: web-box}
    """
    # Each key about pinned cells in an entry of virtualCells.
    for vc in hived(document).vcs:
        for _, key in vc.misplaced:
            message = text(
                "{key} is inside an entry of virtualCells of {vc}, where it has no effect", key=key.text, vc=vc.name
            )
            yield Finding(key, message, "put the ids into a list pinnedCells one level up, beside virtualCells")
