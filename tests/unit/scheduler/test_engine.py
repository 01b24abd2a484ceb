"""Stories: requests and events in, decisions out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paictl.cells.spec import SpecError
from paictl.scheduler.decision import Bind, Failure, Phase, PodPlacement, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.events import GroupChange, Ignored, NodeHealth, PodGone, PodRecovered
from paictl.scheduler.groups import GroupState
from paictl.scheduler.invariants import validate
from paictl.scheduler.placement.preferences import Suggested
from paictl.scheduler.request import PodRequest
from tests.unit.scheduler.support import NODES, config, gone, healthy, place, pod, run


def test_a_guaranteed_pod_gets_its_quota_whatever_opportunistic_pods_took() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    for number in range(4):
        run(engine, pod(f"o{number}", "B", 4, priority=-1))
    decision = run(engine, pod("g", "A", 4))
    assert isinstance(decision, Preempt)
    assert decision.victims == (("n0", ("o0",)),)


def test_preemption_takes_effect_when_the_victims_are_gone() -> None:
    engine = healthy(config(A={"NODE": 1}))
    for number in range(4):
        run(engine, pod(f"o{number}", "A", 4, priority=-1))
    run(engine, pod("g", "A", 4), Phase.PREEMPTING)
    assert engine.state.groups.by_name["default/o0"].state is GroupState.BEING_PREEMPTED
    assert isinstance(run(engine, pod("g", "A", 4)), Preempt), "the victim still runs"
    gone(engine, "o0")
    assert place(engine, run(engine, pod("g", "A", 4))) == ("n0", (0, 1, 2, 3))


def test_a_preemption_that_is_given_up_returns_everything() -> None:
    engine = healthy(config(A={"NODE": 4}))
    for number in range(4):
        run(engine, pod(f"w{number}", "A", 4))
    before = engine.state.digest()
    run(engine, pod("s", "A", 4, priority=9), Phase.PREEMPTING)
    gone(engine, "s")
    assert engine.state.digest() == before


def test_a_gang_is_placed_as_a_whole_or_not_at_all() -> None:
    engine = healthy(config(A={"NODE": 2}))
    decision = run(engine, pod("a", "A", 4, group="gang", pods=3))
    assert isinstance(decision, Wait)
    assert decision.attempts[0].failure is Failure.CAPACITY
    assert (decision.attempts[0].free, decision.attempts[0].needed) == (8, 12)
    first = run(engine, pod("b", "A", 4, group="pair", pods=2))
    second = run(engine, pod("c", "A", 4, group="pair", pods=2))
    assert [place(engine, first)[0], place(engine, second)[0]] == ["n0", "n1"]
    with pytest.raises(RequestError, match="already has all its pods"):
        engine.plan(pod("d", "A", 4, group="pair", pods=2))


def test_pods_share_a_switch_if_they_can() -> None:
    engine = healthy(config(A={"NODE": 1}))
    assert place(engine, run(engine, pod("a", "A", 1))) == ("n0", (0,))
    assert place(engine, run(engine, pod("b", "A", 2))) == ("n0", (2, 3))


def test_a_stronger_pod_of_the_vc_preempts_a_weaker_one() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 3}))
    run(engine, pod("weak", "A", 4, priority=1))
    decision = run(engine, pod("strong", "A", 2, priority=2), Phase.PREEMPTING)
    assert isinstance(decision, Preempt)
    assert decision.victims == (("n0", ("weak",)),)


def test_lazy_preemption_moves_nothing_while_there_is_room() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 2}))
    run(engine, pod("lazy", "A", 4, priority=1, lazy_preemption=True))
    decision = run(engine, pod("strong", "A", 4, priority=2))
    assert place(engine, decision) == ("n1", (0, 1, 2, 3))
    victim = engine.state.groups.by_name["default/lazy"]
    assert (victim.state, victim.virtual, victim.preemptor) == (GroupState.ALLOCATED, None, "default/strong")


def test_a_lazy_preemption_is_carried_out_late_only_if_it_takes_what_was_planned() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 2}))
    run(engine, pod("lazy", "A", 4, priority=1, lazy_preemption=True))
    decision = engine.plan(pod("strong", "A", 4, priority=2))
    engine.observe(NodeHealth("n3", healthy=False))
    assert decision.version != engine.version
    engine.apply(decision)
    validate(engine.state)
    assert engine.state.groups.by_name["default/lazy"].preemptor == "default/strong"
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 2}))
    run(engine, pod("lazy", "A", 4, priority=1, lazy_preemption=True))
    decision = engine.plan(pod("strong", "A", 4, priority=2))
    gone(engine, "lazy")
    run(engine, pod("lazy", "A", 4, priority=1))
    before = engine.state.digest()
    with pytest.raises(RequestError, match="plan again"):
        engine.apply(decision)
    assert engine.state.digest() == before, "a guarantee that may be taken only with an eviction is not taken without"


@pytest.mark.parametrize("switch", [False, True])
def test_a_lazily_preempted_group_is_promoted_back_if_wanted(switch: bool) -> None:
    data = config(A={"NODE": 1}, B={"NODE": 2}) | {"lazyPreemptionRecovery": switch}
    engine = healthy(data)
    run(engine, pod("lazy", "A", 4, priority=1, lazy_preemption=True))
    run(engine, pod("strong", "A", 4, priority=2))
    gone(engine, "strong")
    assert (engine.state.groups.by_name["default/lazy"].preemptor is None) == switch


def test_nobody_gives_way_to_a_group_that_is_promoted_back() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}) | {"lazyPreemptionRecovery": True})
    run(engine, pod("lazy", "A", 4, priority=5, lazy_preemption=True))
    run(engine, pod("weak", "A", 4, priority=1))
    run(engine, pod("guest", "A", 4, priority=-1))
    run(engine, pod("strong", "A", 4, priority=9))
    gone(engine, "guest")  # something was released, but nothing of A's quota
    groups = engine.state.groups.by_name
    assert groups["default/lazy"].virtual is None
    assert groups["default/weak"].virtual is not None


def place_of(engine: Engine, request: PodRequest) -> PodPlacement:
    """The pod's row in the annotation that it would get now."""
    decision = engine.plan(request)
    assert isinstance(decision, Bind)
    return engine.bind_info(decision).members[decision.slot.member][decision.slot.pod]


