"""Beside bad hardware the core finds a place wherever enough places are counted, whatever others hold."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.decision import Bind, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import LeafHealth, NodeHealth, PodGone
from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.startplan import NEVER, LeafTimes
from tests.unit.scheduler.defrag_cases import NODE, RACK, SWITCH, cluster, engine_of

SEEDS = 400 if os.environ.get("PAICTL_SOAK") else 24
SIZES = (1, 2, 4, 8)


def engine_with(dice: random.Random) -> Engine:
    """Racks of nodes of eight devices, all promised to two virtual clusters: racks, nodes and half nodes."""
    per_rack, racks = dice.choice((2, 3, 4)), dice.randint(2, 4)
    whole = dice.randint(0, racks - 1)
    left = (racks - whole) * per_rack
    nodes = dice.randint(1, left)
    halves = dice.random() < 0.5
    kinds = [(RACK, whole), (f"{RACK}.{NODE}", nodes - halves), (f"{RACK}.{NODE}.{SWITCH}", 2 * halves)]
    found = cluster(racks * per_rack, per_rack, {"b": left - nodes} if left > nodes else {})
    found["virtualClusters"]["a"] = {
        "virtualCells": [{"cellType": kind, "cellNumber": number} for kind, number in kinds if number]
    }
    engine = Engine(ClusterSpec.from_mapping(found))
    for name in engine.state.physical.nodes:
        engine.observe(NodeHealth(name, healthy=True))
    return engine


def gang(name: str, vc: str, priority: int, members: tuple[tuple[int, int], ...]) -> Iterator[PodRequest]:
    pods = [leaves for leaves, number in members for _ in range(number)]
    for place, leaves in enumerate(pods):
        yield PodRequest(f"{name}/{place}", f"{name}/{place}", vc, priority, leaves, name, members, "V100")


def strike(dice: random.Random, engine: Engine, bad: set[tuple[str, int]]) -> None:
    """A node (-1) or a device fails or heals; never more than three nodes are struck."""
    place = dice.choice(sorted(engine.state.physical.nodes)), dice.choice((-1, -1, dice.randrange(8)))
    healthy = place in bad
    if not healthy and len({name for name, _ in bad} | {place[0]}) > 3:
        return
    bad.symmetric_difference_update({place})
    engine.observe(NodeHealth(place[0], healthy) if place[1] < 0 else LeafHealth(*place, healthy))


def play(seed: int) -> int:
    """Random operations; how often enough places were counted, where the core had one each time."""
    dice, counted = random.Random(seed), 0  # noqa: S311 - the same cases every time
    engine, bad, running = engine_with(dice), set[tuple[str, int]](), dict[str, list[str]]()
    vcs = sorted(engine.state.vcs)
    for step in range(60):
        if dice.random() < 0.3:
            strike(dice, engine, bad)
        size, pods = dice.choice(SIZES), dice.randint(1, 6)
        smaller = [other for other in SIZES if other < size]
        members: Any = ((size, pods),)
        if pods > 1 and smaller and dice.random() < 0.4:
            members = ((dice.choice(smaller), 1), (size, pods - 1))
        asked = next(gang(f"new{step}", "a", 0, members))
        leaves = LeafTimes(engine, "a", lambda _: NEVER)
        if bad and any(leaves.room(view, size, Millis(0)) >= pods for view in leaves.views(asked)):
            counted += 1
            assert not isinstance(engine.plan(asked), Wait), (seed, step)
        if running and dice.random() < 0.4:
            for uid in running.pop(dice.choice(sorted(running))):
                engine.observe(PodGone(uid))
            continue
        name, priority = f"g{step}", dice.choice((0, 0, 10, -1))
        for request in gang(name, dice.choice(vcs), priority, ((dice.choice(SIZES), dice.randint(1, 3)),)):
            decision = engine.plan(request)
            if not isinstance(decision, Bind):
                break
            engine.apply(decision)
            running.setdefault(name, []).append(request.uid)
    return counted


@pytest.mark.parametrize("seed", range(SEEDS))
def test_where_enough_places_are_counted_the_core_has_one(seed: int) -> None:
    play(seed)


def test_the_cases_have_places() -> None:
    assert sum(map(play, range(5))) > 50


def test_a_struck_node_counts_as_a_whole_one() -> None:
    engine = engine_of(8, 4, {"a": 6, "b": 2})
    request = next(gang("new", "a", 0, ((4, 1),)))

    def rooms() -> list[int]:
        leaves = LeafTimes(engine, "a", lambda _: NEVER)
        (view,) = leaves.views(request)
        return [leaves.room(view, size, Millis(0)) for size in (8, 4, 3)]

    assert rooms() == [6, 12, 12]
    engine.observe(NodeHealth("w0-0", healthy=False))
    assert rooms() == [5, 10, 10]
    for device in (0, 5):
        engine.observe(LeafHealth("w1-3", device, healthy=False))
        engine.observe(LeafHealth("w0-0", device, healthy=False))
    assert rooms() == [4, 8, 8], "however many of its devices are bad"


def test_closed_nodes_are_not_packed_around() -> None:
    """Why nothing is promised beside windows (docs/backfill.md): six usable nodes are free, and four find no place."""
    found = cluster(8, 4, {"b": 1})
    found["virtualClusters"]["a"] = {
        "virtualCells": [{"cellType": RACK, "cellNumber": 1}, {"cellType": f"{RACK}.{NODE}", "cellNumber": 3}]
    }
    engine = Engine(ClusterSpec.from_mapping(found))
    for name in engine.state.physical.nodes:
        engine.observe(NodeHealth(name, healthy=True))
    (other,) = gang("other", "b", 0, ((8, 1),))
    decision = engine.plan(replace(other, ignore_suggested=False), frozenset({"w1-0"}))
    assert isinstance(decision, Bind)
    engine.apply(decision)
    asked = replace(next(gang("new", "a", 0, ((8, 4),))), ignore_suggested=False)
    assert isinstance(engine.plan(asked, frozenset(engine.state.physical.nodes)), Bind)
    assert isinstance(engine.plan(asked, frozenset(engine.state.physical.nodes) - {"w0-1"}), Wait)
    engine.observe(NodeHealth("w0-1", healthy=False))
    assert isinstance(engine.plan(asked, frozenset(engine.state.physical.nodes)), Bind), "a bad one is"
