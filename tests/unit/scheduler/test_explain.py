"""Explanations of random states: nothing is touched, the counts are right, and every claimed change comes true."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from paictl.cells.spec import SpecError
from paictl.scheduler.decision import Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import PodRecovered
from paictl.scheduler.explain import PodVerdict, explain, from_data, render, to_data
from paictl.scheduler.explain.data import Change, ChangeKind, Explanation, QuotaIncrease, ViewReport
from paictl.scheduler.groups import Hold
from paictl.scheduler.scratch import ChangeOutcome, holder, outcome
from paictl.scheduler.snapshot import dump
from tests.unit.scheduler.scenarios.changed import Suggested, carried_out, changed_engine, run, waits, with_quota
from tests.unit.scheduler.scenarios.world import CONFIGS, World, steps
from tests.unit.scheduler.world import World as AnyCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    smaller = () if explanation.smaller is None else (explanation.smaller,)
    for change in (*explanation.changes, *smaller):
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
    if change.kind is ChangeKind.SIZE:
        ((leaves, pods),), ((most, number),) = change.members, request.members
        more = [(leaves, one) for one in range(pods + 1, number)] if leaves == most else []
        more += [(size, number) for size in range(leaves + 1, most)]
        for member in more:
            assert waits(engine, replace(request, leaf_number=member[0], members=(member,)), suggested)
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


@pytest.mark.parametrize("seed", range(40))
def test_every_claimed_change_comes_true_on_any_cluster(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311 (a test, not a secret)
    cluster = AnyCluster(pick.randrange, check_plans=False)
    for _ in range(pick.randrange(10, 60)):
        cluster.step()
    for _ in range(4):
        request = cluster.new_request()
        suggested = None if pick.randrange(3) else [name for name in cluster.nodes if pick.randrange(3)]
        try:
            explanation = explain(cluster.engine, request, suggested)
        except RequestError:
            continue
        for change in explanation.changes:
            engine, changed = changed_cluster(cluster, change, request)
            fell, binding = run(engine, changed, suggested)
            done = outcome(engine.state, binding)
            assert done is not None
            assert (fell, done.places) == ([one.group for one in change.outcome.victims], change.outcome.places)


def changed_cluster(cluster: AnyCluster, change: Change, request: PodRequest) -> tuple[Engine, PodRequest]:
    """An engine of the cluster after a change, and the request as changed."""
    if change.quota is None:
        return changed_engine(cluster.engine, change, request)
    pods = [PodRecovered(pod, info) for pod, info in cluster.running.values()]
    return cluster.recovered(with_quota(cluster.config, change.quota), pods, cluster.bad), request


TELLING = (44, 48, 81, 152, 286, 317, 351, 626, 876)
"""Seeds whose smallest change is none that counting, or leaving out one after the other, finds."""


@pytest.mark.parametrize("seed", [*range(30), *TELLING])
def test_no_smaller_change_of_its_kind_helps(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311 (a test, not a secret)
    config = CONFIGS[seed % len(CONFIGS)]
    world = World(config)
    for _ in range(pick.randrange(5, 60)):
        world.step((pick.randrange(12), pick.randrange(32), pick.randrange(32), pick.randrange(32)))
    for _ in range(4):
        row = [pick.randrange(32) for _ in range(4)]
        request, suggested = world.request(*row[:3]), world.suggested(row[3])
        try:
            explanation = explain(world.replayer.engine, request, suggested)
        except RequestError:
            continue
        if explanation.decision is PodVerdict.WAIT:
            found = {change.kind: change for change in explanation.changes}
            for smaller in all_smaller(world, config, request, found):
                engine, changed = carried_out(world, config, smaller, request)
                assert waits(engine, changed, suggested), f"{smaller} would do"


def all_smaller(
    world: World, config: dict[str, Any], request: PodRequest, found: dict[ChangeKind, Change]
) -> Iterator[Change]:
    """Every change that is smaller than the one found of its kind, or any where none was found."""
    assert all(change.smallest for change in found.values()), "on a cluster as small as this all are tried"
    state = world.replayer.engine.state
    bad, heal = sorted(state.health.bad_nodes), found.get(ChangeKind.HEAL)
    for number in range(1, len(heal.nodes) if heal else len(bad) + 1):
        for nodes in combinations(bad, number):
            yield made(ChangeKind.HEAL, nodes=nodes)
    end = found.get(ChangeKind.END)
    most = sum(one.leaves for one in end.groups) if end else 10**6
    holders = [holder(group) for group in state.groups.by_name.values()]
    for number in range(1, 3):
        for groups in combinations(holders, number):
            if sum(one.leaves for one in groups) < most:
                yield made(ChangeKind.END, groups=groups)
    if request.guaranteed and not request.pinned_id:
        yield from smaller_quotas(world, config, request, found.get(ChangeKind.QUOTA))


def smaller_quotas(world: World, config: dict[str, Any], request: PodRequest, found: Change | None) -> Iterator[Change]:
    sizes = {chain.name: chain for chain in world.replayer.engine.state.physical.chains}
    most = 10**6
    if found is not None and found.quota is not None:
        chain = sizes[found.quota.chain]
        most = found.quota.number * chain.leaves[chain.types.index(found.quota.cell_type)]
    for chain in sizes.values():
        for level in range(1, chain.top + 1):
            for number in range(1, 4):
                quota = QuotaIncrease(request.vc, chain.name, chain.types[level], number, 0)
                if request.leaf_type in ("", chain.leaf_type) and number * chain.leaves[level] < most:
                    try:
                        Engine.from_config(with_quota(config, quota))
                    except SpecError:
                        continue
                    yield made(ChangeKind.QUOTA, quota=quota)


def made(kind: ChangeKind, **fields: Any) -> Change:
    return Change(kind, ChangeOutcome(()), **fields)


@pytest.mark.parametrize("config", CONFIGS)
@given(history=steps, row=asked)
@settings(max_examples=100, deadline=None)
def test_views_are_counted_right(config: dict[str, Any], history: list[Any], row: Any) -> None:
    world, request, suggested, explanation = waiting(config, history, row)
    assert from_data(json.loads(json.dumps(to_data(explanation)))) == explanation
    lines = render(explanation)
    assert len(lines) <= 26
    assert not any("  " in line.strip() or line.endswith(" ") for line in lines)
    if explanation.decision is not PodVerdict.WAIT:
        return
    decision = world.replayer.engine.plan(request, suggested)
    assert isinstance(decision, Wait)
    pinned = config["virtualClusters"][request.vc].get("pinnedCells", [])
    could_name = pinned if request.guaranteed and not request.pinned_id else []
    assert explanation.pins == tuple(cell["pinnedCellId"] for cell in could_name)
    unused = f"There are unused devices ({request.leaf_type})," if request.leaf_type else "There are unused devices,"
    assert any(line.startswith(unused) for line in lines) == explanation.physical
    assert any("for jobs that name PIN." in line for line in lines) == bool(explanation.physical and could_name)
    for view, attempt in zip(explanation.views, decision.attempts, strict=True):
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
