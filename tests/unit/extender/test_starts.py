"""Promised starts behind the extender: who waits for whom, what is said of it, and that it holds over restarts."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors.core import DoorOptions
from paictl.doors.housekeeping import starts as starts_anew
from paictl.doors.housekeeping import to_requeue
from paictl.doors.metrics import DoorMetrics
from paictl.doors.views import explain_pod
from paictl.remote.kube.client import Json
from paictl.units import Millis, instant, rfc3339
from paictl.workload.sharing import read_sharing
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang

HOUR = 3600
_NUMBERS = count()
OPERATIONS = 5_000 if os.environ.get("PAICTL_SOAK") else 60


@pytest.fixture
def harness() -> Harness:
    """Virtual cluster A has backfill."""
    return harness_with("easy")


@pytest.fixture
def conservative() -> Harness:
    """Virtual cluster A has conservative backfill."""
    return harness_with("conservative")


def harness_with(mode: str, *others: str) -> Harness:
    """Virtual cluster A has backfill, and so have others."""
    sharing = read_sharing({"backfill": [{"vc": vc, "mode": mode} for vc in ("A", *others)]})
    made = Harness(spec(), DoorOptions(rules=Rules(skus=spec().sku_types), sharing=sharing))
    made.now = datetime(2026, 11, 25, tzinfo=UTC).timestamp()
    made.open(NODES)
    return made


def pods(name: str, number: int, leaves: int, hours: float | None, vc: str = "A", priority: int = 0) -> list[Json]:
    made = gang(name, number, leaves, vc, priority)
    for pod in made:
        pod["metadata"]["creationTimestamp"] = f"2026-11-25T00:00:{next(_NUMBERS):06}Z"
        if hours is not None:
            pod["spec"]["activeDeadlineSeconds"] = round(HOUR * hours)
    return made


def run(harness: Harness, made: list[Json]) -> list[Json]:
    """They are bound, and begin at once."""
    for pod in made:
        harness.run(pod)
        begin(harness, pod)
    return made


def begin(harness: Harness, pod: Json) -> None:
    pod["status"]["startTime"] = datetime.fromtimestamp(harness.now, UTC).isoformat()
    harness.core.pod_changed(pod)


def wait(harness: Harness, made: list[Json]) -> str:
    """What kube-scheduler is told about the first pod; all of them are there."""
    for pod in made:
        harness.create(pod)
    answer = harness.ask(made[0])
    assert not answer.names
    return next(iter(answer.failed.values()))


def after(harness: Harness, hours: float) -> str:
    return rfc3339(instant(datetime.fromtimestamp(0, UTC), Millis(round(1000 * (harness.now + hours * HOUR)))))


def millis(harness: Harness, hours: float) -> Millis:
    return Millis(round(1000 * (harness.now + hours * HOUR)))


def explain(harness: Harness, name: str) -> Json:
    return explain_pod(harness.core, "default", f"{name}-0")


def test_the_head_has_a_start_and_who_would_delay_it_waits(harness: Harness) -> None:
    run(harness, pods("first", 1, 4, 10))
    at = after(harness, 10)
    wait(harness, pods("big", 3, 4, 5))
    late = pods("late", 1, 4, 11)
    said = wait(harness, late)
    assert said == f"pod waits: it would delay default/big, which starts at {at} at the latest"
    found = explain(harness, "big")
    assert found["start"] == {"at": at, "ends": (("default/first", at),), "unlimited": (), "place": 0, "behind": 0}
    assert f"  it starts at {at} at the latest" in found["text"]
    assert harness.ask(pods("short", 1, 4, 10)[0]).names
    behind = explain(harness, "late")
    assert (behind["situation"], behind["longest"]) == ("backfill", 10 * HOUR * 1000)


@pytest.mark.parametrize("grace", [366 * 24 * HOUR, 2**62])
def test_a_deadline_counts_with_the_grace_period_after_it(harness: Harness, grace: int) -> None:
    """A kubelet lets a pod run on for its grace period after its deadline, and nobody limits that one."""
    run(harness, pods("first", 1, 4, 10))
    wait(harness, pods("big", 3, 4, 5))
    long = pods("long", 1, 4, 1)
    long[0]["spec"]["terminationGracePeriodSeconds"] = grace
    assert "it would delay default/big" in wait(harness, long)
    usual = pods("usual", 1, 4, 1)
    usual[0]["spec"]["terminationGracePeriodSeconds"] = 30
    assert harness.ask(usual[0]).names


def test_who_would_start_with_a_shorter_limit_is_told_which(harness: Harness) -> None:
    run(harness, pods("first", 1, 4, 10))
    wait(harness, pods("big", 3, 4, 5))
    wait(harness, pods("late", 1, 4, None))
    found = explain(harness, "late")
    assert found["longest"] == 10 * HOUR * 1000
    assert "  it would start now with a maxRunTime of at most 10h" in found["text"]


def test_other_tenants_and_jobs_without_a_guarantee_are_not_held_back(harness: Harness) -> None:
    run(harness, pods("first", 1, 4, 10))
    wait(harness, pods("big", 3, 4, 5))
    assert harness.ask(pods("other", 1, 4, None, "B")[0]).names
    assert harness.ask(pods("lent", 1, 4, None, priority=-1)[0]).names


def test_a_pod_without_a_limit_in_the_way_means_no_promise(harness: Harness) -> None:
    run(harness, pods("first", 1, 4, None))
    wait(harness, pods("big", 3, 4, 5))
    said = explain(harness, "big")["start"]
    assert (said["at"], said["ends"], said["unlimited"]) == ("", (), ("default/first",))
    assert harness.ask(pods("late", 1, 4, None)[0]).names


def test_a_gang_of_which_pods_are_missing_has_no_place_in_line(harness: Harness) -> None:
    run(harness, pods("first", 1, 4, 10))
    assert not harness.ask(pods("big", 3, 4, 5)[0]).names
    assert harness.ask(pods("late", 1, 4, None)[0]).names


def test_who_waits_for_a_promise_is_asked_about_again_when_its_gang_is_gone(harness: Harness) -> None:
    run(harness, pods("first", 1, 4, 10))
    wait(harness, pods("big", 3, 4, 5))
    wait(harness, pods("late", 1, 4, None))
    harness.now += 400
    assert to_requeue(harness.core) == []
    harness.delete("big-0")
    harness.delete("big-1")
    harness.delete("big-2")
    harness.reconciler.reconcile()
    harness.now += 400
    assert [ref.name for ref in to_requeue(harness.core)] == ["late-0"]


def test_the_promise_is_told_once_and_is_the_same_after_a_restart(harness: Harness) -> None:
    run(harness, pods("first", 1, 4, 10))
    at = after(harness, 10)
    wait(harness, pods("big", 3, 4, 5))
    for _ in range(3):
        harness.reconciler.reconcile()
        harness.now += 60
    assert harness.reasons_of("big-0").count("StartPromised") == 1
    assert "StartDelayed" not in harness.reasons_of("big-0")
    harness.begin(spec())
    harness.open(NODES)
    assert explain(harness, "big")["start"]["at"] == at
    text = DoorMetrics(lambda: harness.core).text().decode()
    assert 'paictl_extender_promised_start_timestamp_seconds{vc="A"}' in text


def test_cells_are_not_kept_for_ever_for_a_gang_that_kube_scheduler_refuses(harness: Harness) -> None:
    (first,) = run(harness, pods("first", 1, 4, 10))
    wait(harness, pods("big", 3, 4, 5))
    harness.delete(first["metadata"]["name"])
    late = pods("late", 1, 4, None)
    assert "it would delay default/big" in wait(harness, late), "kube-scheduler is about to ask about it"
    harness.now += 61
    harness.reconciler.reconcile()
    assert harness.ask(late[0]).names


def test_a_gang_whose_start_moved_into_the_future_is_not_taken_for_refused(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    for pod in pods("low", 1, 4, 20):
        conservative.create(pod)
    assert times(conservative) == {"low": conservative.now}, "it could start now"
    for pod in pods("high", 3, 4, 5, priority=5):
        conservative.create(pod)
    before = times(conservative)["low"]
    assert before > conservative.now
    conservative.now += 70
    for pod in pods("new", 3, 4, 20):
        conservative.create(pod)
    assert times(conservative)["low"] == before


def test_who_loses_a_promise_and_gets_a_later_one_is_told(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    wait(conservative, pods("big", 3, 4, 5))
    conservative.reconciler.reconcile()
    for name, hours in (("endless", None), ("urgent", 20)):
        for pod in pods(name, 3, 4, hours, priority=5):
            conservative.create(pod)
        conservative.now += 60
        conservative.reconciler.reconcile()
        if hours is None:
            assert "big" not in times(conservative)
            for number in range(3):
                conservative.delete(f"endless-{number}")
    assert times(conservative)["big"] > conservative.now + 20 * HOUR
    assert [reason for reason in conservative.reasons_of("big-0") if reason.startswith("Start")] == [
        "StartPromised",
        "StartDelayed",
    ]
    conservative.now += 35 * HOUR  # for 5 h it could have started, but kube-scheduler did not ask
    for name in ("first-0", *(f"urgent-{number}" for number in range(3))):
        conservative.delete(name)
    conservative.reconciler.reconcile()
    metrics = DoorMetrics(lambda: conservative.core)
    said = samples(metrics)
    assert said["promised_starts"] == 1
    assert (said["start_promises_total"], said["start_promises_moved_total"]) == (3, 1), "to all three"
    run(conservative, [conservative.server.pods[f"default/big-{number}"] for number in range(3)])
    for _ in range(2):
        conservative.reconciler.reconcile()
    assert samples(metrics)["late_starts_total"] == 1
    metrics.keep(conservative.core)
    conservative.begin(spec())
    assert samples(metrics)["late_starts_total"] == 1, "a counter never goes back"


def test_who_loses_a_promise_to_bad_hardware_is_told_once_and_why(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    for name in ("big", "again"):
        wait(conservative, pods(name, 3, 4, 5))
    conservative.reconciler.reconcile()
    at = after(conservative, 15)
    conservative.core.node_changed(NodeStatus("n3", ready=False, schedulable=True))
    for _ in range(3):
        conservative.now += 60
        conservative.reconciler.reconcile()
    said = [event.message for event in conservative.recorded if event.reason == "StartDelayed"]
    assert said == [f"its gang was promised to start at {at} at the latest, which does not hold: hardware is bad"]
    assert "StartDelayed" in conservative.reasons_of("again-0")
    assert samples(DoorMetrics(lambda: conservative.core))["start_promises_moved_total"] == 1


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_start_that_a_job_past_its_limit_puts_off_counts_as_late(mode: str) -> None:
    door = harness_with(mode)
    run(door, pods("first", 1, 4, 10))
    wait(door, pods("big", 3, 4, 5))
    door.reconciler.reconcile()
    door.now += 10 * HOUR
    for _ in range(100):
        door.now += 20
        door.reconciler.reconcile()
    assert "StartDelayed" not in door.reasons_of("big-0"), "the start moves with the clock, not with each look"
    door.delete("first-0")
    run(door, [door.server.pods[f"default/big-{number}"] for number in range(3)])
    for _ in range(2):
        door.reconciler.reconcile()
    assert samples(DoorMetrics(lambda: door.core))["late_starts_total"] == 1


def test_a_lost_promise_that_comes_back_for_a_little_later_is_told(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    for name in ("big", "again"):
        wait(conservative, pods(name, 3, 4, 5))
    conservative.reconciler.reconcile()
    conservative.core.node_changed(NodeStatus("n3", ready=False, schedulable=True))
    conservative.now += 60
    conservative.reconciler.reconcile()
    running = conservative.server.pods["default/first-0"]
    running["spec"]["activeDeadlineSeconds"] += 20
    conservative.core.pod_changed(running)
    conservative.core.node_changed(NodeStatus("n3", ready=True, schedulable=True))
    for _ in range(2):
        conservative.now += 60
        conservative.reconciler.reconcile()
    said = [reason for reason in conservative.reasons_of("again-0") if reason.startswith("Start")]
    assert said == ["StartPromised", "StartDelayed", "StartPromised"]


def samples(metrics: DoorMetrics) -> dict[str, float]:
    """The figures of A by name, without the prefix."""
    return {
        sample.name.removeprefix("paictl_extender_"): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if sample.labels == {"vc": "A"}
    }


def test_each_gang_in_line_has_a_start_and_its_number(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    for name, number, hours in (("big", 3, 5), ("next", 3, 2)):
        for pod in pods(name, number, 4, hours):
            conservative.create(pod)
    found = {name: explain(conservative, name)["start"] for name in ("big", "next")}
    assert [(said["at"], said["place"]) for said in found.values()] == [
        (after(conservative, 10), 1),
        (after(conservative, 15), 2),
    ]
    assert "  it is number 2 in the line of its virtual cluster" in explain(conservative, "next")["text"]
    conservative.reconciler.reconcile()
    assert all("StartPromised" in conservative.reasons_of(f"{name}-0") for name in ("big", "next"))


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_who_would_delay_the_second_gang_in_line_waits(mode: str) -> None:
    harness = harness_with(mode)
    run(harness, pods("first", 2, 4, 10))
    wait(harness, pods("big", 2, 4, 1))
    wait(harness, pods("next", 3, 4, 5))
    late = pods("late", 1, 4, 12)
    if mode == "easy":
        assert harness.ask(late[0]).names, "it does not delay the first"
        return
    assert wait(harness, late) == (
        f"pod waits: it would delay default/next, which starts at {after(harness, 11)} at the latest"
    )
    found = explain(harness, "late")
    assert (found["situation"], found["longest"]) == ("backfill", 11 * HOUR * 1000)
    assert (found["start"]["at"], found["start"]["place"]) == (after(harness, 16), 3)
    assert "  it is number 3 in the line of its virtual cluster" in found["text"]
    assert harness.ask(pods("short", 1, 4, 11)[0]).names


def test_a_promise_is_not_later_when_others_come_and_is_earlier_when_one_goes(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    wait(conservative, pods("big", 3, 4, 5))
    wait(conservative, pods("next", 3, 4, 2))
    before = explain(conservative, "next")["start"]["at"]
    wait(conservative, pods("more", 3, 4, 1))
    assert explain(conservative, "next")["start"]["at"] == before == after(conservative, 15)
    for number in range(3):
        conservative.delete(f"big-{number}")
    assert explain(conservative, "next")["start"]["at"] == after(conservative, 10)
    assert explain(conservative, "more")["start"]["at"] == after(conservative, 12)


def test_an_older_gang_that_comes_back_stays_behind_those_with_a_promise(conservative: Harness) -> None:
    old = pods("old", 3, 4, 5)
    run(conservative, pods("first", 1, 4, 10))
    for name in ("big", "next"):
        wait(conservative, pods(name, 3, 4, 5))
    conservative.core.starts.starts()
    wait(conservative, old)
    found = {name: explain(conservative, name)["start"] for name in ("big", "next", "old")}
    assert [said["place"] for said in found.values()] == [1, 2, 3]
    assert [said["at"] for said in found.values()] == [after(conservative, hours) for hours in (10, 15, 20)]


def test_gangs_behind_the_last_that_gets_a_promise_are_told(
    conservative: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.workload.backfill.MOST", 2)
    run(conservative, pods("first", 1, 4, 10))
    for name in ("big", "next", "more"):
        wait(conservative, pods(name, 3, 4, 5))
    found = explain(conservative, "more")
    assert (found["start"]["at"], found["start"]["behind"]) == ("", 2)
    assert "  it waits behind the 2 gangs that have promised starts" in found["text"]


def test_gangs_larger_than_their_quota_use_up_no_promise(
    conservative: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.workload.backfill.MOST", 2)
    run(conservative, pods("first", 1, 4, 10))
    for name in ("x", "y", "z"):
        for pod in pods(name, 9, 4, 1):
            conservative.create(pod)
    wait(conservative, pods("big", 3, 4, 5))
    found = explain(conservative, "big")["start"]
    assert (found["at"], found["place"]) == (after(conservative, 10), 1)


def test_while_a_node_is_bad_only_the_first_gang_has_a_promise(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    wait(conservative, pods("big", 3, 4, 5))
    wait(conservative, pods("next", 3, 4, 5))
    assert len(conservative.core.starts.starts()["A"].promises) == 2
    conservative.core.node_changed(NodeStatus(NODES[-1], ready=False, schedulable=True))
    (promise,) = conservative.core.starts.starts()["A"].promises
    assert promise.group == "default/big"
    conservative.core.node_changed(NodeStatus(NODES[-1], ready=True, schedulable=True))
    assert len(conservative.core.starts.starts()["A"].promises) == 2


def test_beside_a_bad_node_all_have_promises_that_hold(conservative: Harness) -> None:
    """It counts as a node of A, although it is B's that is mapped onto it."""
    for name, hours in (("first", 10), ("second", 8), ("third", 6)):
        run(conservative, pods(name, 1, 4, hours))
    bad = NodeStatus("n3", ready=False, schedulable=True)
    conservative.core.node_changed(bad)
    for name in ("next", "more"):
        wait(conservative, pods(name, 1, 4, 5))
    starts = conservative.core.starts
    times = {"default/next": millis(conservative, 8), "default/more": millis(conservative, 10)}
    assert starts.starts()["A"].times() == times
    wait(conservative, pods("big", 3, 4, 5))
    assert starts.starts()["A"].times() == times, "it has none, and costs nobody theirs"
    conservative.core.node_changed(replace(bad, ready=True))
    assert len(starts.starts()["A"].times()) == 3


