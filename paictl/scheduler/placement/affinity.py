"""Leaves in a node: the set whose lowest common ancestor is lowest.

Source: docs/hived-semantics.md §3 step 3. HiveD tries all combinations; since the candidates below different cells
of one level are disjoint, the first cell (by its first candidate) that holds enough of them has the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        for found in below.values():  # in order of their first candidate
            if len(found) >= number:
                return found[:number]
    raise ValueError(f"{number} of {len(candidates)} candidates do not fit one node")
