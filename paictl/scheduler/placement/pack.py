"""Nodes for pods, and leaves in a node.

Nodes: a walk through the healthy nodes of a view, fullest first, that never goes back. Source:
docs/hived-semantics.md §3 step 2. Bad and non-suggested nodes come last and using one fails, so they are
not walked at all.

Leaves: the set whose lowest common ancestor is lowest. Source: docs/hived-semantics.md §3 step 3. HiveD tries all
combinations; since the candidates below different cells of one level are disjoint, the first cell (by its first
candidate) that holds enough of them has the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from paictl.cells.ids import C, PhysicalCell
    from paictl.scheduler.views import NodeIndex, PriorityView


Step = dict[int, int]
"""Nodes of equal rank in the walk, as a set of slots by number of leaves free for the request."""


def idle_steps(view: NodeIndex[C]) -> Iterator[Step]:
    """The walk in a VC's view if nobody may be preempted: most used leaves first."""
    return reversed(view.rows)


def opportunistic_steps(view: NodeIndex[PhysicalCell]) -> Iterator[Step]:
    """The walk in a physical chain: most opportunistic leaves first, then fewest guaranteed ones."""
    for row in range(view.leaves, -1, -1):
        by_column = view.rows[row]
        for column in sorted(by_column):
            yield {view.leaves - row - column: by_column[column]}


def preempting_steps(weaker: PriorityView) -> Iterator[Step]:
    """The walk in a VC's view if weaker groups may be preempted: most used leaves first, all priorities together."""
    return reversed(weaker.rows)


def pack(
    steps: Iterable[Step], sizes: Sequence[int], cells: Sequence[C], allowed: Callable[[C], bool] | None
) -> list[C] | None:
    """A node for each pod, or None if they do not fit.

    `sizes` are the leaves per pod in ascending order, `cells` the nodes by slot; `allowed` says whether a node
    is suggested (None: all are).
    """
    picked: list[C] = []
    need = sizes[0]
    for step in steps:
        slots = _fitting(step, need)
        while slots:
            low = slots & -slots
            slots ^= low
            node = cells[low.bit_length() - 1]
            if allowed is not None and not allowed(node):
                continue
            free = next(free for free, nodes in step.items() if nodes & low)
            while free >= need:
                free -= need
                picked.append(node)
                if len(picked) == len(sizes):
                    return picked
                need = sizes[len(picked)]
            slots &= _fitting(step, need)
    return None


def _fitting(step: Step, need: int) -> int:
    fitting = 0
    for free, slots in step.items():
        if free >= need:
            fitting |= slots
    return fitting


def choose(candidates: Sequence[int], number: int, sizes: Sequence[int]) -> list[int]:
    """Pick `number` of the candidate leaves, given as positions 0.. within their node.

    `candidates` are in order of preference; `sizes` are the leaves of a cell at each level from 1 to the node's.
    Among the sets with the lowest common ancestor the lexicographically first in candidate order comes back.
    There must be enough candidates.
    """
    if number == 1:
        return [candidates[0]]
    for size in sizes:
        if size < number:
            continue
        below: dict[int, list[int]] = {}
        for position in candidates:
            below.setdefault(position // size, []).append(position)
        for positions in below.values():  # in order of their first candidate
            if len(positions) >= number:
                return positions[:number]
    raise ValueError(f"{number} of {len(candidates)} candidates do not fit one node")
