"""The children that a physical cell lists, down to its devices.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 2, isNodeLevel: true}
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
"""

from __future__ import annotations

from collections import defaultdict

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, renamed, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import MOST_DEVICES, Cell, Device, device_index, devices
from paictl.config.models.hived_types import CellTypes, name_under
from paictl.config.reading.source import place_of
from paictl.i18n import counted, text


@rule("HVD513", "bad-device-index", ERROR)
def bad_device_index(document: Document) -> Findings:
    """The address of a device is not its index in the node.

    Why: HiveD passes the address of a leaf cell to the container runtime as the device index, and stops at start if
    it is not a number.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellAddress: 1}
        +    - {cellAddress: gpu1}
    """
    # Each address of a leaf cell that is not a whole number from 0 on.
    for cell in hived(document).cells:
        if cell.level != LEAF_LEVEL or cell.address is None or isinstance(cell.address.value, bool):
            continue
        if not cell.chain.node_levels:
            continue  # HVD503: the names of machines may be right, one level too deep
        if device_index(cell) is None:
            message = text(
                "{address!r} is the address of a {type} device, which must be its index",
                address=cell.address.text,
                type=cell.type,
            )
            yield Finding(cell.address, message, "write a whole number, 0 or more, as nvidia-smi shows it")


@rule("HVD514", "repeated-device-index", ERROR)
def repeated_device_index(document: Document) -> Findings:
    """A device appears twice in its node.

    Why: HiveD gives the same device to two jobs. Note the defaults: a leaf cell without an address gets its
    position, which may already be the explicit address of another.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellAddress: 1}
        +    - {cellAddress: 0}
    """
    # Each device whose index an earlier device of the node has.
    for node in hived(document).nodes:
        if not node.children or node.chain.leaves[node.level] > MOST_DEVICES:
            continue
        seen: dict[int, Device] = {}
        for device in devices(node):
            if device.number is None:
                continue
            first = seen.setdefault(device.number, device)
            if first is not device:
                line = place_of(first.at).line
                message = text(
                    "device {device} of node {node} appears twice, first in line {line}",
                    device=device.number,
                    node=node.name,
                    line=line,
                )
                yield Finding(device.at, message, "give each device of the node an index of its own")


@rule("HVD515", "children-count", ERROR)
def children_count(document: Document) -> Findings:
    """A cell lists more or fewer children than its type has.

    Why: HiveD accepts it and computes quotas from the type or from the first cell of a level, so virtual clusters
    are promised cells that do not exist.

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
        -    - {cellAddress: worker2}
        @@
        -    - {cellType: RACK.NODE, cellNumber: 2}
        +    - {cellType: RACK.NODE, cellNumber: 1}
    """
    # Each cell whose list of children has another length; where all cells of a type agree, their type.
    model = hived(document)
    listed: dict[str, list[Cell]] = defaultdict(list)
    for cell in model.cells:
        if cell.listed and cell.chain.countable:
            listed[cell.type].append(cell)
    for cells in listed.values():
        wanted = cells[0].chain.fanout[cells[0].level]
        lengths = {cell.listed for cell in cells}
        if len(cells) > 1 and len(lengths) == 1 and wanted not in lengths and cells[0].level > LEAF_LEVEL:
            yield from _type_is_wrong(model.types, cells)
        else:
            yield from (_cell_is_wrong(cell, wanted) for cell in cells if cell.listed != wanted)


def _type_is_wrong(types: CellTypes, cells: list[Cell]) -> Findings:
    name, count = cells[0].type, cells[0].listed
    at = types.by_name[name].spec.scalar("childCellNumber")
    if at is not None:
        message = text(
            "childCellNumber of {name} is {number}, but all {count} {name} cells list {children} children",
            name=name,
            number=at.text,
            count=len(cells),
            children=count,
        )
        yield Finding(at, message, text("write {count}, or correct the cells", count=count), (Edit(at, str(count)),))


def _cell_is_wrong(cell: Cell, wanted: int) -> Finding:
    at = cell.spec.key("cellChildren") or cell.place
    if cell.level == LEAF_LEVEL:
        return Finding(
            at, text("{type} is a device type, whose cells have no children", type=cell.type), "remove cellChildren"
        )
    message = text(
        "cells of type {type} have {children}, {listed}",
        type=cell.type,
        children=counted("{count} child", "{count} children", wanted),
        listed=counted("{count} is listed", "{count} are listed", cell.listed),
    )
    if cell.listed < wanted:
        return Finding(at, message, "list all of them, or define a cell type for such smaller cells")
    return Finding(
        at,
        message,
        text(
            "remove {listed} of them, or correct childCellNumber of {type}", listed=cell.listed - wanted, type=cell.type
        ),
    )


@rule("HVD516", "other-cell-type", ERROR)
def other_cell_type(document: Document) -> Findings:
    """A child cell has another type than its parent's type defines.

    Why: HiveD then builds a cell of mixed types, in which promises cannot be found.

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
        -    - {cellAddress: worker2}
        +    - {cellType: GPU, cellAddress: worker2}
    """
    # Each cellType of a child that is not the childCellType of its parent's type.
    for cell in hived(document).cells:
        at = name_under(cell.spec, "cellType")
        if cell.parent is not None and at is not None and at.text != cell.type:
            message = text(
                "the children of a {type} cell are {wanted} cells, not {written}",
                type=cell.parent.type,
                wanted=cell.type,
                written=at.text,
            )
            edits = renamed(at, cell.type)
            yield Finding(at, message, text("write {type}, or leave cellType out", type=cell.type), edits)
