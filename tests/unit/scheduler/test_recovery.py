"""Annotations are written by users and other programs: recovery trusts them no further than it can check."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.scheduler.decision import Bind, BindInfo, PodPlacement
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import Ignored, NodeHealth, PodGone, PodRecovered
from paictl.scheduler.invariants import validate
from paictl.scheduler.request import PodRequest
from tests.unit.scheduler.support import NODES, config, healthy, pod

CONFIG = config(A={"NODE": 2}, B={"NODE": 1, "SWITCH": 1})


def bound(*requests: PodRequest) -> list[PodRecovered]:
    """Pods as they run after they were bound one after the other."""
    engine, out = healthy(CONFIG), []
    for request in requests:
        decision = engine.plan(request)
        assert isinstance(decision, Bind)
        out.append(PodRecovered(request, engine.bind_info(decision)))
        engine.apply(decision)
    return out


def recovered(*pods: PodRecovered) -> tuple[Engine, list[str]]:
    """An engine after a restart, and what it warns of."""
    engine = healthy(CONFIG)
    outcomes = engine.recover(pods)
    validate(engine.state)
    return engine, [outcome.reason for outcome in outcomes if isinstance(outcome, Ignored)]


def held(engine: Engine) -> dict[str, set[str]]:
    """Addresses of the leaves by group."""
    address = engine.state.physical.address
    return {name: {address(leaf) for leaf in group.leaves()} for name, group in engine.state.groups.by_name.items()}


def test_an_edited_priority_does_not_give_an_opportunistic_group_virtual_cells() -> None:
    (one,) = bound(pod("p", "A", 4))
    engine, _ = recovered(replace(one, request=replace(one.request, priority=-1)))
    group = engine.state.groups.by_name["default/p"]
    assert (group.virtual, len(held(engine)["default/p"])) == (None, 4)


@pytest.mark.parametrize("types", [(), ("NODE",), ("NODE",) * 5, None])
def test_preassigned_types_of_another_length_are_no_guarantee_and_stop_nobody(types: tuple[str, ...] | None) -> None:
    one, two = bound(pod("p", "A", 4), pod("q", "A", 4))
    ((place,),) = one.info.members
    engine, _ = recovered(replace(one, info=replace(one.info, members=((replace(place, preassigned=types),),))), two)
    groups = engine.state.groups.by_name
    assert (groups["default/p"].virtual, groups["default/q"].virtual is not None) == (None, True)
    assert len(held(engine)["default/p"]) == 4, "its devices are not given to anybody else"


def test_a_device_named_twice_is_held_once() -> None:
    (one,) = bound(pod("p", "A", 2))
    ((place,),) = one.info.members
    twice = replace(one.info, devices=(0, 0), members=((replace(place, devices=(0, 0)),),))
    engine, _ = recovered(replace(one, info=twice))
    assert len(held(engine)["default/p"]) == 1
    engine.observe(PodGone("p"))
    assert engine.state.digest() == healthy(CONFIG).state.digest()


def test_a_pod_that_contradicts_its_group_keeps_its_devices_alone() -> None:
    one, two = bound(pod("p", "A", 4, group="g", pods=2), pod("q", "A", 4, group="g", pods=2))
    elsewhere = next(name for name in NODES if name not in (one.info.node, two.info.node))
    ((first, second),) = two.info.members
    lie = replace(two.info, node=elsewhere, members=((first, replace(second, node=elsewhere)),))
    engine, warnings = recovered(one, replace(two, info=lie))
    assert warnings == ["pod q contradicts its group, and runs without a guarantee"]
    assert engine.state.groups.slots["q"] == ("g (q)", (0, 0), elsewhere)
    assert len(held(engine)["g (q)"]) == 4
    engine.observe(PodGone("q"))
    engine.observe(PodGone("p"))
    assert engine.state.digest() == healthy(CONFIG).state.digest()


@pytest.mark.parametrize("members", [((4, 1),), ((1, 2),), ((4, 3),), ((2, 1), (4, 1))])
@pytest.mark.parametrize("edited", ["p", "q"])
def test_a_pod_whose_gang_was_edited_keeps_its_devices_when_the_others_end(
    edited: str, members: tuple[tuple[int, int], ...]
) -> None:
    """Its gang, as the others describe it, has that place: nobody else gets it while the pod runs."""
    pods = bound(pod("p", "A", 4, group="g", pods=2), pod("q", "A", 4, group="g", pods=2))
    leaf_number = members[-1][0]
    running = [
        replace(one, request=replace(one.request, members=members, leaf_number=leaf_number))
        if one.request.uid == edited
        else one
        for one in pods
    ]
    engine, _ = recovered(*running)
    assert sorted(engine.state.groups.slots) == ["p", "q"]
    engine.observe(PodGone("q" if edited == "p" else "p"))
    info, tree = next(one.info for one in pods if one.request.uid == edited), engine.state.physical
    used = {(tree.node_name(leaf), tree.device(leaf)) for leaf in engine.state.occupancy.user}
    assert used >= {(info.node, device) for device in info.devices}
    engine.observe(PodGone(edited))
    assert engine.state.digest() == healthy(CONFIG).state.digest()


def test_a_pod_that_is_not_in_its_own_annotation_keeps_its_devices_alone() -> None:
    (one,) = bound(pod("p", "A", 4))
    engine, warnings = recovered(replace(one, info=replace(one.info, devices=(3, 2, 1, 0))))
    assert (len(warnings), len(held(engine)["default/p (p)"])) == (1, 4)


def test_a_pod_with_fewer_devices_in_its_row_than_it_asks_for_stops_nobody() -> None:
    one, two = bound(pod("p", "A", 4, group="g", pods=2), pod("q", "A", 4, group="g", pods=2))
    ((first, second),) = one.info.members
    rows = ((first, replace(second, devices=(40, 41, 42))),)
    engine, warnings = recovered(
        replace(one, info=replace(one.info, members=rows)),
        replace(two, info=replace(two.info, members=rows, devices=(40, 41, 42))),
    )
    assert (warnings, sorted(engine.state.groups.slots)) == (["pod q names no device that exists and is free"], ["p"])


def test_a_pod_on_nothing_that_is_there_is_ignored_and_stops_nobody() -> None:
    one, two = bound(pod("p", "A", 4), pod("q", "A", 4))
    engine, warnings = recovered(replace(one, info=BindInfo("nowhere", (0,), "?", ())), two)
    assert warnings == ["pod p names no device that exists and is free"]
    assert sorted(engine.state.groups.slots) == ["q"]


def test_two_pods_that_claim_one_place_get_it_once() -> None:
    one, two = bound(pod("p", "A", 4, group="g", pods=2), pod("q", "A", 4, group="g", pods=2))
    engine, warnings = recovered(one, replace(two, info=one.info))
    assert warnings == ["pod q names no device that exists and is free"]
    assert sorted(engine.state.groups.slots) == ["p"]


numbers = st.integers(-2, 5)
names = st.sampled_from([*NODES, "", "nowhere"])
kinds = st.lists(st.sampled_from(["", "?", "NODE", "SWITCH", "GPU", "POOL"]), max_size=5).map(tuple)
devices = st.lists(numbers, min_size=1, max_size=5).map(tuple)
places = st.builds(PodPlacement, names, devices, st.none() | kinds)
infos = st.builds(
    BindInfo,
    names,
    devices,
    st.sampled_from(["POOL", "", "?"]),
    st.lists(st.lists(places, max_size=3).map(tuple), max_size=3).map(tuple),
)


@st.composite
def damaged(draw: st.DrawFn, number: int) -> PodRecovered:
    """A pod with an annotation in which anything may be wrong."""
    leaves, pods = draw(st.sampled_from([1, 2, 4])), draw(st.integers(1, 2))
    request = pod(
        f"p{number}",
        draw(st.sampled_from("ABC")),
        leaves,
        draw(st.sampled_from([-1, 0, 5])),
        group=draw(st.sampled_from(["g", "h"])),
        pods=pods,
        lazy_preemption=draw(st.booleans()),
    )
    if draw(st.booleans()):
        return PodRecovered(request, draw(infos))
    place = PodPlacement(draw(names), tuple(range(leaves)), draw(st.none() | st.just(("NODE",) * leaves) | kinds))
    return PodRecovered(request, BindInfo(place.node, place.devices, "POOL", (tuple([place] * pods),)))


@given(st.tuples(*(damaged(number) for number in range(5))), st.sets(st.sampled_from(NODES)))
@settings(max_examples=300, deadline=None)
def test_no_annotation_breaks_an_invariant(pods: tuple[PodRecovered, ...], bad: set[str]) -> None:
    engine = Engine.from_config(CONFIG)
    for name in NODES:
        engine.observe(NodeHealth(name, healthy=name not in bad))
    engine.recover(pods)
    validate(engine.state)
    for one in pods:
        engine.observe(PodGone(one.request.uid))
        validate(engine.state)
    assert not engine.state.groups.by_name


def test_a_pod_keeps_the_cells_it_shares_with_the_group_that_it_preempts_lazily() -> None:
    """The VC had three switches and has two: the stronger group gets both, one of which the weaker one lies in too."""

    def place(node: str, *devices: int) -> PodPlacement:
        return PodPlacement(node, devices, preassigned=("SWITCH",) * len(devices))

    weak, strong = (place("n1", 0), place("n0", 0)), place("n0", 1, 2)
    pods = [
        PodRecovered(
            pod(f"weak{number}", "A", 1, group="weak", pods=2),
            BindInfo(one.node, one.devices, chain="POOL", members=(weak,)),
        )
        for number, one in enumerate(weak)
    ]
    pods.append(
        PodRecovered(
            pod("x", "A", 2, priority=5, group="strong"),
            BindInfo(strong.node, strong.devices, chain="POOL", members=((strong,),)),
        )
    )
    engine = healthy(config(A={"SWITCH": 2}))
    engine.recover(pods)
    validate(engine.state)
    groups = engine.state.groups.by_name
    assert (groups["weak"].virtual, groups["weak"].preemptor) == (None, "strong")
    assert groups["strong"].virtual is not None
    assert {engine.state.virtual.root[leaf] for row in groups["strong"].virtual for pod in row for leaf in pod} == set(
        engine.state.virtual.preassigned
    )
