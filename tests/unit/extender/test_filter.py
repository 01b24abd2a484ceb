"""Filter: what is answered, when it is planned anew, and who is not served."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors.core import NotServingError
from paictl.scheduler.book import Book
from paictl.scheduler.errors import InvariantError
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Harness, gang, pod


def test_who_asks_again_gets_the_same_answer_and_is_bound_by_force_in_the_end(harness: Harness) -> None:
    made = gang("g", 1, 4)[0]
    first = harness.ask(made).names
    for _ in range(2):
        assert harness.ask(made).names == first
        assert not harness.forced
    harness.ask(made)
    assert harness.forced == [""]
    assert made["spec"]["nodeName"] == first[0]


def test_a_pod_of_a_pod_group_is_never_bound_out_of_turn(harness: Harness) -> None:
    """kube-scheduler tries the places of a group out, often, and binds all of its pods or none."""
    (one,) = gang("g", 1, 4)
    one["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    first = harness.ask(one).names
    for _ in range(10):
        assert harness.ask(one).names == first
    assert not harness.ask(one, [name for name in NODES if name not in first]).names
    assert not harness.forced


def test_a_place_that_is_not_offered(harness: Harness) -> None:
    careful = gang("careful", 1, 4, ignoreK8sSuggestedNodes=False)[0]
    (node,) = harness.ask(careful).names
    without = [name for name in NODES if name != node]
    answer = harness.ask(careful, without)
    assert not answer.names
    assert "does not offer now" in answer.failed[without[0]]
    assert not harness.forced
    careless = gang("careless", 1, 4)[0]
    (node,) = harness.ask(careless).names
    careless["status"]["nominatedNodeName"] = "n3"
    harness.ask(careless, ["n3"] if node != "n3" else ["n2"])
    assert bool(harness.forced) is (node == "n3"), "with one nominated node kube-scheduler asks again about the others"
    harness.ask(careless, [name for name in NODES if name != node])
    assert harness.forced == [""]


@pytest.mark.parametrize("both_answered", [False, True])
def test_the_first_pod_of_a_gang_is_not_bound_by_force_to_a_node_that_has_turned_bad(
    harness: Harness, both_answered: bool
) -> None:
    """It would wait there for minutes; overdue, it is decided anew. The others of a gang follow the first."""
    first, second = gang("g", 2, 4)
    (node,) = harness.ask(first).names
    if both_answered:
        harness.ask(second)
    harness.core.node_changed(NodeStatus(node, ready=False, schedulable=True))
    offered = [name for name in NODES if name != node]
    for _ in range(3):
        assert not harness.ask(first, offered).names
    assert harness.forced == []
    assert "PlaceExcluded" in harness.reasons_of("g-0")
    harness.now += harness.core.options.deadline + 1
    harness.reconciler.reconcile()
    (elsewhere,) = harness.ask(first, offered).names
    assert harness.bind(first, elsewhere) == ""
    (last,) = harness.ask(second, offered).names
    harness.core.node_changed(NodeStatus(last, ready=False, schedulable=True))
    harness.ask(second, [name for name in offered if name != last])
    assert harness.forced == [""]


def test_waiting_says_why_once_a_reason(harness: Harness) -> None:
    for made in gang("full", 3, 4):
        harness.run(made)
    harness.core.node_changed(NodeStatus("n3", ready=False, schedulable=True))
    answer = harness.ask(gang("late", 1, 4)[0], [*NODES, "unheard-of"])
    assert not answer.names
    assert not answer.hopeless
    assert set(answer.failed.values()) == {
        "pod waits: insufficient capacity in VC A, chain POOL: 4 leaf cells needed, 0 free",
        "node is bad: it is not Ready",
        "node is in no cell of the configuration",
    }


def test_the_same_question_is_not_planned_twice(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for made in gang("full", 3, 4):
        harness.run(made)
    late = gang("late", 1, 4)[0]
    harness.ask(late)
    planned: list[object] = []
    place = Book.place

    def counted(book: Book, *args: Any, **more: Any) -> Any:
        planned.append(args)
        return place(book, *args, **more)

    monkeypatch.setattr(Book, "place", counted)
    for _ in range(5):
        harness.ask(late)
    assert not planned
    harness.delete("full-0")
    harness.ask(late)
    assert len(planned) == 1


def test_an_unreadable_pod_stands_in_nobodys_way(harness: Harness) -> None:
    answer = harness.ask(pod("bad", {"virtualCluster": "A", "priority": "high", "leafCellNumber": 1}))
    assert answer.hopeless["n0"] == "priority: expected a whole number, found 'high'"
    assert set(harness.reasons_of("bad")) == {"Unreadable"}
    answer = harness.ask(pod("lost", {"virtualCluster": "Z", "priority": 0, "leafCellNumber": 1}))
    assert answer.hopeless["n0"] == "virtualCluster: there is no VC Z"
    assert harness.reasons_of("lost") == ["Refused"]
    harness.run(gang("fine", 1, 4)[0])


def test_a_contradiction_stops_everything(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise InvariantError("two plus two")

    monkeypatch.setattr(Book, "place", broken)
    for _ in range(2):
        with pytest.raises(NotServingError, match="two plus two"):
            harness.ask(gang("g", 1, 4)[0])
    assert "two plus two" in harness.core.broken


def test_the_same_question_with_other_nodes_is_another_question(harness: Harness) -> None:
    careful = gang("careful", 1, 4, ignoreK8sSuggestedNodes=False)[0]
    version = harness.core.book.engine.version
    assert not harness.ask(careful, []).names
    assert harness.core.book.engine.version == version
    assert harness.ask(careful).names


@pytest.mark.parametrize(
    ("offered", "forced"),
    [
        (["n2"], False),  # kube-scheduler asks about the nominated node alone, and then about the others
        (["n1"], True),
        (["n1", "n2"], True),
        (["n2", "n1"], True),
        ([], True),
    ],
)
def test_a_pod_is_bound_by_force_unless_only_its_nominated_node_was_asked_about(
    harness: Harness, offered: list[str], forced: bool
) -> None:
    (one,) = gang("g", 1, 4)
    (node,) = harness.ask(one).names
    assert node == "n0"
    one["status"]["nominatedNodeName"] = "n2"
    harness.ask(one, offered)
    assert harness.forced == ([""] if forced else [])