@pytest.mark.parametrize("switch", [False, True])
def test_a_pod_bound_while_its_group_had_no_guarantee_tells_of_it_only_if_it_may_come_back(switch: bool) -> None:
    data = config(A={"NODE": 2}, B={"NODE": 2}) | {"lazyPreemptionRecovery": switch}
    engine = healthy(data)
    gang = [pod(uid, "A", 4, priority=1, group="gang", pods=2, lazy_preemption=True) for uid in ("a", "b")]
    run(engine, gang[0])
    assert "NODE" in str(place_of(engine, gang[1])), "it would be told of its guarantee while it has it"
    run(engine, pod("strong", "A", 4, priority=2))
    late = engine.plan(gang[1])
    assert isinstance(late, Bind)
    info = engine.bind_info(late)
    again = healthy(data)
    again.recover([PodRecovered(gang[1], info)])
    validate(again.state)
    assert (again.state.groups.by_name["gang"].virtual is not None) == switch


def test_nothing_is_placed_on_a_bad_node_and_what_runs_there_stays() -> None:
    engine = healthy(config(A={"NODE": 2}))
    run(engine, pod("a", "A", 4))
    engine.observe(NodeHealth("n0", healthy=False))
    validate(engine.state)
    assert "default/a" in engine.state.groups.by_name
    assert place(engine, run(engine, pod("b", "A", 4)))[0] == "n1"


def test_a_vc_sees_that_only_bad_nodes_are_left_for_it() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    for name in ("n1", "n2", "n3"):
        engine.observe(NodeHealth(name, healthy=False))
        validate(engine.state)
    decision = run(engine, pod("a", "A", 4, group="pair", pods=2))
    assert isinstance(decision, Wait)
    assert decision.attempts[0].failure is Failure.BAD_NODE
    engine.observe(NodeHealth("n1", healthy=True))
    assert isinstance(run(engine, pod("b", "A", 4, group="two", pods=2)), Bind)


def test_suggested_nodes_count_only_for_those_who_want_them() -> None:
    engine = healthy(config(A={"NODE": 2}))
    assert place(engine, engine.plan(pod("a", "A", 4), suggested=["n2"]))[0] == "n0"
    picky = pod("b", "A", 4, ignore_suggested=False)
    assert place(engine, engine.plan(picky, suggested=["n2"]))[0] == "n2"
    assert isinstance(engine.plan(picky, suggested=[]), Wait)


def test_unknown_nodes_and_pods_are_ignored_with_a_reason() -> None:
    engine = healthy(config(A={"NODE": 2}))
    before = engine.state.digest()
    assert isinstance(engine.observe(NodeHealth("nowhere", healthy=False))[0], Ignored)
    assert isinstance(engine.observe(PodGone("nobody"))[0], Ignored)
    assert engine.state.digest() == before


def test_a_decision_that_no_longer_holds_is_refused() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 1}))
    old = engine.plan(pod("a", "A", 4))
    run(engine, pod("b", "B", 4))
    before = engine.state.digest()
    with pytest.raises(RequestError, match="plan again"):
        engine.apply(old)
    assert engine.state.digest() == before


