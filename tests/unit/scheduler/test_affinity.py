from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from paictl.scheduler.placement.pack import choose


def level_of(leaves: Iterable[int], sizes: list[int]) -> int:
    """Level of the lowest common ancestor."""
    return next(level for level, size in enumerate(sizes) if len({leaf // size for leaf in leaves}) == 1)


def by_trying_all(candidates: list[int], number: int, sizes: list[int]) -> list[int]:
    """The rule as the page states it: lowest ancestor, then lexicographically first in candidate order."""
    sets: list[tuple[int, ...]] = list(combinations(candidates, number))
    return list(min(sets, key=lambda leaves: level_of(leaves, sizes)))


@given(fanouts=st.lists(st.integers(1, 3), min_size=1, max_size=3), data=st.data())
def test_the_direct_answer_is_that_of_trying_all_combinations(fanouts: list[int], data: st.DataObject) -> None:
    sizes = [1]
    for fanout in fanouts:
        sizes.append(sizes[-1] * fanout)
    candidates = data.draw(st.lists(st.integers(0, sizes[-1] - 1), unique=True, min_size=1, max_size=9))
    number = data.draw(st.integers(1, len(candidates)))
    assert choose(candidates, number, sizes) == by_trying_all(candidates, number, sizes)
