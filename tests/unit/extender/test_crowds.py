"""However many pods of one virtual cluster wait, and whatever their priority, the door also thinks of the others."""

from __future__ import annotations

import pytest

from paictl.doors import housekeeping
from paictl.doors.core import DoorOptions
from paictl.doors.housekeeping import MOST
from paictl.remote.kube.client import Json
from paictl.scheduler.groups import GroupState
from paictl.scheduler.wire import GRANTED
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang, pod

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "message": "0/4 nodes: 4 Insufficient nvidia.com/gpu"}


def unasked(name: str, vc: str, priority: int) -> Json:
    """A pod about which kube-scheduler does not ask, as its own filters leave no node."""
    (made,) = gang(name, 1, 4, vc, priority, ignoreK8sSuggestedNodes=False)
    made["status"]["conditions"] = [UNSCHEDULABLE]
    return made


def full(vcs: list[str]) -> Harness:
    """A uses its whole promise and borrows the rest, and a crowd of its pods waits."""
    harness = Harness(spec(), DoorOptions(require_grants=True))
    harness.core.namespace_changed({"metadata": {"name": "default", "annotations": {GRANTED: "A,B"}}})
    harness.open(NODES)
    for number in range(3):
        harness.run(gang(f"busy{number}", 1, 4, "A", 1000)[0])
    harness.run(gang("borrower", 1, 4, "A", -1)[0])
    for number in range(12 * MOST):
        made = unasked(f"crowd{number}", vcs[number % len(vcs)], 1000)
        if vcs == ["B"]:
            made["metadata"]["namespace"] = "without-grants"
        harness.create(made)
    harness.create(unasked("mine", "B", 0))
    harness.now += 100
    return harness


CROWDS = [["A"], ["B"], [f"invented{number}" for number in range(12 * MOST)]]


@pytest.mark.parametrize("vcs", CROWDS, ids=["of A", "of B without a grant", "of invented virtual clusters"])
def test_a_gang_preempts_although_a_crowd_of_others_with_a_higher_priority_waits(vcs: list[str]) -> None:
    harness = full(vcs)
    for number in range(3):
        harness.create(pod(f"other{number}", None))  # something changes, so that all have to be looked at again
        harness.core.usage.place(f"other{number}", "n0", {"cpu": 1})
        harness.now += 1
        harness.reconciler.reconcile()
    groups = harness.core.book.engine.state.groups.by_name
    assert groups["default/mine"].state is GroupState.PREEMPTING


@pytest.mark.parametrize("vcs", CROWDS, ids=["of A", "of B without a grant", "of invented virtual clusters"])
def test_a_pod_that_would_fit_is_asked_about_again_although_a_crowd_waits(vcs: list[str]) -> None:
    harness = full(vcs)
    harness.delete("borrower-0")
    assert "mine-0" in {ref.name for ref in housekeeping.to_requeue(harness.core)}
