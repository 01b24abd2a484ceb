"""Maintenance windows behind the extender: who is placed where, who leaves, and what is heard of it."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from paictl.cluster.kubernetes.names import JOB_KEY, JOBS_NAMESPACE
from paictl.cluster.maintenance import KEY, UNIX, windows_text
from paictl.cluster.movetotals import KEY as MOVES
from paictl.cluster.movetotals import MoveTotal, totals_text
from paictl.cluster.reservations import KEY as RESERVATIONS
from paictl.cluster.reservations import reservations_text
from paictl.doors import housekeeping, views
from paictl.doors.health import DoorWindows
from paictl.doors.metrics import DoorMetrics
from paictl.doors.windows import now_of, warned
from paictl.remote.kube.client import Json, KubeError
from paictl.units import Millis, instant, rfc3339
from paictl.workload.reservations import Reservation, Reservations
from paictl.workload.windows import Window, Windows
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Harness, gang

HOUR = 3600


def plan(harness: Harness, *nodes: str, after: float = HOUR, lasts: float = HOUR, name: str = "disks") -> None:
    """A window that begins so many seconds from now."""
    start = harness.now + after
    window = Window(name, nodes, Millis(int(1000 * start)), Millis(int(1000 * (start + lasts))), reason="new disks")
    tell(harness, Windows((*harness.core.windows.current.all, window)))


def tell(harness: Harness, windows: Windows) -> None:
    harness.core.windows_changed({"data": {KEY: windows_text(windows)}})


def limited(pods: list[Json], seconds: int | None, *, by_spec: bool = False) -> list[Json]:
    for pod in pods:
        if seconds is not None and by_spec:
            pod["spec"]["activeDeadlineSeconds"] = seconds
        elif seconds is not None:
            pod["metadata"]["namespace"] = JOBS_NAMESPACE
            pod["metadata"]["annotations"] |= {
                "paictl.io/max-run-time": f"{1000 * seconds}ms",
                JOB_KEY: "ann~train",
            }
    return pods


@pytest.mark.parametrize("namespace", ["default", "paictl-jobs-of-ann"])
def test_what_a_user_writes_about_the_run_time_of_a_pod_is_not_believed(harness: Harness, namespace: str) -> None:
    """Nobody would end it: only the job controller heeds the annotation, and only for its own pods."""
    plan(harness, *NODES)
    (pod,) = limited(gang("g", 1, 4), HOUR)
    pod["metadata"]["namespace"] = namespace
    assert not harness.ask(pod).names
    pod["spec"]["activeDeadlineSeconds"] = HOUR
    assert harness.ask(pod).names, "the kubelet ends it"


@pytest.mark.parametrize("by_spec", [False, True])
@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(("seconds", "free"), [(None, False), (HOUR + 1, False), (HOUR, True)])
def test_only_who_ends_in_time_gets_a_node_of_the_window(
    harness: Harness, seconds: int | None, free: bool, ignore: bool, by_spec: bool
) -> None:
    plan(harness, *NODES)
    (pod,) = limited(gang("g", 1, 4, ignoreK8sSuggestedNodes=ignore), seconds, by_spec=by_spec)
    answer = harness.ask(pod)
    assert bool(answer.names) is free
    if not free:
        reason = harness.core.table.by_uid["uid-g-0"].cached
        assert reason is not None
        assert "maintenance windows close n0, n1, n2 and 1 more to it" in reason.reason


def test_the_nodes_that_are_left_follow_from_both_sets() -> None:
    windows, closed = DoorWindows(), frozenset({"n1"})
    for nodes in (frozenset({"n0", "n1"}), frozenset({"n1", "n2"}), frozenset({"n1", "n2"})):
        assert windows.left(nodes, closed) == nodes - closed
    assert windows.left(nodes, frozenset()) == nodes


def test_a_promise_is_kept_by_another_node(harness: Harness) -> None:
    plan(harness, "n0", "n1")
    placed = {harness.run(pod) for name in ("g", "h") for pod in gang(name, 1, 4)}
    assert placed == {"n2", "n3"}
    (third,) = gang("i", 1, 4)
    assert not harness.ask(third).names


def test_without_windows_the_request_is_asked_as_it_is(harness: Harness) -> None:
    harness.run(gang("g", 1, 4)[0])
    group = harness.core.book.engine.state.groups.by_name["default/g"]
    assert group.ignore_suggested is True
    entry = harness.core.table.by_uid["uid-g-0"]
    assert (entry.limit, entry.began) == (None, None)


def test_a_window_that_is_over_is_forgotten(harness: Harness) -> None:
    plan(harness, "n0", after=0, lasts=60)
    harness.now += 61
    harness.reconciler.reconcile()
    assert not harness.core.windows.current
    harness.run(gang("g", 1, 4)[0])
    assert harness.core.book.engine.state.groups.by_name["default/g"].ignore_suggested is True


def test_a_window_counts_again_once_a_clock_that_was_ahead_is_set_back(harness: Harness) -> None:
    """NTP corrects the clock of the machine an hour back: the window that seemed to be over lasts."""
    plan(harness, *NODES, after=0, lasts=60)
    harness.now += HOUR
    harness.reconciler.reconcile()
    assert not harness.core.windows
    harness.now -= HOUR
    harness.reconciler.reconcile()
    assert [one.name for one in harness.core.windows.current] == ["disks"]
    (pod,) = gang("g", 1, 4)
    assert not harness.ask(pod).names


def test_a_reservation_counts_again_once_a_clock_that_was_ahead_is_set_back(harness: Harness) -> None:
    start = Millis(int(1000 * harness.now))
    rows = Reservations((Reservation("demo", start, Millis(start + 60_000), nodes=tuple(NODES)),))
    harness.core.windows_changed({"data": {RESERVATIONS: reservations_text(rows)}})
    assert harness.core.starts.reserved is not None
    for moved, kept in ((HOUR, False), (-HOUR, True)):
        harness.now += moved
        harness.reconciler.reconcile()
        harness.core.starts.turn()
        assert (harness.core.starts.reserved is not None, bool(harness.core.windows)) == (kept, kept)
    (pod,) = gang("g", 1, 4)
    assert not harness.ask(pod).names


def test_a_gang_leaves_as_a_whole_when_the_window_begins_and_is_told_before(harness: Harness) -> None:
    pods = gang("g", 2, 4)
    nodes = [harness.run(pod) for pod in pods]
    stays = gang("h", 1, 4)
    harness.run(stays[0])
    plan(harness, nodes[1], after=48 * HOUR)
    harness.reconciler.reconcile()
    assert "MaintenancePlanned" not in harness.reasons_of("g-1"), "the day before, not now"
    harness.now += 24 * HOUR
    for _ in range(3):
        harness.reconciler.reconcile()
    assert harness.reasons_of("g-1").count("MaintenancePlanned") == 1
    assert "MaintenancePlanned" not in harness.reasons_of("g-0"), "its node is not in the window"
    assert harness.evictions() == []
    harness.now += 24 * HOUR
    harness.reconciler.reconcile()
    assert harness.evictions() == ["POST eviction g-0", "POST eviction g-1"]
    assert "MaintenanceEvicted" in harness.reasons_of("g-0")
    assert harness.reasons_of("h-0").count("MaintenanceEvicted") == 0


def test_a_pod_that_ends_in_time_is_not_told(harness: Harness) -> None:
    (pod,) = limited(gang("g", 1, 4), 2 * HOUR)
    node = harness.run(pod)
    pod["status"]["startTime"] = datetime.fromtimestamp(harness.now).astimezone().isoformat()
    harness.core.pod_changed(pod)
    plan(harness, node, after=2 * HOUR)
    harness.reconciler.reconcile()
    assert "MaintenancePlanned" not in harness.reasons_of("g-0")


def test_a_budget_keeps_a_gang_whole_and_it_is_tried_again(harness: Harness) -> None:
    pods = gang("g", 2, 4)
    for pod in pods:
        harness.run(pod)
    harness.server.refuse["eviction g-1"] = KubeError("budget", status=429, reason="TooManyRequests")
    plan(harness, *NODES, after=0)
    harness.reconciler.reconcile()
    assert harness.evictions() == []
    assert any("budget" in event.message for event in harness.recorded)
    asked: list[float] = []
    began = harness.now
    while harness.now < began + 100:
        harness.recorded.clear()
        harness.reconciler.reconcile()
        asked += [harness.now - began] if harness.recorded else []
        harness.now += 1
    assert asked == [1, 3, 7, 15, 31, 61, 91], "each pause twice the last one, up to half a minute"
    harness.server.refuse.clear()
    harness.now += 60
    harness.reconciler.reconcile()
    assert harness.evictions() == ["POST eviction g-0", "POST eviction g-1"]


@pytest.mark.parametrize("ignore", [False, True])
def test_who_waited_is_asked_about_again_when_the_window_is_over(harness: Harness, ignore: bool) -> None:
    plan(harness, *NODES, after=0, lasts=600)
    (pod,) = gang("g", 1, 4, ignoreK8sSuggestedNodes=ignore)
    assert not harness.ask(pod).names
    harness.now += 400
    assert housekeeping.to_requeue(harness.core) == [], "nothing has changed"
    harness.now += 400
    assert [ref.name for ref in housekeeping.to_requeue(harness.core)] == ["g-0"]
    assert harness.ask(pod).names


@pytest.mark.parametrize("known", [True, False])
def test_a_preemption_is_given_up_if_a_window_closes_its_place(harness: Harness, known: bool) -> None:
    if known:  # whether there was any window when the preemption began
        plan(harness, "n3", after=900 * HOUR, name="far")
    victims = limited(gang("low", 3, 4, priority=0), None)
    nodes = [harness.run(limited([pod], 1)[0]) for pod in victims]
    assert len(set(nodes)) == 3
    (high,) = limited(gang("high", 1, 4, priority=5), HOUR)
    assert not harness.ask(high).names
    group = harness.core.book.engine.state.groups.by_name["default/high"]
    tree = harness.core.book.engine.state.physical
    place = {tree.node_name(leaf) for leaf in group.leaves()}
    plan(harness, *place, after=10)
    assert not harness.ask(high).names
    again = harness.core.book.engine.state.groups.by_name.get("default/high")
    assert again is None or {tree.node_name(leaf) for leaf in again.leaves()}.isdisjoint(place)


def test_nobody_is_evicted_for_a_place_that_a_window_closes(harness: Harness) -> None:
    for pod in gang("low", 3, 4, priority=0):
        harness.run(pod)
    plan(harness, *NODES)
    (high,) = gang("high", 1, 4, priority=5)
    assert not harness.ask(high).names
    harness.reconciler.reconcile()
    assert harness.evictions() == []


def test_what_is_damaged_changes_nothing_and_is_said(harness: Harness) -> None:
    plan(harness, *NODES)
    before = harness.core.windows.current
    harness.core.windows_changed({"metadata": {"namespace": "paictl-system"}, "data": {KEY: "[{"}})
    assert harness.core.windows.current == before
    assert "configmap paictl-system/paictl-maintenance" in harness.core.windows.problem
    harness.core.windows_changed(None)
    assert (harness.core.windows.current, harness.core.windows.problem) == (Windows(), "")


def test_a_window_that_somebody_wrote_to_the_end_of_time_is_announced(harness: Harness) -> None:
    """In UTC it ends in the year 10000, for which there is no date: no pod was announced anything any more."""
    harness.run(gang("g", 1, 4)[0])
    start = rfc3339(instant(UNIX, Millis(int(1000 * harness.now) + 1000)))
    row = {"name": "ever", "nodes": NODES, "start": start, "end": "9999-12-31T23:59:59-08:00", "noticeSeconds": HOUR}
    harness.core.windows_changed({"data": {KEY: json.dumps([row])}})
    assert harness.core.windows.problem == ""
    (event,) = warned(harness.core)
    assert "to 9999-12-31T23:59:59.999Z" in event.message


def test_windows_are_counted(harness: Harness) -> None:
    plan(harness, "n0", after=0)
    plan(harness, "n1", name="later")
    said = DoorMetrics(lambda: harness.core).text().decode()
    assert 'maintenance_windows{state="active"} 1.0' in said
    assert 'maintenance_windows{state="planned"} 1.0' in said


def test_a_restart_places_by_the_same_windows_and_finds_the_place_of_who_runs(harness: Harness) -> None:
    plan(harness, "n0", "n1")
    (pod,) = gang("g", 1, 4)
    node = harness.run(pod)
    windows, spec = harness.core.windows.current, harness.core.spec
    harness.begin(spec)
    tell(harness, windows)
    harness.open(NODES)
    assert harness.core.book.holds("uid-g-0")
    (other,) = gang("h", 1, 4)
    assert harness.run(other) == ({"n2", "n3"} - {node}).pop()


def test_explain_says_which_window_and_with_which_run_time_it_would_start(harness: Harness) -> None:
    plan(harness, *NODES)
    (pod,) = gang("g", 1, 4)
    harness.ask(pod)
    found = views.explain_pod(harness.core, "default", "g-0")
    assert (found["situation"], found["longest"]) == ("maintenance", 1000 * HOUR)
    assert "window disks closes n0, n1, n2, n3 from " in found["text"][1]
    assert "maxRunTime of at most 1h" in found["text"][2]
    tell(harness, Windows())
    assert views.explain_pod(harness.core, "default", "g-0")["situation"] == "ready"


def test_what_defragmentation_has_moved_is_told_by_who_paid(harness: Harness) -> None:
    """Clients move gangs, and keep the totals beside the windows; a new process tells them too."""
    now = now_of(harness.core)
    totals = {
        "A": MoveTotal(2, Millis(90_500), 1, 4_800, Millis(now + HOUR)),
        "B": MoveTotal(1, Millis(0), 0, 300, Millis(now)),  # of a client that was killed
    }
    for _ in range(2):
        harness.core.windows_changed({"data": {MOVES: totals_text(totals)}})
        said = DoorMetrics(lambda: harness.core, "paictl_placer").text().decode().splitlines()
        assert [line for line in said if line.startswith("paictl_placer_defrag_")] == [
            'paictl_placer_defrag_moves_total{vc="A"} 2.0',
            'paictl_placer_defrag_moves_total{vc="B"} 1.0',
            'paictl_placer_defrag_lost_device_seconds_total{vc="A"} 90.5',
            'paictl_placer_defrag_lost_device_seconds_total{vc="B"} 0.0',
            'paictl_placer_defrag_moves_failed_total{vc="A"} 1.0',
            'paictl_placer_defrag_moves_failed_total{vc="B"} 0.0',
            'paictl_placer_defrag_planned_weight_device_seconds{vc="A"} 4800.0',
            'paictl_placer_defrag_planned_weight_device_seconds{vc="B"} 0.0',
        ]
        harness.begin(harness.core.spec)
        harness.open(NODES)
