"""How scattered free devices are: which cells are free as a whole, and could be given without a move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cells.spec import LEAF_LEVEL
from paictl.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paictl.cells.chain import Chain
    from paictl.cells.ids import ChainIndex
    from paictl.scheduler.state import State


@frozen
class FreeCells:
    """The cells of one level of a chain that are free as a whole: healthy, with no device used or reserved.

    It does not matter to whom they are promised: any opportunistic gang can have them.
    """

    chain: str
    cell_type: str
    level: int
    cells: int
    """Cells of this level that are free as a whole, including those in larger free cells."""
    total: int
    """Cells of this level."""
    devices: int
    """Free devices whose largest free cell is of this level."""
    packed: int
    """Cells of this level that all free devices of the chain would fill if none of them were scattered."""


def _nothing() -> None:
    return None


def free_cells(state: State, between: Callable[[], None] = _nothing) -> tuple[FreeCells, ...]:
    """A row for each chain and level, the largest cells first.

    Cells that are free, used or bad as a whole are not walked. `between` is called for every cell. A caller that
    shares the state may release its lock there; then the rows are not all of one instant.
    """
    return tuple(row for index in state.physical.chain_indexes() for row in _of_chain(state, index, between))


def _of_chain(state: State, index: ChainIndex, between: Callable[[], None]) -> Iterator[FreeCells]:
    chain: Chain = state.physical.chains[index]
    largest = _largest(state, index, between)
    devices = sum(number * chain.leaves[level] for level, number in enumerate(largest))
    cells = 0
    for level in range(chain.top, LEAF_LEVEL - 1, -1):
        cells = cells * (chain.fanout[level + 1] if level < chain.top else 0) + largest[level]
        yield FreeCells(
            chain.name,
            chain.types[level],
            level,
            cells,
            len(state.physical.at[index][level]),
            largest[level] * chain.leaves[level],
            devices // chain.leaves[level],
        )


def _largest(state: State, index: ChainIndex, between: Callable[[], None]) -> list[int]:
    """By level: cells that are free as a whole, but whose parent is not."""
    tree, counts = state.physical, state.counts
    chain = tree.chains[index]
    numbers = [0] * (chain.top + 1)
    stack = list(tree.at[index][chain.top])
    while stack:
        between()
        cell = stack.pop()
        level, used = tree.level[cell], counts.opportunistic[cell] + counts.guaranteed[cell]
        if not used and not counts.bad[cell]:
            numbers[level] += 1
        elif used < chain.leaves[level] and not counts.dead[cell]:
            stack += tree.children(cell)  # of a leaf there are none
    return numbers
