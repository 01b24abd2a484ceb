"""Preemption that spares: who goes, who does not, and that a guarantee is kept whatever that costs."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from paictl.scheduler.decision import Bind, Failure, Phase, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.groups import Group
from tests.unit.scheduler.support import NODES, config, gone, healthy, pod, run


class Losses:
    """Losses of pods by uid, and which are shielded."""

    def __init__(self, losses: Mapping[str, int], shielded: tuple[str, ...] = ()) -> None:
        self.losses = losses
        self.shielded = shielded

    def loss(self, group: Group, vc: str) -> int:  # noqa: ARG002 - the same for all
        return self.losses.get(group.name.removeprefix("default/"), 0)

    def shields(self, group: Group) -> bool:
        return group.name.removeprefix("default/") in self.shielded


def victims(engine: Engine, uid: str, vc: str = "A", leaves: int = 4, **fields: Any) -> set[str]:
    decision = engine.plan(pod(uid, vc, leaves, **fields), phase=Phase.PREEMPTING)
    assert isinstance(decision, Preempt | Bind), decision
    return {uid for _, uids in decision.victims for uid in uids} if isinstance(decision, Preempt) else set()


def lent(nodes: int = 4, leaves: int = 4, **vcs: dict[str, int]) -> Engine:
    """Opportunistic pods `o0`, `o1`, … of B, one after the other."""
    engine = healthy(config(**(vcs or {"A": {"NODE": 2}, "B": {"NODE": 2}})))
    for number in range(nodes):
        assert isinstance(run(engine, pod(f"o{number}", "B", leaves, -1)), Bind)
    return engine


def test_without_losses_the_first_node_is_taken() -> None:
    assert victims(lent(), "a") == {"o0"}


@pytest.mark.parametrize("young", range(4))
def test_the_pod_goes_that_loses_least(young: int) -> None:
    engine = lent()
    engine.sparing = Losses({f"o{number}": 10 for number in range(4)} | {f"o{young}": 3})
    assert victims(engine, "a") == {f"o{young}"}


def test_a_part_of_a_node_is_chosen_within_it() -> None:
    engine = lent(8, 2, A={"SWITCH": 3}, B={"NODE": 2})
    engine.sparing = Losses({f"o{number}": 10 for number in range(8)} | {"o5": 1})
    assert victims(engine, "a", leaves=2) == {"o5"}


def test_what_a_chosen_victim_also_holds_costs_nothing_more() -> None:
    """A gang on the first and the third node, and between them a pod that loses as much as half of the gang."""
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    run(engine, pod("first", "B", 4, -1))
    run(engine, pod("between", "B", 4, -1))
    gone(engine, "first")
    for number in range(2):
        run(engine, pod(f"g{number}", "B", 4, -1, group="gang", pods=2))
    run(engine, pod("last", "B", 4, -1))
    engine.sparing = Losses({"gang": 6, "between": 3, "last": 100})
    assert victims(engine, "a0", group="new", pods=2) == {"g0", "g1"}


def test_a_gang_that_goes_anyway_is_used_before_others_go() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    for number in range(2):
        run(engine, pod(f"o{number}", "B", 4, -1))
    for number in range(2):
        run(engine, pod(f"g{number}", "B", 4, -1, group="gang", pods=2))
    engine.sparing = Losses({"o0": 10, "o1": 10, "gang": 15})
    decision = engine.plan(pod("a", "A", 4, group="a", pods=2), phase=Phase.PREEMPTING)
    assert isinstance(decision, Preempt)
    assert {uid for _, uids in decision.victims for uid in uids} == {"g0", "g1"}


def test_what_is_left_of_a_gang_that_is_being_preempted_is_free_for_the_next_one() -> None:
    engine = lent(2)
    for number in range(2):
        run(engine, pod(f"g{number}", "B", 4, -1, group="gang", pods=2))
    engine.sparing = Losses({"o0": 10, "o1": 10})
    assert isinstance(run(engine, pod("first", "A", 4), Phase.PREEMPTING), Preempt)
    engine.sparing = Losses({"o0": 1, "o1": 1, "gang": 100})
    assert victims(engine, "next") <= {"g0", "g1"}, "no third pod goes, though it loses next to nothing"


def test_what_is_left_of_a_gang_that_goes_costs_nothing_more() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    run(engine, pod("b", "B", 4))
    run(engine, pod("o0", "B", 4, -1))
    for number, size in enumerate((4, 2)):
        run(engine, replace(pod(f"g{number}", "B", size, -1, group="gang"), members=((2, 1), (4, 1))))
    run(engine, pod("small", "B", 2, -1))
    engine.sparing = Losses({"o0": 10, "gang": 6, "small": 9})
    assert victims(engine, "a", group="a", pods=2) == {"g0", "g1", "small"}, "15 and not 16"


def test_two_small_pods_may_lose_less_than_one_large() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    for number in range(3):
        run(engine, pod(f"o{number}", "B", 4, -1))
    for number in range(3, 5):
        run(engine, pod(f"o{number}", "B", 2, -1))
    engine.sparing = Losses({"o0": 10, "o1": 10, "o2": 10, "o3": 4, "o4": 4})
    assert victims(engine, "a") == {"o3", "o4"}


def test_a_stronger_pod_of_the_same_tenant_takes_the_place_of_the_one_that_loses_least() -> None:
    engine = healthy(config(A={"NODE": 4}))
    for number in range(4):
        run(engine, pod(f"w{number}", "A", 4, 0))
    engine.sparing = Losses({"w0": 5, "w1": 9, "w2": 2, "w3": 7})
    assert victims(engine, "a", priority=5) == {"w2"}


def test_a_shielded_pod_goes_to_no_stronger_one_of_its_tenant_but_to_a_guarantee() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 3}))
    run(engine, pod("weak", "A", 4, 0))
    for number in range(3):
        run(engine, pod(f"o{number}", "A", 4, -1))
    engine.sparing = Losses({}, ("weak", "o0", "o1", "o2"))
    decision = engine.plan(pod("strong", "A", 4, 5))
    assert isinstance(decision, Wait)
    assert [attempt.failure for attempt in decision.attempts] == [Failure.SHIELDED]
    assert len(victims(engine, "b", "B")) == 1, "the guarantee of B wins at once"
    engine.sparing = Losses({}, ("o0", "o2"))
    assert victims(engine, "b", "B") == {"o1"}, "shielded ones go last"
    assert victims(engine, "strong", priority=5) == {"weak"}


@pytest.mark.parametrize("pods", [1, 2])
def test_who_must_not_go_is_not_preferred_to_a_guest_that_is_shielded(pods: int) -> None:
    """A's promise has room on the first node: it does not wait for its own pod on the second, which loses less."""
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    run(engine, pod("beside", "A", 2))
    run(engine, pod("weak", "A", 4))
    guests = [f"o{number}" for number in range(5)]
    for guest in guests:
        run(engine, pod(guest, "B", 2, -1))
    engine.sparing = Losses({"beside": 100, "weak": 1, "o4": 100}, ("beside", "weak", *guests))
    leaves = 2 // pods
    assert victims(engine, "strong", leaves=leaves, priority=5, group="default/strong", pods=pods) == {"o4"}


