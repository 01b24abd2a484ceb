"""Preemption: gang by gang, within disruption budgets, and never for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors import gangs
from paictl.doors.core import DoorOptions
from paictl.doors.deciding import preempt_unasked
from paictl.doors.table import pod_ref
from paictl.extender.verbs import candidates, filter_nodes
from paictl.extender.wire import FilterArgs, PreemptArgs, Victims
from paictl.remote.kube import budgets
from paictl.remote.kube.client import Json, KubeError
from paictl.scheduler.errors import RequestError
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang, pod


def test_a_gang_is_preempted_as_a_whole_and_everybody_is_told(harness: Harness) -> None:
    low = gang("low", 3, 4)
    for made in low:
        harness.run(made)
    high = gang("high", 1, 4, priority=5)[0]
    answer = harness.ask(high)
    assert not answer.names
    assert "preempted for group default/high" in answer.failed["n0"]
    harness.reconciler.reconcile()
    evicted = harness.evictions()
    assert evicted == [f"POST eviction low-{i}" for i in range(3)]
    (nominated,) = harness.server.sent("PATCH status high-0")
    assert nominated["metadata"]["uid"] == "uid-high-0"
    assert nominated["status"]["nominatedNodeName"] in NODES
    noted = [harness.server.pods[f"default/low-{i}"]["metadata"]["annotations"] for i in range(3)]
    assert [one["paictl.io/preempted-for"] for one in noted] == ["default/high"] * 3
    assert [harness.reasons_of(f"low-{i}") for i in range(3)] == [["Preempted"]] * 3
    assert harness.reasons_of("high-0") == ["Preempting"]
    harness.reconciler.reconcile()
    assert len(harness.evictions()) == 3, "not asked to go twice"
    assert harness.reconciler.evicted == 3
    assert gangs.vacant(harness.core) == set()
    for i in range(3):
        harness.delete(f"low-{i}")
    assert gangs.vacant(harness.core) == {"default/high"}
    assert harness.run(high) in NODES
    assert gangs.vacant(harness.core) == set()


def test_nobody_is_bound_to_a_place_that_has_gone_bad_since_its_victims_were_chosen(harness: Harness) -> None:
    lent = {harness.run(made): made["metadata"]["name"] for made in gang("lent", 4, 4, priority=-1)}
    owner = gang("owner", 1, 4)[0]
    assert not harness.ask(owner).names
    group = harness.core.book.engine.state.groups.by_name["default/owner"]
    tree = harness.core.book.engine.state.physical
    (place,) = {tree.node_name(leaf) for leaf in group.leaves()}
    harness.core.node_changed(NodeStatus(place, ready=False, schedulable=True))
    for name in lent.values():
        harness.delete(name)
    assert harness.run(owner) in lent.keys() - {place}


def test_a_place_that_has_gone_bad_is_given_up_although_kube_scheduler_does_not_ask(harness: Harness) -> None:
    for number in range(4):
        harness.run(gang(f"lent{number}", 1, 4, priority=-1)[0])
    owner = gang("owner", 1, 4)[0]
    assert not harness.ask(owner).names
    tree, groups = harness.core.book.engine.state.physical, harness.core.book.engine.state.groups.by_name
    (place,) = {tree.node_name(leaf) for leaf in groups["default/owner"].leaves()}
    harness.core.node_changed(NodeStatus(place, ready=False, schedulable=True))
    victim = next(one for one in harness.server.pods.values() if one["spec"].get("nodeName") == place)
    harness.delete(victim["metadata"]["name"])  # the place is empty, and all others are in use
    assert preempt_unasked(harness.core, pod_ref(owner))
    groups = harness.core.book.engine.state.groups.by_name
    assert place not in {tree.node_name(leaf) for leaf in groups["default/owner"].leaves()}


@pytest.mark.parametrize(
    ("created", "order"),
    [
        (("12:00:02", "12:00:01"), ["second", "first"]),
        (("12:00:01", "12:00:01"), ["first", "second"]),
        (("12:00:01", "12:00:02"), ["first", "second"]),
    ],
)
@pytest.mark.parametrize("uids", [("uid-1", "uid-2"), ("uid-2", "uid-1")])
def test_victims_go_by_age_and_name_and_not_by_random_uids(
    harness: Harness, created: tuple[str, str], order: list[str], uids: tuple[str, str]
) -> None:
    for name, at, uid in zip(("first", "second"), created, uids, strict=True):
        (made,) = gang(name, 1, 2, "B")
        made["metadata"] |= {"uid": uid, "creationTimestamp": f"2026-01-01T{at}Z"}
        harness.run(made)
    harness.ask(gang("high", 1, 4, "B", priority=5)[0])
    harness.reconciler.reconcile()
    assert harness.evictions() == [f"POST eviction {name}-0" for name in order]


def test_a_place_that_nobody_came_for_is_taken_again_once_it_is_offered(harness: Harness) -> None:
    """kube-scheduler was busy, or did not offer the node for a while; the place is lent meanwhile."""
    for number in range(4):
        harness.run(gang(f"lent{number}", 1, 4, priority=-1)[0])
    owner = gang("owner", 1, 4, vc="B")[0]
    assert not harness.ask(owner).names
    (preemption,) = harness.core.book.preemptions()
    ((place, (victim,)),) = preemption.victims
    harness.delete(victim.removeprefix("uid-"))
    for _ in range(2):
        harness.reconciler.reconcile()
        harness.now += harness.options.deadline + 1
    assert not harness.core.book.preemptions(), "it is given back"
    assert harness.run(gang("again", 1, 4, priority=-1)[0]) == place
    others = [node for node in NODES if node != place]
    refused = " ".join(harness.ask(owner, others).failed.values())
    assert f"node {place}: kube-scheduler does not offer it" in refused
    harness.ask(owner)
    assert [one.victims for one in harness.core.book.preemptions()] == [((place, ("uid-again-0",)),)]


def test_a_place_that_is_never_offered_again_is_tried_again_after_a_while(harness: Harness) -> None:
    """Who has it now takes all CPU there, so kube-scheduler's own filters never offer it."""
    for number in range(4):
        harness.run(gang(f"lent{number}", 1, 4, priority=-1)[0])
    owner = gang("owner", 1, 4, vc="B")[0]
    harness.ask(owner)
    ((place, (victim,)),) = harness.core.book.preemptions()[0].victims
    harness.delete(victim.removeprefix("uid-"))
    for _ in range(2):
        harness.reconciler.reconcile()
        harness.now += harness.options.deadline + 1
    harness.run(gang("again", 1, 4, priority=-1)[0])
    others = [node for node in NODES if node != place]
    for _ in range(5):
        harness.ask(owner, others)
        assert not harness.core.book.preemptions(), "nobody has to go in vain each minute"
        harness.now += harness.options.deadline
    harness.now += 6 * harness.options.deadline
    harness.ask(owner, others)
    assert [one.victims for one in harness.core.book.preemptions()] == [((place, ("uid-again-0",)),)]


