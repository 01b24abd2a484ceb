"""A binding without an answer may still be made while the API server works on it: nobody else gets the place."""

from __future__ import annotations

import json

import pytest

from paictl.doors.table import LATE
from paictl.remote.kube.client import KubeError, NoAnswerError
from paictl.scheduler.wire import BIND_INFO, ISOLATION, SCHEDULING_SPEC
from tests.unit.extender.harness import Harness, gang

LOST = [NoAnswerError("timed out"), KubeError("etcdserver: request timed out", status=500)]


def unanswered(harness: Harness, lost: Exception, late: float = 58) -> str:
    """A pod with its place whose binding gets no answer, shortly before its place would be given back; its node."""
    (made,) = gang("g", 1, 4, "B")
    (node,) = harness.ask(made).names
    harness.now += late
    harness.server.refuse["binding"] = lost  # type: ignore[assignment]
    assert harness.bind(made, node)
    del harness.server.refuse["binding"]
    return node


def holds(harness: Harness, name: str) -> bool:
    return harness.core.book.holds(f"uid-{name}")


@pytest.mark.parametrize("lost", LOST)
def test_a_place_is_not_given_back_while_its_binding_may_still_come(harness: Harness, lost: Exception) -> None:
    node = unanswered(harness, lost)
    harness.now += 5
    harness.reconciler.reconcile()
    assert holds(harness, "g-0"), "its binding was sent 5 s ago"
    assert not harness.ask(gang("h", 1, 4, "B")[0]).names
    pod = harness.server.pods["default/g-0"]  # now it comes
    pod["spec"]["nodeName"] = node
    info = harness.core.book.pods["uid-g-0"].info
    assert info is not None
    pod["metadata"]["annotations"] |= {BIND_INFO: harness.core.texts.text(info), ISOLATION: "0,1,2,3"}
    harness.core.pod_changed(pod)
    harness.now += 1000
    harness.reconciler.reconcile()
    assert holds(harness, "g-0")
    assert "DevicesUnknown" not in harness.reasons_of("g-0")


@pytest.mark.parametrize("lost", LOST)
def test_a_place_whose_binding_never_came_is_given_back_later(harness: Harness, lost: Exception) -> None:
    unanswered(harness, lost)
    harness.now += LATE - 1
    harness.reconciler.reconcile()
    assert holds(harness, "g-0")
    harness.now += 2
    harness.reconciler.reconcile()
    assert not holds(harness, "g-0")


def test_a_refused_binding_is_no_reason_to_wait(harness: Harness) -> None:
    unanswered(harness, KubeError("a webhook says no", status=403))
    harness.now += 5
    harness.reconciler.reconcile()
    assert not holds(harness, "g-0")


@pytest.mark.parametrize("lost", LOST)
def test_an_edited_pod_keeps_its_place_while_its_binding_may_still_come(harness: Harness, lost: Exception) -> None:
    unanswered(harness, lost, 1)
    pod = harness.server.pods["default/g-0"]
    noted = pod["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = json.dumps(json.loads(noted[SCHEDULING_SPEC]) | {"priority": 7})
    harness.core.pod_changed(pod)
    assert holds(harness, "g-0")
    harness.now += LATE + 1
    harness.reconciler.reconcile()
    assert not holds(harness, "g-0"), "it asks for something else now"
