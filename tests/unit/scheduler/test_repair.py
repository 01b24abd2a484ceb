"""Repair in place: one member of a gang moves, the others stay, and nobody gets a device twice (`docs/repair.md`)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.scheduler.book import Allocation, Book, ScheduleResult
from paictl.scheduler.decision import Bind, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.explain import PodVerdict, explain
from paictl.scheduler.explain.data import ChangeKind
from paictl.scheduler.invariants import validate
from paictl.scheduler.request import PodRequest, gang_of
from paictl.scheduler.wire import bind_info_text, parse_bind_info, read_request, request_json
from tests.unit.scheduler.support import pod


def racks(**vcs: tuple[str, int]) -> dict[str, Any]:
    """Four racks of four nodes with four devices, a hall of two racks each; VCs as ``A=("RACK", 1)``."""
    paths = {"HALL": "HALL", "RACK": "HALL.RACK", "NODE": "HALL.RACK.NODE"}
    halls = [
        {
            "cellChildren": [
                {"cellChildren": [{"cellAddress": f"n{8 * hall + 4 * rack + node}"} for node in range(4)]}
                for rack in range(2)
            ]
        }
        for hall in range(2)
    ]
    return {
        "physicalCluster": {
            "cellTypes": {
                "NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True},
                "RACK": {"childCellType": "NODE", "childCellNumber": 4},
                "HALL": {"childCellType": "RACK", "childCellNumber": 2},
            },
            "physicalCells": [{"cellType": "HALL", **hall} for hall in halls],
        },
        "virtualClusters": {
            name: {"virtualCells": [{"cellType": paths[kind], "cellNumber": number}]}
            for name, (kind, number) in vcs.items()
        },
    }


def book_of(data: dict[str, Any]) -> Book:
    book = Book(Engine.from_config(data))
    for name in book.engine.state.physical.nodes:
        book.report(name, True)
    return book


def member(number: int, pods: int, vc: str = "A", *, leaves: int = 4, priority: int = 0, **fields: Any) -> PodRequest:
    return pod(f"g{number}", vc, leaves, priority, **{"group": "gang", "pods": pods, "repair": True, **fields})


def place(book: Book, request: PodRequest) -> tuple[str, tuple[int, ...]]:
    """Place a pod; all invariants hold."""
    found = book.place(request)
    validate(book.engine.state)
    assert isinstance(found, Allocation), found
    return found.info.node, found.info.devices


def gang_on(book: Book, pods: int, **fields: Any) -> dict[str, str]:
    """A gang that runs: node by uid."""
    return {f"g{at}": place(book, member(at, pods, **fields))[0] for at in range(pods)}


def lose(book: Book, uid: str, node: str) -> None:
    book.report(node, False)
    validate(book.engine.state)
    book.gone(uid)
    validate(book.engine.state)


def nodes_now(book: Book) -> dict[str, str]:
    return {uid: known.info.node for uid, known in book.pods.items() if known.info is not None}


def test_a_lost_member_gets_a_place_in_its_rack_and_the_others_stay() -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 3)
    lost = before["g1"]
    lose(book, "g1", lost)
    node, _ = place(book, member(10, 3))
    rack = [f"n{at}" for at in range(4)]
    assert node in rack
    assert node not in before.values()
    assert nodes_now(book) == {"g0": before["g0"], "g2": before["g2"], "g10": node}


def test_without_room_in_its_rack_it_goes_to_the_nearest_cell_that_keeps_its_promise() -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 4)
    assert set(before.values()) == {"n0", "n1", "n2", "n3"}
    place(book, pod("far", "A", 4))
    book.gone("far")
    lose(book, "g2", before["g2"])
    node, _ = place(book, member(10, 4))
    assert node in {f"n{at}" for at in range(4, 8)}, "the other rack of its hall"


@pytest.mark.parametrize("offered", [[], ["elsewhere"]])
def test_it_waits_if_no_node_of_its_cells_is_offered(offered: list[str]) -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 3, ignore_suggested=False)
    lose(book, "g1", before["g1"])
    found = book.place(member(10, 3, ignore_suggested=False), offered)
    assert isinstance(found, ScheduleResult)
    assert isinstance(found.decision, Wait)
    assert nodes_now(book) == {uid: before[uid] for uid in ("g0", "g2")}
    assert place(book, member(10, 3, ignore_suggested=False))[0] not in before.values()


def test_it_waits_if_its_promise_has_no_room_although_others_have_some() -> None:
    book = book_of(racks(A=("RACK", 1), B=("RACK", 2)))
    before = gang_on(book, 4)
    lose(book, "g0", before["g0"])
    found = book.place(member(10, 4))
    assert isinstance(getattr(found, "decision", None), Wait)
    why = explain(book.engine, member(10, 4))
    assert why.decision is PodVerdict.WAIT
    assert why.request.members == ((4, 1),), "it explains the one member, not its gang"
    assert why.request.group == "gang"
    assert {change.kind for change in why.changes} <= {ChangeKind.HEAL, ChangeKind.END, ChangeKind.QUOTA}
    assert ChangeKind.HEAL in {change.kind for change in why.changes}
    book.report(before["g0"], True)
    assert place(book, member(10, 4))[0] == before["g0"], "its own node has healed"
    assert len(set(nodes_now(book).values())) == 4


def test_a_gang_that_does_not_allow_it_keeps_its_place_as_in_hived() -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 3, repair=False)
    lose(book, "g1", before["g1"])
    assert place(book, member(10, 3, repair=False))[0] == before["g1"]


def test_the_other_devices_of_a_node_are_nearest() -> None:
    book = book_of(racks(A=("NODE", 4)))
    before = gang_on(book, 2, leaves=1)
    assert before["g0"] == before["g1"]
    book.report_device(before["g1"], 1, healthy=False)
    book.gone("g1")
    assert place(book, member(10, 2, leaves=1)) == (before["g1"], (2,))


def test_near_goes_before_full() -> None:
    """Without a guarantee the fullest node of the whole cluster would be taken, as for a new gang."""
    book = book_of(racks(A=("RACK", 2)))
    assert set(gang_on(book, 2, leaves=2, priority=-1).values()) == {"n0"}
    for at in range(1, 8):
        book.report(f"n{at}", False)
    assert place(book, pod("far", "A", 2, -1))[0] == "n8"
    for at in range(1, 8):
        book.report(f"n{at}", True)
    book.report_device("n0", 0, healthy=False)
    book.gone("g0")
    new = book.engine.plan(pod("new", "A", 2, -1))
    assert isinstance(new, Bind)
    assert book.engine.bind_info(new).node == "n8"
    assert place(book, member(10, 2, leaves=2, priority=-1))[0] == "n1"


def test_opportunistic_pods_leave_for_it() -> None:
    """The only room is lent: its borrowers are evicted, nobody else takes the place, and the member gets it."""
    book = book_of(racks(A=("RACK", 2), B=("RACK", 2)))
    before = gang_on(book, 4)
    lent = {f"o{at}": place(book, pod(f"o{at}", "B", 4, -1))[0] for at in range(12)}
    lose(book, "g0", before["g0"])
    found = book.place(member(10, 4))
    validate(book.engine.state)
    assert not isinstance(found, Allocation)
    assert isinstance(found.decision, Preempt)
    ((_, victims),) = found.decision.victims
    (preemption,) = book.preemptions()
    assert gang_of(preemption.group) == "gang"
    assert preemption.waiting == ("g10",)
    again = book.place(member(10, 4))
    assert not isinstance(again, Allocation)
    assert isinstance(again.decision, Preempt), "it is asked again before they are gone"
    assert isinstance(book.engine.plan(pod("rival", "B", 4, -1)), Wait)
    for uid in victims:
        book.gone(uid)
        validate(book.engine.state)
    assert isinstance(book.engine.plan(pod("rival", "B", 4, -1)), Wait), "the place is kept for the member"
    node, _ = place(book, member(10, 4))
    assert node == lent[victims[0]]
    assert node in {f"n{at}" for at in range(4, 8)}
    assert {uid: at for uid, at in nodes_now(book).items() if uid in before} == {
        uid: at for uid, at in before.items() if uid != "g0"
    }
    assert not book.preemptions()


def test_a_member_that_goes_while_others_leave_for_it_gives_the_place_back() -> None:
    book = book_of(racks(A=("RACK", 2), B=("RACK", 2)))
    before = gang_on(book, 4)
    for at in range(12):
        place(book, pod(f"o{at}", "B", 4, -1))
    lose(book, "g0", before["g0"])
    book.place(member(10, 4))
    book.gone("g10")
    validate(book.engine.state)
    assert not book.preemptions()
    for at in (1, 2, 3):
        book.gone(f"g{at}")
        validate(book.engine.state)
    assert "gang" not in book.engine.state.groups.by_name
    book.gone("o0")
    assert isinstance(book.place(member(11, 4)), object)
    validate(book.engine.state)


def test_a_demoted_gang_is_repaired_without_a_guarantee() -> None:
    book = book_of(racks(A=("RACK", 1)))
    before = gang_on(book, 4, lazy_preemption=True)
    place(book, pod("strong", "A", 4, 5))
    assert book.engine.state.groups.by_name["gang"].virtual is None
    lose(book, "g0", before["g0"])
    assert place(book, member(10, 4, lazy_preemption=True))[0] not in before.values()


@pytest.mark.parametrize("order", [False, True])
def test_a_restart_finds_the_gang_where_it_is_after_repairs(order: bool) -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 4)
    lose(book, "g2", before["g2"])
    place(book, member(10, 4))
    book.report(before["g2"], True)
    lose(book, "g0", before["g0"])
    place(book, member(11, 4))
    now = nodes_now(book)
    book.restart(book.engine.spec, pods_first=order)
    validate(book.engine.state)
    group = book.engine.state.groups.by_name["gang"]
    assert group.virtual is not None, "it kept its guarantee"
    assert list(book.engine.state.groups.by_name) == ["gang"]
    assert {uid for row in group.pods for uid in row} == set(now)
    tree = book.engine.state.physical
    held = {
        uid: tree.node_name(leaves[0])
        for slot, leaves, _ in group.placements()
        for uid in [group.pods[slot.member][slot.pod]]
    }
    assert held == now


def test_a_restart_goes_by_the_newest_annotation_for_an_empty_place() -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 4)
    lose(book, "g2", before["g2"])
    moved = place(book, member(10, 4))[0]
    book.report(before["g2"], True)
    lose(book, "g0", before["g0"])
    place(book, member(11, 4))
    book.gone("g10")
    book.restart(book.engine.spec)
    validate(book.engine.state)
    assert place(book, member(12, 4))[0] == moved


def test_a_restart_takes_no_device_from_whoever_came_to_the_old_place() -> None:
    """The newest annotation is lost with its pod; the older ones name a place that another gang has got since."""
    book = book_of(racks(A=("RACK", 2), B=("RACK", 1)))
    before = gang_on(book, 4)
    lose(book, "g2", before["g2"])
    moved = place(book, member(10, 4))[0]
    book.report(before["g2"], True)
    others = {f"x{at}": place(book, pod(f"x{at}", "A", 4)) for at in range(4)}
    assert before["g2"] in {node for node, _ in others.values()}
    lose(book, "g10", moved)
    book.restart(book.engine.spec)
    validate(book.engine.state)
    for uid in others:
        name = book.engine.state.groups.slots[uid][0]
        assert book.engine.state.groups.by_name[name].virtual is not None
        assert not name.endswith(f"({uid})")
    assert book.engine.state.groups.by_name["gang"].virtual is not None
    assert isinstance(getattr(book.place(member(12, 4)), "decision", None), Wait)
    book.report(moved, True)
    assert place(book, member(12, 4))[0] == moved


def test_another_process_that_moved_a_member_is_followed() -> None:
    """A pod is seen bound where this process's gang has not got it yet."""
    book, twin = book_of(racks(A=("RACK", 2))), book_of(racks(A=("RACK", 2)))
    for one in (book, twin):
        before = gang_on(one, 3)
        lose(one, "g1", before["g1"])
    place(book, member(10, 3))
    info = book.pods["g10"].info
    assert info is not None
    twin.observe_bound(RunningPod(member(10, 3), info))
    validate(twin.engine.state)
    assert twin.engine.state.groups.slots["g10"][0] == "gang"
    assert nodes_now(twin) == nodes_now(book)


