"""Departments: the tree, what is unused and for whom, whose turn it is, and who gives way."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from paictl.errors import PaictlError
from paictl.scheduler.decision import Bind, Phase, Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import PodGone
from paictl.units import Millis
from paictl.workload.departments import Department, Departments, DepartmentUse, DevicesInUse, UnusedPart, UnusedPromises
from paictl.workload.lentorder import HALF_LIFE, LineAhead, Turns
from paictl.workload.preemption import GroupTimes, PreemptionRules, SparingRules, VictimChoice
from paictl.workload.sharing import read_sharing
from paictl.workload.usagereport import HOUR
from tests.unit.scheduler.support import NODES, config, healthy, pod, run

TREE = Departments(
    [
        Department("research", (), devices=20),
        Department("perception", ("vision", "speech"), "research"),
        Department("control", ("robots",), "research"),
        Department("products", ("ads",)),
    ]
)
PROMISED = {"vision": 4, "speech": 4, "robots": 4, "ads": 4, "alone": 4}


def test_a_team_is_nearer_the_more_departments_it_shares() -> None:
    near = {other: TREE.closeness("vision", other) for other in PROMISED}
    assert near == {"vision": 3, "speech": 2, "robots": 1, "ads": 0, "alone": 0}
    assert TREE.closeness("alone", "alone") == 0, "without a department nobody is spared"
    assert TREE.above("vision") == ("perception", "research")
    assert TREE.depth == 2


def test_a_department_is_promised_what_it_says_or_what_its_parts_are() -> None:
    assert TREE.promises(PROMISED) == {"research": 20, "perception": 8, "control": 4, "products": 4}
    used = {("vision", True): 4, ("robots", False): 6, ("alone", False): 2}
    assert TREE.use(PROMISED, used)[:2] == [DepartmentUse("research", 10, 20), DepartmentUse("perception", 4, 8)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"name": "a", "vcs": ["v"]}, {"name": "a", "vcs": ["w"]}], "a department is defined twice"),
        ([{"name": "a", "vcs": ["v"]}, {"name": "b", "vcs": ["v"]}], "virtual cluster v is in two departments"),
        ([{"name": "a", "vcs": ["v"], "parent": "b"}], "no department 'b'"),
        ([{"name": "a", "vcs": ["v"], "parent": "b"}, {"name": "b", "parent": "a"}], "a is part of itself"),
        ([{"name": "a", "vcs": ["v"]}, {"name": "b"}], "department b has no virtual clusters"),
        ([{"name": f"d{n}", "vcs": [f"v{n}"], "parent": f"d{n + 1}"} for n in range(6)], "nested deeper than 5"),
        ([{"name": "a", "vcs": "vision"}], "a list of virtual clusters is expected"),
        ([{"vcs": ["v"]}], "name"),
    ],
)
def test_what_is_no_tree_is_refused_where_it_is(rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(PaictlError, match=said) as caught:
        read_sharing({"departments": rows}, "services-configuration.yaml: sharing")
    assert caught.value.where == "services-configuration.yaml: sharing"


def test_an_empty_section_has_no_departments() -> None:
    assert not read_sharing({"departments": []}).orders
    assert not read_sharing({}).chooses_victims
    assert read_sharing({"departments": [{"name": "a", "vcs": ["v"]}]}).chooses_victims


# --- what is unused, and for whom


def test_a_gang_uses_the_nearest_promise_that_has_so_many_unused_devices() -> None:
    used = {("vision", True): 2, ("speech", False): 1, ("robots", True): 4}
    unused = UnusedPromises(TREE, PROMISED, used)
    assert unused.of("vision", 2) == UnusedPart(0, "", 2)
    assert unused.of("vision", 5) == UnusedPart(1, "perception", 5)
    assert unused.of("vision", 6) == UnusedPart(2, "research", 13)
    assert unused.of("robots", 1) == UnusedPart(2, "research", 13)
    assert unused.of("vision", 14).level == unused.of("ads", 5).level == unused.of("alone", 5).level == 3
    assert unused.of("alone", 4).level == 0, "its own promise, without a department"


def ancestors(departments: Departments, vc: str) -> list[str]:
    parents = {one.name: one.parent for one in departments.all}
    at = next((one.name for one in departments.all if vc in one.vcs), "")
    line = []
    while at:
        line.append(at)
        at = parents[at]
    return line


@pytest.mark.parametrize("seed", range(40))
def test_what_is_unused_is_what_adding_up_says(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same cases every time
    vcs = [f"v{number}" for number in range(6)]
    names = [f"d{number}" for number in range(4)]
    owners = {vc: dice.choice([*names, ""]) for vc in vcs} | {f"w{number}": name for number, name in enumerate(names)}
    rows = [
        Department(
            name,
            tuple(vc for vc, owner in owners.items() if owner == name),
            dice.choice(["", *names[:number]]),
            dice.randrange(30) if dice.random() < 0.3 else None,
        )
        for number, name in enumerate(names)
    ]
    dice.shuffle(rows)
    tree = Departments(rows)
    promised = {vc: dice.randrange(8) for vc in owners}
    used = {(vc, kind): dice.randrange(6) for vc in owners for kind in (True, False)}
    total = {one.name: one.devices for one in rows}

    def promise(name: str) -> int:
        if total[name] is not None:
            return total[name] or 0
        parts = sum(promise(one.name) for one in rows if one.parent == name)
        return parts + sum(promised[vc] for vc, owner in owners.items() if owner == name)

    unused = UnusedPromises(tree, promised, used)
    for vc, devices in ((vc, devices) for vc in owners for devices in range(1, 12)):
        sets = [({vc}, promised[vc])]
        around = ancestors(tree, vc)
        sets += [({one for one in owners if name in ancestors(tree, one)}, promise(name)) for name in around]
        left = [number - sum(n for (of, _), n in used.items() if of in members) for members, number in sets]
        level = next((place for place, number in enumerate(left) if number >= devices), tree.depth + 1)
        assert unused.of(vc, devices).level == level


def test_what_is_used_is_the_sum_over_the_groups_after_every_operation() -> None:
    dice = random.Random(7)  # noqa: S311 - the same cases every time
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 1}))
    counted, alive = DevicesInUse(), list[str]()
    counted.start(engine.state.groups.by_name)
    for number in range(120):
        if alive and dice.random() < 0.45:
            outcomes = engine.observe(PodGone(alive.pop(dice.randrange(len(alive)))))
        else:
            request = pod(f"p{number}", dice.choice("AB"), dice.choice((1, 2, 4)), dice.choice((-1, 0)))
            decision = engine.plan(request)
            outcomes = engine.apply(decision) if isinstance(decision, Bind) else []
            alive += [request.uid] if isinstance(decision, Bind) else []
        counted.note(outcomes)
        groups = engine.state.groups.by_name.values()
        expected: Counter[tuple[str, bool]] = Counter()
        for group in groups:
            expected[group.vc, group.virtual is not None] += sum(size * pods for size, pods in group.members)
        assert counted.devices == expected


# --- whose turn it is


def test_own_promise_then_sisters_then_the_department_around_then_strangers() -> None:
    turns = Turns.by_departments(
        UnusedPromises(TREE, PROMISED, {("robots", False): 4, ("vision", True): 4, ("ads", True): 4})
    )
    gangs = [("ads", "", 1), ("robots", "", 1), ("vision", "", 1), ("speech", "", 1)]
    assert sorted(gangs, key=lambda gang: turns.rank(*gang)) == list(reversed(gangs))
    assert turns.rank("speech", "ann", 1) == turns.rank("alone", "bob", 4), "then the order of submission"
    found = turns.ahead(("ads", "ann", 1), gangs)
    assert found == LineAhead(3, "speech", "", 0.0, "ads", 0.0, unused=4)
    found = turns.ahead(("ads", "ann", 1), [("vision", "bob", 2), ("robots", "bob", 1)])
    assert found == LineAhead(2, "vision", "", 0.0, "ads", 0.0, department="perception", unused=4)
    assert turns.ahead(("speech", "ann", 1), gangs) is None


def test_between_jobs_of_one_rank_recent_use_decides() -> None:
    used = {("vision", "ann"): 8 * HOUR, ("speech", "ann"): 4 * HOUR, ("alone", "bob"): HOUR}
    full = {(vc, True): 4 for vc in ("vision", "speech", "alone")}
    turns = Turns(used, {}, PROMISED, HALF_LIFE, UnusedPromises(TREE, PROMISED, full))
    gangs = [("speech", "ann", 1), ("vision", "ann", 1), ("alone", "bob", 1)]
    assert turns.rank(*gangs[0]) < turns.rank(*gangs[1]) < turns.rank(*gangs[2])
    found = turns.ahead(gangs[1], gangs)
    assert found is not None
    assert (found.vc, found.unused, found.used, found.more) == ("speech", 0, 1.0, 2.0)


# --- who gives way


SISTERS = Departments([Department("top", ("far",)), Department("team", ("A", "near"), "top")])


def lenders(*vcs: str) -> Engine:
    """Four nodes, all of them A's, each used by an opportunistic pod of one of these."""
    engine = healthy(config(A={"NODE": 4}, near={}, far={}, other={}))
    for number, vc in enumerate(vcs):
        assert isinstance(run(engine, pod(f"o{number}", vc, 4, -1)), Bind)
    return engine