def test_an_invariant_error_stops_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = healthy(config(A={"NODE": 1}))
    decision = engine.plan(pod("a", "A", 4))

    def broken(*_: object) -> None:
        raise InvariantError("injected")

    monkeypatch.setattr(type(engine.state.doomed), "take", broken)
    with pytest.raises(InvariantError, match="injected"):
        engine.apply(decision)
    with pytest.raises(InvariantError, match="has stopped"):
        engine.plan(pod("b", "A", 4))


def test_quotas_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="cells of POOL in chain POOL: 2 assigned, 1 there"):
        Engine.from_config(config(A={"POOL": 2}))


def test_pinned_cells_that_split_what_was_promised_whole_are_refused() -> None:
    data = config(A={"NODE": 1})
    nodes = data["physicalCluster"]["physicalCells"][0]["cellChildren"]
    for number, node in enumerate(nodes):
        node["cellChildren"] = [{"pinnedCellId": f"pin{number}"}, {}]
    data["virtualClusters"]["B"] = {"pinnedCells": [{"pinnedCellId": f"pin{number}"} for number in range(3)]}
    healthy(data)
    data["virtualClusters"]["B"]["pinnedCells"].append({"pinnedCellId": "pin3"})
    with pytest.raises(SpecError, match="cells of NODE in chain POOL: 1 assigned, 0 there once the pinned cells are"):
        Engine.from_config(data)


@pytest.mark.parametrize("insists", [False, True])
def test_a_preemption_whose_place_is_lost_starts_anew(insists: bool) -> None:
    engine = healthy(config(A={"NODE": 2}))
    for uid in ("v", "w"):
        run(engine, pod(uid, "A", 4))
    strong = pod("s", "A", 4, priority=5, ignore_suggested=not insists)
    first = run(engine, strong, Phase.PREEMPTING)
    assert isinstance(first, Preempt)
    assert first.victims == (("n0", ("v",)),)
    if insists:
        assert engine.plan(strong, ["n0"], Phase.PREEMPTING) == engine.plan(strong, None, Phase.PREEMPTING)
    else:
        kept = engine.plan(strong, ["n1"], Phase.PREEMPTING)
        assert isinstance(kept, Preempt)
        assert kept.joins, "a group that ignores suggestions keeps its place"
        engine.observe(NodeHealth("n0", healthy=False))
    suggested = ["n1"] if insists else None
    assert isinstance(engine.plan(strong, suggested, Phase.FILTERING), Preempt), "only the preempting phase gives it up"
    again = engine.plan(strong, suggested, Phase.PREEMPTING)
    assert isinstance(again, Preempt)
    assert (again.cancel, again.victims) == (("default/s",), (("n1", ("w",)),))
    engine.apply(again)
    validate(engine.state)
    assert engine.state.groups.by_name["default/v"].state is GroupState.ALLOCATED


def test_relaxed_splitting_stops_where_a_promise_needs_all_that_comes_from_above() -> None:
    engine = healthy(config(A={"GPU": 2}, B={"SWITCH": 7}))
    run(engine, pod("a", "A", 1))
    picky = pod("b", "A", 1, ignore_suggested=False)
    assert isinstance(engine.plan(picky, suggested=["n1"]), Wait), "a device of n1 would cost B a switch"
    assert place(engine, engine.plan(picky, suggested=["n0"])) == ("n0", (1,))
    less = healthy(config(A={"GPU": 2}, B={"SWITCH": 6}))
    run(less, pod("a", "A", 1))
    assert place(less, less.plan(picky, suggested=["n1"])) == ("n1", (0,))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("virtualCluster", {"vc": "B"}),
        ("priority", {"priority": 1}),
        ("affinityGroup.members", {"members": ((2, 1), (4, 2))}),
    ],
)
def test_all_pods_of_a_group_say_the_same_of_it(field: str, change: dict[str, Any]) -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    run(engine, pod("a", "A", 4, group="pair", pods=2))
    with pytest.raises(RequestError) as caught:
        engine.plan(replace(pod("b", "A", 4, group="pair", pods=2), **change))
    assert caught.value.field == field


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("group", ["a", "z"])
def test_a_pod_that_runs_belongs_to_no_other_group(group: str, repair: bool) -> None:
    engine = healthy(config(A={"NODE": 2}))
    run(engine, pod("v", "A", 4, group="m"))
    with pytest.raises(RequestError, match="already belongs to group m"):
        engine.plan(pod("v", "A", 4, group=group, repair=repair))


def test_who_waits_says_what_the_last_view_lacks() -> None:
    engine = healthy(config(A={"NODE": 1}))
    run(engine, pod("v", "A", 2))
    decision = engine.plan(pod("w", "A", 4))
    assert isinstance(decision, Wait)
    assert decision.reason == "insufficient capacity in VC A, chain POOL: 4 leaf cells needed, 2 free"


