"""Members of a gang that are lost together and have no room one by one move together (`docs/repair.md`)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.scheduler.book import Allocation, Book
from paictl.scheduler.decision import Bind, Preempt, Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import PodWaits, RunningPod
from paictl.scheduler.explain import PodVerdict, explain, from_data, render, to_data
from paictl.scheduler.explain.data import ChangeKind, JointMove, LostCell
from paictl.scheduler.invariants import validate
from tests.unit.scheduler.support import pod
from tests.unit.scheduler.test_repair import book_of, gang_on, member, nodes_now, place, racks


def lose_node(book: Book, node: str) -> list[str]:
    """A node fails with all pods on it, whose uids come back."""
    lost = [uid for uid, where in nodes_now(book).items() if where == node]
    book.report(node, False)
    for uid in lost:
        book.gone(uid)
    validate(book.engine.state)
    return lost


def full_gang(lent: int = 0) -> tuple[Book, dict[str, str]]:
    """Eight pods of one device on the whole promise of their VC, two nodes; `lent` other nodes are borrowed."""
    book = book_of(racks(A=("NODE", 2), B=("NODE", 14)))
    before = gang_on(book, 8, leaves=1)
    assert sorted(set(before.values())) == ["n0", "n1"]
    for at in range(lent):
        place(book, pod(f"o{at}", "B", 4, -1))
    for at in range(13 - lent):
        place(book, pod(f"x{at}", "B", 4))
    return book, before


def test_members_of_one_cell_that_are_lost_together_move_together() -> None:
    """Each alone has no room: the others that are lost hold their part of the cell on the bad node."""
    book, before = full_gang()
    (free,) = {f"n{at}" for at in range(16)} - set(nodes_now(book).values())
    lost = lose_node(book, "n0")
    assert len(lost) == 4
    assert place(book, member(10, 8, leaves=1))[0] == free
    rival = book.engine.plan(pod("rival", "B", 1, -1))
    assert isinstance(rival, Wait), "the place of the others is kept until they come"
    for at in (11, 12, 13):
        assert place(book, member(at, 8, leaves=1))[0] == free
    now = nodes_now(book)
    assert {uid: now[uid] for uid in before if uid in now} == {
        uid: node for uid, node in before.items() if uid not in lost
    }
    group = book.engine.state.groups.by_name["gang"]
    assert group.virtual is not None
    assert all(uid for row in group.pods for uid in row)
    book.restart(book.engine.spec)
    validate(book.engine.state)
    assert nodes_now(book) == now
    again = book.engine.state.groups.by_name["gang"]
    assert (again.physical, sorted(again.pods[0])) == (group.physical, sorted(group.pods[0]))
    assert again.virtual is not None


def test_all_that_move_together_count_as_repaired() -> None:
    book, _ = full_gang()
    lose_node(book, "n0")
    for at in range(10, 14):
        found = book.place(member(at, 8, leaves=1))
        assert isinstance(found, Allocation)
        assert found.repairs
        assert found.info.repairs == 1


def test_a_place_that_was_taken_since_is_not_repaired_again() -> None:
    """A pod of it is deleted, and its owner makes another: that has the place of the one before."""
    book, _ = full_gang()
    lose_node(book, "n0")
    repaired = []
    for at in (10, 11):
        found = book.place(member(at, 8, leaves=1))
        assert isinstance(found, Allocation)
        repaired.append((found.repairs, found.moved))
    for gone, at in ((10, 20), (11, 21), (20, 30)):
        book.gone(f"g{gone}")
        found = book.place(member(at, 8, leaves=1))
        assert isinstance(found, Allocation)
        repaired.append((found.repairs, found.moved))
    assert repaired == [(True, 4), (True, 0), (False, 0), (False, 0), (False, 0)]
    for at in (12, 13):
        found = book.place(member(at, 8, leaves=1))
        assert isinstance(found, Allocation)
        assert found.repairs, "nobody had that place before"
    node = nodes_now(book)["g30"]
    book.report("n0", True)
    lose_node(book, node)
    found = book.place(member(40, 8, leaves=1))
    assert isinstance(found, Allocation)
    assert (found.repairs, found.moved) == (True, 4), "they are lost again"


def test_a_gang_of_the_same_name_that_comes_later_has_no_past() -> None:
    book, before = full_gang()
    for uid in before:
        book.gone(uid)
    book.report("n0", False)
    again = gang_on(book, 4, leaves=1)
    assert "n0" not in again.values()
    book.gone("g0")
    found = book.place(member(10, 4, leaves=1))
    assert isinstance(found, Allocation)
    assert not found.repairs


def test_one_that_came_later_tells_where_all_are_although_the_first_is_gone() -> None:
    book, before = full_gang()
    lost = lose_node(book, "n0")
    place(book, member(10, 8, leaves=1))
    book.gone("g10")
    node, _ = place(book, member(11, 8, leaves=1))
    known = book.pods["g11"].info
    assert known is not None
    assert known.repairs == 1, "older annotations have the members on the bad node"
    for order in (False, True):
        book.restart(book.engine.spec, pods_first=order)
        validate(book.engine.state)
        assert next(iter(book.engine.state.groups.by_name.values())).virtual is not None
        assert book.engine.state.groups.slots["g11"][0] == "gang"
    for at in (12, 13, 14):
        assert place(book, member(at, 8, leaves=1))[0] == node
    assert {uid for uid, where in nodes_now(book).items() if where == "n1" and uid in before} == {*before} - {*lost}


def test_a_whole_rack_is_lost_and_found_elsewhere() -> None:
    book = book_of(racks(A=("RACK", 2)))
    before = gang_on(book, 32, leaves=1)
    rack = [f"n{at}" for at in range(4)]
    lost = [uid for node in rack for uid in lose_node(book, node)]
    assert len(lost) == 16
    nodes = {place(book, member(100 + at, 32, leaves=1))[0] for at in range(16)}
    assert nodes in ({f"n{at}" for at in range(8, 12)}, {f"n{at}" for at in range(12, 16)})
    assert all(nodes_now(book)[uid] == node for uid, node in before.items() if uid not in lost)


def test_each_cell_that_is_lost_moves_as_far_as_there_is_room() -> None:
    """Of two cells one finds a place; the other waits, and comes back with its node."""
    book, before = full_gang()
    book.gone("x0")
    lose_node(book, "n0")
    place(book, pod("y0", "B", 4))  # what the first needs is the last free node
    first = next(uid for uid, node in before.items() if node == "n1")
    assert before[first] == "n1"
    for uid in [uid for uid, node in before.items() if node == "n1"][1:]:
        book.gone(uid)
    book.report("n1", False)
    found = [book.place(member(10 + at, 8, leaves=1)) for at in range(7)]
    validate(book.engine.state)
    placed = [one for one in found if isinstance(one, Allocation)]
    assert len(placed) == 4, "the cell of which nobody runs moves, the other stands where its member runs"
    assert len({one.info.node for one in placed}) == 1
    book.report("n1", True)
    for at in range(7):
        book.place(member(10 + at, 8, leaves=1))
        validate(book.engine.state)
    assert all(uid for row in book.engine.state.groups.by_name["gang"].pods for uid in row)


def test_others_leave_once_for_members_that_move_together() -> None:
    book, before = full_gang(lent=14)
    lost = lose_node(book, "n0")
    found = book.place(member(10, 8, leaves=1))
    validate(book.engine.state)
    assert not isinstance(found, Allocation)
    assert isinstance(found.decision, Preempt)
    ((node, victims),) = found.decision.victims
    for at in (11, 12):
        again = book.place(member(at, 8, leaves=1))
        validate(book.engine.state)
        assert not isinstance(again, Allocation)
        assert isinstance(again.decision, Preempt)
        assert again.decision.victims == found.decision.victims, "it waits for the same place"
    (preemption,) = book.preemptions()
    assert preemption.waiting == ("g10", "g11", "g12")
    book.gone("g10")
    validate(book.engine.state)
    (preemption,) = book.preemptions()
    assert preemption.waiting == ("g11", "g12"), "it goes on for the others"
    for uid in victims:
        book.gone(uid)
    assert isinstance(book.engine.plan(pod("rival", "B", 4, -1)), Wait), "the place is kept"
    for at in (12, 13, 11, 14):
        assert place(book, member(at, 8, leaves=1))[0] == node
    assert not book.preemptions()
    assert {uid for uid in nodes_now(book) if uid in before} == {*before} - {*lost}


def test_a_member_whose_place_heals_leaves_the_others_their_preemption() -> None:
    book, _ = full_gang(lent=14)
    lose_node(book, "n0")
    for at in (10, 11):
        book.place(member(at, 8, leaves=1))
    book.gone("g4")
    back = place(book, member(11, 8, leaves=1))[0]
    assert back == "n1"
    (preemption,) = book.preemptions()
    assert preemption.waiting == ("g10",)
    book.gone("g10")
    validate(book.engine.state)
    assert not book.preemptions()


def test_a_plan_for_several_is_not_carried_out_after_a_change() -> None:
    book, _ = full_gang()
    book.gone("x0")
    lose_node(book, "n0")
    decision = book.engine.plan(member(10, 8, leaves=1))
    assert isinstance(decision, Bind)
    assert decision.repairs
    place(book, pod("rival", "B", 4))
    before = book.engine.state.digest()
    with pytest.raises(RequestError, match="changed"):
        book.engine.apply(decision)
    assert book.engine.state.digest() == before
    validate(book.engine.state)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["fail", "fail", "heal", "ask", "ask", "drop", "restart", "oppo"]), st.integers(0, 15)
        ),
        min_size=5,
        max_size=30,
    ),
    st.sampled_from([1, 2]),
)
def test_nodes_with_several_members_fail(  # noqa: C901 - one branch for each kind of step
    steps: list[tuple[str, int]], leaves: int
) -> None:
    """The promise is used up: whenever a whole node is free for each that is lost, the gang becomes whole."""
    pods = 16 // leaves
    book = book_of(racks(A=("NODE", 4), B=("NODE", 4)))
    gang_on(book, pods, leaves=leaves)
    bad: set[str] = set()
    made = 100
    for what, at in steps:
        node, before = f"n{at}", nodes_now(book)
        mine = {uid: where for uid, where in before.items() if uid.startswith("g")}
        touched: set[str] = set()
        if what == "fail" and len(bad) < 6 and set(mine.values()) - bad - {node}:
            bad.add(node)
            touched.update(lose_node(book, node))
        elif what == "heal":
            book.report(node, True)
            bad.discard(node)
        elif what == "drop":
            made += 1
            if len(mine) < pods:
                book.place(member(made, pods, leaves=leaves))
                book.gone(f"g{made}")
        elif what == "restart":
            book.restart(book.engine.spec)
        elif what == "oppo" and not book.holds(f"o{at}"):
            touched.add(f"o{at}")
            book.place(pod(f"o{at}", "B", 4, -1))
            if not book.holds(f"o{at}"):
                book.gone(f"o{at}")
        validate(book.engine.state)
        after = {uid: where for uid, where in nodes_now(book).items() if uid not in touched}
        assert after == {uid: where for uid, where in before.items() if uid not in touched}
        if what == "ask":
            missing = pods - len(mine)
            uids = [made + 1 + number for number in range(missing)]
            made += missing
            for _ in range(2 + missing):
                for number in [one for one in uids if not book.holds(f"g{one}")]:
                    found = book.place(member(number, pods, leaves=leaves))
                    validate(book.engine.state)
                    if not isinstance(found, Allocation) and isinstance(found.decision, Preempt):
                        for uid in [uid for _, gone in found.decision.victims for uid in gone]:
                            assert uid.startswith("o")
                            book.gone(uid)
                            validate(book.engine.state)
            now = nodes_now(book)
            assert {uid: now.get(uid) for uid in mine} == mine
            assert sum(uid.startswith("g") for uid in now) == pods, "eight nodes are healthy and nobody has to keep one"
            assert book.engine.state.groups.by_name["gang"].virtual is not None
            assert not book.preemptions()


def test_a_preemption_of_another_virtual_cluster_is_not_taken_over_by_its_name() -> None:
    book, _ = full_gang(lent=14)
    book.place(pod("rival", "B", 1, group="gang (repair x)", pods=4))
    lose_node(book, "n0")
    book.place(member(10, 8, leaves=1))
    validate(book.engine.state)
    assert sorted(one.waiting for one in book.preemptions()) == [("g10",), ("rival",)]


def test_a_member_that_begins_a_second_preemption_leaves_no_place_reserved() -> None:
    """Others have filled the preemption that it began first; the second one has the same name."""
    book = book_of(racks(A=("NODE", 3), B=("NODE", 13)))
    gang_on(book, 12, leaves=1)
    for at in range(13):
        place(book, pod(f"o{at}", "B", 4, -1))
    lose_node(book, "n0")
    for at in range(10, 14):
        book.place(member(100 + at, 12, leaves=1))
    at_n1 = next(uid for uid, node in nodes_now(book).items() if node == "n1")
    book.gone(at_n1)
    assert place(book, member(110, 12, leaves=1))[0] == "n1"
    book.place(member(114, 12, leaves=1))
    lose_node(book, "n1")
    book.place(member(110, 12, leaves=1))
    validate(book.engine.state)
    for uid in [uid for uid in book.pods if not book.holds(uid)]:
        book.gone(uid)
        validate(book.engine.state)
    assert not book.preemptions()


def test_who_waits_for_another_preemption_leaves_the_one_before() -> None:
    book, _ = full_gang(lent=14)
    for name in ("p", "q"):
        book.place(pod(name, "B", 4))
    book.engine.observe(PodWaits("p", "default/q"))
    validate(book.engine.state)
    (preemption,) = book.preemptions()
    assert preemption.waiting == ("p", "q")


def test_another_process_hears_of_members_that_moved_one_after_the_other() -> None:
    book, _ = full_gang()
    other = book_of(racks(A=("NODE", 2), B=("NODE", 14)))
    for known in book.pods.values():
        assert known.info is not None
        other.observe_bound(RunningPod(known.request, known.info))
    lost = lose_node(book, "n0")
    for at in range(10, 14):
        place(book, member(at, 8, leaves=1))
    other.report("n0", False)
    for uid in lost:
        other.gone(uid)
    for at in range(10, 14):
        known = book.pods[f"g{at}"]
        assert known.info is not None
        other.observe_bound(RunningPod(known.request, known.info))
        validate(other.engine.state)
        assert other.engine.state.groups.slots[f"g{at}"][0] == "gang"
    assert nodes_now(other) == nodes_now(book)
    group = other.engine.state.groups.by_name["gang"]
    assert group.virtual is not None
    assert all(uid for row in group.pods for uid in row)


# --- why they wait


def no_room() -> Book:
    """The gang has lost a node, every other node is in use, and one member has asked."""
    book, _ = full_gang()
    place(book, pod("last", "B", 4))
    lose_node(book, "n0")
    book.place(member(10, 8, leaves=1))
    return book


def joint_of(book: Book, *, pods: int = 8) -> JointMove:
    found = explain(book.engine, member(10, pods, leaves=1))
    assert found.decision is PodVerdict.WAIT
    assert from_data(to_data(found)) == found
    assert found.together is not None
    return found.together


def test_a_lost_member_says_what_those_wait_for_that_would_move_with_it() -> None:
    book = no_room()
    before = book.engine.state.digest()
    joint = joint_of(book)
    assert book.engine.state.digest() == before
    assert joint.cells == (LostCell("NODE", ("n0",), ((1, 4),)),)
    asked = joint.explanation.request
    assert (asked.group, asked.members, asked.vc) == ("gang", ((1, 4),), "A")
    assert [view.needed for view in joint.explanation.views] == [4]
    kinds = {change.kind for change in joint.explanation.changes}
    assert kinds == {ChangeKind.HEAL, ChangeKind.END}, "as of one alone, whose cell only its own node can serve"
    lines = render(explain(book.engine, member(10, 8, leaves=1)))
    assert (
        "It could move together with other lost pods of its gang: 4 pods of 1 device in a cell of NODE (n0)." in lines
    )
    assert any(line.startswith("- wait for default/last (4 devices, VC B") for line in lines)


def test_what_would_let_them_move_together_comes_true() -> None:
    for kind in (ChangeKind.HEAL, ChangeKind.END):
        book = no_room()
        (change,) = (one for one in joint_of(book).explanation.changes if one.kind is kind)
        for holder in change.groups:
            for uid in [uid for uid, one in book.pods.items() if one.request.group == holder.group]:
                book.gone(uid)
        for node in change.nodes:
            book.report(node, True)
        nodes = {place(book, member(10 + at, 8, leaves=1))[0] for at in range(4)}
        assert nodes == {node for node, _ in change.outcome.places}


def test_if_no_change_helps_one_cell_all_that_is_lost_is_explained() -> None:
    """Two racks are lost: of one cell's members one runs on, so that only those of the other can move."""
    book = book_of(racks(A=("RACK", 2), B=("RACK", 2)))
    gang_on(book, 32, leaves=1)
    for at in range(8):
        place(book, pod(f"x{at}", "B", 4))
    for node in ("n0", "n1", "n2", "n3", "n4"):
        lose_node(book, node)
    book.place(member(10, 32, leaves=1))
    joint = joint_of(book, pods=32)
    assert joint.cells == (LostCell("RACK", ("n0", "n1", "n2", "n3"), ((1, 16),)),)
    assert sum(pods for _, pods in joint.explanation.request.members) == 16


def test_members_that_gave_up_their_places_are_named_too() -> None:
    """Two nodes are lost, and one preemption moves all of them; then its place fails."""
    book, _ = full_gang(lent=14)
    lose_node(book, "n0")
    found = book.place(member(10, 8, leaves=1))
    assert not isinstance(found, Allocation)
    for uid in [uid for _, uids in found.decision.victims for uid in uids]:  # type: ignore[union-attr]
        book.gone(uid)
    for node in [f"n{at}" for at in range(2, 16)]:
        book.report(node, False)
    book.place(member(10, 8, leaves=1))
    joint = joint_of(book)
    assert joint.cells == (LostCell("", (), ((1, 4),)),)
    text = "\n".join(render(explain(book.engine, member(10, 8, leaves=1))))
    assert "4 pods of 1 device without a place" in text


def test_a_member_that_is_lost_alone_has_nobody_to_move_with() -> None:
    book = book_of(racks(A=("RACK", 1), B=("RACK", 2)))
    before = gang_on(book, 4)
    book.report(before["g0"], False)
    book.gone("g0")
    book.place(member(10, 4))
    found = explain(book.engine, member(10, 4))
    assert (found.decision, found.together) == (PodVerdict.WAIT, None)
    assert "together" not in to_data(found)
