"""Snapshots: complete, exact, and refused when damaged."""

from __future__ import annotations

import copy
import json
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Book
from paictl.scheduler.decision import BindInfo, PodPlacement
from paictl.scheduler.engine import Engine
from paictl.scheduler.groups import Group
from paictl.scheduler.snapshot import SnapshotError, dump, group_from_json, group_to_json, restore
from paictl.scheduler.views import NodeIndex
from tests.unit.scheduler.scenarios.world import CONFIGS, RACKS, TWO_TYPES, World, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

FROZEN = {
    "State.vcs": "names",
    "State.chains_by_type": "from the specification",
    "Views.nodes": "places of cells in the views",
    "Views.pinned": "views by key",
    "Journal.tables": "the register itself",
    "NodeIndex.cells": "the cells of a view",
    "VirtualIndex.cells": "the cells of a view",
    "CellBinding.pinned": "from the specification",
    "CellBinding.roots": "from the specification",
    "Ledger.vcs": "shares the lists of Ledger.free, in another order",
    "Groups.touched": "of the operation under way",
    "VirtualIndex.weaker": "a cache of what was asked for",
}
"""What is not registered with the journal on purpose, and why; a new container must be made with `table` or be here."""


def mutable_parts(value: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every list, dict, set and bytearray within reach of a part of the state, with the attribute it is in."""
    seen = set() if seen is None else seen
    if value is None or isinstance(value, str | bytes | int | float) or is_dataclass(value) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, list | dict | set | bytearray):
        yield path, value
    if isinstance(value, bytearray):
        return
    if isinstance(value, list | tuple | set | frozenset | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from mutable_parts(item, path, seen)
        return
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in (*names, *getattr(value, "__dict__", ())):
        yield from mutable_parts(getattr(value, name), f"{type(value).__name__}.{name}", seen)


def is_frame(values: Any) -> bool:
    """Whether a container only holds other containers or parts of the state, which are found by themselves."""
    rows = list(values.values()) if isinstance(values, dict) else list(values)
    return bool(rows) and all(isinstance(row, list | dict | NodeIndex) for row in rows)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_mutable_container_of_the_state_is_listed(config: dict[str, Any]) -> None:
    state = World(config).replayer.engine.state
    listed = {id(box.values) for box in state.journal.tables}
    found = {id(value): path for path, value in mutable_parts(state) if not is_frame(value)}
    assert {path for key, path in found.items() if key not in listed} <= set(FROZEN)
    assert listed <= set(found)


def test_the_names_of_containers_are_unique() -> None:
    names = [box.name for box in World(RACKS).replayer.engine.state.journal.tables]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("config", CONFIGS)
@given(history=steps)
@settings(max_examples=30, deadline=None)
def test_what_is_not_listed_never_changes(config: dict[str, Any], history: list[Any]) -> None:
    world = World(config)
    state = world.replayer.engine.state
    listed = {id(box.values) for box in state.journal.tables}
    rest = [(path, value) for path, value in mutable_parts(state) if id(value) not in listed]
    passing = ("Groups.touched", "VirtualIndex.weaker")
    before = [(path, value, copy.copy(value)) for path, value in rest if path not in passing]
    for row in history:
        if row[0] < 11:  # a restart makes another state
            world.step(row)
    for path, value, old in before:
        items = (
            zip(value.values(), old.values(), strict=True) if isinstance(value, dict) else zip(value, old, strict=True)
        )
        assert all(new is was or new == was for new, was in items), path


def test_an_engine_has_no_other_state() -> None:
    memos, rules = {"_suggested", "_annotator", "_by_vc", "places"}, {"sparing"}
    assert (
        set(vars(Engine(ClusterSpec.from_mapping(RACKS)))) == {"spec", "_state", "version", "stopped"} | memos | rules
    )


@pytest.mark.parametrize("config", CONFIGS)
@given(history=steps, future=steps)
@settings(max_examples=60, deadline=None)
def test_a_restored_engine_answers_as_the_old_one(
    config: dict[str, Any], history: list[Any], future: list[Any]
) -> None:
    world = World(config)
    for row in history:
        world.step(row)
    engine = world.replayer.engine
    digest = engine.state.digest()
    data = dump(engine)
    twin = copy.copy(world)
    twin.replayer = copy.copy(world.replayer)
    twin.replayer.book = Book(restore(world.spec, json.loads(json.dumps(data))))
    twin.replayer.book.resume(world.replayer.book.pods, world.replayer.book.health, world.replayer.book.bad_devices)
    assert engine.state.digest() == digest == twin.replayer.engine.state.digest()
    assert dump(twin.replayer.engine) == data
    assert list(twin.replayer.engine.state.groups.by_name) == list(engine.state.groups.by_name)
    for row in future:
        assert world.step(row) == twin.step(row)
    assert world.replayer.engine.state.digest() == twin.replayer.engine.state.digest()
    assert world.replayer.engine.version == twin.replayer.engine.version


def test_a_restored_engine_shares_its_containers_as_a_new_one_does() -> None:
    world = World(RACKS)
    state = restore(world.spec, dump(world.replayer.engine)).state
    assert state.occupancy.physical is state.binding.physical
    assert state.buddy.bad is state.counts.bad
    assert state.ledger.vcs[0][0][1] is state.ledger.free["a"][state.physical.chain_indexes()[0]]


def filled() -> tuple[World, dict[str, Any]]:
    world = World(RACKS)
    for i in range(20):
        world.step((0, i, i * 7, i * 3))
    world.step((9, 1, 0, 0))
    return world, json.loads(json.dumps(dump(world.replayer.engine)))


def test_another_specification_is_refused() -> None:
    _, data = filled()
    with pytest.raises(SnapshotError, match="another specification"):
        restore(ClusterSpec.from_mapping(TWO_TYPES), data)


def test_another_order_of_cell_types_is_the_same_specification() -> None:
    world, data = filled()
    kinds = dict(reversed(list(world.spec.cell_types.items())))
    assert restore(replace(world.spec, cell_types=kinds), data).state.digest() == data["digest"]


@pytest.mark.parametrize("broken", [{}, [], {"format": "other"}, {"format": "paictl-scheduler-state/2"}, None, "x"])
def test_what_is_no_snapshot_is_refused(broken: Any) -> None:
    with pytest.raises(SnapshotError):
        restore(ClusterSpec.from_mapping(RACKS), broken)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_damage_anywhere_is_refused(data: st.DataObject) -> None:
    world, written = filled()
    spot: Any = written["state"]
    while True:
        keys = sorted(spot) if isinstance(spot, dict) else list(range(len(spot)))
        keys = [key for key in keys if not isinstance(spot[key], list | dict) or len(spot[key])]
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if not isinstance(spot[key], list | dict) or data.draw(st.integers(0, 3)) == 0:
            break
        spot = spot[key]
    old = copy.deepcopy(spot[key])
    spot[key] = data.draw(st.sampled_from([None, -7, 10**6, "x", "0x1", [], {}, True, 3.5]))
    if spot[key] == old:
        return
    try:
        engine = restore(world.spec, written)
    except SnapshotError:
        return
    assert engine.state.digest() == written["digest"]  # e.g. the fill value of a list that has no other


def test_what_a_group_was_recovered_from_is_read_as_carefully() -> None:
    world, written = filled()
    written["state"]["groups.by_name"][0]["info"] = -7
    with pytest.raises(SnapshotError, match="damaged"):
        restore(world.spec, written)


@pytest.mark.parametrize("part", ["binding.virtual", "groups.by_name", "counts.bad"])
def test_a_missing_or_unknown_part_is_refused(part: str) -> None:
    world, data = filled()
    less = {**data, "state": {name: value for name, value in data["state"].items() if name != part}}
    with pytest.raises(SnapshotError, match="damaged"):
        restore(world.spec, less)
    with pytest.raises(SnapshotError, match="unknown part"):
        restore(world.spec, {**data, "state": {**data["state"], f"{part}.x": []}})


def test_a_stopped_engine_comes_back_stopped() -> None:
    world, _ = filled()
    world.replayer.engine.stopped = True
    engine = restore(world.spec, dump(world.replayer.engine))
    assert engine.stopped
    assert engine.version == world.replayer.engine.version


def test_every_field_of_a_group_is_written() -> None:
    world, _ = filled()
    group = next(iter(world.replayer.engine.state.groups.by_name.values()))
    place = PodPlacement("n9", (0, 1), ("NODE", ""))
    info = BindInfo("n9", (0, 1), "RACK", ((place, PodPlacement("n9", (2, 3), None)),))
    group = replace(group, info=info, preempting=frozenset({"y", "x"}), preemptor="z", preempted_at=1.5)
    written = json.loads(json.dumps(group_to_json(group)))
    assert set(written) == {item.name for item in fields(Group)}
    assert group_from_json(written) == group
    assert repr(group_from_json(written).info) == repr(info)


def test_a_snapshot_is_small() -> None:
    assert len(json.dumps(filled()[1])) < 12_000