def victims(engine: Engine, request: Any) -> set[str]:
    decision = engine.plan(request, phase=Phase.PREEMPTING)
    if isinstance(decision, Bind):
        return set()
    assert isinstance(decision, Preempt), decision
    return {uid for _, uids in decision.victims for uid in uids}


def sparing(rules: PreemptionRules | None = None, began: int = 0) -> SparingRules:
    return SparingRules(rules or PreemptionRules(), lambda _: GroupTimes(Millis(began)), lambda: Millis(10), SISTERS)


@pytest.mark.parametrize("shift", range(4))
def test_strangers_give_way_first_then_far_relatives_then_sisters_then_own_jobs(shift: int) -> None:
    order = ["A", "near", "far", "other"]
    vcs = order[shift:] + order[:shift]
    engine = lenders(*vcs)
    engine.sparing = sparing()
    gone = []
    for number in range(4):
        (victim,) = victims(engine, pod(f"a{number}", "A", 4))
        gone.append(vcs[int(victim[1:])])
        run(engine, pod(f"a{number}", "A", 4), Phase.PREEMPTING)
    assert gone == ["other", "far", "near", "A"]


def test_between_strangers_the_configured_choice_decides_and_else_hived_s_order() -> None:
    engine = lenders("near", "other", "other", "other")
    engine.sparing = sparing()
    assert victims(engine, pod("a", "A", 4)) == {"o1"}, "the first of them"
    began = {"default/o1": 0, "default/o2": 0, "default/o3": 9, "default/o0": 10}
    rules = PreemptionRules(VictimChoice.LEAST_LOSS)
    engine.sparing = SparingRules(
        rules, lambda group: GroupTimes(Millis(began[group.name])), lambda: Millis(10), SISTERS
    )
    assert victims(engine, pod("a", "A", 4)) == {"o3"}, "o0 would lose nothing, but is a sister's"


