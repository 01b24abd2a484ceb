"""The specification of a cluster as its administrator wrote it: cell types, physical cells, virtual clusters.

These classes say what was declared, not what follows from it; defaults (addresses, undeclared children) are
filled in by `paictl.cells.tree`. Source: HiveD's configuration (`physicalCluster`, `virtualClusters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen

LEAF_LEVEL = 1
"""Level of a leaf cell type; a parent is one level above its child."""
MAX_CELLS = 500_000
"""Physical cells of a cluster, of all levels together, and virtual cells of all VCs: twice those of the largest cluster
that is planned for (131,072 devices). A few lines can ask for more, which would take minutes and gigabytes to build."""
MAX_LEVELS = 64
"""Levels of a chain."""
MIG_INSTANCES: Final = "migInstances"
MOST_INSTANCES: Final = 7
"""MIG instances of one GPU: NVIDIA's GPUs have seven compute slices at most."""


class SpecError(PaictlError, ValueError):
    """The specification cannot be a cluster; `where` is the path of the field at fault."""

    def __init__(self, path: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, where=path, hint=hint)
        self.path = path


@frozen
class CellTypeSpec:
    """A cell type that is made of `child_number` cells of `child_type`."""

    name: str
    child_type: str
    child_number: int
    is_node_level: bool = False


@frozen
class PhysicalCellSpec:
    """One declared physical cell.

    `address` is one component (for a node-level cell the node name), None where the default applies;
    `children` is empty where they were left to be made from the cell type.
    """

    cell_type: str
    address: str | None = None
    pinned_id: str | None = None
    children: tuple[PhysicalCellSpec, ...] = ()


@frozen
class VirtualCellSpec:
    """`number` preassigned cells of the last type of `path`, in the chain named by its first."""

    path: tuple[str, ...]
    number: int

    @property
    def chain(self) -> str:
        """Name of the chain that the cells come from."""
        return self.path[0]

    @property
    def cell_type(self) -> str:
        """The preassigned cell type."""
        return self.path[-1]


@frozen
class VirtualClusterSpec:
    """What one tenant was promised, in the order of declaration."""

    name: str
    cells: tuple[VirtualCellSpec, ...] = ()
    pinned_ids: tuple[str, ...] = ()


