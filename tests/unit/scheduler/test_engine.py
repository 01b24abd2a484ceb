"""Stories: requests and events in, decisions out."""

from __future__ import annotations

import pytest

from paictl.cells.spec import SpecError
from paictl.scheduler.decision import Bind, BindInfo, Failure, Phase, PodPlacement, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.events import Ignored, NodeHealth, PodGone, PodRecovered
from paictl.scheduler.groups import GroupState
from paictl.scheduler.invariants import validate
from tests.unit.scheduler.support import config, gone, healthy, place, pod, run


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


@pytest.mark.parametrize("switch", [False, True])
def test_a_lazily_preempted_group_is_promoted_back_if_wanted(switch: bool) -> None:
    data = config(A={"NODE": 1}, B={"NODE": 2}) | {"lazyPreemptionRecovery": switch}
    engine = healthy(data)
    run(engine, pod("lazy", "A", 4, priority=1, lazy_preemption=True))
    run(engine, pod("strong", "A", 4, priority=2))
    gone(engine, "strong")
    assert (engine.state.groups.by_name["default/lazy"].preemptor is None) == switch


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


def test_a_group_is_recovered_from_any_of_its_pods() -> None:
    engine = healthy(config(A={"NODE": 2}))
    pods = []
    for uid in ("a", "b"):
        request = pod(uid, "A", 4, group="pair", pods=2)
        decision = engine.plan(request)
        assert isinstance(decision, Bind)
        pods.append(PodRecovered(request, engine.bind_info(decision)))
        engine.apply(decision)
    for order in (pods, pods[::-1]):
        again = healthy(config(A={"NODE": 2}))
        again.recover(order)
        validate(again.state)
        assert again.state.digest() == engine.state.digest()


def test_recovery_with_less_quota_keeps_the_job_without_its_guarantee() -> None:
    engine = healthy(config(A={"NODE": 2}))
    request = pod("a", "A", 4, group="pair", pods=2)
    decision = engine.plan(request)
    assert isinstance(decision, Bind)
    again = healthy(config(A={"NODE": 1}))
    again.recover([PodRecovered(request, engine.bind_info(decision))])
    validate(again.state)
    group = again.state.groups.by_name["pair"]
    assert (group.virtual, group.preemptor) == (None, "pair")


@pytest.mark.parametrize("bad", [False, True])
def test_a_pod_that_needs_more_than_the_quota_takes_no_cell_of_its_own_twice(bad: bool) -> None:
    engine = healthy(config(A={"SWITCH": 1}))
    engine.observe(NodeHealth("n1", healthy=not bad))

    def recovered(uid: str, priority: int, devices: tuple[int, ...]) -> PodRecovered:
        place = PodPlacement("n1", devices, ("SWITCH",) * len(devices))
        return PodRecovered(pod(uid, "A", len(devices), priority), BindInfo("n1", devices, "POOL", ((place,),)))

    engine.observe(recovered("weak", 0, (0,)))
    engine.observe(recovered("strong", 5, (1, 2)))  # both switches of the node, of which A has quota for one
    validate(engine.state)
    groups = engine.state.groups.by_name
    assert groups["default/strong"].virtual is None
    assert groups["default/weak"].virtual is not None, "it gave way for nothing"


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
    with pytest.raises(ValueError, match="2 cells of POOL are assigned, 1 are there"):
        Engine.from_config(config(A={"POOL": 2}))


def test_pinned_cells_that_split_what_was_promised_whole_are_refused() -> None:
    data = config(A={"NODE": 1})
    nodes = data["physicalCluster"]["physicalCells"][0]["cellChildren"]
    for number, node in enumerate(nodes):
        node["cellChildren"] = [{"pinnedCellId": f"pin{number}"}, {}]
    data["virtualClusters"]["B"] = {"pinnedCells": [{"pinnedCellId": f"pin{number}"} for number in range(3)]}
    healthy(data)
    data["virtualClusters"]["B"]["pinnedCells"].append({"pinnedCellId": "pin3"})
    with pytest.raises(SpecError, match="1 cells of NODE are assigned, 0 are there once the pinned cells are"):
        Engine.from_config(data)


def test_a_device_that_two_annotations_claim_goes_to_one_pod() -> None:
    engine = healthy(config(A={"NODE": 2}))
    request = pod("a", "A", 4, group="pair", pods=2)
    decision = engine.plan(request)
    assert isinstance(decision, Bind)
    info = engine.bind_info(decision)
    again = healthy(config(A={"NODE": 2}))
    fresh = again.state.digest()
    twins = [PodRecovered(request, info), PodRecovered(pod("b", "A", 4, group="other", pods=2), info)]
    again.recover(twins)
    validate(again.state)
    assert set(again.state.occupancy.user.values()) == {"pair"}
    assert list(again.state.groups.by_name["other"].leaves()) == []
    for uid in ("a", "b"):
        gone(again, uid)
    assert again.state.digest() == fresh