def test_the_annotations_tell_the_wish_and_the_repairs() -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 3)
    lose(book, "g1", before["g1"])
    place(book, member(10, 3))
    infos = {uid: known.info for uid, known in book.pods.items() if known.info is not None}
    assert {uid: info.repairs for uid, info in infos.items()} == {"g0": 0, "g2": 0, "g10": 1}
    for info in infos.values():
        assert parse_bind_info(bind_info_text(info), "default/x", json.loads) == info
    asked = member(10, 3)
    assert read_request(request_json(asked), asked.uid, asked.name) == asked
    assert "memberRepairEnable" not in request_json(replace(asked, repair=False))
    assert '"repairs"' not in bind_info_text(infos["g0"])
    with pytest.raises(RequestError, match="memberRepairEnable"):
        read_request({**request_json(asked), "memberRepairEnable": "yes"}, "u", "default/x")


def test_a_repair_that_was_planned_before_something_changed_is_refused() -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 3)
    lose(book, "g1", before["g1"])
    decision = book.engine.plan(member(10, 3))
    assert isinstance(decision, Bind)
    assert decision.repairs
    place(book, pod("rival", "A", 4))
    with pytest.raises(RequestError, match="changed"):
        book.engine.apply(decision)
    validate(book.engine.state)


STEP = st.tuples(
    st.sampled_from(["fail", "heal", "device", "repair", "end", "other", "oppo", "restart"]), st.integers(0, 15)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, min_size=5, max_size=40), st.sampled_from([("RACK", 2), ("NODE", 9)]), st.sampled_from([1, 2, 4]))
