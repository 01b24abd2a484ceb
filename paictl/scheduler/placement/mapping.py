"""Virtual cells onto physical ones: buddy allocation above, the same topology below.

Source: docs/hived-semantics.md §4; HiveD paper §4. Candidates are always taken by fewest leaves used
opportunistically, then smallest id; with `Losses`, first by what the users of the leaves lose that would be taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PARENT, NO_PHYSICAL, ChainIndex, PhysicalCell, VirtualCell
from paictl.cells.quota import surplus
from paictl.cells.spec import LEAF_LEVEL
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.views import members

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from paictl.scheduler.placement.preferences import Losses, Suggested
    from paictl.scheduler.state import State

Mapped = dict[VirtualCell, PhysicalCell]
"""Physical leaf by virtual leaf."""


class Paths:
    """The unbound virtual cells above some virtual leaves, in order of appearance."""

    __slots__ = ("below", "children", "mapped", "roots")

    def __init__(self, leaves: Iterable[VirtualCell], state: State) -> None:
        self.mapped: Mapped = {}
        """Leaves that are bound keep their physical leaf."""
        self.roots: list[VirtualCell] = []
        """Unbound preassigned cells."""
        self.below: dict[VirtualCell, list[VirtualCell]] = {}
        """Unbound cells right below a bound one, by that one."""
        self.children: dict[VirtualCell, list[VirtualCell]] = {}
        """Unbound cells by their unbound parent."""
        physical, parent = state.binding.physical, state.virtual.parent
        for leaf in leaves:
            if physical[leaf] != UNBOUND:
                self.mapped[leaf] = physical[leaf]
                continue
            cell = leaf
            while True:
                above = parent[cell]
                if above == NO_PARENT:
                    self.roots.append(cell)
                elif physical[above] != UNBOUND:
                    self.below.setdefault(above, []).append(cell)
                else:
                    has_children = above in self.children
                    self.children.setdefault(above, []).append(cell)
                    if not has_children:
                        cell = above
                        continue
                break


def map_leaves(
    state: State, leaves: Sequence[VirtualCell], suggested: Suggested | None, losses: Losses | None = None
) -> Mapped | None:
    """A physical leaf for each virtual leaf of one view, or None if only bad or non-suggested nodes would do."""
    paths = Paths(leaves, state)
    mapper = _Mapper(state, suggested, paths) if losses is None else _SparingMapper(state, suggested, paths, losses)
    if len(paths.roots) > 1:  # the search for a second cell takes the first as taken
        mark = state.journal.begin()
        try:
            is_mapped = mapper.map_roots()
        finally:
            state.journal.rollback(mark)
    else:
        is_mapped = mapper.map_roots()
    return paths.mapped if is_mapped and mapper.map_below() else None


class _Mapper:
    """One search; `paths.mapped` collects its result."""

    def __init__(self, state: State, suggested: Suggested | None, paths: Paths) -> None:
        self.state = state
        self.tree = state.physical
        self.suggested = suggested
        self.paths = paths
        self.taken: list[tuple[ChainIndex, int]] = []
        """Chain and level of the preassigned cells mapped so far."""

    def map_roots(self) -> bool:
        """Buddy allocation for each unbound preassigned cell."""
        for root in self.paths.roots:
            chain, level = self.state.virtual.chain[root], self.state.virtual.level[root]
            cell = self._allocate(root, chain, level)
            if cell == NO_PHYSICAL:
                cell = self._allocate_relaxed(root, chain, level)
            if cell == NO_PHYSICAL:
                return False
            if len(self.paths.roots) > 1:
                self.state.buddy.take(cell)
                self.taken.append((chain, level))
        return True

    def map_below(self) -> bool:
        """Unbound cells below bound ones, among the children of their physical cell."""
        return all(
            self._map(cells, self._candidates(self.tree.children(self.state.binding.physical[above])))
            for above, cells in self.paths.below.items()
        )

    def _allocate(self, root: VirtualCell, chain: ChainIndex, level: int) -> PhysicalCell:
        """A cell from the lowest level at or above `level` that has a free one, split downwards."""
        counts = self.state.buddy.count[chain]
        start = next((at for at in range(level, len(counts)) if counts[at]), 0)
        return self._descend(root, level, self._free(chain, start)) if start else NO_PHYSICAL

    def _descend(self, root: VirtualCell, level: int, candidates: Iterable[PhysicalCell]) -> PhysicalCell:
        for cell in candidates:
            if self.tree.level[cell] == level:
                if self._fit(root, cell):
                    return cell
            else:
                match = self._descend(root, level, self._candidates(self.tree.children(cell)))
                if match != NO_PHYSICAL:
                    return match
        return NO_PHYSICAL

    def _allocate_relaxed(self, root: VirtualCell, chain: ChainIndex, level: int) -> PhysicalCell:
        """A cell from higher levels, splitting as many free cells there as no promise needs.

        `_allocate` splits one cell, and only from the lowest level that has any: every cell that fits there may be bad,
        or not suggested, while higher cells are idle. Those may be split as well, but not so many that the promise of
        a whole cell to another VC could no longer be kept; the surplus says how many.
        """
        state = self.state
        counts, spare = state.buddy.count[chain], self._surplus(chain)
        mark = state.journal.begin()
        cell = NO_PHYSICAL
        for higher in range(level + 1, len(counts)):
            if spare[higher] <= 0:
                break  # a promise at this level needs all that comes from above
            number = min(counts[higher], spare[higher])
            ranks = list(members(state.buddy.bits[chain][higher]))[:number]
            for rank in ranks:
                state.buddy.split(self.tree.at[chain][higher][rank], level)
            cell = self._descend(root, level, self._free(chain, level))
            if cell != NO_PHYSICAL:
                break
        state.journal.rollback(mark)
        return cell

    def _surplus(self, chain: ChainIndex) -> list[int]:
        """By level: free cells that no promise needs, after what this group's own cells have used up so far."""
        quota = list(self.state.ledger.quota[chain])
        for taken_chain, taken_level in self.taken:
            quota[taken_level] -= taken_chain == chain
        return surplus(self.state.buddy.count[chain], quota, self.tree.chains[chain].fanout)

    def _fit(self, virtual: VirtualCell, cell: PhysicalCell) -> bool:
        """Whether the cells to bind below `virtual` have a place below `cell`."""
        if self.tree.level[cell] == LEAF_LEVEL:
            self.paths.mapped[virtual] = cell
            return True
        return self._map(self.paths.children[virtual], self._candidates(self.tree.children(cell)))

    def _map(self, virtual: list[VirtualCell], candidates: list[PhysicalCell]) -> bool:
        """Map cells to distinct candidates: the first mapping in order of cells and candidates."""
        if len(candidates) < len(virtual):
            return False
        used: set[PhysicalCell] = set()
        for cell in virtual:
            match = next(
                (candidate for candidate in candidates if candidate not in used and self._fit(cell, candidate)),
                NO_PHYSICAL,
            )
            if match == NO_PHYSICAL:
                return self._match(virtual, candidates)
            used.add(match)
        return True

    def _match(self, virtual: list[VirtualCell], candidates: list[PhysicalCell]) -> bool:
        """Map where the greedy `_map` failed: each cell takes the first candidate that leaves one for later cells."""
        fits = {cell: [candidate for candidate in candidates if self._fit(cell, candidate)] for cell in virtual}
        chosen: dict[VirtualCell, PhysicalCell] = {}
        for position, cell in enumerate(virtual):
            rest = virtual[position + 1 :]
            for candidate in fits[cell]:
                if candidate not in chosen.values() and _matchable(rest, fits, {*chosen.values(), candidate}):
                    chosen[cell] = candidate
                    break
            else:
                return False
        return all(self._fit(cell, candidate) for cell, candidate in chosen.items())

    def _free(self, chain: ChainIndex, level: int) -> Iterator[PhysicalCell]:
        """Usable free cells of a level, in order of preference."""
        rows, at = self.state.buddy.open[chain][level], self.tree.at[chain][level]
        for used in sorted(rows):
            for rank in members(rows[used]):
                if self.suggested is None or self.suggested.any(at[rank]):
                    yield at[rank]

    def _candidates(self, cells: Iterable[PhysicalCell]) -> list[PhysicalCell]:
        """Those of some cells that are unbound and usable, in order of preference."""
        counts, virtual, tree = self.state.counts, self.state.binding.virtual, self.tree
        usable = []
        for cell in cells:
            if virtual[cell] != UNBOUND or (counts.dead[cell] and len(tree.node_ranks(cell)) == 1):
                continue
            if self.suggested is None or self.suggested.any(cell):
                usable.append(cell)
        usable.sort(key=counts.opportunistic.__getitem__)  # stable: then by id
        if any(counts.bad[cell] for cell in usable):  # in a node that is bad in part, after the others
            usable.sort(key=lambda cell: bool(counts.bad[cell]) and len(tree.node_ranks(cell)) == 1)
        return usable