@frozen
class ClusterSpec:
    """A whole cluster as declared.

    `sku_types` holds the resources of one leaf cell by leaf cell type (gpu, cpu, memory), and how its GPU is divided
    (migInstances, migProfile); placement ignores it.
    """

    cell_types: Mapping[str, CellTypeSpec]
    physical_cells: tuple[PhysicalCellSpec, ...]
    virtual_clusters: tuple[VirtualClusterSpec, ...]
    sku_types: Mapping[str, Mapping[str, int | str]] = field(default_factory=dict)
    lazy_preemption_recovery: bool = False
    """Whether a lazily preempted group regains its guarantee once its VC has room for it where it runs."""

    def is_device(self, leaf_type: str) -> bool:
        """Whether a leaf cell of this type stands for a device (GPU) of its node.

        A leaf of a SKU without gpu, or with none (``gpu: 0``), is a share of the node's processors and memory: its
        address numbers it among its like and collides with no device. A type without SKU counts as a device.
        """
        sku = self.sku_types.get(leaf_type)
        if sku is None:
            return True
        amount = sku.get("gpu", 0)
        return bool(str(amount).strip(" 0.")) if isinstance(amount, str) else amount != 0

    def mig_instances(self, cell_type: str) -> int:
        """MIG instances that each GPU is divided into where the leaf cells of a type are these; 0 for whole GPUs.

        `cell_type` may be a leaf cell type or any above it, such as the name of a chain. Leaf i of a node is instance
        ``i % n`` of GPU ``i // n``.
        """
        for _ in range(MAX_LEVELS):
            if (kind := self.cell_types.get(cell_type)) is None:
                break
            cell_type = kind.child_type
        declared = self.sku_types.get(cell_type, {}).get(MIG_INSTANCES, 0)
        return declared if isinstance(declared, int) else 0

    @classmethod
    def from_mapping(cls, data: Mapping[str, object]) -> ClusterSpec:
        """Read HiveD's mapping with the keys `physicalCluster` and `virtualClusters`, and our `lazyPreemptionRecovery`.

        Other keys are ignored.

        Only shapes are checked here; whether types exist and counts agree is `paictl.cells.chain`'s business.
        Raises `SpecError` naming the path of the first field that has the wrong shape.
        """
        root = _mapping(data, "")
        physical = _mapping(root.get("physicalCluster"), "physicalCluster")
        return cls(
            cell_types=_cell_types(physical.get("cellTypes"), "physicalCluster.cellTypes"),
            physical_cells=tuple(
                _physical_cell(item, f"physicalCluster.physicalCells[{i}]", None)
                for i, item in enumerate(_list(physical.get("physicalCells"), "physicalCluster.physicalCells"))
            ),
            virtual_clusters=tuple(
                _virtual_cluster(_name(name, "virtualClusters"), item, f"virtualClusters.{name}")
                for name, item in _mapping(root.get("virtualClusters") or {}, "virtualClusters").items()
            ),
            sku_types=_sku_types(physical.get("skuTypes") or {}, "physicalCluster.skuTypes"),
            lazy_preemption_recovery=_flag(root.get("lazyPreemptionRecovery"), "lazyPreemptionRecovery"),
        )

    def to_mapping(self) -> dict[str, object]:
        """The inverse of `from_mapping`: nothing of a file but what was read of it, no comment and no other key."""
        physical: dict[str, object] = {
            "cellTypes": {
                name: {
                    "childCellType": kind.child_type,
                    "childCellNumber": kind.child_number,
                    "isNodeLevel": kind.is_node_level,
                }
                for name, kind in self.cell_types.items()
            },
            "physicalCells": [_cell_mapping(cell) for cell in self.physical_cells],
            "skuTypes": {name: dict(resources) for name, resources in self.sku_types.items()},
        }
        vcs = {
            vc.name: {
                "virtualCells": [{"cellType": ".".join(cell.path), "cellNumber": cell.number} for cell in vc.cells],
                "pinnedCells": [{"pinnedCellId": pinned} for pinned in vc.pinned_ids],
            }
            for vc in self.virtual_clusters
        }
        return {
            "physicalCluster": physical,
            "virtualClusters": vcs,
            "lazyPreemptionRecovery": self.lazy_preemption_recovery,
        }


def _cell_mapping(cell: PhysicalCellSpec) -> dict[str, object]:
    """A declared cell with what was said of it."""
    entry: dict[str, object] = {
        "cellType": cell.cell_type,
        "cellAddress": cell.address,
        "pinnedCellId": cell.pinned_id,
        "cellChildren": [_cell_mapping(child) for child in cell.children],
    }
    return {name: value for name, value in entry.items() if value}


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise SpecError(path or "(document)", f"expected a mapping, found {_kind(value)}")
    return value


