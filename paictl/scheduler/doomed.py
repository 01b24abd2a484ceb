"""Preassigned cells taken and given back, and those that only bad hardware can serve.

When fewer healthy cells of a level are left than a VC may still take, the difference is *doomed*: that many of
its free cells are bound to bad physical cells, so that the VC's scheduler sees them as bad and its owner can be
informed. Source: HiveD's doomed bad cells; docs/hived-semantics.md §6.

What is doomed depends on what is used and what is bad, never on history. HiveD keeps a doomed cell until an event
happens to touch its level, so that a restart of its scheduler, or another order in which nodes fail, changes what a VC
is offered. Here a change only marks its chain as unsettled, and `settle` recomputes the chain before the state is read:
levels from the top down (a doomed cell takes out those below it), VCs by name, bad and virtual cells by smallest id. A
burst of node reports is settled once. Doomed cells keep their virtual cells from one settling to the next, so that
these also depend on when the state was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paictl.cells.ids import NO_PHYSICAL
from paictl.scheduler.binding import UNBOUND, CellBinding, RootKey
from paictl.scheduler.buddy import by_level
from paictl.scheduler.views import members

if TYPE_CHECKING:
    from paictl.cells.ids import ChainIndex, PhysicalCell
    from paictl.scheduler.buddy import Buddy
    from paictl.scheduler.journal import Journal
    from paictl.scheduler.ledger import Ledger
    from paictl.scheduler.views import Counts


class Doomed:
    """The commitments of physical cells to VCs, real or doomed.

    `bad[chain][level]` is the set of ranks of bad cells that are left (see `Ledger.left`), `bad_count` its size;
    `cells[vc, chain, level]` the set of ranks of physical cells that are committed only to show that they are bad,
    `count[chain][level]` their number; `unsettled` the chains of which this may be out of date, and whether
    the choice of bad cells may have changed, not only their number; `passed_over` the chains in which a smaller bad
    cell could not be taken without breaking a promise.
    """

    __slots__ = (
        "bad",
        "bad_count",
        "binding",
        "buddy",
        "cells",
        "count",
        "counts",
        "journal",
        "ledger",
        "passed_over",
        "tree",
        "unsettled",
    )

    KEPT: Final = 256
    """Up to this many doomed cells keep their virtual cells in a settling; more get new ones, at half the cost."""

    def __init__(self, ledger: Ledger, binding: CellBinding, counts: Counts, journal: Journal) -> None:
        self.ledger = ledger
        self.buddy: Buddy = ledger.buddy
        self.binding = binding
        self.counts = counts
        self.journal = journal
        self.tree = tree = ledger.tree
        self.bad = by_level("doomed.bad", tree, journal, bits=True)
        self.bad_count = by_level("doomed.bad_count", tree, journal)
        self.cells: dict[RootKey, int] = journal.table("doomed.cells", {}, bits=True)
        self.count = by_level("doomed.count", tree, journal)
        self.unsettled: dict[ChainIndex, bool] = journal.table("doomed.unsettled", {})
        self.passed_over: dict[ChainIndex, bool] = journal.table("doomed.passed_over", {})

    # --- commitments

    def take(self, cell: PhysicalCell, vc: str) -> None:
        """Commit a free physical cell, already bound to a preassigned cell of `vc`."""
        tree, ledger, bad = self.tree, self.ledger, self.counts.bad
        chain, level = tree.chain[cell], tree.level[cell]
        ledger.charge(vc, chain, level, 1)
        top, above = self.buddy.take(cell), cell
        for higher in range(level + 1, top + 1):
            above = tree.parent[above]
            ledger.leave(chain, higher, -1)
            if bad[above]:
                self._flip_bad(above, -1)
        if bad[cell]:
            self._show_all(cell)
        self._leave_below(cell, -1)
        self._unsettle(chain, choice=self._lies_in_bad(cell))

    def give(self, cell: PhysicalCell, vc: str) -> None:
        """Take a committed physical cell back, already unbound if it is healthy."""
        tree, ledger, bad = self.tree, self.ledger, self.counts.bad
        chain, level = tree.chain[cell], tree.level[cell]
        ledger.charge(vc, chain, level, -1)
        top, above = self.buddy.give(cell), cell
        for higher in range(level + 1, top + 1):
            above = tree.parent[above]
            ledger.leave(chain, higher, 1)
            if bad[above]:
                self._flip_bad(above, 1)
        if bad[cell]:
            self._hide_all(cell)
        self._leave_below(cell, 1)
        self._unsettle(chain, choice=self._lies_in_bad(cell))

    def _lies_in_bad(self, cell: PhysicalCell) -> bool:
        """Whether a cell above is bad, which taking or giving back this one may split or complete.

        Looks all the way up, not only as far as free cells merge now: with nothing doomed they might merge higher.
        """
        return bool(self.counts.bad[self.tree.ancestor(cell, self.tree.chains[self.tree.chain[cell]].top)])

    def _leave_below(self, cell: PhysicalCell, sign: int) -> None:
        chain = self.tree.chain[cell]
        fanout, number = self.tree.chains[chain].fanout, sign
        for level in range(self.tree.level[cell], 1, -1):
            number *= fanout[level]
            self.ledger.leave(chain, level - 1, number)

    def _show_all(self, cell: PhysicalCell) -> None:
        """Bind the bad cells below a cell that was committed."""
        if self._is_noted(cell):
            self._flip_bad(cell, -1)
        if self.binding.virtual[cell] == UNBOUND:
            self.show(cell)
        for child in self.tree.children(cell):
            if self.counts.bad[child]:
                self._show_all(child)

    def _hide_all(self, cell: PhysicalCell) -> None:
        """Unbind the bad cells below a cell that was given back, and the cell."""
        self._flip_bad(cell, 1)
        if self.binding.virtual[cell] != UNBOUND:
            self.binding.unbind(cell)
        for child in self.tree.children(cell):
            if self.counts.bad[child]:
                self._hide_all(child)

    # --- health

    def turned_bad(self, cell: PhysicalCell) -> None:
        """A physical cell turned bad: one that is left is noted, one below a bound cell is shown to the VC."""
        tree, virtual = self.tree, self.binding.virtual
        if self.buddy.holder(cell) >= 0:
            self._flip_bad(cell, 1)
        elif virtual[cell] == UNBOUND:
            parent = tree.parent[cell]
            if parent >= 0 and virtual[parent] != UNBOUND:
                self.show(cell)

    def turned_healthy(self, cell: PhysicalCell) -> None:
        """A physical cell healed: if it was bound below a preassigned cell only to show badness, it is unbound."""
        if self.buddy.holder(cell) >= 0:
            self._flip_bad(cell, -1)
        else:
            virtual = self.binding.virtual[cell]
            is_root = virtual != UNBOUND and self.binding.tree.parent[virtual] < 0
            if virtual != UNBOUND and not is_root and not self.counts.guaranteed[cell]:
                self.binding.unbind(cell)

    def turned(self, chain: ChainIndex) -> None:
        """Cells of a chain have turned bad or healthy (each was reported): other cells may have to be doomed now."""
        self._unsettle(chain, choice=True)

    def show(self, cell: PhysicalCell) -> None:
        """Bind a bad cell below a bound one, so that the VC sees it."""
        child = self.binding.free_child(self.binding.virtual[self.tree.parent[cell]])
        self.binding.bind(cell, child)

    # --- dooming

    def is_doomed(self, cell: PhysicalCell, vc: str) -> bool:
        """Whether a physical cell serves a doomed preassigned cell of `vc`."""
        chain, level = self.tree.chain[cell], self.tree.level[cell]
        return bool(self.count[chain][level] and self.cells.get((vc, chain, level), 0) >> self.tree.rank[cell] & 1)

    def first(self, key: RootKey) -> PhysicalCell:
        """The doomed cell with the smallest id of a VC, chain and level, `NO_PHYSICAL` if there is none."""
        rank = next(members(self.cells.get(key, 0)), None)
        return NO_PHYSICAL if rank is None else self.tree.at[key[1]][key[2]][rank]

    def claim(self, cell: PhysicalCell, vc: str) -> None:
        """A doomed cell of `vc` is used after all, for its healthy part or by a running group: no longer doomed."""
        if self.is_doomed(cell, vc):
            self._set(cell, vc, doomed=False)
            self._unsettle(self.tree.chain[cell], choice=True)

    def free(self, cell: PhysicalCell, vc: str) -> None:
        """Unbind a doomed cell of `vc` and give it back."""
        self.binding.unbind(cell)
        self._set(cell, vc, doomed=False)
        self.give(cell, vc)

    def clear(self, chain: ChainIndex) -> bool:
        """Unbind all doomed cells of a chain; whether there were any. The next `settle` brings them back."""
        doomed = self.cells_in(chain)
        for vc, cell in doomed:
            self.free(cell, vc)
        return bool(doomed)

    def settle(self) -> None:
        """Doom exactly the cells that have to be doomed in every unsettled chain."""
        for chain, choice in sorted(self.unsettled.items()):
            chosen_anew = choice and any(self.count[chain])  # a flap where nothing is doomed leaves no choice
            if chosen_anew or chain in self.passed_over or not self._is_settled(chain):
                self._settle(chain)
            self.journal.drop(self.unsettled, chain)

    def _is_settled(self, chain: ChainIndex) -> bool:
        """Whether every level has as many doomed cells as it must, and if there are any, no more than that.

        Then the same bad cells would be chosen again: recomputing takes the same ones in the same order, and their cost
        in surplus has been paid, so none would be passed over.
        """
        left, bad = self.ledger.left[chain], self.bad_count[chain]
        for level in range(len(bad) - 1, 0, -1):
            healthy = left[level] - bad[level]
            if self.ledger.quota[chain][level] > healthy or self.count[chain][level]:
                for vc, free in self.ledger.vcs[chain]:
                    if free[level] > healthy or (free[level] < healthy and self.cells.get((vc, chain, level))):
                        return False
        return True

    def _settle(self, chain: ChainIndex) -> None:
        """Recompute a chain; cells that stay doomed keep their binding unless there are many."""
        before = self.cells_in(chain)
        if len(before) > self.KEPT or not before:
            self._do_anew(chain)
            return
        mark = self.journal.begin()
        self._do_anew(chain)
        required, passed_over = set(self.cells_in(chain)), chain in self.passed_over
        self.journal.rollback(mark)
        for vc, cell in before:
            if (vc, cell) not in required:
                self.free(cell, vc)
        for vc, cell in sorted(required.difference(before)):
            self._commit(cell, vc)
        self._note_passed_over(chain, passed_over)

    def _do_anew(self, chain: ChainIndex) -> None:
        self.clear(chain)
        self._note_passed_over(chain, False)
        for level in range(len(self.bad[chain]) - 1, 0, -1):
            self._doom(chain, level)

    def required(self, chain: ChainIndex) -> set[tuple[str, PhysicalCell]]:
        """What has to be doomed in a chain, recomputed from scratch; changes nothing."""
        mark = self.journal.begin()
        self._do_anew(chain)
        required = set(self.cells_in(chain))
        self.journal.rollback(mark)
        return required

    def _note_passed_over(self, chain: ChainIndex, passed_over: bool) -> None:
        if passed_over and chain not in self.passed_over:
            self.journal.put(self.passed_over, chain, True)
        elif not passed_over and chain in self.passed_over:
            self.journal.drop(self.passed_over, chain)

    def cells_in(self, chain: ChainIndex) -> list[tuple[str, PhysicalCell]]:
        """VC and physical cell of each doomed cell of a chain."""
        at = self.tree.at[chain]
        if not any(self.count[chain]):
            return []
        return [
            (vc, at[level][rank])
            for (vc, of_chain, level), ranks in sorted(self.cells.items())
            if of_chain == chain
            for rank in members(ranks)
        ]

    def _commit(self, cell: PhysicalCell, vc: str) -> None:
        """Commit a bad cell to a VC to show that it is bad."""
        key = (vc, self.tree.chain[cell], self.tree.level[cell])
        self.binding.bind(cell, self.binding.free_root(key))
        self._set(cell, vc, doomed=True)
        self.take(cell, vc)

    def _unsettle(self, chain: ChainIndex, *, choice: bool) -> None:
        noted = self.unsettled.get(chain)
        if noted is None or (choice and not noted):
            self.journal.put(self.unsettled, chain, choice)

    def _doom(self, chain: ChainIndex, level: int) -> None:
        """Bind bad cells to the VCs that can no longer be served by healthy ones of this level."""
        ledger, left, bad = self.ledger, self.ledger.left[chain], self.bad_count[chain]
        if ledger.quota[chain][level] <= left[level] - bad[level]:
            return  # enough for all VCs together, hence for each
        for vc, free in ledger.vcs[chain]:
            while free[level] > left[level] - bad[level]:
                cell = self._choose(chain, level)
                if cell == NO_PHYSICAL:
                    return
                self._commit(cell, vc)

    def _choose(self, chain: ChainIndex, level: int) -> PhysicalCell:
        """The bad cell with the smallest id that can be committed without breaking a promise, `NO_PHYSICAL` if none."""
        at = self.tree.at[chain][level]
        for rank in members(self.bad[chain][level]):
            if self.ledger.may_take(at[rank]):
                return at[rank]
            self._note_passed_over(chain, True)
        return NO_PHYSICAL

    # --- tables

    def _is_noted(self, cell: PhysicalCell) -> bool:
        return bool(self.bad[self.tree.chain[cell]][self.tree.level[cell]] >> self.tree.rank[cell] & 1)

    def _flip_bad(self, cell: PhysicalCell, number: int) -> None:
        """A bad cell is left (1) or no longer left (-1)."""
        chain, level, set_item = self.tree.chain[cell], self.tree.level[cell], self.journal.set_item
        bits, count = self.bad[chain], self.bad_count[chain]
        set_item(bits, level, bits[level] ^ 1 << self.tree.rank[cell])
        set_item(count, level, count[level] + number)

    def _set(self, cell: PhysicalCell, vc: str, *, doomed: bool) -> None:
        chain, level = self.tree.chain[cell], self.tree.level[cell]
        key = (vc, chain, level)
        self.journal.put(self.cells, key, self.cells.get(key, 0) ^ 1 << self.tree.rank[cell])
        count = self.count[chain]
        self.journal.set_item(count, level, count[level] + (1 if doomed else -1))
