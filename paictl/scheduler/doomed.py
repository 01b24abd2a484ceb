"""Preassigned cells taken and given back, and those that only bad hardware can serve.

When fewer healthy cells of a level are left than a VC may still take, the difference is *doomed*: that many of
its free cells are bound to bad physical cells, so that the VC's scheduler sees them as bad and its owner can be
told. VCs are looked at by name, bad and virtual cells by id. A bad cell below a bound one is bound as well, for
the same reason. Source: HiveD's doomed bad cells; `hived-semantics.md` §6.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PHYSICAL
from paictl.scheduler.binding import UNBOUND, Binding, RootKey
from paictl.scheduler.views import members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paictl.cells.ids import ChainIndex, PhysicalCell
    from paictl.scheduler.buddy import Buddy
    from paictl.scheduler.journal import Journal
    from paictl.scheduler.ledger import Ledger
    from paictl.scheduler.views import Counts


class Doomed:
    """The commitments of physical cells to VCs, real or doomed.

    `bad[chain][level]` is the set of ranks of bad cells that are left (see `Ledger.left`), `bad_count` its size;
    `cells[vc, chain, level]` the set of ranks of physical cells that serve doomed preassigned cells.
    """

    __slots__ = (
        "bad", "bad_count", "binding", "buddy", "cells", "count", "counts", "held", "journal", "ledger",
        "spoken_for", "tree",
    )  # fmt: skip

    def __init__(self, ledger: Ledger, binding: Binding, counts: Counts, journal: Journal) -> None:
        self.ledger = ledger
        self.buddy: Buddy = ledger.buddy
        self.binding = binding
        self.counts = counts
        self.journal = journal
        self.tree = tree = ledger.tree
        self.bad = [[0] * (chain.top + 1) for chain in tree.chains]
        self.bad_count = [[0] * (chain.top + 1) for chain in tree.chains]
        self.cells: dict[RootKey, int] = {}
        self.count = [[0] * (chain.top + 1) for chain in tree.chains]
        self.held: list[tuple[bool, ChainIndex, int]] | None = None
        """Calls of `doom` (True) and `spare` put off by `hold`."""
        self.spoken_for: frozenset[PhysicalCell] = frozenset()
        """Cells with leaves that are bound for a pod but not counted as used yet; they are not idle."""

    @contextmanager
    def hold(self, *, forget: bool = False) -> Iterator[None]:
        """Put off dooming and sparing to the end, so that no cell that is given and taken anew slips away between.

        With `forget` they do not happen at all: for what is only imagined.
        """
        if self.held is not None:
            yield
            return
        self.held = []
        try:
            yield
            pending = [] if forget else self.held
        finally:
            self.held = None
        for dooms, chain, level in pending:
            (self.doom if dooms else self.spare)(chain, level)

    def take(self, cell: PhysicalCell, vc: str, *, doomed: bool = False) -> None:
        """Commit a free physical cell, already bound to a preassigned cell of `vc`, and doom what that dooms."""
        tree, ledger, bad = self.tree, self.ledger, self.counts.bad
        chain, level = tree.chain[cell], tree.level[cell]
        ledger.charge(vc, chain, level, 1)
        top, above = self.buddy.take(cell), cell
        for higher in range(level + 1, top + 1):
            above = tree.parent[above]
            ledger.leave(chain, higher, -1)
            if bad[above]:
                self._forget_bad(above)
            else:
                self.doom(chain, higher)
        if bad[cell]:
            self._show(cell)
            if not doomed:
                self.spare(chain, level)
        else:
            self.doom(chain, level)
        self._leave_below(cell, -1)
        if not doomed:
            for lower in range(level - 1, 0, -1):
                self.doom(chain, lower)

    def give(self, cell: PhysicalCell, vc: str, *, doomed: bool = False) -> None:
        """Take a committed physical cell back, already unbound if it is healthy, and spare what that spares."""
        tree, ledger, bad = self.tree, self.ledger, self.counts.bad
        chain, level = tree.chain[cell], tree.level[cell]
        ledger.charge(vc, chain, level, -1)
        top, above = self.buddy.give(cell), cell
        for higher in range(level + 1, top + 1):
            above = tree.parent[above]
            ledger.leave(chain, higher, 1)
            if bad[above]:
                self.note_bad(above)
            else:
                self.spare(chain, higher)
        if bad[cell]:
            self._hide(cell)
            if not doomed:
                self.doom(chain, level)
        else:
            self.spare(chain, level)
        self._leave_below(cell, 1)
        if not doomed:
            for lower in range(level - 1, 0, -1):
                self.spare(chain, lower)

    def _leave_below(self, cell: PhysicalCell, sign: int) -> None:
        chain = self.tree.chain[cell]
        fanout, number = self.tree.chains[chain].fanout, sign
        for level in range(self.tree.level[cell], 1, -1):
            number *= fanout[level]
            self.ledger.leave(chain, level - 1, number)

    def is_doomed(self, cell: PhysicalCell, vc: str) -> bool:
        """Whether a physical cell serves a doomed preassigned cell of `vc`."""
        chain, level = self.tree.chain[cell], self.tree.level[cell]
        return bool(self.count[chain][level] and self.cells.get((vc, chain, level), 0) >> self.tree.rank[cell] & 1)

    def doom(self, chain: ChainIndex, level: int) -> None:
        """Bind bad cells to VCs that can no longer be served by healthy ones of this level."""
        if self.held is not None:
            self.held.append((True, chain, level))
            return
        ledger, left, bad = self.ledger, self.ledger.left[chain], self.bad_count[chain]
        if ledger.quota[chain][level] <= left[level] - bad[level]:
            return  # enough for all VCs together, hence for each
        for vc, free in ledger.vcs[chain]:
            while free[level] > left[level] - bad[level]:
                cell = self._choose(chain, level)
                if cell == NO_PHYSICAL:
                    return
                root = self.binding.free_root((vc, chain, level))
                self.binding.bind(cell, root)
                self._set(cell, vc, 1)
                self.take(cell, vc, doomed=True)

    def spare(self, chain: ChainIndex, level: int) -> None:
        """Unbind doomed cells of this level that healthy ones can serve again."""
        if self.held is not None:
            self.held.append((False, chain, level))
            return
        if not self.count[chain][level]:
            return
        left, bad = self.ledger.left[chain], self.bad_count[chain]
        for vc, free in self.ledger.vcs[chain]:
            while free[level] < left[level] - bad[level]:
                cell = self.idle(vc, chain, level)
                if cell == NO_PHYSICAL:
                    break
                self.free(cell, vc)

    def idle(self, vc: str, chain: ChainIndex, level: int) -> PhysicalCell:
        """The doomed cell with the smallest id with no healthy part in use or about to be, `NO_PHYSICAL` if none."""
        at, guaranteed = self.tree.at[chain][level], self.counts.guaranteed
        for rank in members(self.cells.get((vc, chain, level), 0)):
            if not guaranteed[at[rank]] and at[rank] not in self.spoken_for:
                return at[rank]
        return NO_PHYSICAL

    def free(self, cell: PhysicalCell, vc: str) -> None:
        """Unbind a doomed cell of `vc` and give it back."""
        self.binding.unbind(cell)
        self.forget(cell, vc)
        self.give(cell, vc, doomed=True)

    def clear(self, chain: ChainIndex) -> bool:
        """Unbind all doomed cells of a chain that are idle; whether there were any."""
        found = False
        with self.hold(forget=True):
            for vc, of, level in sorted(self.cells):
                while of == chain and (cell := self.idle(vc, chain, level)) != NO_PHYSICAL:
                    found = True
                    self.free(cell, vc)
        return found

    def settle(self, chain: ChainIndex) -> None:
        """Doom what has to be in a chain, from the top level down."""
        for level in range(len(self.bad[chain]) - 1, 0, -1):
            self.doom(chain, level)

    def forget(self, cell: PhysicalCell, vc: str) -> None:
        """A physical cell no longer serves a doomed cell: it healed."""
        self._set(cell, vc, 0)

    def note_bad(self, cell: PhysicalCell) -> None:
        """A cell that is left is bad."""
        self._flip_bad(cell, 1)

    def _forget_bad(self, cell: PhysicalCell) -> None:
        """A bad cell is no longer left."""
        self._flip_bad(cell, -1)

    def note_healthy(self, cell: PhysicalCell) -> None:
        """A cell that is left is no longer bad."""
        self._flip_bad(cell, -1)

    def show(self, cell: PhysicalCell) -> None:
        """Bind a bad cell below a bound one, so that the VC sees it."""
        child = self.binding.free_child(self.binding.virtual[self.tree.parent[cell]])
        self.binding.bind(cell, child)

    def _choose(self, chain: ChainIndex, level: int) -> PhysicalCell:
        """The bad cell with the smallest id that can be committed without breaking a promise, `NO_PHYSICAL` if none."""
        at = self.tree.at[chain][level]
        for rank in members(self.bad[chain][level]):
            if self.ledger.may_take(at[rank]):
                return at[rank]
        return NO_PHYSICAL

    def _show(self, cell: PhysicalCell) -> None:
        """Bind the bad cells below a cell that was committed."""
        if self._is_noted(cell):
            self._forget_bad(cell)
        if self.binding.virtual[cell] == UNBOUND:
            self.show(cell)
        for child in self.tree.children(cell):
            if self.counts.bad[child]:
                self._show(child)

    def _hide(self, cell: PhysicalCell) -> None:
        """Unbind the bad cells below a cell that was given back, and the cell."""
        self.note_bad(cell)
        if self.binding.virtual[cell] != UNBOUND:
            self.binding.unbind(cell)
        for child in self.tree.children(cell):
            if self.counts.bad[child]:
                self._hide(child)

    def _is_noted(self, cell: PhysicalCell) -> bool:
        return bool(self.bad[self.tree.chain[cell]][self.tree.level[cell]] >> self.tree.rank[cell] & 1)

    def _flip_bad(self, cell: PhysicalCell, number: int) -> None:
        chain, level, set_item = self.tree.chain[cell], self.tree.level[cell], self.journal.set_item
        bits, count = self.bad[chain], self.bad_count[chain]
        set_item(bits, level, bits[level] ^ 1 << self.tree.rank[cell])
        set_item(count, level, count[level] + number)

    def _set(self, cell: PhysicalCell, vc: str, doomed: int) -> None:
        chain, level = self.tree.chain[cell], self.tree.level[cell]
        key = (vc, chain, level)
        self.journal.put(self.cells, key, self.cells.get(key, 0) ^ 1 << self.tree.rank[cell])
        count = self.count[chain]
        self.journal.set_item(count, level, count[level] + (1 if doomed else -1))
