"""Stories of pods around the engine: asked, assumed, bound, cancelled, preempting, seen by another process."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paictl.cells.spec import ClusterSpec, SpecError
from paictl.scheduler.book import Allocation, Book, Insist, ScheduleResult, changes
from paictl.scheduler.decision import Bind, BindInfo, Phase, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.invariants import validate
from paictl.scheduler.record import RecordedBook
from paictl.scheduler.request import PodRequest
from tests.unit.scheduler.support import NODES, config, pod

SPEC = ClusterSpec.from_mapping(config(A={"NODE": 2}, B={"NODE": 2}))


@pytest.fixture(params=[Book, RecordedBook])
def book(request: pytest.FixtureRequest) -> Book:
    """One that records is none the less a book."""
    kind: type[Book] = request.param
    out = kind(Engine(SPEC))
    for name in NODES:
        out.report(name, True)
    return out


def allocate(book: Book, request: PodRequest) -> BindInfo:
    assert isinstance(book.schedule(request).decision, Bind)
    info = book.allocate(request.uid).info
    validate(book.engine.state)
    return info


def test_a_bind_takes_effect_with_allocate_and_only_once(book: Book) -> None:
    before = book.engine.state.digest()
    answer = book.schedule(pod("p", "A", 4))
    assert book.engine.state.digest() == before
    done = book.allocate("p")
    assert (done.info, done.group.pods, [one.name for one in changes(done.outcomes)]) == (
        answer.info,
        (("p",),),
        ["default/p"],
    )
    with pytest.raises(RequestError, match="no decision to bind"):
        book.allocate("p")
    with pytest.raises(RequestError, match="no decision to bind"):
        book.allocate("nobody")


def test_a_pod_asked_again_is_given_the_same_answer_until_it_is_bound(book: Book) -> None:
    info = allocate(book, pod("p", "A", 4))
    other = pod("p", "A", 2)
    assert book.schedule(other).decision == Insist(pod("p", "A", 4), info)
    assert book.place(other) == ScheduleResult(Insist(pod("p", "A", 4), info), info)
    with pytest.raises(RequestError, match=f"already bound to node {info.node}"):
        book.schedule(other, phase=Phase.PREEMPTING)
    assert book.bound("p")
    with pytest.raises(RequestError, match="already bound"):
        book.schedule(other)
    assert not book.bound("nobody")


def test_what_is_assumed_can_be_cancelled_what_is_bound_cannot(book: Book) -> None:
    fresh = book.engine.state.digest()
    allocate(book, pod("p", "A", 4))
    assert book.assumed() == ["p"]
    assert book.cancel("p")
    assert (book.assumed(), book.engine.state.digest()) == ([], fresh)
    assert book.cancel("p") == book.cancel("nobody") == []
    allocate(book, pod("p", "A", 4))
    book.bound("p")
    assert book.assumed() == []
    with pytest.raises(RequestError, match="already bound"):
        book.cancel("p")
    assert book.gone("p")
    assert book.engine.state.digest() == fresh


def test_cancelling_one_pod_of_a_gang_keeps_the_place_of_the_gang(book: Book) -> None:
    first, second = (pod(uid, "A", 4, group="g", pods=2) for uid in "pq")
    place = allocate(book, first)
    allocate(book, second)
    book.cancel("p")
    assert allocate(book, first) == place


def test_cancelling_a_pod_that_only_waits_keeps_its_preemption(book: Book) -> None:
    for i in range(4):
        allocate(book, pod(f"o{i}", "A", 4, priority=-1))
    assert isinstance(book.schedule(pod("p", "A", 4), phase=Phase.PREEMPTING).decision, Preempt)
    assert book.cancel("p") == []
    assert [one.waiting for one in book.preemptions()] == [("p",)]


def test_a_preemption_lives_from_reservation_to_binding(book: Book) -> None:
    for i in range(4):
        allocate(book, pod(f"o{i}", "A", 4, priority=-1))
    strong = pod("p", "A", 4)
    answer = book.schedule(strong)
    assert isinstance(answer.decision, Preempt)
    assert book.preemptions() == [], "filtering starts none"
    book.schedule(strong, phase=Phase.PREEMPTING)
    (running,) = book.preemptions()
    assert (running.group, running.waiting) == ("default/p", ("p",))
    (victim,) = (uid for _, uids in running.victims for uid in uids)
    book.gone(victim)
    assert [one.victims for one in book.preemptions()] == [()]
    allocate(book, strong)
    assert book.preemptions() == []


def test_place_binds_or_reserves_at_once(book: Book) -> None:
    for i in range(4):
        assert isinstance(book.place(pod(f"o{i}", "A", 4, priority=-1)), Allocation)
    answer = book.place(pod("p", "A", 4))
    assert isinstance(answer, ScheduleResult)
    assert isinstance(answer.decision, Preempt)
    (running,) = book.preemptions()
    for _, uids in running.victims:
        for uid in uids:
            book.gone(uid)
    assert isinstance(book.place(pod("p", "A", 4)), Allocation)
    validate(book.engine.state)


def test_an_answer_that_changes_nothing_leaves_the_version(book: Book) -> None:
    allocate(book, pod("p", "A", 4, group="g", pods=2))
    version = book.engine.version
    assert isinstance(book.schedule(pod("w", "A", 4)).decision, Wait)
    book.report(NODES[0], True)
    book.schedule(pod("q", "A", 4, group="g", pods=2))
    assert book.engine.version == version
    book.allocate("q")
    assert book.engine.version > version


def test_a_pod_seen_bound_confirms_what_was_assumed(book: Book) -> None:
    info = allocate(book, pod("p", "A", 4))
    assert book.observe_bound(RunningPod(pod("p", "A", 4), info)) == []
    assert book.assumed() == []


def test_a_pod_bound_elsewhere_by_another_process_is_entered_where_it_runs(book: Book) -> None:
    info = allocate(book, pod("p", "A", 4))
    other = next(name for name in NODES if name != info.node)
    (member,) = info.members
    moved = replace(info, node=other, members=((replace(member[0], node=other),),))
    book.observe_bound(RunningPod(pod("p", "A", 4), moved))
    book.observe_bound(RunningPod(pod("q", "B", 4), info))
    validate(book.engine.state)
    slots = book.engine.state.groups.slots
    assert (slots["p"][2], slots["q"][2]) == (other, info.node)
    assert book.assumed() == []


def test_a_restart_keeps_what_holds_devices_and_forgets_the_rest(book: Book) -> None:
    info = allocate(book, pod("p", "A", 4))
    allocate(book, pod("lost", "B", 4))
    book.schedule(pod("planned", "A", 2))
    book.report("n3", False)
    engine = book.engine
    with pytest.raises(SpecError):
        book.restart(replace(SPEC, virtual_clusters=ClusterSpec.from_mapping(config(A={"NODE": 9})).virtual_clusters))
    assert book.engine is engine
    book.restart(SPEC, {"p", "planned"})
    assert book.engine is not engine
    assert {uid: (one.info, one.bound) for uid, one in book.pods.items()} == {"p": (info, True)}
    assert sorted(book.engine.state.groups.slots) == ["p"]
    assert list(book.engine.state.health.bad_nodes) == ["n3"]
    with pytest.raises(RequestError, match="no decision"):
        book.allocate("planned")
