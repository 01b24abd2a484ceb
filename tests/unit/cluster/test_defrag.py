"""Defragmentation of a cluster on this machine: the plan, and its moves made one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from paictl.cluster.defrag import DefragPlan, RoomError, plan_data, plan_from, read_room
from paictl.cluster.interface import ConflictError
from paictl.cluster.maintenance import WindowRequest
from paictl.operate.defrag import MovingError, make_room, refuse_outrun
from paictl.scheduler.defrag import NoRoom, Obstacle, RoomRequest
from paictl.scheduler.invariants import validate
from paictl.units import Millis
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench

LONG = ["sleep 99h"]
TIMEOUT = Millis(1_000)


def small(lab: Bench, name: str, gpu: int = 1, **more: Any) -> str:
    more.setdefault("priority", "oppo")
    return lab.submit(name, "tenanta", gpu=gpu, commands=LONG, **more)


def nodes_of(lab: Bench, key: str) -> list[str]:
    return sorted({task.node for task in lab.cluster.job(key).tasks})


@pytest.fixture
def holes(bench: MakeBench) -> tuple[Bench, dict[str, str]]:
    """Four nodes of eight devices: one is empty, each of the others holds one small job after fillers have ended."""
    lab = bench("three-tenants")
    kept, fillers = {}, []
    for number, size in enumerate((1, 2, 4)):
        kept[f"k{size}"] = small(lab, f"keep{size}", size)
        fillers.append(small(lab, f"fill{number}", 8 - size))
    for key in fillers:
        lab.cluster.stop_job(key)
    assert len({node for key in kept.values() for node in nodes_of(lab, key)}) == 3
    return lab, kept


def plan(lab: Bench, *rooms: RoomRequest) -> DefragPlan:
    return lab.cluster.plan_moves(rooms)


def test_the_cheapest_gangs_move_one_by_one_and_the_room_is_there(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, kept = holes
    stored = lab.cluster.stored()
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    assert lab.cluster.stored() == stored, "a plan changes nothing"
    assert [move.job for move in made.moves] == [kept["k2"], kept["k1"]], "the larger one first"
    moved: list[str] = []
    before = {key: lab.cluster.job(key).attempt for key in kept.values()}

    def note(move: Any) -> None:
        moved.append(move.job)
        assert lab.state(move.job) == "Running", "the next goes only when this one is back"
        assert [window.hold for window in lab.cluster.windows()] == [True]

    make_room(lab.cluster, made, TIMEOUT, note)
    assert moved == [kept["k2"], kept["k1"]]
    assert [lab.cluster.job(kept[name]).attempt - before[kept[name]] for name in ("k1", "k2", "k4")] == [1, 1, 0]
    assert {node for key in kept.values() for node in nodes_of(lab, key)} == set(nodes_of(lab, kept["k4"]))
    assert lab.cluster.windows() == (), "nodes are given back"
    (room,) = plan(lab, RoomRequest(3, "V100-NODE")).rooms
    assert (room.moves, room.plan is not None and room.plan.starts) == ((), True)
    big = lab.submit("big", "tenanta", priority="oppo", gpu=8, instances=3, commands=LONG)
    assert lab.state(big) == "Running"
    lost = [event for event in lab.cluster.events(f"job/{kept['k1']}") if event.kind == "Lost"]
    assert "make room" in lost[0].data["reason"]
    with lab.cluster._world() as world:
        assert world.dispatcher.engine is not None
        validate(world.dispatcher.engine.state)


def test_where_they_go_is_what_the_plan_says(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, _ = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    make_room(lab.cluster, made, TIMEOUT)
    for move in made.moves:
        now = sorted((task.node, task.devices) for task in lab.cluster.job(move.job).tasks)
        assert now == sorted(move.after)


def test_what_has_changed_since_is_refused_and_nothing_moves(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, kept = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    lab.cluster.stop_job(kept["k1"])
    with pytest.raises(ConflictError, match="is not running any more"):
        make_room(lab.cluster, made, TIMEOUT)
    assert lab.cluster.windows() == ()
    assert lab.cluster.job(kept["k2"]).attempt == 0
    again = plan(lab, RoomRequest(3, "V100-NODE"))
    assert [move.job for move in again.moves] == [kept["k2"]]
    refuse_outrun(lab.cluster, again)


def test_somebody_who_starts_in_the_room_is_seen(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, _ = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    small(lab, "late", 8)
    with pytest.raises(ConflictError, match="the cluster has changed since the plan was made"):
        make_room(lab.cluster, made, TIMEOUT)


def test_one_who_does_not_come_back_stops_the_rest(
    holes: tuple[Bench, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, kept = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    evict = lab.cluster.evict_gang

    def evict_and_fail(gang: Any) -> None:
        evict(gang)
        if gang.job == kept["k2"]:
            lab.cluster.stop_job(kept["k1"])

    monkeypatch.setattr(lab.cluster, "evict_gang", evict_and_fail)
    with pytest.raises(MovingError, match="1 of 2 gangs were moved") as failed:
        make_room(lab.cluster, made, TIMEOUT)
    assert failed.value.exit_code == 3
    assert lab.cluster.windows() == ()
    assert [move.job for move in plan(lab, RoomRequest(4, "V100-NODE")).moves] == []


def test_ctrl_c_gives_the_nodes_back_and_a_second_apply_goes_on(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, _ = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_room(lab.cluster, made, TIMEOUT, interrupted)
    assert lab.cluster.windows() == ()
    rest = plan(lab, RoomRequest(3, "V100-NODE"))
    assert [move.key for move in rest.moves] == [made.moves[1].key]
    make_room(lab.cluster, rest, TIMEOUT)
    assert plan(lab, RoomRequest(3, "V100-NODE")).moves == ()


def test_what_a_killed_apply_left_is_named_and_ends_by_itself(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, _ = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    lab.cluster.add_window(WindowRequest(made.rooms[0].plan.nodes, Millis(MINUTE), hold=True))  # type: ignore[union-attr]
    assert plan(lab, RoomRequest(3, "V100-NODE")) == made, "a plan does not stumble over it"
    with pytest.raises(ConflictError, match=r"kept free by defrag-1"):
        make_room(lab.cluster, made, TIMEOUT)
    kept = [node.reason for node in lab.cluster.nodes() if node.reason]
    assert kept == ["kept free of new pods (defrag-1)"] * 3
    assert {event.kind for event in lab.cluster.events()}.isdisjoint({"MaintenancePlanned", "MaintenanceStarted"})
    lab.pass_time(2 * MINUTE)
    make_room(lab.cluster, made, TIMEOUT)


def before_the_hold(lab: Bench, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen between the look at a plan and the moment at which its nodes are kept free."""
    add = lab.cluster.add_window

    def late(request: WindowRequest) -> Any:
        monkeypatch.setattr(lab.cluster, "add_window", add)
        act()
        return add(request)

    monkeypatch.setattr(lab.cluster, "add_window", late)