def test_a_minimum_run_time_counts_more_than_being_a_sister() -> None:
    engine = lenders("near", "other", "near", "near")
    young = {"default/o1": 9}
    engine.sparing = SparingRules(
        PreemptionRules(min_run_times={"": Millis(5)}),
        lambda group: GroupTimes(Millis(young.get(group.name, 0))),
        lambda: Millis(10),
        SISTERS,
    )
    assert victims(engine, pod("a", "A", 4)) == {"o0"}


def test_a_guarantee_is_never_denied_for_a_sister() -> None:
    """A place with a sister is taken where the other one would break a shield inside the virtual cluster."""
    engine = healthy(config(A={"NODE": 2}, near={"NODE": 2}))
    run(engine, pod("weak", "A", 4, 0))
    for number in range(3):
        run(engine, pod(f"o{number}", "near", 4, -1))
    engine.sparing = sparing(PreemptionRules(min_run_times={"": Millis(100)}), began=9)
    assert len(victims(engine, pod("strong", "A", 4, 5)) & {"o0", "o1", "o2"}) == 1


@pytest.mark.parametrize("seed", range(40))
def test_no_other_node_has_fewer_devices_of_nearer_relatives(seed: int) -> None:
    """A pod takes a whole node: all four are tried, and what is nearest counts first."""
    dice = random.Random(seed)  # noqa: S311 - the same cases every time
    engine = healthy(config(A={"NODE": 4}, near={}, far={}, other={}))
    for number in range(16):
        engine.apply(
            engine.plan(pod(f"o{number}", dice.choice(["A", "near", "far", "other"]), dice.choice((1, 2, 4)), -1))
        )
    rules = engine.sparing = sparing()
    groups, tree, user = engine.state.groups, engine.state.physical, engine.state.occupancy.user
    costs = {}
    for node in NODES:
        names = {user[leaf] for cell in tree.nodes[node] for leaf in tree.leaves(cell) if leaf in user}
        costs[node] = sum(rules.loss(groups.by_name[name], "A") for name in names)
    fallen = {groups.slots[uid][0] for uid in victims(engine, pod("a", "A", 4))}
    assert sum(rules.loss(groups.by_name[name], "A") for name in fallen) == min(costs.values())
