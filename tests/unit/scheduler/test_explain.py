"""Explanations of random states: nothing is touched, the counts are right, and every claimed change comes true."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from paictl.scheduler.decision import Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain import explain, render, to_data
from paictl.scheduler.explain.data import Change, ChangeKind, Explanation, Hold, ViewReport
from paictl.scheduler.explain.scratch import outcome
from paictl.scheduler.snapshot import dump
from tests.unit.scheduler.scenarios.changed import Suggested, carried_out, copied, end, run, waits
from tests.unit.scheduler.scenarios.world import CONFIGS, World, steps

if TYPE_CHECKING:
    from paictl.scheduler.request import PodRequest

numbers = st.integers(0, 31)
asked = st.tuples(numbers, numbers, numbers, numbers)


def waiting(config: dict[str, Any], history: list[Any], row: Any) -> tuple[World, PodRequest, Suggested, Explanation]:
    world = World(config)
    for step in history:
        world.step(step)
    request, suggested = world.request(*row[:3]), world.suggested(row[3])
    engine = world.replayer.engine
    before = dump(engine)
    try:
        explanation = explain(engine, request, suggested)
    except RequestError:
        with pytest.raises(RequestError):
            engine.plan(request, suggested)
        reject()  # a refused request has no explanation but its error
    assert json.dumps(dump(engine)) == json.dumps(before), "explaining must not touch the state"
    return world, request, suggested, explanation


@pytest.mark.parametrize("config", CONFIGS)
@given(history=steps, row=asked)
@settings(max_examples=150, deadline=None)
def test_every_claimed_change_comes_true(config: dict[str, Any], history: list[Any], row: Any) -> None:
    world, request, suggested, explanation = waiting(config, history, row)
    for change in explanation.changes:
        engine, changed = carried_out(world, config, change, request)
        fell, binding = run(engine, changed, suggested)
        assert fell == [one.group for one in change.outcome.victims]
        done = outcome(engine.state, binding)
        assert done is not None
        assert done.places == change.outcome.places
        for one in change.outcome.lazy:
            assert engine.state.groups.by_name[one.group].preemptor == request.group
        assert_is_least(world, change, request, suggested)
    keys = [(change.harm, list(ChangeKind).index(change.kind)) for change in explanation.changes]
    assert keys == sorted(keys)
    assert len({change.kind for change in explanation.changes}) == len(keys)


def assert_is_least(world: World, change: Change, request: PodRequest, suggested: Suggested) -> None:
    """Nothing can be left out of a change."""
    engine = world.replayer.engine
    if change.kind is ChangeKind.PRIORITY:
        assert change.priority is not None
        for lower in range(request.priority + 1, change.priority):
            assert waits(engine, replace(request, priority=lower), suggested)
    for rest in left_out(change):
        less, changed = carried_out(world, {}, rest, request)
        assert waits(less, changed, suggested), f"{change} has too much"


def left_out(change: Change) -> list[Change]:
    """A change without each of its parts."""
    groups, nodes = change.groups, change.nodes
    return [
        *(replace(change, groups=groups[:i] + groups[i + 1 :]) for i in range(len(groups))),
        *(replace(change, nodes=nodes[:i] + nodes[i + 1 :]) for i in range(len(nodes))),
    ]


@pytest.mark.parametrize("config", CONFIGS)
@given(history=steps, row=asked)
@settings(max_examples=100, deadline=None)
def test_no_single_group_or_node_that_helps_is_missed(config: dict[str, Any], history: list[Any], row: Any) -> None:
    world, request, suggested, explanation = waiting(config, history, row)
    if not isinstance(explanation.decision, Wait):
        return
    by_kind = {change.kind: change for change in explanation.changes}
    engine = world.replayer.engine
    for name in sorted(engine.state.health.bad_nodes):
        healed = Change(ChangeKind.HEAL, None, nodes=(name,))  # type: ignore[arg-type]
        if not waits(carried_out(world, config, healed, request)[0], request, suggested):
            assert len(by_kind[ChangeKind.HEAL].nodes) == 1
    for group in list(engine.state.groups.by_name.values()):
        less = copied(engine)
        end(less, [group.name])
        if not waits(less, request, suggested):
            assert ChangeKind.END in by_kind, f"{group.name} alone would do"


@pytest.mark.parametrize("config", CONFIGS)
@given(history=steps, row=asked)
@settings(max_examples=100, deadline=None)
def test_views_are_counted_right(config: dict[str, Any], history: list[Any], row: Any) -> None:
    world, request, suggested, explanation = waiting(config, history, row)
    json.dumps(to_data(explanation))
    lines = render(explanation)
    assert len(lines) <= 26
    assert not any("  " in line.strip() or line.endswith(" ") for line in lines)
    if not isinstance(explanation.decision, Wait):
        return
    pinned = config["virtualClusters"][request.vc].get("pinnedCells", [])
    could_name = pinned if request.guaranteed and not request.pinned_id else []
    assert explanation.pins == tuple(cell["pinnedCellId"] for cell in could_name)
    unused = f"Unused devices ({request.leaf_type}) are" if request.leaf_type else "Unused devices are"
    assert any(line.startswith(unused) for line in lines) == explanation.physical
    assert any("for jobs that name PIN." in line for line in lines) == bool(explanation.physical and could_name)
    for view, attempt in zip(explanation.views, explanation.decision.attempts, strict=True):
        leaves = view.leaves
        parts = (
            leaves.free,
            leaves.weaker,
            leaves.used,
            leaves.reserved,
            leaves.not_suggested,
            leaves.bad,
            leaves.doomed,
        )
        assert sum(parts) == leaves.total
        assert sum(one.here for one in view.holders) == leaves.used + leaves.reserved
        assert view.view == attempt.view
        assert view.nodes.bad + view.nodes.not_suggested + view.nodes.idle <= view.nodes.total
        assert_counted(world, request, view)
        if suggested is None or request.ignore_suggested:
            assert leaves.not_suggested == view.nodes.not_suggested == 0


def assert_counted(world: World, request: PodRequest, view: ViewReport) -> None:
    """The counts of a view against the inspection API."""
    rows = world.run({"op": "status", "view": "cells"})
    chain_level = {chain.name: chain for chain in world.replayer.engine.state.physical.chains}[view.chain]
    if request.guaranteed and not request.pinned_id:
        promised = {one.cell_type: one.number for one in view.promises}
        total = sum(chain_level.leaves[chain_level.types.index(kind)] * number for kind, number in promised.items())
        assert view.leaves.total == total
    if not request.guaranteed:
        state = world.replayer.engine.state
        leaves = [row for cell, row in enumerate(rows["physical"]) if row[1] == 1 and _chain(state, cell) == view.chain]
        assert view.leaves.total == len(leaves)
        assert view.leaves.bad == sum(not row[3] for row in leaves) or view.leaves.not_suggested
        if not view.leaves.not_suggested:
            assert view.leaves.free == sum(row[3] and row[4] == -2 for row in leaves)
    for one in view.holders:
        group = world.replayer.engine.state.groups.by_name[one.group]
        assert one.here <= one.leaves == len(list(group.leaves()))
        assert (one.hold is Hold.PREEMPTING) == (str(group.state) == "Preempting")


def _chain(state: Any, cell: int) -> str:
    return str(state.physical.chains[state.physical.chain[cell]].name)


@pytest.mark.parametrize("config", CONFIGS)
@given(history=steps, row=asked)
@settings(max_examples=60, deadline=None)
def test_quota_that_could_never_hold_it_never_does(config: dict[str, Any], history: list[Any], row: Any) -> None:
    _, request, _, explanation = waiting(config, history, row)
    fresh = World(config)
    for view in explanation.views:
        if not view.ever and len(explanation.views) == 1:
            assert waits(fresh.replayer.engine, request, None)
    if any(view.ever for view in explanation.views):
        assert not waits(fresh.replayer.engine, request, None)