def test_a_pod_that_comes_before_the_nodes_are_kept_free_stops_the_first_move(
    holes: tuple[Bench, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, kept = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    before_the_hold(lab, monkeypatch, lambda: small(lab, "late", 8))
    with pytest.raises(ConflictError, match="the cluster has changed since the plan was made"):
        make_room(lab.cluster, made, TIMEOUT)
    assert {lab.cluster.job(key).attempt for key in kept.values()} == {0}, "nobody was moved for nothing"
    assert lab.cluster.windows() == ()


def test_of_two_applies_at_once_one_is_refused_and_takes_no_hold_away(
    holes: tuple[Bench, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, kept = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    room = made.rooms[0].plan
    assert room is not None
    free = next(
        node.machine.name
        for node in lab.cluster.nodes()
        if node.machine.role.value == "worker" and node.machine.name not in room.nodes
    )
    other = lab.again()
    before_the_hold(lab, monkeypatch, lambda: other.add_window(WindowRequest((free,), Millis(MINUTE), hold=True)))
    with pytest.raises(ConflictError, match="kept free by defrag-1"):
        make_room(lab.cluster, made, TIMEOUT)
    assert [one.nodes for one in lab.cluster.windows()] == [(free,)]
    assert {lab.cluster.job(key).attempt for key in kept.values()} == {0}


def test_a_process_that_slept_leaves_the_nodes_of_another_apply_alone(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, _ = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    nodes = made.rooms[0].plan.nodes  # type: ignore[union-attr]

    def slept(_: Any) -> None:
        lab.pass_time(60 * MINUTE)  # its own hold has ended
        assert lab.cluster.windows() == ()
        assert lab.again().add_window(WindowRequest(nodes, Millis(MINUTE), hold=True)).name == "defrag-1"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_room(lab.cluster, made, TIMEOUT, slept)
    assert [one.name for one in lab.cluster.windows()] == ["defrag-1"]


@pytest.mark.parametrize("done", [1, 2], ids=["within a room", "between two rooms"])
def test_a_process_that_slept_moves_nothing_while_another_apply_does(
    holes: tuple[Bench, dict[str, str]], done: int
) -> None:
    """The other's hold has the name of its own, which has ended."""
    lab, _ = holes
    made = plan(lab, RoomRequest(3, "V100-NODE"))
    nodes = made.rooms[0].plan.nodes  # type: ignore[union-attr]
    moved: list[Any] = []

    def slept(move: Any) -> None:
        moved.append(move)
        if len(moved) == done:
            lab.pass_time(60 * MINUTE)
            assert lab.again().add_window(WindowRequest(nodes, Millis(MINUTE), hold=True)).name == "defrag-1"

    twice = replace(made, rooms=(*made.rooms, *made.rooms))
    with pytest.raises(MovingError, match="already kept free by defrag-1"):
        make_room(lab.cluster, twice, TIMEOUT, slept)
    assert len(moved) == done
    assert [one.name for one in lab.cluster.windows()] == ["defrag-1"]


def test_a_checkpoint_makes_a_gang_cheap_to_move(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    for name, every in (("saves", "10m"), ("long", None)):
        data = lab.job(name, "tenanta", gpu=4, commands=LONG)
        if every:
            data["extras"]["checkpointEvery"] = every
        from paictl.cluster.interface import JobRequest

        lab.cluster.submit([JobRequest("ann", data, None, "oppo")])
        small(lab, f"f{name}", 4)
    for name in ("saves", "long"):
        lab.cluster.stop_job(f"ann~f{name}")
    lab.pass_time(119 * MINUTE)
    gangs = {gang.job: gang.lost for gang in lab.cluster.gangs()}
    assert gangs["ann~saves"] < 10 * MINUTE < 100 * MINUTE < gangs["ann~long"]
    assert [move.job for move in plan(lab, RoomRequest(3, "V100-NODE")).moves] == ["ann~saves"]


def test_opportunistic_gangs_move_before_guaranteed_ones(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    small(lab, "sure", 4, priority="test")
    filler = small(lab, "filler", 4)
    other = small(lab, "other", 4)
    lab.cluster.stop_job(filler)
    assert nodes_of(lab, other) != nodes_of(lab, "ann~sure")
    assert [move.job for move in plan(lab, RoomRequest(3, "V100-NODE")).moves] == [other]


@pytest.mark.parametrize(
    ("room", "said", "hint"),
    [
        (RoomRequest(1, "V100-NOD"), "no cell type 'V100-NOD'", "V100-NODE"),
        (RoomRequest(5, "V100-NODE"), "the cluster has 4 cells V100-NODE in one chain: 5 can never be free", "fewer"),
        (RoomRequest(1, "V100-NODE", "tenantx"), "no virtual cluster 'tenantx'", "did you mean"),
        (RoomRequest(3, "V100-NODE", "tenanta"), "tenanta is promised 1 cells V100-NODE", "fewer"),
    ],
)
def test_what_can_never_be_is_refused(bench: MakeBench, room: RoomRequest, said: str, hint: str) -> None:
    with pytest.raises(RoomError, match=said) as refused:
        plan(bench("three-tenants"), room)
    assert hint in str(refused.value.hint)
    assert refused.value.exit_code == 1


@pytest.mark.parametrize("said", ["0xV100-NODE", "4x", "", "4x V100", "x x"])
def test_what_is_no_number_of_cells_is_refused(said: str) -> None:
    if said == "4x":
        assert read_room(said).number == 1  # a type may be called so
        return
    with pytest.raises(Exception, match="is not a number of cells"):
        read_room(said)


def test_a_plan_survives_a_file(holes: tuple[Bench, dict[str, str]]) -> None:
    lab, _ = holes
    for made in (plan(lab, RoomRequest(3, "V100-NODE")), plan(lab, RoomRequest(4, "V100-NODE"))):
        assert plan_from(json.loads(json.dumps(plan_data(made)))) == made
    refusal = plan(lab, RoomRequest(4, "V100-NODE")).rooms[0].refusal
    assert isinstance(refusal, NoRoom)
    assert refusal.obstacle is Obstacle.NO_PLACE


def test_a_spent_budget_keeps_a_gang_where_it_is(bench: MakeBench, set_budget: Callable[..., None]) -> None:
    lab = bench("three-tenants")
    key = small(lab, "poor", 4)
    set_budget(lab, 1)
    lab.pass_time(60 * MINUTE)
    (room,) = plan(lab, RoomRequest(4, "V100-NODE")).rooms
    assert room.refusal is not None
    assert (room.refusal.obstacle, room.refusal.fixed) == (Obstacle.UNUSABLE, (key,))


@pytest.fixture
def set_budget() -> Callable[..., None]:
    def change(lab: Bench, hours: float) -> None:
        import yaml

        files = dict(lab.cluster.configuration().files)
        services = yaml.safe_load(files["services-configuration.yaml"])
        services["sharing"] = {"budgets": [{"vc": "tenanta", "device-hours": hours}]}
        files["services-configuration.yaml"] = yaml.safe_dump(services, sort_keys=False)
        lab.cluster.push(files, "budget")
        lab.cluster.restart_services(["hivedscheduler"])

    return change