def test_beside_a_bad_node_the_promise_of_the_core_to_the_first_stays(conservative: Harness) -> None:
    """Counting may promise a later start than the core did, which counts what is bad against B."""
    for name, hours in (("first", 10), ("second", 8), ("third", 6)):
        run(conservative, pods(name, 1, 4, hours))
    for name in ("next", "more"):
        wait(conservative, pods(name, 1, 4, 5))
    conservative.core.node_changed(NodeStatus("n3", ready=False, schedulable=True))
    promises = conservative.core.starts._backfill
    promises.heads, promises.planned = {"A": "default/next"}, {}
    assert conservative.core.starts.starts()["A"].times() == {"default/next": millis(conservative, 6)}


def test_all_starts_are_the_same_after_a_restart(conservative: Harness) -> None:
    run(conservative, pods("first", 1, 4, 10))
    for name, hours in (("big", 5), ("next", 2), ("more", 1)):
        wait(conservative, pods(name, 3, 4, hours))
    before = conservative.core.starts.starts()["A"].times()
    assert len(before) == 3
    conservative.begin(spec())
    conservative.open(NODES)
    assert conservative.core.starts.starts()["A"].times() == before


def test_a_clock_that_is_set_back_keeps_no_cells_for_longer(harness: Harness) -> None:
    """Of a gang that could start and does not come, the hour that the clock was ahead does not count as patience."""
    run(harness, pods("first", 1, 4, 10))
    run(harness, pods("second", 1, 4, 20))
    wait(harness, pods("stalls", 2, 4, 5))
    wait(harness, pods("big", 3, 4, 5))
    harness.delete("first-0")
    harness.reconciler.reconcile()
    harness.now -= HOUR
    for _ in range(3):
        harness.now += 40
        harness.reconciler.reconcile()
    assert harness.core.starts.promises()["A"].group == "default/big"


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_promises_are_made_anew_when_the_clock_is_set_back(mode: str) -> None:
    """A pod that has begun meanwhile moves them, within half a minute as always."""
    harness = harness_with(mode)
    (first,) = pods("first", 1, 4, 10)
    harness.run(first)
    wait(harness, pods("big", 3, 4, 5))
    assert explain(harness, "big")["start"]["at"] == after(harness, 10)
    harness.now -= HOUR
    assert explain(harness, "big")["start"]["at"] == after(harness, 10)


