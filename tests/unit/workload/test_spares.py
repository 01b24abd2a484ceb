"""Spare devices: what new gangs leave free is really there for repairs, whatever hardware is bad."""

from __future__ import annotations

import random

import pytest

from paictl.scheduler.decision import Bind, Phase, Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import LeafHealth, NodeHealth
from paictl.scheduler.explain.scratch import imagined
from paictl.workload.departments import DevicesInUse
from paictl.workload.devicelimits import Spares, bad_devices
from paictl.workload.lending import promises_by_vc
from tests.unit.scheduler.support import config, gone, healthy, pod, run

SPARE = 4


def refusal(engine: Engine, devices: int) -> str:
    """Why a gang of A waits for the sake of spare devices; empty if it need not."""
    used = DevicesInUse()
    used.start(engine.state.groups.by_name)
    spares = Spares({"A": SPARE})
    found = spares.refusal("A", devices, spares.use("A", promises_by_vc(engine.state), used.devices, engine.state))
    return str(found or "")


def room(engine: Engine, size: int) -> int:
    """How many devices the core gives to repairs of members of a size in A, at the expense of whoever borrows them."""
    number = 0
    with imagined(engine):
        while True:
            request = pod(f"repair{number}", "A", size)
            decision = engine.plan(request)
            if isinstance(decision, Preempt):
                decision = engine.plan(request, phase=Phase.PREEMPTING)
            if not isinstance(decision, Bind | Preempt):
                return size * number
            engine.apply(decision)
            number += 1


@pytest.mark.parametrize("seed", range(60))
def test_spare_devices_are_healthy_ones(seed: int) -> None:
    """A gang waits only if the core could not serve it and the spares; and if it starts, the spares are there."""
    dice = random.Random(seed)  # noqa: S311 - the same cases every time
    promise = dice.choice(({"NODE": 3}, {"NODE": 2}))
    engine = healthy(config(A=promise, B=dice.choice(({"NODE": 1}, {"SWITCH": 1}))))
    running: list[str] = []
    for number in range(40):
        match dice.choice(("start", "start", "lend", "end", "node", "leaf")):
            case "start":
                size = dice.choice((1, 2, 4))
                refused = refusal(engine, size)
                assert not refused or room(engine, 1) < size + SPARE, refused
                if not refused and isinstance(run(engine, pod(f"a{number}", "A", size)), Bind):
                    assert max(room(engine, 1), room(engine, 2)) >= SPARE
                    running.append(f"a{number}")
            case "lend":
                if isinstance(run(engine, pod(f"b{number}", "B", dice.choice((1, 2)), -1)), Bind):
                    running.append(f"b{number}")
            case "end" if running:
                gone(engine, running.pop(dice.randrange(len(running))))
            case "node":
                engine.observe(NodeHealth(f"n{dice.randrange(4)}", healthy=dice.random() < 0.6))
            case "leaf":
                engine.observe(LeafHealth(f"n{dice.randrange(4)}", dice.randrange(4), healthy=dice.random() < 0.6))


def test_bad_devices_count_only_where_no_others_can_take_their_place() -> None:
    engine = healthy(config(A={"NODE": 3}))
    engine.observe(NodeHealth("n0", healthy=False))
    assert bad_devices(engine.state)["A"] == 0, "a node that nobody was promised takes its place"
    assert refusal(engine, 8) == ""
    engine.observe(LeafHealth("n1", 2, healthy=False))
    assert bad_devices(engine.state)["A"] == 4, "of two bad nodes one has to serve the promise"
    assert refusal(engine, 8) == (
        "virtual cluster A keeps 4 of its 12 devices for repairs, holds 0, 4 are bad, and this needs 8"
    )
    assert refusal(engine, 4) == ""
    engine.observe(NodeHealth("n0", healthy=True))
    assert bad_devices(engine.state)["A"] == 0
