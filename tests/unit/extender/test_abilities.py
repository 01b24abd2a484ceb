"""All abilities of `sharing` at once: what holds after each operation and at rest, and that each holds gangs back."""

from __future__ import annotations

from collections import Counter

from tests.unit.extender.abilities import SAYS, AbilitiesWorld

SEEDS = (0, 14, 25, 75)
"""14 and 75 have found faults; together they meet every ability."""


def test_all_abilities_together_keep_what_each_of_them_promises() -> None:
    met: Counter[str] = Counter()
    for seed in SEEDS:
        world = AbilitiesWorld(seed)
        for _ in range(300):
            world.step()
        met += world.stats
        world.rest()
    assert met["bound"] > 100
    assert [ability for ability in SAYS if not met[f"held back by {ability}"]] == []
