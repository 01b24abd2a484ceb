"""What changes between two configurations, and promises that other files would break: who loses what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from paictl.config.models.hived_quota import balances, shares
from paictl.config.quotas.capacity import Capacity, CellShare, ChainCapacity, VcCapacity, capacity, configuration
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.frozen import frozen
from paictl.i18n import text

Change = Literal["added", "removed", "changed"]


@frozen
class CellChange:
    """Cells of one type of a chain that a virtual cluster has before and after; `pinned` is the id of a pinned one.

    `moved` says that a pinned cell is another piece of hardware afterwards.
    """

    chain: str
    type: str
    pinned: str | None
    cells_before: int
    cells_after: int
    devices_before: int
    devices_after: int
    moved: str | None = None

    @property
    def is_change(self) -> bool:
        """Whether anything differs."""
        return bool(
            self.cells_before != self.cells_after or self.devices_before != self.devices_after or self.moved is not None
        )


@frozen
class VcChange:
    """A virtual cluster that gains or loses; `kept_pinned` are the ids of pinned cells that stay what they are."""

    name: str
    change: Change
    devices_before: int
    devices_after: int
    cells: tuple[CellChange, ...]
    kept_pinned: tuple[str, ...] = ()


@frozen
class ChainChange:
    """A chain whose nodes, devices or cell types differ; `shape_changed` says that the types do."""

    name: str
    change: Change
    devices_before: int
    devices_after: int
    nodes_added: tuple[str, ...]
    nodes_removed: tuple[str, ...]
    shape_changed: bool = False


@frozen
class QuotaDifference:
    """All changes; empty if both configurations promise the same cells of the same hardware."""

    chains: tuple[ChainChange, ...]
    vcs: tuple[VcChange, ...]

    @property
    def same(self) -> bool:
        """Whether nothing changes."""
        return not self.chains and not self.vcs


def compare(old: Capacity, new: Capacity) -> QuotaDifference:
    """The changes from one configuration to another; what is in both stands in the order of the new one."""
    old_chains, new_chains = ({chain.name: chain for chain in side.chains} for side in (old, new))
    old_vcs, new_vcs = ({vc.name: vc for vc in side.vcs} for side in (old, new))
    chains = (
        _chain(old_chains.get(name), new_chains.get(name), name) for name in dict.fromkeys((*new_chains, *old_chains))
    )
    vcs = (_vc(old_vcs.get(name), new_vcs.get(name), name) for name in dict.fromkeys((*new_vcs, *old_vcs)))
    return QuotaDifference(tuple(filter(None, chains)), tuple(filter(None, vcs)))


def _change(old: object, new: object) -> Change:
    if old is None:
        return "added"
    return "removed" if new is None else "changed"


def _chain(old: ChainCapacity | None, new: ChainCapacity | None, name: str) -> ChainChange | None:
    before, after = (set(side.nodes) if side is not None else set() for side in (old, new))
    added = tuple(node for node in (new.nodes if new is not None else ()) if node not in before)
    removed = tuple(node for node in (old.nodes if old is not None else ()) if node not in after)
    reshaped = old is not None and new is not None and _shape(old) != _shape(new)
    devices = [side.devices if side is not None else 0 for side in (old, new)]
    if old is not None and new is not None and not (added or removed or reshaped or devices[0] != devices[1]):
        return None
    return ChainChange(name, _change(old, new), devices[0], devices[1], added, removed, reshaped)


def _shape(chain: ChainCapacity) -> list[tuple[str, int, bool]]:
    return [(level.type, level.devices, level.is_node) for level in chain.levels]


def _vc(old: VcCapacity | None, new: VcCapacity | None, name: str) -> VcChange | None:
    before, after = _cells(old), _cells(new)
    cells = [_cell(key, before.get(key), after.get(key)) for key in dict.fromkeys((*after, *before))]
    changed = tuple(cell for cell in cells if cell.is_change)
    if old is not None and new is not None and not changed:
        return None
    kept = tuple(cell.pinned for cell in cells if cell.pinned is not None and not cell.is_change)
    devices = [side.devices if side is not None else 0 for side in (old, new)]
    return VcChange(name, _change(old, new), devices[0], devices[1], changed, kept)


Key = tuple[str, str, str | None]


def _cells(vc: VcCapacity | None) -> Mapping[Key, CellShare]:
    """The cells of a virtual cluster by chain, type and pinned cell id."""
    return dict(_keyed(vc)) if vc is not None else {}


def _keyed(vc: VcCapacity) -> Iterator[tuple[Key, CellShare]]:
    for share in vc.shares:
        for cell in share.cells:
            yield (share.chain, cell.type, cell.pinned), cell


def _cell(key: Key, old: CellShare | None, new: CellShare | None) -> CellChange:
    chain, kind, pinned = key
    moved = f"{old.at} → {new.at}" if old is not None and new is not None and old.at != new.at else None
    numbers = [side.number if side is not None else 0 for side in (old, new)]
    devices = [side.devices if side is not None else 0 for side in (old, new)]
    return CellChange(chain, kind, pinned, numbers[0], numbers[1], devices[0], devices[1], moved)


@frozen
class Broken:
    """A promise that cannot be kept.

    `vcs` names who is promised how many cells of the type; `cells` of `type` in `chain` are promised, and there would
    be `left` of them; `devices` before and after where there are as many, of fewer devices. `pinned` is the id of
    a pinned cell that goes.
    """

    vcs: str
    chain: str
    type: str
    cells: int
    left: int
    pinned: str = ""
    devices: tuple[int, int] = (0, 0)

    @property
    def words(self) -> str:
        """The promise for people."""
        if self.pinned:
            return text(
                "this would remove pinned cell {pinned}, which is assigned to {vc}", vc=self.vcs, pinned=self.pinned
            )
        if self.left >= self.cells:
            return text(
                "{cells} cells of type {type} are promised ({vcs}), and each would lose devices: "
                "{before} devices before, {after} after",
                cells=self.cells,
                type=self.type,
                vcs=self.vcs,
                before=self.devices[0],
                after=self.devices[1],
            )
        return text(
            "{cells} cells of type {type} are promised ({vcs}), and {left} would be left: {missing} too many",
            cells=self.cells,
            type=self.type,
            vcs=self.vcs,
            left=self.left,
            missing=self.cells - self.left,
        )


def broken(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Broken, ...]:
    """The promises of `before` that `after` breaks, and those that `after` makes without cells.

    Nothing where `before` divides no cells at all. Raises `PaictlError` for files that cannot be read.
    """
    old, new = _document(before), _document(after)
    if old is None or new is None:
        return ()
    return (*_lost(old, new), *_unbacked(new))


def _document(files: Mapping[str, str]) -> Document | None:
    loaded = load_memory(files)
    if not any(document.kind is FileKind.HIVED for document in loaded.documents):
        return None
    return configuration(loaded)


def _lost(old: Document, new: Document) -> Iterator[Broken]:
    """What somebody has less of by the same words: a pinned cell, a chain that is gone, larger cells that shrink."""
    for vc in compare(capacity(old), capacity(new)).vcs:
        for cell in vc.cells:
            if _less(cell):
                devices = (cell.devices_before, cell.devices_after)
                yield Broken(
                    vc.name, cell.chain, cell.type, cell.cells_before, cell.cells_after, cell.pinned or "", devices
                )


def _less(cell: CellChange) -> bool:
    return cell.devices_after < cell.devices_before or cell.moved is not None


def _unbacked(new: Document) -> Iterator[Broken]:
    for balance in balances(new):
        for short in balance.unbacked():
            kind = balance.chain.types[short.level]
            vcs = shares(balance, short.level, pinned=False)
            yield Broken(vcs, balance.chain.name, kind, short.needed, short.available)
