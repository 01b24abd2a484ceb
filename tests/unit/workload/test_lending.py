"""Lend limits: what may be borrowed is what a brute-force assignment of devices to lenders allows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product

import pytest

from paictl.scheduler.decision import Phase, Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import LeafHealth, NodeHealth
from paictl.workload.lending import LendLimits, LendUse, lend_use
from tests.unit.scheduler.support import config, gone, healthy, pod, run


def feasible(use: LendUse, limits: Mapping[str, int], borrowed: Mapping[str, int]) -> bool:
    """Whether each borrowed device can be its borrower's own, unpromised, or lent within the limits: all ways tried."""
    vcs = sorted(use.idle)
    own = [range(min(borrowed.get(vc, 0), max(0, use.idle[vc])) + 1) for vc in vcs]
    for kept in product(*own):
        need = sum(borrowed.get(vc, 0) - number for vc, number in zip(vcs, kept, strict=True))
        room = use.unpromised + sum(
            min(limits.get(vc, 10**9), max(0, use.idle[vc] - number)) for vc, number in zip(vcs, kept, strict=True)
        )
        if need <= room:
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_what_is_left_is_the_most_that_can_be_assigned(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same cases every time
    idle = {vc: dice.randrange(6) for vc in "ABC"}
    limits = {vc: dice.randrange(9) for vc in "ABC" if dice.random() < 0.7}
    borrowed = {vc: dice.randrange(6) for vc in "ABC" if dice.random() < 0.6}
    use = LendUse(idle, borrowed, dice.randrange(5))
    if not feasible(use, limits, borrowed):
        return
    for vc in "ABC":
        most = max(
            number for number in range(25) if feasible(use, limits, {**borrowed, vc: borrowed.get(vc, 0) + number})
        )
        assert LendLimits(limits).left(vc, use) == most, (vc, use, limits)
        bound = LendLimits().left(vc, use)
        for number in (most, most + 1):
            refused = LendLimits(limits).refusal(vc, number, use)
            assert bool(refused) is (most < number <= bound), "where there are no more devices, no limit is to blame"


def world() -> Engine:
    """16 devices: A is promised 8, B 4; 4 are nobody's."""
    return healthy(config(A={"NODE": 2}, B={"NODE": 1}))


def test_the_use_follows_from_groups_and_hardware() -> None:
    engine = world()
    assert lend_use(engine.state) == LendUse({"A": 8, "B": 4}, {}, 4, {"A": 8, "B": 4})
    run(engine, pod("a", "A", 4))
    run(engine, pod("lent", "B", 2, -1))
    assert lend_use(engine.state) == LendUse({"A": 4, "B": 4}, {"B": 2}, 4, {"A": 8, "B": 4})
    engine.observe(LeafHealth("n3", 0, healthy=False))
    engine.observe(NodeHealth("n3", healthy=False))
    assert lend_use(engine.state).unpromised == 0
    engine.observe(NodeHealth("n3", healthy=True))
    assert lend_use(engine.state).unpromised == 3


def test_devices_that_a_preemption_waits_for_count_once() -> None:
    """Its victim and the gang that is to have them both have them; no limit may be passed over for that."""
    engine = world()
    for number in range(4):
        run(engine, pod(f"lent{number}", "B", 4, -1))
    assert isinstance(run(engine, pod("own", "A", 4), Phase.PREEMPTING), Preempt)
    victim = next(name for name, group in engine.state.groups.by_name.items() if group.state.value == "BeingPreempted")
    gone(engine, next(f"lent{number}" for number in range(4) if victim != f"default/lent{number}"))
    use = lend_use(engine.state)
    assert LendLimits().left("B", use) == 4, "a node is free"
    assert LendLimits({"A": 0}).left("B", use) == 0
    assert LendLimits({"A": 0}).refusal("B", 4, use)


def test_who_runs_on_bad_devices_takes_no_good_ones() -> None:
    engine = world()
    run(engine, pod("lent", "B", 4, -1))
    node = engine.state.physical.node_name(next(iter(engine.state.occupancy.user)))
    engine.observe(NodeHealth(node, healthy=False))
    use = lend_use(engine.state)
    assert LendLimits().left("B", use) == 12
    assert LendLimits({"A": 4}).left("B", use) == 8


def test_a_tenant_uses_its_own_promise_without_a_limit() -> None:
    use = lend_use(world().state)
    limits = LendLimits({"A": 0, "B": 1})
    assert [limits.left(vc, use) for vc in ("A", "B")] == [8 + 4 + 1, 4 + 4]
    assert limits.refusal("B", 8, use) is None
    said = str(limits.refusal("B", 9, use))
    assert said == ("only 8 devices can be borrowed now and this needs 9; lend limits keep the others free for: A 8")