class _SparingMapper(_Mapper):
    """Chooses the cells whose users lose least, among all that the promises permit; ties as `_Mapper` breaks them.

    A group loses all of its work wherever it is touched, so one that falls for an earlier cell costs nothing more.
    """

    def __init__(self, state: State, suggested: Suggested | None, paths: Paths, losses: Losses) -> None:
        super().__init__(state, suggested, paths)
        self.losses = losses

    def _allocate(self, root: VirtualCell, chain: ChainIndex, level: int) -> PhysicalCell:
        """Like `_allocate`, but also from higher levels: one of their cells may be split if each has one to spare."""
        counts = self.state.buddy.count[chain]
        start = next((at for at in range(level, len(counts)) if counts[at]), 0)
        return self._least(root, self._permitted(chain, level, start)) if start else NO_PHYSICAL

    def _permitted(self, chain: ChainIndex, level: int, start: int) -> Iterator[PhysicalCell]:
        yield from self._at_level(self._free(chain, start), level)
        spare = self._surplus(chain)
        for higher in range(level + 1, len(spare)):
            if spare[higher] <= 0:
                return
            if higher > start:
                yield from self._at_level(self._free(chain, higher), level)

    def _at_level(self, cells: Iterable[PhysicalCell], level: int) -> Iterator[PhysicalCell]:
        for cell in cells:
            if self.tree.level[cell] == level:
                yield cell
            else:
                yield from self._at_level(self._candidates(self.tree.children(cell)), level)

    def _map(self, virtual: list[VirtualCell], candidates: list[PhysicalCell]) -> bool:
        if len(candidates) <= len(virtual):  # all of them or none: nothing to choose
            return super()._map(virtual, candidates)
        used: set[PhysicalCell] = set()
        for cell in virtual:
            match = self._least(cell, (candidate for candidate in candidates if candidate not in used))
            if match == NO_PHYSICAL:
                return self._match(virtual, candidates)
            used.add(match)
        return True

    def _least(self, virtual: VirtualCell, candidates: Iterable[PhysicalCell]) -> PhysicalCell:
        """The candidate on which `virtual` fits at the least loss; it is fitted there, and the leaves' users fall."""
        best, least, fallen = NO_PHYSICAL, -1, self.losses.fallen
        for cell in candidates:
            self.losses.fallen = fallen
            if not self._fit(virtual, cell):
                continue
            self.losses.fallen = fallen
            loss = self.losses.of(self._taken(virtual))
            if best == NO_PHYSICAL or loss < least:
                best, least = cell, loss
            if not least:
                break
        self.losses.fallen = fallen
        if best != NO_PHYSICAL:
            self._fit(virtual, best)  # others may have been fitted since
            self.losses.fallen = fallen
            self.losses.fall(self._taken(virtual))
        return best

    def _taken(self, virtual: VirtualCell) -> Iterator[PhysicalCell]:
        """The leaves to which the leaves below a virtual cell are mapped now."""
        below = self.paths.children.get(virtual)
        if below is None:
            yield self.paths.mapped[virtual]
        else:
            for cell in below:
                yield from self._taken(cell)


def _matchable(
    cells: Sequence[VirtualCell], fits: dict[VirtualCell, list[PhysicalCell]], used: set[PhysicalCell]
) -> bool:
    """Whether the cells can all have different candidates outside `used` (augmenting paths)."""
    owner: dict[PhysicalCell, VirtualCell] = {}

    def place(cell: VirtualCell, seen: set[PhysicalCell]) -> bool:
        for candidate in fits[cell]:
            if candidate not in used and candidate not in seen:
                seen.add(candidate)
                if candidate not in owner or place(owner[candidate], seen):
                    owner[candidate] = cell
                    return True
        return False

    return all(place(cell, set()) for cell in cells)
