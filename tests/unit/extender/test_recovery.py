"""Restarts, changed configurations, and what pods are told about their guarantees."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.doors.core import NotServingError
from paictl.doors.views import explain_pod
from paictl.extender.verbs import filter_nodes
from paictl.extender.wire import FilterArgs
from paictl.placer.pins import pin_patch
from paictl.scheduler.book import Book
from paictl.scheduler.wire import BIND_INFO, GATE
from tests.unit.extender.conftest import CONFIG, NODES, spec
from tests.unit.extender.harness import Harness, gang


def test_a_restart_finds_everything_as_it_was(harness: Harness) -> None:
    made = [*gang("a", 2, 4), *gang("b", 1, 2, "B", -1), *gang("c", 1, 4, "B")]
    for one in made:
        harness.run(one)
    before = harness.core.book.engine.state.digest()
    harness.begin(spec())
    with pytest.raises(NotServingError, match="starting"):
        filter_nodes(harness.core, FilterArgs(made[0], NODES))
    harness.open(reversed(NODES))
    assert harness.core.book.engine.state.digest() == before
    assert not harness.recorded


@pytest.mark.parametrize("later", [True, False])
def test_a_pod_that_the_placer_pinned_before_the_door_was_changed_keeps_its_devices(
    harness: Harness, later: bool
) -> None:
    """kube-scheduler may bind it at any time: nobody else gets its devices, unless anybody may have written it."""
    (made,) = gang("pinned", 1, 4, "B")
    node = harness.run(made)
    del made["spec"]["nodeName"]
    made["spec"] |= pin_patch(made, node, {})["spec"]
    space = {"metadata": {"name": "default", "labels": {GATE: "enabled"}}}
    harness.begin(spec())
    if not later:
        harness.core.namespace_changed(space)
    harness.open(NODES)
    if later:
        assert not harness.core.book.holds("uid-pinned-0"), "anybody may have written it"
        harness.core.namespace_changed(space)
    assert harness.core.book.holds("uid-pinned-0")
    assert harness.ask(gang("other", 1, 4, "B")[0]).names == ()
    harness.delete("pinned-0")
    assert not harness.core.book.holds("uid-pinned-0")


def test_a_changed_configuration_that_takes_a_promise_away_is_told(harness: Harness) -> None:
    for made in gang("a", 2, 4):
        harness.run(made)
    harness.begin(spec(virtualClusters={"B": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 1}]}}))
    harness.open(NODES)
    assert harness.reasons_of("a-0")[0] == harness.reasons_of("a-1")[0] == "GuaranteeLost"


def test_devices_that_the_configuration_no_longer_has_are_told(harness: Harness) -> None:
    """The pods run on; nobody stands behind their guarantee."""
    names = [harness.run(made) for made in gang("a", 2, 4)]
    cells = [{"cellAddress": "another" if node == names[0] else node} for node in NODES]
    physical = CONFIG["physicalCluster"] | {"physicalCells": [{"cellType": "POOL", "cellChildren": cells}]}
    harness.begin(spec(physicalCluster=physical))
    harness.open(NODES)
    assert harness.reasons_of("a-0") == harness.reasons_of("a-1") == ["GuaranteeLost"]
    assert "does not have all of its devices" in harness.recorded[0].message
    explanation = explain_pod(harness.core, "default", "a-0")
    assert "  It lost its guarantee and keeps running without one." in explanation["text"]
    assert explanation["hold"] == "unaccounted"


def test_a_guarantee_that_a_restart_does_not_find_is_lost_to_nobody(harness: Harness) -> None:
    harness.run(gang("a", 1, 4)[0])
    harness.begin(spec(virtualClusters={"B": CONFIG["virtualClusters"]["B"]}))
    harness.open(NODES)
    explanation = explain_pod(harness.core, "default", "a-0")
    assert explanation["text"][1:] == ["  It lost its guarantee and keeps running without one."]


def test_lazy_preemption_is_told(harness: Harness) -> None:
    for made in gang("lazy", 3, 4, lazyPreemptionEnable=True):
        harness.run(made)
    harness.run(gang("next", 1, 4, priority=5)[0])
    assert harness.reasons_of("lazy-0") == ["GuaranteeLost"]
    assert "group default/next took its cells" in harness.recorded[0].message
    explanation = explain_pod(harness.core, "default", "lazy-0")
    assert "  It lost its guarantee to default/next and keeps running without one." in explanation["text"]
    assert explanation["hold"] == "lazily preempted"


def test_a_pod_that_contradicts_itself_is_told_and_holds_nothing(harness: Harness) -> None:
    made = gang("odd", 1, 4)[0]
    made["spec"]["nodeName"] = "n0"
    for annotation in ("node: n1\nleafCellIsolation: [0]\ncellChain: POOL", "{broken", "[]"):
        made["metadata"]["annotations"][BIND_INFO] = annotation
        harness.core.pod_changed(made)
    assert harness.reasons_of("odd-0") == ["DevicesUnknown"] * 3
    assert not harness.core.book.engine.state.occupancy.user


def test_a_missed_deletion_is_made_good_by_the_next_list(harness: Harness) -> None:
    made = gang("g", 1, 4)[0]
    harness.run(made)
    harness.core.pod_changed({**made, "status": {"phase": "Succeeded"}})
    assert not harness.core.book.pods
    harness.core.pod_gone("nobody")  # and what is not known can go


def test_a_lost_guarantee_is_told_once(harness: Harness) -> None:
    for made in gang("lazy", 3, 4, lazyPreemptionEnable=True):
        harness.run(made)
    harness.run(gang("next", 1, 4, priority=5)[0])
    before = harness.reasons_of("lazy-0")
    harness.delete("lazy-2")
    assert harness.reasons_of("lazy-0") == before == ["GuaranteeLost"]


def test_nodes_are_reported_in_the_order_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    report = Book.report

    def noted(book: Book, node: str, *rest: Any) -> Any:
        told.append(node)
        return report(book, node, *rest)

    monkeypatch.setattr(Book, "report", noted)
    made = Harness(spec())
    made.open(reversed(NODES))
    assert told == NODES


def test_an_eviction_whose_event_died_with_the_process_is_told_by_the_next(harness: Harness) -> None:
    """It evicts none twice, and claims no pod that somebody else has deleted."""
    low, high = gang("low", 3, 4), gang("high", 1, 4, priority=5)[0]
    for made in low:
        harness.run(made)
    harness.ask(high)
    harness.reconciler.reconcile()
    assert len(harness.evictions()) == 3
    harness.recorded.clear()  # none of it was taken by the API server
    for made in low:
        made["metadata"]["deletionTimestamp"] = "1970-01-01T00:17:00Z"
    for made in low[:2]:
        made["status"]["conditions"] = [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]
    harness.begin(spec())
    harness.open(NODES)
    assert [(one.pod.name, one.reason, one.once) for one in harness.recorded] == [
        ("low-0", "Preempted", True),
        ("low-1", "Preempted", True),
    ]
    assert "group default/high needs the devices" in harness.recorded[0].message
    harness.core.pod_changed(low[0])
    harness.ask(high)
    harness.reconciler.reconcile()
    assert len(harness.evictions()) == 3, "they are on their way"
    assert [one.reason for one in harness.recorded[2:]] == ["Preempting"]
    for i in range(3):
        harness.delete(f"low-{i}")
    assert harness.run(high) in NODES


def test_a_virtual_cluster_that_is_gone_is_the_reason_of_a_lost_guarantee(harness: Harness) -> None:
    """A recovery puts the group's own name in the place of who took its cells."""
    made = gang("b", 1, 4, "B")[0]
    harness.run(made)
    harness.begin(spec(virtualClusters={"A": CONFIG["virtualClusters"]["A"]}))
    harness.open(NODES)
    (lost,) = [one.message for one in harness.recorded if one.reason == "GuaranteeLost"]
    assert "VC B is not in the present configuration" in lost
    assert "took its cells" not in lost
