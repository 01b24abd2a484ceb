"""Cell types and how they contain each other."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, INFO, Document, Edit, Finding, Findings, Severity, renamed, rule
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.hived_types import DeclaredChain
from paictl.config.reading.nodes import MappingNode
from paictl.i18n import text


@rule("HVD501", "misspelt-child-type", ERROR)
def misspelt_child_type(document: Document) -> Findings:
    """A childCellType looks like a cell type that is defined, but is written differently.

    Why: HiveD treats every name that is not defined in cellTypes as a device type. A typo therefore cuts the chain
    short: a switch of two devices becomes a single device.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            SWITCH: {childCellType: GPU, childCellNumber: 2}
            NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
        +    NODE: {childCellType: SWITHC, childCellNumber: 2, isNodeLevel: true}
    """
    # Each childCellType that is not defined but resembles a type that is.
    for cell_type in hived(document).types.by_name.values():
        at = cell_type.spec.scalar("childCellType")
        if cell_type.meant is None or at is None:
            continue
        message = text(
            "childCellType {at!r} of {cell_type} is not defined, so it is taken for a device",
            at=at.text,
            cell_type=cell_type.name,
        )
        edits = renamed(at, cell_type.meant)
        yield Finding(at, message, text("did you mean {meant!r}?", meant=cell_type.meant), edits)


@rule("HVD502", "cell-type-circle", ERROR)
def cell_type_circle(document: Document) -> Findings:
    """Cell types contain each other in a cycle.

    Why: HiveD follows childCellType without end and runs out of memory.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            SWITCH: {childCellType: GPU, childCellNumber: 2}
            NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # hivedscheduler.yaml
        -    SWITCH: {childCellType: GPU, childCellNumber: 2}
        +    SWITCH: {childCellType: NODE, childCellNumber: 2}
    """
    # Each circle once, at the childCellType that closes it.
    types = hived(document).types
    for circle in types.cycles:
        at = types.by_name[circle[-1]].spec.scalar("childCellType")
        if at is not None:
            way = " > ".join((*circle, circle[0]))
            yield Finding(
                at, text("cell types contain each other: {way}", way=way), "let the smallest of them consist of devices"
            )


@rule("HVD503", "no-node-level", ERROR)
def no_node_level(document: Document) -> Findings:
    """No cell type of a chain is node-level.

    Why: HiveD places a pod on one node, which is a cell of the type with isNodeLevel: true. Without one it does not
    know where machines begin, and takes the addresses of other cells for node names.

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        +    NODE: {childCellType: GPU, childCellNumber: 4}
    """
    # Each chain without a node level; chains that share their lower types share the mistake.
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        if chain.node_levels or chain.types[2] in seen:
            continue
        seen.add(chain.types[2])
        guessed = _machine(chain)
        at = model.types.by_name[guessed].key
        hint = text("set isNodeLevel: true on the type that is one machine, perhaps {guessed}", guessed=guessed)
        yield Finding(at, text("no cell type of the chain {chain} is node-level", chain=chain.name), hint)


def _machine(chain: DeclaredChain) -> str:
    """The type that sounds like a machine, else the top one."""
    return next((name for name in chain.types[2:] if "node" in name.lower()), chain.name)


@rule("HVD504", "two-node-levels", ERROR)
def two_node_levels(document: Document) -> Findings:
    """A node-level cell type lies inside another one.

    Why: A machine cannot contain machines: HiveD takes the outer cell for the node, so pods are bound to a name
    that no node has.

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
        -    RACK: {childCellType: NODE, childCellNumber: 2}
        +    RACK: {childCellType: NODE, childCellNumber: 2, isNodeLevel: true}
    """
    # Each node-level type above another one, once however many chains have it.
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        for level in chain.node_levels[1:]:
            outer, inner = chain.types[level], chain.types[chain.node_levels[0]]
            at = model.types.by_name[outer].node_level
            if outer not in seen and at is not None:
                seen.add(outer)
                message = text("{outer} is node-level, and so is {inner} inside it", outer=outer, inner=inner)
                yield Finding(at, message, "keep isNodeLevel on the one type that is a machine")


@rule("HVD505", "unknown-cell-type", ERROR)
def unknown_cell_type(document: Document) -> Findings:
    """A top cell has a type that is not defined.

    Why: HiveD cannot build the cell: it stops at start, naming nothing, or takes the cell for a single device.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: NODE, cellAddress: worker1}
        +  - {cellType: NDOE, cellAddress: worker1}
    """
    # Each misspelt type of a top cell; a type without definition once.
    model = hived(document)
    if not isinstance(model.physical.get("cellTypes"), MappingNode):
        return  # without the section no type is defined, which the schema has said
    seen: set[str] = set()
    for top in model.tops:
        name = top.at.text
        if top.meant is not None:
            edits = renamed(top.at, top.meant)
            yield Finding(
                top.at,
                text("cell type {name!r} is not defined", name=name),
                text("did you mean {meant!r}?", meant=top.meant),
                edits,
            )
        elif name not in model.types.by_name and name not in seen:
            seen.add(name)
            if name in model.types.leaves:
                message = text("{name} is a device type; a top cell must be a node or consist of nodes", name=name)
                yield Finding(top.at, message, "name the cell type that consists of such devices")
            else:
                yield Finding(
                    top.at,
                    text("cell type {name!r} is not defined", name=name),
                    text("define {name} in cellTypes", name=name),
                )


@rule("HVD506", "dot-in-cell-type", ERROR)
def dot_in_cell_type(document: Document) -> Findings:
    """The name of a cell type contains a dot.

    Why: Virtual clusters name cells by a path whose parts are joined by dots, so no virtual cluster can be promised a
    cell of this type, nor of any type below it.

    Fails::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            NODE.V2: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE.V2, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE.V2, cellNumber: 1}
    """
    # Each cell type with a dot in its name; a warning for device types, whose parents still can be promised.
    types = hived(document).types
    message = "the name {name} holds a dot, which separates the parts of a path"
    for name, cell_type in types.by_name.items():
        if "." in name:
            yield Finding(
                cell_type.key,
                text(message, name=name),
                text("rename it, e.g. {instead}", instead=name.replace(".", "-")),
            )
    for name, at in types.leaves.items():
        if "." in name:
            hint = text("rename it, e.g. {instead}", instead=name.replace(".", "-"))
            yield Finding(at, text(message, name=name), hint, severity=Severity.WARNING)


@rule("HVD507", "unused-cell-type", INFO)
def unused_cell_type(document: Document) -> Findings:
    """A cell type is defined, but no physical cell has or contains it.

    Why: It is kept for later, or a cell that should use it uses another type.

    Fails with::

        # hivedscheduler.yaml
           cellTypes:
        +    RACK: {childCellType: NODE, childCellNumber: 2}
    """
    # Each unused type that lies in no other unused one.
    model = hived(document)
    if (
        model.untyped
        or not model.tops
        or any(top.cell is None and top.at.text not in model.chains for top in model.tops)
    ):
        return  # cells whose type is unknown may be meant to be of these
    used = _used(model)
    unused = [name for name in model.types.by_name if name not in used]
    inner = {model.types.by_name[name].child for name in unused}
    for name in unused:
        if name not in inner:
            message = text("no physical cell is of the type {name} or contains it", name=name)
            yield Finding(model.types.by_name[name].key, message, "remove it, or list cells of it in physicalCells")


def _used(model: HivedConfig) -> set[str]:
    """The types of all chains, and those in circles, which have a rule of their own."""
    used = {name for circle in model.types.cycles for name in circle}
    for top in model.chains:
        name: str | None = top
        while name in model.types.by_name and (name not in used or name == top):
            used.add(name)
            name = model.types.by_name[name].child
            if name == top:
                break
    return used


_NEW = {"gpuTypes": "skuTypes", "reservationId": "pinnedCellId", "reservedCells": "pinnedCells"}


@rule("HVD536", "renamed-key", ERROR)
def renamed_key(document: Document) -> Findings:
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
    # Each old key; a warning for gpuTypes in a file for HiveD alone, which has no use for SKUs.
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
        yield Finding(
            key,
            text("{name} is the old name of {new}, which is also there", name=name, new=new),
            "remove it",
            (),
            severity,
        )
    else:
        edits = (Edit(key, new),) if key.plain else ()
        yield Finding(
            key,
            text("{name} is the old name of {new} and has no effect", name=name, new=new),
            text("rename it to {new}", new=new),
            edits,
            severity,
        )
