"""Reservations behind the doors: who waits for them, who starts in them, and what is heard of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from paictl.cluster.maintenance import KEY, windows_text
from paictl.cluster.reservations import KEY as RESERVATIONS
from paictl.cluster.reservations import reservations_from, reservations_text
from paictl.doors import housekeeping
from paictl.doors.metrics import DoorMetrics
from paictl.doors.views import explain_pod
from paictl.remote.kube.client import Json
from paictl.units import Millis, instant, rfc3339
from paictl.workload.reservations import Repeat, Reservation, Reservations, reservation_row
from paictl.workload.windows import Window, Windows
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Harness, gang

HOUR = 3600
UNIX = datetime.fromtimestamp(0, UTC)


def reserve(harness: Harness, after: float, lasts: float = 4, cells: int = 2, **options: object) -> Reservation:
    """Cells of A, or nodes, from so many hours on."""
    start = Millis(int(1000 * (harness.now + after * HOUR)))
    shape = {} if "nodes" in options else {"vc": "A", "cells": cells, "cell_type": "NODE", "leaf_type": "", "leaves": 4}
    new = Reservation("demo", start, Millis(start + round(1000 * lasts * HOUR)), **{**shape, **options})  # type: ignore[arg-type]
    tell(harness, Reservations((new,)))
    return new


def tell(harness: Harness, reservations: Reservations) -> None:
    data = {KEY: windows_text(Windows()), RESERVATIONS: reservations_text(reservations)}
    harness.core.windows_changed({"data": data})


def pods(name: str, number: int, hours: float | None = None, reservation: str = "", priority: int = 0) -> list[Json]:
    made = gang(name, number, 4, "A", priority)
    for pod in made:
        noted = pod["metadata"]["annotations"]
        if hours is not None:
            pod["spec"]["activeDeadlineSeconds"] = round(3600 * hours)
        if reservation:
            noted["paictl.io/reservation"] = reservation
    return made


def refused(harness: Harness, made: list[Json]) -> str:
    """What kube-scheduler is told about the first pod; all of them are there."""
    for pod in made:
        harness.create(pod)
    answer = harness.ask(made[0])
    assert not answer.names
    return next(iter(answer.failed.values()))


def pass_hours(harness: Harness, hours: float) -> None:
    harness.now += hours * HOUR
    housekeeping.starts(harness.core)


def test_who_would_still_hold_cells_waits_and_jobs_of_the_reservation_start_with_it(harness: Harness) -> None:
    known = reserve(harness, 2)
    at = rfc3339(instant(UNIX, known.start))
    assert harness.run(pods("first", 1)[0])
    said = refused(harness, pods("late", 1))
    assert said == f"pod waits: it could still be running at {at}, when reservation demo needs its cells"
    found = explain_pod(harness.core, "default", "late-0")
    assert (found["situation"], found["longest"]) == ("reservation", 2 * HOUR * 1000)
    assert "  it would start now with a maxRunTime of at most 2h" in found["text"]
    assert f"reservation demo begins at {at}" in refused(harness, pods("mine", 2, reservation="demo"))
    assert harness.ask(pods("lent", 1, priority=-1)[0]).names, "without a guarantee it must go for anybody"
    pass_hours(harness, 2)
    mine = pods("mine", 2, reservation="demo")
    assert all(harness.run(pod) for pod in mine)
    assert "has 0 of 2 cells free, the job needs 1" in refused(harness, pods("more", 1, reservation="demo"))


@pytest.mark.parametrize(("vc", "priority"), [("B", 0), ("A", -1)])
def test_the_name_of_a_reservation_brings_nothing_to_others(harness: Harness, vc: str, priority: int) -> None:
    """Pods are made by anybody: `refuse_job` sees paictl's own jobs only."""
    reserve(harness, 0)
    (pod,) = gang("thief", 1, 4, vc, priority)
    pod["metadata"]["annotations"]["paictl.io/reservation"] = "demo"
    assert "reservation demo" in refused(harness, [pod])


def test_who_ends_in_time_is_not_held_back(harness: Harness) -> None:
    reserve(harness, 2, cells=3)
    assert harness.ask(pods("short", 1, hours=2)[0]).names
    assert refused(harness, pods("long", 1, hours=2.1))


@pytest.mark.parametrize("shape", [{"leaves": 0}, {"leaves": None}, {"leaves": "four"}, {"cells": 0}])
def test_a_reservation_with_odd_cells_counts_as_damaged_and_decisions_go_on(
    harness: Harness, shape: dict[str, object]
) -> None:
    known = {**reservation_row(reserve(harness, 0)), "start": "2026-12-01T00:00:00Z", "end": "2036-12-01T00:00:00Z"}
    harness.core.windows_changed({"data": {RESERVATIONS: json.dumps([known | shape])}})
    assert "the reservations are corrupt" in harness.core.windows.problem
    assert harness.ask(harness.create(gang("b", 1, 4, "B")[0])).names


def test_nothing_is_lost_over_a_restart_and_a_damaged_object_changes_nothing(harness: Harness) -> None:
    known = reserve(harness, 2, cells=3, repeat=Repeat.DAILY)
    assert reservations_from(reservations_text(Reservations((known,)))) == Reservations((known,))
    harness.core.windows_changed({"data": {RESERVATIONS: "[{]"}})
    assert "the reservations are corrupt" in harness.core.windows.problem
    assert refused(harness, pods("late", 1))
    tell(harness, Reservations())
    assert harness.ask(pods("late", 1)[0]).names


def test_nodes_of_the_free_pool_are_for_its_jobs_only(harness: Harness) -> None:
    reserve(harness, 0, nodes=NODES[:1])
    assert NODES[0] not in {harness.run(pod) for pod in pods("other", 3)}
    assert harness.ask(pods("mine", 1, reservation="demo", priority=-1)[0]).names == (NODES[0],)


@pytest.mark.parametrize("shut", [False, True])
def test_who_has_reserved_nodes_is_told_that_it_gets_no_others(harness: Harness, shut: bool) -> None:
    known = reserve(harness, 0, nodes=NODES[:1])
    if shut:
        start = Millis(known.start + 1000 * HOUR)
        window = Window("repair", (NODES[0],), start, Millis(start + 1000 * HOUR))
        data = {KEY: windows_text(Windows((window,))), RESERVATIONS: reservations_text(Reservations((known,)))}
        harness.core.windows_changed({"data": data})
    else:
        harness.run(pods("first", 1, reservation="demo", priority=-1)[0])
    reason = refused(harness, pods("mine", 1, reservation="demo", priority=-1))
    closed = ", and maintenance windows close n0" if shut else ""
    assert reason.endswith(f"; reservation demo gives it only n0{closed}")


def test_metrics_count_reservations_and_cells_that_are_short(harness: Harness) -> None:
    reserve(harness, 2, cells=3)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in DoorMetrics(lambda: harness.core).collect()
        for sample in family.samples
        if "reservation" in sample.name
    }
    assert samples["paictl_extender_reservations", "planned"] == 1
    assert samples["paictl_extender_reservation_short_cells", "demo"] == 0
