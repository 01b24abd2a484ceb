"""What a restart finds again: groups, guarantees and devices, from the annotations of pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paictl.scheduler.decision import Bind, BindInfo, Phase, PodPlacement, Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth, PodRecovered
from paictl.scheduler.invariants import validate
from tests.unit.scheduler.support import config, gone, healthy, pod, run


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


def test_a_pod_that_is_found_running_ends_the_preemption_that_reserved_its_devices() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 3}))
    victim = pod("v", "A", 4)
    decision = engine.plan(victim)
    assert isinstance(decision, Bind)
    info = engine.bind_info(decision)
    engine.apply(decision)
    run(engine, pod("s", "A", 4, priority=9), Phase.PREEMPTING)
    gone(engine, "v")
    engine.observe(PodRecovered(pod("late", "A", 4), info))
    validate(engine.state)
    assert set(engine.state.groups.by_name) == {"default/late"}
    assert engine.state.groups.by_name["default/late"].virtual is not None


def test_a_job_is_not_taken_for_one_that_named_the_pinned_cell_it_runs_on() -> None:
    data = config(A={"NODE": 1})
    request = pod("a", "A", 4)
    engine = healthy(data)
    decision = engine.plan(request)
    assert isinstance(decision, Bind)
    info = engine.bind_info(decision)
    data["physicalCluster"]["physicalCells"][0]["cellChildren"][0]["pinnedCellId"] = "pin"
    data["virtualClusters"]["A"]["pinnedCells"] = [{"pinnedCellId": "pin"}]
    again = healthy(data)
    again.recover([PodRecovered(request, info)])
    validate(again.state)
    assert again.state.groups.by_name["default/a"].virtual is None
    named = pod("b", "A", 4, pinned_id="pin")
    assert isinstance(run(again, named), Preempt), "the pinned cell belongs to those who name it"


def test_a_restart_while_a_node_is_bad_takes_nobodys_guarantee() -> None:
    data = config(A={"GPU": 3}, B={"NODE": 1, "GPU": 1})
    data["physicalCluster"]["cellTypes"]["POOL"]["childCellNumber"] = 2
    del data["physicalCluster"]["physicalCells"][0]["cellChildren"][2:]
    engine = healthy(data)
    request = pod("a", "A", 1)
    decision = engine.plan(request)
    assert isinstance(decision, Bind)
    info = engine.bind_info(decision)
    engine.apply(decision)
    again = Engine.from_config(data)
    again.observe(NodeHealth("n0", healthy=True))
    again.recover([PodRecovered(request, info)])
    validate(again.state)
    assert again.state.groups.by_name["default/a"].virtual is not None


def test_recovery_leaves_out_a_pod_that_does_not_fit_its_group() -> None:
    engine = healthy(config(A={"NODE": 2}))
    first = pod("a", "A", 4, group="pair", pods=2)
    decision = engine.plan(first)
    assert isinstance(decision, Bind)
    info = engine.bind_info(decision)
    odd = replace(pod("b", "A", 4, group="pair", pods=2), members=((2, 1), (4, 2)))
    engine = healthy(config(A={"NODE": 2}))
    engine.recover([PodRecovered(first, info), PodRecovered(odd, info)])
    validate(engine.state)
    assert set(engine.state.groups.slots) == {"a"}
