"""Bind: once, with its annotations, and only what was decided."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from paictl.cluster.pods.recovering import recovered
from paictl.doors import views
from paictl.doors.binder import booked, not_bound
from paictl.doors.table import pod_ref
from paictl.extender.verbs import bind, requested
from paictl.extender.wire import BindArgs
from paictl.remote.kube.client import KubeError
from paictl.scheduler.wire import BIND_INFO, ISOLATION, parse_bind_info
from tests.unit.extender.conftest import NODES, mig_spec, spec
from tests.unit.extender.harness import Harness, gang, pod


def test_a_pod_is_bound_once_with_its_annotations(harness: Harness) -> None:
    made = gang("g", 1, 2)[0]
    node = harness.run(made)
    assert made["spec"]["nodeName"] == node
    assert made["metadata"]["annotations"][ISOLATION] == "0,1"
    before = dict(made["metadata"]["annotations"])
    assert harness.bind(made, node) == "", "asked again, it is bound already"
    assert made["metadata"]["annotations"] == before


def test_a_pod_on_mig_instances_is_told_gpu_and_instance() -> None:
    harness = Harness(mig_spec(2))
    harness.open(NODES)
    three, one = gang("g", 1, 3)[0], gang("h", 1, 1)[0]
    harness.run(three)
    noted = three["metadata"]["annotations"]
    assert noted[ISOLATION] == "0:0,0:1,1:0"
    assert parse_bind_info(noted[BIND_INFO], "default/g-0", json.loads).devices == (0, 1, 2), "HiveD's wire is HiveD's"
    harness.begin(mig_spec(2))
    harness.open(NODES)
    assert harness.run(one) == three["spec"]["nodeName"]
    assert one["metadata"]["annotations"][ISOLATION] == "1:1", "what a pod has is known after a restart"
    report = views.explain_pod(harness.core, "default", "g-0")
    assert "devices 0:0,0:1,1:0 (leaf cells 0,1,2)" in report["text"][0]
    assert report["devices"] == [0, 1, 2]


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2), (2, 4), (4, 2)])
def test_a_node_that_was_divided_anew_under_its_pods_gets_no_other(before: int, after: int) -> None:
    """A pod told 1:1 would count as the whole GPU 3, and GPU 1 would be given away under it."""
    harness = Harness(mig_spec(before) if before else spec())
    harness.open(NODES)
    old, new = gang("g", 1, 3)[0], gang("h", 1, 1)[0]
    node = harness.run(old)
    harness.begin(mig_spec(after) if after else spec())
    harness.open(NODES)
    assert [event.reason for event in harness.recorded if event.pod.name == "g-0"][-1] == "DevicesDisagree"
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"metadata": {"name": name}, "status": ready} for name in NODES]
    seen = recovered(mig_spec(after) if after else spec(), nodes, [old]).book.health
    assert [name for name, healthy in seen.items() if not healthy] == [node], "views and plans agree with the door"
    assert harness.run(new) != node
    harness.core.pod_gone(old["metadata"]["uid"])
    assert node not in harness.core.health.bad
    assert node in {harness.run(gang(f"i{number}", 1, 4)[0]) for number in range(2)}


def test_a_node_that_was_not_decided_is_refused(harness: Harness) -> None:
    made = gang("g", 1, 2)[0]
    (node,) = harness.ask(made).names
    other = next(name for name in NODES if name != node)
    assert "has its place on node" in harness.bind(made, other)
    assert "has to pass filter first" in harness.bind(pod("stranger", {}), node)
    assert harness.bind(made, node) == ""


def test_a_refused_binding_says_so(harness: Harness) -> None:
    made = gang("g", 1, 4)[0]
    (node,) = harness.ask(made).names
    harness.server.refuse["binding"] = KubeError("no such luck", status=403, reason="Forbidden")
    assert harness.bind(made, node) == "no such luck"
    harness.server.refuse.clear()
    assert harness.run(made) == node


def test_a_gang_of_which_one_binding_is_refused_comes_out_whole(harness: Harness) -> None:
    """The others run; the place of the one stays its gang's, and it is bound there as soon as the server takes it."""
    made = gang("g", 3, 4)
    nodes = [harness.ask(one).names[0] for one in made]
    harness.server.refuse["binding g-1"] = KubeError("not this one", status=403, reason="Forbidden")
    assert [harness.bind(*one) for one in zip(made, nodes, strict=True)] == ["", "not this one", ""]
    for _ in range(2):  # it is asked about again and again, and given up in the end
        harness.now += 61
        harness.reconciler.reconcile()
        assert not harness.ask(gang("other", 1, 4)[0]).names, "nobody else gets its place"
        assert harness.bind(made[1], harness.ask(made[1]).names[0]) == "not this one"
    assert harness.reasons_of("g-1") == ["ReservationReleased"] * 2
    harness.server.refuse.clear()
    assert harness.run(made[1]) == nodes[1]
    assert sorted(one["spec"]["nodeName"] for one in made) == sorted(nodes)