def test_a_pod_that_waits_beside_enough_free_cells_says_that_they_are_scattered() -> None:
    engine = healthy(config(A={"NODE": 2}))
    run(engine, pod("v", "A", 3))
    run(engine, pod("w", "A", 3))
    decision = engine.plan(pod("x", "A", 2))
    assert isinstance(decision, Wait)
    assert decision.reason == (
        "insufficient capacity in VC A, chain POOL: 2 leaf cells needed, 2 free, "
        "but no node has room left for one of its pods"
    )


def test_a_pod_does_not_wait_in_two_groups() -> None:
    engine = healthy(config(A={"NODE": 2}))
    for uid in ("v", "w"):
        run(engine, pod(uid, "A", 4))
    run(engine, pod("x", "A", 4, priority=5, group="g"), Phase.PREEMPTING)
    with pytest.raises(RequestError, match="already belongs to group g"):
        engine.plan(pod("x", "A", 4, priority=5, group="h"), phase=Phase.PREEMPTING)


def test_names_are_made_a_set_only_where_they_count_and_once_for_the_same_list(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = healthy(config(A={"NODE": 2}))
    made = []

    def counted(names: frozenset[str], tree: Any) -> Suggested:
        made.append(names)
        return Suggested(names, tree)

    monkeypatch.setattr("paictl.scheduler.engine.Suggested", counted)
    for i in range(3):
        engine.plan(pod(f"p{i}", "A", 4), list(NODES))
    assert made == []
    for i in range(3):
        engine.plan(pod(f"q{i}", "A", 4, ignore_suggested=False), list(NODES))
    assert made == [frozenset(NODES)]
    names = ["n0", "n1"]
    assert place(engine, engine.plan(pod("r", "A", 4, ignore_suggested=False), names))[0] == "n0"
    names[0] = "n3"  # the caller's list is its own
    assert place(engine, engine.plan(pod("r", "A", 4, ignore_suggested=False), names))[0] == "n1"
    assert made[1:] == [frozenset({"n0", "n1"}), frozenset({"n1", "n3"})]


def test_an_operation_says_which_groups_it_changed_and_no_others() -> None:
    engine = healthy(config(A={"NODE": 1}))
    decision = engine.plan(pod("p", "A", 4, lazy_preemption=True))
    (made,) = engine.apply(decision)
    assert isinstance(made, GroupChange)
    assert (made.name, made.before, made.after) == ("default/p", None, engine.state.groups.by_name["default/p"])
    assert engine.apply(engine.plan(pod("w", "A", 4))) == []
    assert engine.observe(NodeHealth("n3", healthy=False)) == []
    taker = engine.plan(pod("q", "A", 4, priority=5))
    changes = engine.apply(taker)
    assert [(one.name, one.before is None) for one in changes if isinstance(one, GroupChange)] == [
        ("default/p", False),
        ("default/q", True),
    ]
    (ended,) = engine.observe(PodGone("q"))
    assert isinstance(ended, GroupChange)
    assert (ended.name, ended.after) == ("default/q", None)


def test_a_group_whose_leaf_is_reserved_is_not_lazily_preempted_but_waited_for() -> None:
    """Its devices fall to the group that reserves them; a stronger one preempts that reservation, and it whole."""
    engine = healthy(config(A={"NODE": 1}))
    for number in range(4):
        run(engine, pod(f"o{number}", "A", 4, priority=-1))
    run(engine, pod("weak", "A", 4, priority=0, lazy_preemption=True), Phase.PREEMPTING)
    assert engine.state.groups.by_name["default/weak"].state is GroupState.PREEMPTING
    decision = engine.plan(pod("strong", "A", 4, priority=5), phase=Phase.PREEMPTING)
    assert isinstance(decision, Preempt)
    assert (decision.lazy, decision.cancel) == ((), ("default/weak",))


@pytest.mark.parametrize(
    ("field", "changed", "said"),
    [
        ("priority", {"priority": 5}, "group g was started with 0"),
        ("pinnedCellId", {"pinned_id": "p"}, "group g was started with none"),
        ("virtualCluster", {"vc": "B"}, "group g was started with A"),
    ],
)
def test_a_pod_that_says_something_else_than_its_group_hears_with_what_it_was_started(
    field: str, changed: dict[str, Any], said: str
) -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 2}))
    run(engine, pod("a", "A", 4, group="g", pods=2))
    with pytest.raises(RequestError) as refused:
        run(engine, replace(pod("b", "A", 4, group="g", pods=2), **changed))
    assert str(refused.value.message) == f"{field}: {said}"