def _list(value: object, path: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise SpecError(path, f"expected a list, found {_kind(value)}")
    return value


def _name(value: object, path: str) -> str:
    """A name or address; numbers are accepted because YAML reads an unquoted ``0`` as one."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise SpecError(path, f"expected a name, found {_kind(value)}")
    return str(value)


def _count(value: object, path: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(path, f"expected a whole number, found {_kind(value)}")
    if value < least:
        raise SpecError(path, f"must be at least {least}, is {value if value > -MAX_CELLS else 'far below'}")
    if value > MAX_CELLS:
        raise SpecError(path, f"must be at most {MAX_CELLS:,}, as many cells as a cluster may have")
    return value


def _flag(value: object, path: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise SpecError(path, f"expected true or false, found {_kind(value)}")
    return bool(value)


def _kind(value: object) -> str:
    return "nothing" if value is None else repr(value) if value == "" else type(value).__name__


def _cell_types(value: object, path: str) -> dict[str, CellTypeSpec]:
    types = {}
    for key, item in _mapping(value, path).items():
        name = _name(key, path)
        type_path = f"{path}.{name}"
        fields = _mapping(item, type_path)
        types[name] = CellTypeSpec(
            name=name,
            child_type=_name(fields.get("childCellType"), f"{type_path}.childCellType"),
            child_number=_count(fields.get("childCellNumber"), f"{type_path}.childCellNumber", 1),
            is_node_level=_flag(fields.get("isNodeLevel"), f"{type_path}.isNodeLevel"),
        )
    return types


def _physical_cell(value: object, path: str, default_type: str | None, depth: int = 1) -> PhysicalCellSpec:
    if depth > MAX_LEVELS:
        raise SpecError(path, f"cells are nested deeper than {MAX_LEVELS} levels")
    inner = default_type is not None  # of such a cell all can be left out: its type gives what it is
    fields = _mapping({} if value is None and inner else value, path)
    address, pinned = fields.get("cellAddress"), fields.get("pinnedCellId")
    cell_type = fields.get("cellType")
    return PhysicalCellSpec(
        cell_type=_name(cell_type, f"{path}.cellType") if cell_type or default_type is None else default_type,
        address=None if address is None or address == "" else _address(address, f"{path}.cellAddress"),
        pinned_id=None if pinned is None or pinned == "" else _name(pinned, f"{path}.pinnedCellId"),
        children=tuple(
            _physical_cell(item, f"{path}.cellChildren[{i}]", "", depth + 1)
            for i, item in enumerate(_list(fields.get("cellChildren") or [], f"{path}.cellChildren"))
        ),
    )


def _address(value: object, path: str) -> str:
    """An address as a name; a number without quotes is taken as it reads, as HiveD does."""
    return str(value) if isinstance(value, float) else _name(value, path)


def _virtual_cluster(name: str, value: object, path: str) -> VirtualClusterSpec:
    fields = _mapping(value if value is not None else {}, path)
    cells = []
    for i, item in enumerate(_list(fields.get("virtualCells") or [], f"{path}.virtualCells")):
        place = f"{path}.virtualCells[{i}]"
        cell = _mapping(item, place)
        cell_path = tuple(_name(cell.get("cellType"), f"{place}.cellType").split("."))
        cells.append(VirtualCellSpec(cell_path, _count(cell.get("cellNumber"), f"{place}.cellNumber", 0)))
    pinned = tuple(
        _name(_mapping(item, f"{path}.pinnedCells[{i}]").get("pinnedCellId"), f"{path}.pinnedCells[{i}].pinnedCellId")
        for i, item in enumerate(_list(fields.get("pinnedCells") or [], f"{path}.pinnedCells"))
    )
    return VirtualClusterSpec(name, tuple(cells), pinned)


_SKU_KEYS: Final = frozenset({"gpu", "cpu", "memory", MIG_INSTANCES, "migProfile"})
"""What a SKU can say; what stands beside it is ignored, as HiveD does, and `config validate` warns."""


def _sku_types(value: object, path: str) -> dict[str, dict[str, int | str]]:
    skus: dict[str, dict[str, int | str]] = {}
    for name, item in _mapping(value, path).items():
        resources: dict[str, int | str] = {}
        for resource, amount in _mapping(item, f"{path}.{name}").items():
            if isinstance(amount, bool) or not isinstance(amount, int | str):
                if resource not in _SKU_KEYS:
                    continue
                raise SpecError(f"{path}.{name}.{resource}", f"expected an amount, found {_kind(amount)}")
            if resource == MIG_INSTANCES and _count(amount, f"{path}.{name}.{resource}", 1) > MOST_INSTANCES:
                raise SpecError(f"{path}.{name}.{resource}", f"a GPU has at most {MOST_INSTANCES} MIG instances")
            resources[resource] = amount
        skus[str(name)] = resources
    return skus
