"""How many cells of each virtual cluster there are at each level, and what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from paictl.cells.spec import LEAF_LEVEL
from paictl.scheduler.binding import UNBOUND

if TYPE_CHECKING:
    from paictl.cells.chain import Chain
    from paictl.cells.ids import VirtualCell
    from paictl.doors.core import DoorCore
    from paictl.scheduler.state import State

CellKey = tuple[str, str, str, str]
"""VC, cell type, level, and state."""
STATES: Final = ("Used", "Free", "Doomed")
"""``Used`` (all or in part), ``Free``, ``Doomed`` (only bad hardware can serve it)."""


def count(core: DoorCore) -> Counter[CellKey]:
    """Cells of virtual clusters, from preassigned cells down to leaves.

    It lets others have the lock in between: not all are as they were at one instant. What is unused, or used as a
    whole, is not walked. Raises `NotServingError`.
    """
    found: Counter[CellKey] = Counter()
    with core.sharing() as give_way:
        state = core.book.engine.state
        for root, top in state.virtual.preassigned.items():
            chain = state.virtual.chains[state.virtual.chain[root]]
            for level, word, number in _below(state, chain, root, _idle(state, root, top.vc), give_way):
                found[top.vc, chain.types[level], str(level), word] += number
    return found


def _idle(state: State, root: VirtualCell, vc: str) -> str:
    """What an unused preassigned cell is."""
    bound = state.binding.physical[root]
    return "Doomed" if bound != UNBOUND and state.doomed.is_doomed(bound, vc) else "Free"


def _below(
    state: State, chain: Chain, root: VirtualCell, idle: str, give_way: Callable[[], None]
) -> Iterator[tuple[int, str, int]]:
    """Level, state and number of a cell and all below it."""
    tree, used = state.virtual, state.counts.used
    rest = [root]
    while rest:
        give_way()
        cell = rest.pop()
        top, busy = tree.level[cell], used[cell]
        if 0 < busy < chain.leaves[top]:
            yield top, "Used", 1
            rest += tree.children(cell)
        else:
            word = "Used" if busy else idle if cell == root else "Free"
            yield from ((level, word, chain.leaves[top] // chain.leaves[level]) for level in range(LEAF_LEVEL, top + 1))