def times(harness: Harness) -> dict[str, float]:
    """The promised starts of gangs, in seconds since 1970."""
    return {
        group.removeprefix("default/"): at / 1000
        for starts in harness.core.starts.starts().values()
        for group, at in starts.times().items()
    }


def passes_to_start(harness: Harness, until: float) -> bool:
    """Let time pass to the next promised start, if that is before an instant; whether it is."""
    start = harness.core.starts._backfill.next_start(Millis(round(1000 * harness.now)))
    if start is None or start / 1000 > until:
        return False
    harness.now = start / 1000
    starts_anew(harness.core)  # so that kube-scheduler asks again
    return True


@pytest.mark.parametrize("mode", ["easy", "conservative"])
@pytest.mark.parametrize("seed", range(3))
def test_no_promised_start_is_broken(seed: int, mode: str) -> None:
    harness = harness_with(mode)
    rng = random.Random(seed)  # noqa: S311 - a property test
    waiting: dict[str, list[Json]] = {}
    running: dict[str, tuple[float, list[Json]]] = {}
    promised: dict[str, float] = {}
    begun = 0
    for number in range(OPERATIONS):
        name = f"g{number}"
        if rng.random() < 0.6:
            made = pods(name, rng.choice((1, 1, 2, 3)), rng.choice((1, 2, 4)), rng.choice((1, 2, 5, 9)))
            waiting[name] = [harness.create(pod) for pod in made]
        until = harness.now + rng.choice((0, 600, HOUR, 2 * HOUR))
        while True:
            before = len(running)
            for one, made in list(waiting.items()):  # kube-scheduler asks in its own order
                if all(harness.ask(pod).names for pod in made):
                    run(harness, made)
                    hours = made[0]["spec"]["activeDeadlineSeconds"] / HOUR
                    running[one] = harness.now + hours * HOUR * rng.choice((0.3, 1, 1)), made
                    assert harness.now <= promised.get(one, harness.now) + 1, one
                    begun += one in promised
                    del waiting[one]
            if len(running) > before:
                continue  # others may start now that had to wait for them
            for name, at in times(harness).items():
                assert mode == "easy" or at <= promised.get(name, at) + 1, name
                promised[name] = min(promised.get(name, at), at)
            due = min(running.items(), key=lambda row: row[1][0], default=None)
            if passes_to_start(harness, min(until, until if due is None else due[1][0])):
                continue
            if due is None or due[1][0] > until:
                break
            harness.now = max(harness.now, due[1][0])
            for pod in running.pop(due[0])[1]:
                harness.delete(pod["metadata"]["name"])
            if rng.random() < 0.5:
                items = list(waiting.items())
                rng.shuffle(items)
                waiting = dict(items)
        harness.now = until
    assert begun
