"""A gang that waits for others to go, and then wants something else, may have it no more, or is deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paictl.cluster.pods.labels import Rules
from paictl.doors.core import DoorOptions
from paictl.remote.kube.client import Json
from paictl.scheduler.wire import GRANTED, SCHEDULING_SPEC
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang


def preempting(**options: Any) -> tuple[Harness, Json]:
    """A door where a pod of VC B waits for a pod that has borrowed its devices."""
    made = spec()
    harness = Harness(made, DoorOptions(rules=Rules(skus=made.sku_types), **options))
    harness.core.namespace_changed({"metadata": {"name": "default", "annotations": {GRANTED: "A,B"}}})
    harness.open(NODES)
    for one in (*gang("own", 3, 4, "A"), *gang("lent", 1, 4, "A", priority=-1)):
        harness.run(one)
    (owner,) = gang("owner", 1, 4, "B")
    harness.ask(owner)
    assert "default/owner" in harness.core.book.engine.state.groups.by_name
    return harness, owner


@pytest.mark.parametrize("asked", [{"priority": -1}, {"priority": 5}, {"virtualCluster": 3}])
def test_nobody_is_evicted_for_what_a_pod_asks_for_no_more(asked: dict[str, object]) -> None:
    harness, owner = preempting()
    noted = owner["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = json.dumps(json.loads(noted[SCHEDULING_SPEC]) | asked)
    harness.core.pod_changed(owner)
    harness.reconciler.reconcile()
    assert harness.evictions() == []
    answer = harness.ask(owner)
    assert "was started with" not in " ".join([*answer.failed.values(), *answer.hopeless.values()])


def test_what_is_asked_for_instead_is_preempted_for() -> None:
    harness, owner = preempting()
    noted = owner["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = json.dumps(json.loads(noted[SCHEDULING_SPEC]) | {"priority": 5})
    harness.ask(owner)
    harness.reconciler.reconcile()
    assert harness.evictions() == ["POST eviction lent-0"]
    harness.delete("lent-0")
    assert harness.run(owner)


def test_nobody_is_evicted_for_a_namespace_whose_grant_was_taken_away() -> None:
    harness, owner = preempting(require_grants=True)
    harness.core.namespace_changed({"metadata": {"name": "default", "annotations": {GRANTED: "A"}}})
    harness.reconciler.reconcile()
    assert harness.evictions() == []
    harness.core.namespace_changed({"metadata": {"name": "default", "annotations": {GRANTED: "A,B"}}})
    harness.ask(owner)
    harness.reconciler.reconcile()
    assert harness.evictions() == ["POST eviction lent-0"]


def test_nobody_is_evicted_for_a_pod_that_is_deleted_and_kept_by_a_finalizer() -> None:
    harness, owner = preempting()
    owner["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    harness.core.pod_changed(owner)
    harness.reconciler.reconcile()
    assert harness.evictions() == []