def test_who_no_longer_needs_the_room_evicts_nobody(harness: Harness) -> None:
    for made in gang("low", 3, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    harness.delete("high-0")
    harness.reconciler.reconcile()
    assert not harness.evictions()


def test_a_question_about_a_pod_that_has_gone_evicts_nobody_and_holds_nothing(harness: Harness) -> None:
    """kube-scheduler's question was under way when the pod's end came by the watch."""
    for made in gang("low", 3, 4):
        harness.run(made)
    (late,) = gang("late", 1, 4, priority=5)
    harness.create(late)
    harness.delete("late-0")
    answer = filter_nodes(harness.core, FilterArgs(late, list(NODES)))
    assert not answer.names
    assert set(answer.hopeless.values()) == {"the pod is gone"}
    harness.core.pod_changed(late)  # nor does an old object bring it back
    assert "default/late" not in harness.core.book.engine.state.groups.by_name
    harness.reconciler.reconcile()
    assert not harness.evictions()


def test_a_preemptor_that_nobody_saw_go_evicts_nobody_and_holds_nothing(harness: Harness) -> None:
    """It went before this process began to watch: only the API server can say so, and it is asked first."""
    for made in gang("low", 3, 4):
        harness.run(made)
    (late,) = gang("late", 1, 4, priority=5)
    assert not harness.ask(late).names
    harness.server.pods.pop("default/late-0")
    harness.reconciler.reconcile()
    assert "default/late" not in harness.core.book.engine.state.groups.by_name
    assert not harness.evictions()


@pytest.mark.parametrize("delete_after", [None, 20.0])
def test_a_budget_protects_unless_it_is_overruled(harness: Harness, delete_after: float | None) -> None:
    harness.reconciler.delete_after = delete_after
    for made in gang("low", 3, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    harness.server.refuse["eviction"] = KubeError("budget", status=429, reason="TooManyRequests")
    for _ in range(40):
        harness.reconciler.reconcile()
        harness.now += 1
    assert "PreemptionHindered" in harness.reasons_of("high-0")
    tried = [call for call in harness.server.calls if "eviction" in call]
    assert 0 < len(tried) < 25, "tried ever less often"
    deleted = [call for call in harness.server.calls if call.startswith("DELETE")]
    assert bool(deleted) is (delete_after is not None)
    assert ("BudgetOverruled" in harness.reasons_of("low-0")) is (delete_after is not None)


def test_who_is_protected_is_not_marked_as_preempted(harness: Harness) -> None:
    """Should somebody else evict it later, nobody must take that for the preemption."""
    harness.run(gang("low", 1, 4, "B")[0])
    harness.server.refuse["eviction"] = KubeError("budget", status=429, reason="TooManyRequests")
    harness.ask(gang("high", 1, 4, "B", priority=5)[0])
    harness.reconciler.reconcile()
    assert harness.reasons_of("high-0") == ["Preempting", "PreemptionHindered"]
    assert "paictl.io/preempted-for" not in harness.server.pods["default/low-0"]["metadata"]["annotations"]


def test_a_gang_of_which_one_pod_is_protected_is_left_whole(harness: Harness) -> None:
    for made in gang("low", 3, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    harness.server.refuse["eviction low-2"] = KubeError("the budget", status=429, reason="TooManyRequests")
    for _ in range(20):
        harness.reconciler.reconcile()
        harness.now += 1
    assert not harness.evictions(), "the others would end for nothing"
    assert "PreemptionHindered" in harness.reasons_of("high-0")
    assert "Preempted" not in harness.reasons_of("low-0")
    harness.server.refuse.clear()
    harness.now += 30
    harness.reconciler.reconcile()
    assert sorted(harness.evictions()) == [f"POST eviction low-{i}" for i in range(3)]


@pytest.mark.parametrize("delete_after", [None, 600.0])
def test_a_budget_made_while_a_gang_is_being_evicted_does_not_keep_half_of_it(
    harness: Harness, delete_after: float | None
) -> None:
    """Whoever owns the gang can make a budget between two evictions: the rest holds devices and does no work."""
    harness.reconciler.delete_after = delete_after
    for made in gang("low", 3, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    server, answer = harness.server, harness.server.request

    def request(method: str, path: str, body: Any = None, **more: object) -> Any:
        found = answer(method, path, body, **more)
        if server.calls[-1].startswith("POST eviction"):
            server.refuse["eviction"] = KubeError("the budget", status=429, reason="TooManyRequests")
        return found

    server.request = request  # type: ignore[method-assign]
    for _ in range(10):
        harness.reconciler.reconcile()
        if harness.evictions() and "default/low-0" in server.pods:
            harness.delete("low-0")  # it has ended at once
        harness.now += 1
    deleted = {call for call in server.calls if call.startswith("DELETE")}
    assert deleted == (set() if delete_after is None else {"DELETE pod low-1", "DELETE pod low-2"})
    assert ("BudgetOverruled" in harness.reasons_of("low-2")) is (delete_after is not None)
    assert "PreemptionHindered" in harness.reasons_of("high-0") or delete_after is not None


def test_a_budget_over_several_pods_of_a_gang_takes_all_of_them_or_none(harness: Harness) -> None:
    """The API server would take any one of them, and the next no more."""
    for made in gang("low", 3, 4):
        made["metadata"]["labels"] = {"team": "x"}
        made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"team": "x"}}}}
    harness.server.budgets = [{**budget, "status": {"disruptionsAllowed": 2}}]
    for _ in range(20):
        harness.reconciler.reconcile()
        harness.now += 1
    assert not harness.evictions()
    said = [one.message for one in harness.recorded if one.reason == "PreemptionHindered"]
    assert said
    assert all("the disruption budget b allows 2 of the 3 evictions needed" in one for one in said)
    harness.server.pods["default/low-1"]["status"]["conditions"] = []  # it is not ready: the budget does not count it
    harness.now += 30
    harness.reconciler.reconcile()
    assert sorted(harness.evictions()) == [f"POST eviction low-{i}" for i in range(3)]


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"team": "x"}}, True),
        ({"matchLabels": {"team": "x", "other": "y"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["w", "x"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_what_a_budget_selects(selector: dict[str, object] | None, selected: bool) -> None:
    assert budgets.selects(selector, {"team": "x"}) is selected


@pytest.mark.parametrize(
    ("about", "status", "counted"),
    [
        ({}, {}, True),
        ({"uid": "another"}, {}, False),
        ({"deletionTimestamp": "1970-01-01T00:17:00Z"}, {}, False),
        ({}, {"phase": "Pending"}, False),
        ({}, {"conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        ({}, {"conditions": [{"type": "Ready", "status": "False"}]}, False),
    ],
)
def test_what_an_eviction_takes_from_a_budget(
    harness: Harness, about: dict[str, str], status: dict[str, object], counted: bool
) -> None:
    """As the Eviction API counts; the first of the two pods is healthy, and the budget allows one."""
    harness.server.budgets = [
        {"metadata": {"name": "b"}, "spec": {"selector": {}}, "status": {"disruptionsAllowed": 1}}
    ]
    healthy = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    one, other = (harness.create(pod(name, None) | {"status": healthy}) for name in ("one", "other"))
    other["metadata"] |= about
    other["status"] = healthy | status
    client: Any = harness.server
    wanted = [("default", "one", one["metadata"]["uid"]), ("default", "other", "uid-other")]
    assert budgets.overdrawn(client, wanted).keys() == (set(wanted) if counted else set())


def test_a_tenant_with_thousands_of_budgets_delays_no_evictions_of_others() -> None:
    """Each attempt at a gang of its own would read them all, and nothing else is evicted meanwhile."""
    pages: list[str] = []

    def listed(path: str) -> Iterator[tuple[str, list[Json]]]:
        while len(pages) < 100:
            pages.append(path)
            yield "1", [{"metadata": {"name": f"b{len(pages)}"}, "status": {"disruptionsAllowed": 5}}]

    client: Any = SimpleNamespace(list=listed)
    assert budgets.overdrawn(client, [("default", "one", "uid-one"), ("default", "other", "uid-other")]) == {}
    assert len(pages) == 1


def test_an_eviction_that_the_server_cannot_carry_out_keeps_no_other_waiting(harness: Harness) -> None:
    """Two budgets for one pod: the server answers 500. Another group's preemption goes on."""
    for made in (*gang("low", 3, 4), *gang("lower", 1, 4, "B")):
        harness.run(made)
    harness.server.refuse["eviction low-1"] = KubeError("more than one PodDisruptionBudget", status=500)
    harness.ask(gang("high", 3, 4, priority=5)[0])
    harness.ask(gang("higher", 1, 4, "B", priority=5)[0])
    harness.reconciler.reconcile()
    assert harness.evictions() == ["POST eviction lower-0"]
    assert "PreemptionHindered" in harness.reasons_of("high-0")


def test_in_tree_victims_must_not_die_for_nothing(harness: Harness) -> None:
    """kube-scheduler asks before it evicts for CPU: only the node that filter would give is any use."""
    held = gang("held", 1, 4)[0]
    node = harness.run(held)
    asked = harness.create(gang("asked", 1, 4)[0])
    victims = {name: Victims((f"cpu-{name}",), 0) for name in NODES}
    helpful = candidates(harness.core, PreemptArgs(asked, victims))
    assert len(helpful) == 1
    assert node not in helpful
    (own,) = helpful
    assert not candidates(harness.core, PreemptArgs(asked, {name: Victims(("x",)) for name in NODES if name != own}))
    assert not candidates(harness.core, PreemptArgs(asked, {own: Victims((held["metadata"]["uid"],))})), (
        "it keeps its right"
    )
    with pytest.raises(RequestError):
        candidates(harness.core, PreemptArgs(harness.create(pod("bad", "]")), victims))


def test_the_preempt_verb_names_victims_where_kube_scheduler_evicts() -> None:
    harness = Harness(spec(), DoorOptions(own_preemption=False))
    harness.open(NODES)
    for made in gang("low", 3, 4):
        harness.run(made)
    high = gang("high", 1, 4, priority=5)[0]
    assert "preempted for" in harness.ask(high).failed["n0"]
    found = candidates(harness.core, PreemptArgs(high, {name: Victims((), 2) for name in NODES}))
    assert {one.violations for one in found.values()} == {2}, "of budgets, as kube-scheduler has counted them"
    assert sorted(uid for one in found.values() for uid in one.uids) == [f"uid-low-{i}" for i in range(3)]
    harness.reconciler.reconcile()
    assert not harness.evictions()


def test_a_victim_that_is_ending_is_not_asked_again(harness: Harness) -> None:
    low = gang("low", 1, 4)[0]
    harness.run(low)
    for made in gang("rest", 2, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    harness.reconciler.reconcile()
    (gone,) = harness.evictions()
    victim = next(one for one in harness.server.pods.values() if one["metadata"]["name"] == gone.rpartition(" ")[2])
    harness.core.pod_changed({**victim, "metadata": victim["metadata"] | {"deletionTimestamp": "1970-01-01T00:17:00Z"}})
    for _ in range(20):
        harness.now += 10
        harness.reconciler.reconcile()
    assert len(harness.evictions()) == 1


def test_one_pod_with_a_right_saves_its_node_from_in_tree_preemption(harness: Harness) -> None:
    small = gang("small", 1, 2)[0]
    node = harness.run(small)
    asked = harness.create(gang("asked", 1, 2)[0])
    mixed = Victims((small["metadata"]["uid"], "cpu-only"))
    assert candidates(harness.core, PreemptArgs(asked, {node: Victims(("cpu-only",))}))
    assert not candidates(harness.core, PreemptArgs(asked, {node: mixed}))


def test_who_will_not_lead_for_long_enough_evicts_nobody(harness: Harness) -> None:
    for made in gang("low", 3, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    harness.reconciler.remaining = lambda: 0.4
    harness.reconciler.reconcile()
    assert not harness.evictions()
    harness.reconciler.remaining = lambda: 4.0
    harness.reconciler.reconcile()
    assert len(harness.evictions()) == 3


FULL = "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu."


def refused(harness: Harness, message: str, **more: Any) -> None:
    """A pod that kube-scheduler's own filters refuse, so that it never asks; minutes pass."""
    (high,) = gang("high", 1, 4, priority=5, **more)
    high["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": message}]
    harness.core.pod_changed(harness.create(high))
    for _ in range(20):
        harness.now += 10
        harness.reconciler.reconcile()


def test_a_pod_whose_nodes_are_full_with_victims_preempts_without_being_asked_about(harness: Harness) -> None:
    """NodeResourcesFit comes before the extender: with every node's CPU in use nobody would ever be told to go."""
    for made in gang("low", 3, 4):
        harness.run(made)
    refused(harness, FULL)
    assert harness.evictions()[:3] == [f"POST eviction low-{i}" for i in range(3)]
    assert "Preempting" in harness.reasons_of("high-0")
    for i in range(3):
        harness.delete(f"low-{i}")
    assert harness.run(harness.server.pods["default/high-0"]) in NODES


@pytest.mark.parametrize(
    ("message", "more"),
    [
        ("0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.", {}),
        ("0/4 nodes are available: 4 node(s) had volume node affinity conflict.", {"ignoreK8sSuggestedNodes": False}),
    ],
)
def test_who_is_refused_for_more_than_room_preempts_nobody(
    harness: Harness, message: str, more: dict[str, Any]
) -> None:
    for made in gang("low", 3, 4):
        harness.run(made)
    refused(harness, message, **more)
    assert harness.evictions() == []


def test_a_pod_that_would_only_have_to_be_bound_holds_nothing_until_it_is_asked_about(harness: Harness) -> None:
    refused(harness, FULL)
    assert harness.forced == []
    assert "default/high" not in harness.core.book.engine.state.groups.by_name