def test_a_shielded_pod_is_passed_by_for_another_of_its_tenant() -> None:
    engine = healthy(config(A={"NODE": 2}))
    for number in range(2):
        run(engine, pod(f"w{number}", "A", 4, 0))
    engine.sparing = Losses({"w0": 1, "w1": 1_000}, ("w0",))
    assert victims(engine, "a", priority=5) == {"w1"}


def random_lent(seed: int) -> tuple[Engine, dict[str, int]]:
    dice = random.Random(seed)  # noqa: S311 - the same cases every time
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    for number in range(12):
        engine_pod = pod(f"o{number}", "B", dice.choice((1, 2, 4)), -1)
        decision = engine.plan(engine_pod)
        if isinstance(decision, Bind):
            engine.apply(decision)
            if dice.random() < 0.2:
                gone(engine, f"o{number}")
    return engine, {f"o{number}": dice.randrange(1, 50) for number in range(12)}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("pods", [1, 2])
def test_nodes_are_chosen_as_well_as_by_trying_all(seed: int, pods: int) -> None:
    engine, losses = random_lent(seed)
    on = {
        name: {
            engine.state.occupancy.user[leaf]
            for cell in cells
            for leaf in engine.state.physical.leaves(cell)
            if leaf in engine.state.occupancy.user
        }
        for name, cells in engine.state.physical.nodes.items()
    }
    least = min(
        sum(losses[name.removeprefix("default/")] for name in set().union(*(on[node] for node in some)))
        for some in combinations(NODES, pods)
    )
    engine.sparing = Losses(losses)
    decision = engine.plan(pod("a", "A", 4, group="a", pods=pods), phase=Phase.PREEMPTING)
    fallen = {uid for _, uids in decision.victims for uid in uids} if isinstance(decision, Preempt) else set()
    assert sum(losses[uid] for uid in fallen) == least