@pytest.mark.parametrize(("same_node", "same_place"), [(True, True), (True, False), (False, True)])
def test_what_another_process_has_bound_counts_if_it_is_the_same(
    harness: Harness, same_node: bool, same_place: bool
) -> None:
    """The answer to a binding was lost, or the process before had decided otherwise."""
    made = gang("g", 1, 2)[0]
    (node,) = harness.ask(made).names
    binding = booked(harness.core, pod_ref(made))
    assert binding is not None
    noted = binding.annotations[BIND_INFO]
    made["spec"]["nodeName"] = node if same_node else next(name for name in NODES if name != node)
    made["metadata"]["annotations"][BIND_INFO] = noted if same_place else f"{noted}\n"
    assert harness.bind(made, node) == ("" if same_node and same_place else "already assigned")


def test_another_pod_of_the_name_is_not_bound(harness: Harness) -> None:
    made = gang("g", 3, 4)
    for one in made:
        harness.ask(one)
    (node,) = harness.ask(made[0]).names
    harness.create(pod("g-0", {}, "another"))
    assert harness.bind(made[0], node) == "the pod is gone"
    assert made[0]["metadata"]["uid"] not in harness.core.book.pods
    ticketless = harness.server.pods["default/g-0"]
    assert "nodeName" not in ticketless["spec"]


def test_a_term_ends_when_its_last_binding_has_been_answered(harness: Harness) -> None:
    """The list that the next term begins with must have it."""
    made = gang("g", 1, 4)[0]
    (node,) = harness.ask(made).names
    began, answer, order = threading.Event(), threading.Event(), list[str]()
    request = harness.server.request

    def slow(method: str, path: str, body: Any = None, **_: object) -> Any:
        began.set()
        answer.wait(5)
        order.append("bound")
        return request(method, path, body)

    harness.server.request = slow  # type: ignore[method-assign]
    binding = threading.Thread(target=bind, args=(harness.binder, BindArgs(pod_ref(made), node)))
    binding.start()
    assert began.wait(5)

    def end() -> None:
        harness.binder.stop()
        order.append("ended")

    ending = threading.Thread(target=end)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    answer.set()
    ending.join(5)
    binding.join(5)
    assert order == ["bound", "ended"]
    assert harness.bind(made, node) == "this process no longer leads"


def test_an_overdue_binding_that_did_come_is_kept(harness: Harness) -> None:
    made = gang("g", 1, 4)[0]
    harness.ask(made)
    binding = requested(harness.core, BindArgs(pod_ref(made), harness.ask(made).names[0]))
    assert not isinstance(binding, str)
    made["metadata"]["annotations"] |= binding.annotations  # the answer was lost on its way
    made["spec"]["nodeName"] = binding.node
    not_bound(harness.core, binding.ref)
    harness.now += 61
    harness.reconciler.reconcile()
    assert not harness.recorded
    assert not harness.core.book.assumed()


def test_who_will_not_lead_for_long_enough_begins_no_binding(harness: Harness) -> None:
    made = gang("g", 1, 4)[0]
    (node,) = harness.ask(made).names
    harness.binder.remaining = lambda: 0.4
    assert harness.bind(made, node) == "this process no longer leads"
    assert "nodeName" not in made["spec"]
    harness.binder.remaining = lambda: 4.0
    assert harness.bind(made, node) == ""
