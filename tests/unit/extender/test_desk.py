"""What is answered, what is told, and what has to be carried out, with the API server played by the test."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from paictl.extender import chores
from paictl.extender.desk import NotServingError, Options
from paictl.extender.nodes import SeenNode, see, why_bad
from paictl.extender.wire import BindArgs, FilterArgs, FilterResult, PreemptArgs, Victims, pod_ref
from paictl.remote.kube.client import KubeError
from paictl.scheduler.book import Book
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.wire import BIND_INFO, ISOLATION, Json
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.stand import Stand, pod


def gang(name: str, pods: int, leaves: int, vc: str = "A", priority: int = 0, **more: Any) -> list[Json]:
    members = [{"podNumber": pods, "leafCellNumber": leaves}]
    asked = {
        "virtualCluster": vc, "priority": priority, "leafCellNumber": leaves,
        "affinityGroup": {"name": f"default/{name}", "members": members}, **more,
    }  # fmt: skip
    return [pod(f"{name}-{i}", asked) for i in range(pods)]


def ask(stand: Stand, made: Json, nodes: list[str] | None = None) -> FilterResult:
    stand.create(made)
    return stand.desk.filter(FilterArgs(made, NODES if nodes is None else nodes))


def run(stand: Stand, made: Json) -> str:
    """Filter and bind; the node."""
    (node,) = ask(stand, made).names
    assert stand.hands.bind(BindArgs(pod_ref(made), node)) == ""
    return node


def test_a_pod_is_bound_once_with_its_annotations(stand: Stand) -> None:
    made = gang("g", 1, 2)[0]
    node = run(stand, made)
    assert made["spec"]["nodeName"] == node
    assert made["metadata"]["annotations"][ISOLATION] == "0,1"
    before = dict(made["metadata"]["annotations"])
    assert stand.hands.bind(BindArgs(pod_ref(made), node)) == "", "asked again, it is bound already"
    assert made["metadata"]["annotations"] == before


def test_a_node_that_was_not_decided_is_refused(stand: Stand) -> None:
    made = gang("g", 1, 2)[0]
    (node,) = ask(stand, made).names
    other = next(name for name in NODES if name != node)
    assert "has its place on node" in stand.hands.bind(BindArgs(pod_ref(made), other))
    assert "has to pass filter first" in stand.hands.bind(BindArgs(pod_ref(pod("stranger", {})), node))
    assert stand.hands.bind(BindArgs(pod_ref(made), node)) == ""


def test_who_asks_again_gets_the_same_answer_and_is_bound_by_force_in_the_end(stand: Stand) -> None:
    made = gang("g", 1, 4)[0]
    first = ask(stand, made).names
    for _ in range(2):
        assert ask(stand, made).names == first
        assert not stand.forced
    ask(stand, made)
    assert stand.forced == [""]
    assert made["spec"]["nodeName"] == first[0]


def test_a_place_that_is_not_offered(stand: Stand) -> None:
    careful = gang("careful", 1, 4, ignoreK8sSuggestedNodes=False)[0]
    (node,) = ask(stand, careful).names
    without = [name for name in NODES if name != node]
    answer = ask(stand, careful, without)
    assert not answer.names
    assert "does not offer now" in answer.failed[without[0]]
    assert not stand.forced
    careless = gang("careless", 1, 4)[0]
    (node,) = ask(stand, careless).names
    careless["status"]["nominatedNodeName"] = "n3"
    ask(stand, careless, ["n3"] if node != "n3" else ["n2"])
    assert bool(stand.forced) is (node == "n3"), "with one nominated node kube-scheduler asks again about the others"
    ask(stand, careless, [name for name in NODES if name != node])
    assert stand.forced == [""]


def test_waiting_says_why_once_a_reason(stand: Stand) -> None:
    for made in gang("full", 3, 4):
        run(stand, made)
    stand.desk.node_changed(SeenNode("n3", ready=False, schedulable=True))
    answer = ask(stand, gang("late", 1, 4)[0], [*NODES, "unheard-of"])
    assert not answer.names
    assert not answer.hopeless
    assert set(answer.failed.values()) == {
        "pod waits: insufficient capacity in VC A, chain POOL: 4 leaf cells needed, 0 free",
        "node is bad: it is not Ready",
        "node is in no cell of the configuration",
    }


def test_the_same_question_is_not_planned_twice(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    for made in gang("full", 3, 4):
        run(stand, made)
    late = gang("late", 1, 4)[0]
    ask(stand, late)
    planned: list[object] = []
    place = Book.place

    def counted(book: Book, *args: Any, **more: Any) -> Any:
        planned.append(args)
        return place(book, *args, **more)

    monkeypatch.setattr(Book, "place", counted)
    for _ in range(5):
        ask(stand, late)
    assert not planned
    stand.delete("full-0")
    ask(stand, late)
    assert len(planned) == 1


def test_a_gang_is_preempted_as_a_whole_and_everybody_is_told(stand: Stand) -> None:
    low = gang("low", 3, 4)
    for made in low:
        run(stand, made)
    high = gang("high", 1, 4, priority=5)[0]
    answer = ask(stand, high)
    assert not answer.names
    assert "preempted for group default/high" in answer.failed["n0"]
    stand.hands.round()
    evicted = [call for call in stand.server.calls if "eviction" in call]
    assert evicted == [f"POST eviction low-{i}" for i in range(3)]
    assert [stand.told_of(f"low-{i}") for i in range(3)] == [["Preempted"]] * 3
    assert stand.told_of("high-0") == ["Preempting"]
    stand.hands.round()
    assert len([call for call in stand.server.calls if "eviction" in call]) == 3, "not asked to go twice"
    for i in range(3):
        stand.delete(f"low-{i}")
    assert run(stand, high) in NODES


def test_who_no_longer_needs_the_room_evicts_nobody(stand: Stand) -> None:
    for made in gang("low", 3, 4):
        run(stand, made)
    ask(stand, gang("high", 1, 4, priority=5)[0])
    stand.delete("high-0")
    stand.hands.round()
    assert not [call for call in stand.server.calls if "eviction" in call]


@pytest.mark.parametrize("delete_after", [None, 20.0])
def test_a_budget_protects_unless_it_is_overruled(stand: Stand, delete_after: float | None) -> None:
    stand.hands.delete_after = delete_after
    for made in gang("low", 3, 4):
        run(stand, made)
    ask(stand, gang("high", 1, 4, priority=5)[0])
    stand.server.refuse["eviction"] = KubeError("budget", status=429, reason="TooManyRequests")
    for _ in range(40):
        stand.hands.round()
        stand.now += 1
    assert "PreemptionHindered" in stand.told_of("high-0")
    tried = [call for call in stand.server.calls if "eviction" in call]
    assert len(tried) < 25, "tried ever less often"
    deleted = [call for call in stand.server.calls if call.startswith("DELETE")]
    assert bool(deleted) is (delete_after is not None)
    assert ("BudgetOverruled" in stand.told_of("low-0")) is (delete_after is not None)


def test_devices_that_nobody_comes_for_are_given_back(stand: Stand) -> None:
    stuck = gang("stuck", 3, 4)
    for made in stuck:
        ask(stand, made)
    stand.now += 61
    stand.hands.round()
    assert stand.told_of("stuck-0") == ["ReservationReleased"]
    assert "has to pass filter first" in stand.hands.bind(BindArgs(pod_ref(stuck[0]), "n0"))
    for made in gang("other", 3, 4):
        run(stand, made)


def test_an_overdue_binding_that_did_come_is_kept(stand: Stand) -> None:
    made = gang("g", 1, 4)[0]
    ask(stand, made)
    ticket = stand.desk.ticket(BindArgs(pod_ref(made), ask(stand, made).names[0]))
    assert not isinstance(ticket, str)
    made["metadata"]["annotations"] |= ticket.annotations  # the answer was lost on its way
    made["spec"]["nodeName"] = ticket.node
    stand.desk.not_bound(ticket.ref)
    stand.now += 61
    stand.hands.round()
    assert not stand.told
    assert not stand.desk.book.assumed()


def test_a_refused_binding_says_so(stand: Stand) -> None:
    made = gang("g", 1, 4)[0]
    (node,) = ask(stand, made).names
    stand.server.refuse["binding"] = KubeError("no such luck", status=403, reason="Forbidden")
    assert stand.hands.bind(BindArgs(pod_ref(made), node)) == "no such luck"
    stand.server.refuse.clear()
    assert run(stand, made) == node


def test_a_pod_that_would_fit_now_is_touched(stand: Stand) -> None:
    for made in gang("full", 3, 4):
        run(stand, made)
    ask(stand, gang("late", 1, 4)[0])
    stand.now += 10
    assert chores.to_touch(stand.desk) == []
    stand.delete("full-0")
    assert [ref.name for ref in chores.to_touch(stand.desk)] == [], "the rest of its gang still holds the node"
    stand.delete("full-1")
    stand.delete("full-2")
    assert [ref.name for ref in chores.to_touch(stand.desk)] == ["late-0"]
    assert chores.to_touch(stand.desk) == [], "kube-scheduler has time to ask"
    stand.now += 3
    assert chores.to_touch(stand.desk) == [], "and ever more time"
    stand.now += 3
    assert [ref.name for ref in chores.to_touch(stand.desk)] == ["late-0"]


def test_who_waits_for_victims_is_touched_only_when_they_are_gone(stand: Stand) -> None:
    for made in gang("low", 3, 4):
        run(stand, made)
    ask(stand, gang("high", 1, 4, priority=5)[0])
    stand.now += 10
    stand.desk.node_changed(SeenNode("n3", ready=False, schedulable=True))  # something changes
    assert chores.to_touch(stand.desk) == []
    for i in range(3):
        stand.delete(f"low-{i}")
    assert [ref.name for ref in chores.to_touch(stand.desk)] == ["high-0"]


def test_gated_and_foreign_pods_are_left_alone(stand: Stand) -> None:
    made = gang("gated", 1, 4)[0]
    made["spec"]["schedulingGates"] = [{"name": "wait"}]
    stand.desk.pod_changed(made)
    stand.desk.pod_changed(pod("foreign", None))
    stand.now += 100
    assert chores.to_touch(stand.desk) == []
    assert stand.desk.table.find("default", "foreign") is None


def test_a_restart_finds_everything_as_it_was(stand: Stand) -> None:
    made = [*gang("a", 2, 4), *gang("b", 1, 2, "B", -1), *gang("c", 1, 4, "B")]
    for one in made:
        run(stand, one)
    before = stand.desk.book.engine.state.digest()
    stand.begin(spec())
    with pytest.raises(NotServingError, match="starting"):
        stand.desk.filter(FilterArgs(made[0], NODES))
    stand.open(reversed(NODES))
    assert stand.desk.book.engine.state.digest() == before
    assert not stand.told


def test_a_changed_configuration_that_takes_a_promise_away_is_told(stand: Stand) -> None:
    for made in gang("a", 2, 4):
        run(stand, made)
    stand.begin(spec(virtualClusters={"B": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 1}]}}))
    stand.open(NODES)
    assert stand.told_of("a-0")[0] == stand.told_of("a-1")[0] == "GuaranteeLost"


def test_lazy_preemption_is_told(stand: Stand) -> None:
    for made in gang("lazy", 3, 4, lazyPreemptionEnable=True):
        run(stand, made)
    run(stand, gang("next", 1, 4, priority=5)[0])
    assert stand.told_of("lazy-0") == ["GuaranteeLost"]
    assert "group default/next took its cells" in stand.told[0].message


def test_a_pod_that_contradicts_itself_is_told_and_holds_nothing(stand: Stand) -> None:
    made = gang("odd", 1, 4)[0]
    made["spec"]["nodeName"] = "n0"
    for annotation in ("node: n1\nleafCellIsolation: [0]\ncellChain: POOL", "{broken", "[]"):
        made["metadata"]["annotations"][BIND_INFO] = annotation
        stand.desk.pod_changed(made)
    assert stand.told_of("odd-0") == ["DevicesUnknown"] * 3
    assert not stand.desk.book.engine.state.occupancy.user


def test_a_missed_deletion_is_made_good_by_the_next_list(stand: Stand) -> None:
    made = gang("g", 1, 4)[0]
    run(stand, made)
    stand.desk.pod_changed({**made, "status": {"phase": "Succeeded"}})
    assert not stand.desk.book.pods
    stand.desk.pod_gone("nobody")  # and what is not known can go


def test_a_bad_node_is_one_that_cannot_keep_its_promise() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    four = {"capacity": {"nvidia.com/gpu": "4", "cpu": "8"}, "allocatable": {"nvidia.com/gpu": "3"}}

    def why(status: Json, node: Json | None = None) -> str:
        return why_bad(see({"metadata": {"name": "n"}, "spec": node or {}, "status": status}), 4)

    assert why(ready) == ""
    assert why({}) == "it is not Ready"
    assert why(ready, {"unschedulable": True}) == "it is cordoned"
    assert why(ready | four) == "it has 3 healthy devices, its cells promise 4"
    assert why_bad(None, 4) == "it is not there"


def test_nodes_are_reported_in_the_order_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    report = Book.report

    def noted(book: Book, node: str, *rest: Any) -> Any:
        told.append(node)
        return report(book, node, *rest)

    monkeypatch.setattr(Book, "report", noted)
    made = Stand(spec())
    made.open(reversed(NODES))
    assert told == NODES


def test_an_unreadable_pod_stands_in_nobodys_way(stand: Stand) -> None:
    answer = ask(stand, pod("bad", {"virtualCluster": "A", "priority": "high", "leafCellNumber": 1}))
    assert answer.hopeless["n0"] == "priority: expected a whole number, found 'high'"
    assert stand.told_of("bad") == ["Unreadable"]
    answer = ask(stand, pod("lost", {"virtualCluster": "Z", "priority": 0, "leafCellNumber": 1}))
    assert answer.hopeless["n0"] == "virtualCluster: there is no VC Z"
    assert stand.told_of("lost") == ["Refused"]
    run(stand, gang("fine", 1, 4)[0])


def test_in_tree_victims_must_not_die_for_nothing(stand: Stand) -> None:
    """kube-scheduler asks before it evicts for CPU: only the node that filter would give is any use."""
    held = gang("held", 1, 4)[0]
    node = run(stand, held)
    asked = gang("asked", 1, 4)[0]
    victims = {name: Victims((f"cpu-{name}",), 0) for name in NODES}
    helpful = stand.desk.preempt(PreemptArgs(asked, victims))
    assert len(helpful) == 1
    assert node not in helpful
    (own,) = helpful
    assert not stand.desk.preempt(PreemptArgs(asked, {name: Victims(("x",)) for name in NODES if name != own}))
    assert not stand.desk.preempt(PreemptArgs(asked, {own: Victims((held["metadata"]["uid"],))})), "it keeps its right"
    with pytest.raises(RequestError):
        stand.desk.preempt(PreemptArgs(pod("bad", "]"), victims))


def test_the_preempt_verb_names_victims_where_kube_scheduler_evicts() -> None:
    stand = Stand(spec(), Options(own_preemption=False))
    stand.open(NODES)
    for made in gang("low", 3, 4):
        run(stand, made)
    high = gang("high", 1, 4, priority=5)[0]
    assert "preempted for" in ask(stand, high).failed["n0"]
    found = stand.desk.preempt(PreemptArgs(high, {name: Victims() for name in NODES}))
    assert sorted(uid for one in found.values() for uid in one.uids) == [f"uid-low-{i}" for i in range(3)]
    stand.hands.round()
    assert not [call for call in stand.server.calls if "eviction" in call]


def test_a_contradiction_stops_everything(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise InvariantError("two plus two")

    monkeypatch.setattr(Book, "place", broken)
    for _ in range(2):
        with pytest.raises(NotServingError, match="two plus two"):
            ask(stand, gang("g", 1, 4)[0])
    assert "two plus two" in stand.desk.broken


def test_a_victim_that_is_ending_is_not_asked_again(stand: Stand) -> None:
    low = gang("low", 1, 4)[0]
    run(stand, low)
    for made in gang("rest", 2, 4):
        run(stand, made)
    ask(stand, gang("high", 1, 4, priority=5)[0])
    stand.hands.round()
    (gone,) = [call for call in stand.server.calls if "eviction" in call]
    victim = next(one for one in stand.server.pods.values() if one["metadata"]["name"] == gone.rpartition(" ")[2])
    stand.desk.pod_changed({**victim, "metadata": victim["metadata"] | {"deletionTimestamp": "2026-11-22T00:00:00Z"}})
    for _ in range(20):
        stand.now += 10
        stand.hands.round()
    assert len([call for call in stand.server.calls if "eviction" in call]) == 1


def test_another_pod_of_the_name_is_not_bound(stand: Stand) -> None:
    made = gang("g", 3, 4)
    for one in made:
        ask(stand, one)
    (node,) = ask(stand, made[0]).names
    stand.create(pod("g-0", {}, "another"))
    assert stand.hands.bind(BindArgs(pod_ref(made[0]), node)) == "the pod is gone"
    assert made[0]["metadata"]["uid"] not in stand.desk.book.pods
    ticketless = stand.server.pods["default/g-0"]
    assert "nodeName" not in ticketless["spec"]


def test_one_pod_with_a_right_saves_its_node_from_in_tree_preemption(stand: Stand) -> None:
    small = gang("small", 1, 2)[0]
    node = run(stand, small)
    asked = gang("asked", 1, 2)[0]
    mixed = Victims((small["metadata"]["uid"], "cpu-only"))
    assert stand.desk.preempt(PreemptArgs(asked, {node: Victims(("cpu-only",))}))
    assert not stand.desk.preempt(PreemptArgs(asked, {node: mixed}))


def test_a_lost_guarantee_is_told_once(stand: Stand) -> None:
    for made in gang("lazy", 3, 4, lazyPreemptionEnable=True):
        run(stand, made)
    run(stand, gang("next", 1, 4, priority=5)[0])
    before = stand.told_of("lazy-0")
    stand.delete("lazy-2")
    assert stand.told_of("lazy-0") == before == ["GuaranteeLost"]


def test_a_term_ends_when_its_last_binding_has_been_answered(stand: Stand) -> None:
    """The list that the next term begins with must have it."""
    made = gang("g", 1, 4)[0]
    (node,) = ask(stand, made).names
    began, answer, order = threading.Event(), threading.Event(), list[str]()
    request = stand.server.request

    def slow(method: str, path: str, body: Any = None, **_: object) -> Json:
        began.set()
        answer.wait(5)
        order.append("bound")
        return request(method, path, body)

    stand.server.request = slow  # type: ignore[method-assign]
    binding = threading.Thread(target=stand.hands.bind, args=(BindArgs(pod_ref(made), node),))
    binding.start()
    assert began.wait(5)

    def end() -> None:
        stand.hands.stop()
        order.append("ended")

    ending = threading.Thread(target=end)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    answer.set()
    ending.join(5)
    binding.join(5)
    assert order == ["bound", "ended"]
    assert stand.hands.bind(BindArgs(pod_ref(made), node)) == "this process no longer leads"
