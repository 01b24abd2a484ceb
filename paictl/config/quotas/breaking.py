"""Promises that other files would break: what a virtual cluster loses, and promises for which there are no cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paictl.config.models.hived_quota import balances, shares
from paictl.config.quotas.capacity import capacity, configuration
from paictl.config.quotas.diff import CellChange, compare
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.frozen import frozen
from paictl.i18n import text


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
                cells=self.cells, type=self.type, vcs=self.vcs, before=self.devices[0], after=self.devices[1],
            )  # fmt: skip
        return text(
            "{cells} cells of type {type} are promised ({vcs}), and {left} would be left: {missing} too many",
            cells=self.cells, type=self.type, vcs=self.vcs, left=self.left, missing=self.cells - self.left,
        )  # fmt: skip


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
    if not any(one.kind is FileKind.HIVED for one in loaded.documents):
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
                )  # fmt: skip


def _less(cell: CellChange) -> bool:
    return cell.devices_after < cell.devices_before or cell.moved is not None


def _unbacked(new: Document) -> Iterator[Broken]:
    for balance in balances(new):
        for short in balance.unbacked():
            kind = balance.chain.types[short.level]
            vcs = shares(balance, short.level, pinned=False)
            yield Broken(vcs, balance.chain.name, kind, short.needed, short.available)