def test_random_failures(  # noqa: C901 - one branch for each kind of step
    steps: list[tuple[str, int]], promise: tuple[str, int], leaves: int
) -> None:
    """No device twice, the guarantee kept, and no member moves that was not lost."""
    pods = 12 // leaves
    book = book_of(racks(A=promise, B=("RACK", 1)))
    gang_on(book, pods, leaves=leaves)
    bad: set[str] = set()
    lost: list[str] = []
    for number, (what, at) in enumerate(steps):
        node, before = f"n{at}", nodes_now(book)
        mine = {uid: where for uid, where in before.items() if uid.startswith("g")}
        moved: set[str] = set()
        if what == "fail" and len(bad) < 6 and set(mine.values()) - bad - {node}:
            book.report(node, False)
            bad.add(node)
            for uid in [uid for uid, where in before.items() if where == node]:
                book.gone(uid)
                moved.add(uid)
                if uid in mine:
                    lost.append(f"g{100 + 50 * number + len(moved)}")
        elif what == "heal":
            book.report(node, True)
            bad.discard(node)
        elif what == "device":
            book.report_device(node, at % 4, healthy=bool(number % 2))
        elif what == "repair" and lost:
            found = book.place(member(int(lost[0][1:]), pods, leaves=leaves))
            if isinstance(found, Allocation):
                assert found.info.node not in bad
                moved.add(lost.pop(0))
            elif isinstance(found.decision, Preempt):
                for _, uids in found.decision.victims:
                    assert all(uid.startswith("o") for uid in uids), "only borrowers leave for a member"
                    for uid in uids:
                        book.gone(uid)
                        moved.add(uid)
        elif what == "end":
            for uid in [uid for uid in before if uid[0] in "xo"][:2]:
                book.gone(uid)
                moved.add(uid)
        elif what == "other":
            moved.add(f"x{number}")
            book.place(pod(f"x{number}", "A" if at % 2 else "B", leaves))
            if not book.holds(f"x{number}"):
                book.gone(f"x{number}")
        elif what == "oppo":
            moved.add(f"o{number}")
            book.place(pod(f"o{number}", "B", leaves, -1))
            if not book.holds(f"o{number}"):
                book.gone(f"o{number}")
        elif what == "restart":
            book.restart(book.engine.spec)
        validate(book.engine.state)  # no device twice, all promises kept
        after = nodes_now(book)
        assert {uid: where for uid, where in after.items() if uid not in moved} == {
            uid: where for uid, where in before.items() if uid not in moved
        }
        group = book.engine.state.groups.by_name.get("gang")
        assert group is not None
        assert group.virtual is not None
        assert sum(bool(uid) for row in group.pods for uid in row) == pods - len(lost)


def test_a_gang_of_the_name_of_one_that_left_has_moved_nowhere() -> None:
    """Its pods need not agree about `restart: member`: the last to leave may be one without it."""
    book = book_of(racks(A=("RACK", 2)))
    first, _ = place(book, member(0, 2))
    second, _ = place(book, member(1, 2, repair=False))
    for uid in ("g0", "g1"):
        book.gone(uid)
    for node in (first, second):
        book.report(node, False)
    for number in (10, 11):
        found = book.place(member(number, 2))
        assert isinstance(found, Allocation)
        assert not found.repairs
