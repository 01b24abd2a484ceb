"""All abilities behind the placer, with pods that change, configurations that are pushed, and restarts at any time."""

from __future__ import annotations

import pytest

from tests.unit.extender.fickle import FickleWorld
from tests.unit.placer.pinned import PinnedWorld


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pinned_pods_keep_their_devices_and_nobody_waits_needlessly(seed: int) -> None:
    world = PinnedWorld(seed)
    for _ in range(150):
        world.step()
    world.rest()
    assert world.stats["bound"]


def test_a_configuration_that_is_pushed_at_any_time_gives_no_device_away() -> None:
    world = FickleWorld(100)
    world.pushes = 1.0
    for _ in range(150):
        world.step()
    world.rest()
    assert world.stats["push"]
