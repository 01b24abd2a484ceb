"""All abilities of the section `sharing` at once: what each promises holds after every operation."""

from __future__ import annotations

import pytest

from tests.unit.extender.abilities import AbilitiesWorld


@pytest.mark.parametrize("seed", [0, 1, 14, 75])  # the last two have found faults
def test_all_abilities_together_keep_what_each_of_them_promises(seed: int) -> None:
    world = AbilitiesWorld(seed)
    for _ in range(300):
        world.step()
    assert world.stats["bound"] > 20
