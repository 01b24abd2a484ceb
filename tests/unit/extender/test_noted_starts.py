"""Promised starts that outlive a door: what pods say of them, who writes that when, and what a new door makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.pods.times import START_PROMISED
from paictl.doors.metrics import DoorMetrics
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.workload.backfill import FOREVER
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness
from tests.unit.extender.test_starts import HOUR, after, explain, harness_with, pods, run, samples, wait


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_promise_outlives_the_door_though_an_older_gang_comes_back_meanwhile(mode: str) -> None:
    harness, older = harness_with(mode), pods("older", 3, 4, 5)
    run(harness, pods("first", 1, 4, 10))
    wait(harness, pods("big", 3, 4, 5))
    at = harness.core.starts.starts()["A"].times()
    harness.reconciler.reconcile()
    harness.core.pod_changed(harness.server.pods["default/big-0"])
    harness.reconciler.reconcile()
    assert harness.server.calls.count("PATCH status big-0") == 1, "what it says already is not written again"
    for pod in older:  # while no door runs
        harness.create(pod, told=False)
    told = harness.reasons_of("big-0").count("StartPromised")
    harness.begin(spec())
    harness.open(NODES)
    found = harness.core.starts.starts()["A"].times()
    assert found["default/big"] == at["default/big"]
    assert found.get("default/older", FOREVER) > at["default/big"]
    harness.reconciler.reconcile()
    assert harness.reasons_of("big-0").count("StartPromised") == told == 1, "it is told once, not once by each door"


def test_a_start_that_comes_late_counts_against_the_promise_of_the_door_before() -> None:
    conservative = harness_with("conservative")
    (first,) = run(conservative, pods("first", 1, 4, 10))
    waiting = pods("big", 3, 4, 5)
    wait(conservative, waiting)
    conservative.reconciler.reconcile()
    conservative.now += 12 * HOUR  # the first runs past its limit
    conservative.begin(spec())
    conservative.open(NODES)
    conservative.reconciler.reconcile()
    conservative.delete(first["metadata"]["name"])
    run(conservative, waiting)
    conservative.reconciler.reconcile()
    assert samples(DoorMetrics(lambda: conservative.core))["late_starts_total"] == 1


@pytest.mark.parametrize("mode", ["easy", "conservative"])
@pytest.mark.parametrize(
    "message",
    [
        "",
        "soon",
        "2026-11-25T00:00:00",
        "1970-01-01T00:00:00+00:00",
        "9999-12-31T23:59:59+00:00",
        "0001-01-01T00:00Z",
        None,
        ["x"],
    ],
)
def test_a_promise_that_is_nonsense_is_made_anew(mode: str, message: object) -> None:
    harness = harness_with(mode)
    run(harness, pods("first", 1, 4, 10))
    at, waiting = after(harness, 10), pods("big", 3, 4, 5)
    wait(harness, waiting)
    said = {"type": START_PROMISED, "status": "True", "message": message}
    waiting[0]["status"]["conditions"] = [said]
    harness.begin(spec())
    harness.open(NODES)
    assert explain(harness, "big")["start"]["at"] == at
    harness.reconciler.reconcile()
    (now,) = (one for one in waiting[0]["status"]["conditions"] if one["type"] == START_PROMISED)
    assert str(now["message"]).startswith(at.removesuffix("Z"))


def test_a_gang_that_leaves_the_line_has_no_promise_in_its_pod_any_more() -> None:
    conservative = harness_with("conservative")
    run(conservative, pods("first", 1, 4, 10))
    waiting = pods("big", 3, 4, 5)
    wait(conservative, waiting)
    conservative.reconciler.reconcile()
    assert [one["status"] for one in waiting[0]["status"]["conditions"]] == ["True"]
    conservative.core.pod_changed(waiting[0])
    conservative.delete("big-2")  # it is not whole, so nothing is promised to it
    conservative.reconciler.reconcile()
    assert [one["status"] for one in waiting[0]["status"]["conditions"]] == ["False"]


def waiting_gangs(harness: Harness, number: int) -> None:
    """Gangs with a promised start each, which their pods do not say yet."""
    run(harness, pods("first", 1, 4, 10))
    for i in range(number):
        wait(harness, pods(f"g{i}", 3, 4, 5))


def noted(harness: Harness) -> list[str]:
    """The pods into which starts were written, in order."""
    return [call.rpartition(" ")[2] for call in harness.server.calls if call.startswith("PATCH status")]


def test_who_leads_no_more_writes_no_promises() -> None:
    conservative = harness_with("conservative")
    waiting_gangs(conservative, 5)
    conservative.reconciler.remaining = lambda: 0.0 if len(noted(conservative)) >= 2 else 100.0
    conservative.reconciler.reconcile()
    assert len(noted(conservative)) == 2, "the next door has read the pods already"


def test_promises_are_written_for_a_short_while_only_and_each_gets_its_turn() -> None:
    conservative = harness_with("conservative")
    waiting_gangs(conservative, 5)
    request = conservative.server.request
    clock = [conservative.now]

    def slow(method: str, path: str, body: Any = None, **more: object) -> Json:
        clock[0] += 0.3
        return request(method, path, body, **more)

    conservative.server.request, conservative.reconciler.clock = slow, lambda: clock[0]  # type: ignore[method-assign]
    conservative.server.refuse["status g0-0"] = KubeError("a webhook says no", status=403, reason="Forbidden")
    for so_far in (2, 4, 5, 5):
        conservative.reconciler.reconcile()
        assert len(noted(conservative)) == len(set(noted(conservative))) == so_far
    clock[0] += 20
    for pod in conservative.server.pods.values():
        conservative.core.pod_changed(pod)
    conservative.reconciler.reconcile()
    assert noted(conservative)[5:] == ["g0-0"], "what was refused is tried again"


def test_a_server_that_does_not_answer_is_asked_once_a_round() -> None:
    conservative = harness_with("conservative")
    waiting_gangs(conservative, 3)
    conservative.server.refuse["status"] = NoAnswerError("away")
    with pytest.raises(NoAnswerError):
        conservative.reconciler.reconcile()
    assert len(noted(conservative)) == 1


def test_who_has_lost_its_promise_is_not_the_head_after_a_restart() -> None:
    harness = harness_with("easy")
    run(harness, pods("first", 1, 4, 10))
    run(harness, pods("second", 1, 4, 20))
    wait(harness, pods("stalls", 2, 4, 5))
    wait(harness, pods("big", 3, 4, 5))
    harness.reconciler.reconcile()
    for pod in harness.server.pods.values():
        harness.core.pod_changed(pod)
    harness.delete("first-0")  # the head could start, but kube-scheduler has other reasons not to ask
    for _ in range(4):
        harness.now += 40
        harness.reconciler.reconcile()
        for pod in harness.server.pods.values():
            harness.core.pod_changed(pod)
    assert harness.core.starts.promises()["A"].group == "default/big"
    harness.begin(spec())
    harness.open(NODES)
    assert harness.core.starts.promises()["A"].group == "default/big"
