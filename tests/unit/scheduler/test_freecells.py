"""How scattered free devices are, against a count of every cell's leaves."""

from __future__ import annotations

from random import Random

import pytest

from paictl.cells.ids import PhysicalCell
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import LeafHealth, NodeHealth, PodGone
from paictl.scheduler.freecells import free_cells
from tests.unit.scheduler.defrag_cases import NODE, RACK, SWITCH, engine_of, random_case, start


def whole(engine: Engine, level: int) -> set[PhysicalCell]:
    """The cells of a level of which no device is used, kept for anybody, or bad."""
    state = engine.state
    busy = state.occupancy.user.keys() | state.occupancy.reserver.keys()
    return {
        cell
        for cell in state.physical.at[0][level]
        if not any(leaf in busy or state.counts.bad[leaf] for leaf in state.physical.leaves(cell))
    }


@pytest.mark.parametrize("seed", range(25))
def test_the_rows_are_those_of_a_count_of_all_leaves(seed: int) -> None:
    dice, engine = Random(seed), random_case(seed, 32).engine  # noqa: S311 - the same cases every time
    tree = engine.state.physical
    for name in dice.sample(sorted(tree.nodes), dice.randint(0, 1)):
        engine.observe(NodeHealth(name, healthy=False))
    engine.observe(LeafHealth(dice.choice(sorted(tree.nodes)), dice.randrange(8), healthy=False))
    digest, rows = engine.state.digest(), free_cells(engine.state)
    assert engine.state.digest() == digest
    (chain,) = tree.chains
    assert [row.level for row in rows] == list(range(chain.top, 0, -1))
    for row in rows:
        free = whole(engine, row.level)
        above = whole(engine, row.level + 1) if row.level < chain.top else set()
        alone = [cell for cell in free if tree.parent[cell] not in above]
        assert (row.chain, row.cell_type) == (chain.name, chain.types[row.level])
        assert (row.cells, row.total) == (len(free), len(tree.at[0][row.level]))
        assert row.devices == len(alone) * chain.leaves[row.level]
        assert row.packed == len(whole(engine, 1)) // chain.leaves[row.level]
        assert row.cells <= row.packed <= row.total
    assert sum(row.devices for row in rows) == len(whole(engine, 1)), "each free device counts once"


def test_scattered_devices_make_no_node_though_they_would_fill_some() -> None:
    engine = engine_of(4, 2, {"a": 4})
    for name in ("w0-0", "w0-1", "w1-0"):
        others = [other for other in engine.state.physical.nodes if other != name]
        assert start(engine, f"half-{name}", "a", -1, 4, 1, others)
    rows = {row.cell_type: (row.cells, row.packed, row.devices) for row in free_cells(engine.state)}
    assert rows == {RACK: (0, 1, 0), NODE: (1, 2, 8), SWITCH: (5, 5, 12), "V100": (20, 20, 0)}
    for uid in [uid for group in list(engine.state.groups.by_name.values()) for pods in group.pods for uid in pods]:
        engine.observe(PodGone(uid))
    rows = {row.cell_type: (row.cells, row.packed, row.devices) for row in free_cells(engine.state)}
    assert rows[RACK] == (2, 2, 32)


def test_what_is_free_as_a_whole_is_not_walked() -> None:
    asked = []
    free_cells(engine_of(8, 4, {"a": 8}).state, lambda: asked.append(1))
    assert len(asked) == 2, "two racks"
