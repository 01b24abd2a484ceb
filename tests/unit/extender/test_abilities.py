"""All abilities of `sharing` at once: what holds after each operation and at rest, and that each holds gangs back."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from jsonschema import Draft7Validator

from tests.conftest import ROOT
from tests.unit.extender.abilities import AbilitiesWorld
from tests.unit.extender.abilities_drawn import SAYS, drawn
from tests.unit.extender.fickle import FickleWorld

SEEDS = (0, 15, 16)
"""Together they meet every ability."""
SUBMITTED = {"run-times", "task-limits", "history-limits"}
"""Asked when a job is submitted, not by doors."""
MET = ("bound", "lines with a start for all", "members repaired", "chosen by their own tenant")


def test_all_abilities_together_keep_what_each_of_them_promises() -> None:
    met: Counter[str] = Counter()
    for seed in SEEDS:
        world = AbilitiesWorld(seed)
        for _ in range(300):
            world.step()
        met += world.stats
        world.rest()
    wanted = [*MET, *(f"held back by {ability}" for ability in SAYS)]
    assert [what for what in wanted if not met[what]] == []


def test_a_pod_that_waited_for_a_repair_waits_for_its_whole_gang_alone() -> None:
    """Its gang had ended in between, and another pod of it had begun to preempt for all of them."""
    world = AbilitiesWorld(5387)
    for _ in range(75):
        world.step()


def test_who_has_lost_its_guarantee_in_a_restart_has_no_minimum_run_time() -> None:
    """Nothing says which gang had been preempted lazily, so after a restart that one had the guarantee."""
    world = AbilitiesWorld(9001341)
    for _ in range(150):
        world.step()
    world.rest()


def test_who_waits_at_rest_may_never_have_reached_the_book() -> None:
    """A limit kept it before the scheduler was asked, and what it waits for since is found in the background."""
    world = AbilitiesWorld(9000249)
    for _ in range(150):
        world.step()
    world.rest()


@pytest.mark.parametrize("seed", [1196, 1000, 1001])
def test_pods_that_change_while_they_wait_break_nothing(seed: int) -> None:
    """In 1196 a pod would be bound to the node of its place although that had turned bad meanwhile."""
    world = FickleWorld(seed)
    for _ in range(150):
        world.step()
    world.rest()


@pytest.mark.parametrize("seed", [1, 4, 9])
def test_moves_of_defragmentation_break_nothing(seed: int) -> None:
    world = FickleWorld(seed)
    world.moves = 10
    for _ in range(150):
        world.step()
    world.rest()
    assert world.stats["gangs moved"]


def test_each_ability_of_the_schema_is_drawn_and_left_out() -> None:
    schema = json.loads((ROOT / "schemas/services-configuration.schema.json").read_text(encoding="utf-8"))
    section = schema["properties"]["sharing"]
    worlds = [drawn(random.Random(seed)) for seed in range(60)]  # noqa: S311 - the same worlds every time
    for world in worlds:
        Draft7Validator({**section, "definitions": schema["definitions"]}).validate(world.section)
    for ability in section["properties"].keys() - SUBMITTED:
        assert {ability in world.section for world in worlds} == {True, False}, ability
