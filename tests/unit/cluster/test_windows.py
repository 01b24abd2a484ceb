"""Maintenance windows on the embedded cluster: nothing new that would meet them, and a drain by time."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paictl.cells.quota import cells_at_risk
from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.commands import BringUp, Push
from paictl.cluster.embedded.present import anchor
from paictl.cluster.interface import JobRequest, MaintenanceWindow, NodeChange
from paictl.cluster.machines import machines_in
from paictl.cluster.maintenance import WindowRequest
from paictl.cluster.outlook import outlook
from paictl.cluster.presets import preset_files
from paictl.cluster.reservations import ReservationRequest
from paictl.cluster.scheduling import JobSituation
from paictl.operate import explaining
from paictl.scheduler.invariants import validate
from paictl.units import Millis
from paictl.workload.fields import JobError
from paictl.workload.windows import WindowError
from tests.unit.cluster.conftest import MINUTE, SERVICES, Bench, MakeBench

HOUR = 60 * MINUTE


def add(lab: Bench, *nodes: str, after: int | None = None, lasts: int = HOUR, **more: Any) -> MaintenanceWindow:
    start = None if after is None else lab.cluster.now + timedelta(milliseconds=after)
    return lab.cluster.add_window(WindowRequest(nodes, Millis(lasts), start, **more))


def node_of(lab: Bench, key: str) -> str:
    return lab.cluster.job(key).tasks[0].node


def test_who_would_still_run_is_placed_elsewhere_or_waits_and_who_ends_before_runs(bench: MakeBench) -> None:
    lab = bench()
    first = node_of(lab, probe := lab.submit("probe", "vc1"))
    lab.cluster.stop_job(probe)
    add(lab, first, after=HOUR)
    elsewhere = lab.submit("elsewhere", "vc1", max_run_time="2h", commands=["sleep 2h"])
    assert node_of(lab, elsewhere) not in ("", first), "its guarantee is kept by another node"
    without = lab.submit("without", "default", commands=["sleep 1m"])
    assert lab.state(without) == "Waiting", "it does not say when it ends"
    longer = lab.submit("longer", "default", max_run_time="61m")
    assert lab.state(longer) == "Waiting"
    in_time = lab.submit("in-time", "default", max_run_time="1h")
    assert node_of(lab, in_time) == first
    lab.cluster.stop_job(in_time)
    lab.pass_time(HOUR)
    assert (lab.state(without), lab.state(longer)) == ("Waiting", "Waiting")
    lab.pass_time(HOUR)
    assert lab.state(without) == "Running", "the window is over"
    assert lab.cluster.windows() == ()


def test_a_gang_that_is_still_there_leaves_as_a_whole_when_the_window_begins(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    stays = lab.submit("stays", "tenanta", gpu=4, instances=3, commands=["sleep 99h"])
    there = node_of(lab, stays)
    assert len({task.node for task in lab.cluster.job(stays).tasks}) == 2
    add(lab, there, after=30 * HOUR, reason="disks")
    assert "MaintenancePlanned" not in {event.kind for event in lab.cluster.events(f"job/{stays}")}, "the day before"
    lab.pass_time(6 * HOUR)
    told = [event for event in lab.cluster.events(f"job/{stays}") if event.kind == "MaintenancePlanned"]
    assert [event.data["nodes"] for event in told] == [[there]]
    assert "disks" in told[0].message
    lab.pass_time(24 * HOUR)
    found = lab.cluster.job(stays)
    assert (found.attempt, found.preemptions) == (1, 0)
    assert there not in {task.node for task in found.tasks}
    assert {task.attempt for task in found.tasks} == {1}, "as a whole"
    lost = [event for event in lab.cluster.events(f"job/{stays}") if event.kind == "Lost"]
    assert lost[0].data["reason"] == f"node {there} is in maintenance (maintenance-1)"
    node = next(node for node in lab.cluster.nodes() if node.machine.name == there)
    assert (node.used, node.reason) == (0, "in maintenance (maintenance-1)")
    kinds = [event.kind.value for event in lab.cluster.events(f"node/{there}")][-1]
    assert kinds == "MaintenanceStarted"


def test_who_ends_in_the_instant_at_which_the_window_begins_has_not_met_it(bench: MakeBench) -> None:
    lab = bench()
    ends = lab.submit("ends", "vc1", max_run_time="1h", commands=["sleep 1h"])
    limit = lab.submit("limit", "default", max_run_time="1h", commands=["sleep 9h"])
    add(lab, "worker1", "worker2", after=HOUR)
    lab.pass_time(2 * HOUR)
    assert (lab.state(ends), lab.state(limit)) == ("Succeeded", "Stopped")
    assert {event.kind for key in (ends, limit) for event in lab.cluster.events(f"job/{key}")}.isdisjoint({"Lost"})


def test_a_window_that_begins_now_drains_at_once(bench: MakeBench) -> None:
    lab = bench()
    job = lab.submit("one", "vc1", commands=["sleep 9h"])
    there = node_of(lab, job)
    window = add(lab, there)
    assert window.active
    assert node_of(lab, job) not in ("", there)
    lab.cluster.remove_window(window.name)
    other = lab.submit("two", "default", commands=["sleep 9h"])
    assert node_of(lab, other) == there


def test_a_scheduler_that_was_stopped_drains_when_it_starts(bench: MakeBench) -> None:
    lab = bench()
    job = lab.submit("one", "vc1", commands=["sleep 9h"])
    there = node_of(lab, job)
    add(lab, there, after=HOUR)
    lab.cluster.set_service("hivedscheduler", running=False)
    lab.pass_time(90 * MINUTE)
    assert node_of(lab, job) == there
    lab.cluster.set_service("hivedscheduler", running=True)
    assert node_of(lab, job) != there


def test_windows_are_there_for_another_process_and_removed_ones_leave_no_timer(bench: MakeBench) -> None:
    lab = bench()
    window = add(lab, "worker1", after=HOUR, name="disks")
    assert lab.again().windows() == (window,)
    lab.cluster.remove_window("disks")
    lab.submit("one", commands=["sleep 1m"])
    lab.cluster.tick(None)
    assert lab.cluster.present == MINUTE, "no clock runs out to a window that was removed"
    kinds = [event.kind.value for event in lab.cluster.events("node/worker1")]
    assert kinds[-2:] == ["MaintenancePlanned", "MaintenanceEnded"]


def test_a_window_that_cannot_be_is_refused_and_leaves_nothing(bench: MakeBench) -> None:
    lab = bench()
    add(lab, "worker1", after=HOUR)
    before = lab.cluster.stored()
    for nodes, after in ((("worker1",), 90 * MINUTE), (("worker9",), HOUR), (("worker2",), -MINUTE), ((), HOUR)):
        with pytest.raises(WindowError):
            add(lab, *nodes, after=after)
    assert lab.cluster.stored() == before
    assert [window.name for window in lab.cluster.windows()] == ["maintenance-1"]


def test_explain_says_which_window_and_with_which_run_time_it_would_start(bench: MakeBench) -> None:
    lab = bench()
    add(lab, "worker1", "worker2", after=HOUR, name="disks")
    job = lab.submit("one", "vc1")
    found = lab.cluster.explain(job)
    assert (found.situation, found.longest) == (JobSituation.MAINTENANCE, HOUR)
    assert [window.name for window in found.windows] == ["disks"]
    said = "\n".join(explaining.lines(found))
    assert "window disks closes worker1, worker2 from " in said
    assert "maxRunTime of at most 1h" in said
    assert explaining.data(found)["windows"][0]["name"] == "disks"
    lab.submit("short", "vc1", max_run_time="1h", commands=["sleep 2h"])
    assert lab.cluster.explain(job).situation is JobSituation.NO_ROOM, "the quota is in use, windows or not"


def test_who_must_leave_and_whose_guarantees_are_at_risk_is_known_beforehand(bench: MakeBench) -> None:
    lab = bench()
    stays = lab.submit("stays", "vc1", commands=["sleep 9h"])
    lab.submit("ends", "default", max_run_time="30m")
    version = lab.cluster.configuration()
    spec = ConfigSnapshot(version.number, version.files).spec
    window = add(lab, node_of(lab, stays), after=HOUR)
    ahead = outlook(window, lab.cluster.windows(), lab.cluster.picture(), version)
    assert [(job.key, job.vc, job.ends_by) for job in ahead.leaving] == [(stays, "vc1", None)]
    assert ahead.at_risk == {"default": 1, "vc1": 1}, "one node is left for two promises"
    assert lab.cluster.picture().windows == (window,)
    assert cells_at_risk(spec, ()) == {}
    assert cells_at_risk(spec, ("worker1", "worker2")) == {"default": 1, "vc1": 1}


shapes = st.sampled_from([(1, 8), (2, 8), (1, 4), (3, 2), (1, 1), (2, 1)])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_nothing_ever_runs_on_a_node_in_maintenance(bench: MakeBench, data: st.DataObject) -> None:
    """Random jobs, windows and time: who is placed ends before a window of its node begins."""
    lab = bench("three-tenants")
    workers = sorted(node.machine.name for node in lab.cluster.nodes() if node.machine.devices)
    began: set[tuple[str, str, int]] = set()
    for step in range(data.draw(st.integers(4, 12))):
        match data.draw(st.sampled_from(["submit", "submit", "add", "remove", "time"])):
            case "submit":
                instances, gpu = data.draw(shapes)
                limit = data.draw(st.sampled_from([None, "20m", "1h", "3h"]))
                body = lab.job(
                    f"j{step}",
                    data.draw(st.sampled_from(["tenanta", "tenantb", "tenantc"])),
                    instances=instances,
                    gpu=gpu,
                    max_run_time=limit,
                    gang=data.draw(st.booleans()),
                    commands=["sleep 2h"],
                    retries=0,
                )
                priority = data.draw(st.sampled_from(["oppo", "test", "prod"]))
                with suppress(JobError):  # it may be too large for its tenant
                    lab.cluster.submit([JobRequest("ann", body, None, priority)])
            case "add":
                nodes = data.draw(st.sets(st.sampled_from(workers), min_size=1, max_size=2))
                after = data.draw(st.sampled_from([None, 10 * MINUTE, HOUR, 4 * HOUR]))
                try:
                    add(lab, *sorted(nodes), after=after, lasts=data.draw(st.sampled_from([MINUTE, HOUR])))
                except WindowError:
                    continue
                began |= _running(lab)  # who already exists stays until it begins
            case "remove":
                for window in lab.cluster.windows()[:1]:
                    lab.cluster.remove_window(window.name)
            case _:
                lab.pass_time(data.draw(st.sampled_from([MINUTE, 30 * MINUTE, 2 * HOUR])))
        running = _running(lab)
        for window in lab.cluster.windows():
            there = {place for place in running if place[1] in window.nodes}
            assert not (window.active and there), (window, there)
            for key, node, started in there - began:
                most = lab.cluster.job(key).max_run_time
                assert most is not None, (key, node)
                assert lab.at(started) + timedelta(milliseconds=most) <= window.start, (key, node)
        _valid(lab)


def _running(lab: Bench) -> set[tuple[str, str, int]]:
    epoch = lab.cluster.epoch
    return {
        (job.key, task.node, round((task.started - epoch).total_seconds() * 1000))
        for job in lab.cluster.jobs(ended=False)
        for task in lab.cluster.job(job.key).tasks
        if task.state == "Running" and task.started is not None
    }


def _valid(lab: Bench) -> None:
    with lab.cluster._world() as world:
        assert world.dispatcher.engine is not None
        validate(world.dispatcher.engine.state)


def test_on_a_clock_that_runs_out_what_was_added_is_told_though_it_is_over(bench: MakeBench) -> None:
    lab = bench("lab", clock=(0.0, True))
    now = lab.cluster.now
    window = lab.cluster.add_window(WindowRequest(("worker1",), Millis(MINUTE)))
    assert (window.name, window.start, window.active) == ("maintenance-1", now, True)
    later = lab.cluster.now
    assert later > now
    assert lab.cluster.windows() == ()
    reservation = lab.cluster.add_reservation(ReservationRequest(Millis(MINUTE), None, "vc1", 1, "GPU-NODE"))
    assert (reservation.name, reservation.start, reservation.kept) == ("reservation-1", later, "1xGPU-NODE of vc1")
    assert lab.cluster.reservations() == ()


@pytest.mark.skipif(anchor(0.0) is None, reason="this system does not tell its boots apart")
@pytest.mark.parametrize("jump", [-3600, 3600])
def test_a_wall_clock_that_is_set_moves_no_window_and_no_reservation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    """The cluster's own clock goes on from the anchor of its boot, whoever sets the wall's."""
    command = BringUp("pai", SERVICES, tuple(machines_in(preset_files("lab"))))
    cluster = EmbeddedCluster.up(tmp_path / "c", command, [Push(preset_files("lab"), "first")])
    for name in SERVICES:
        cluster.set_service(name, running=True)
    cluster.add_window(WindowRequest(("worker1",), Millis(HOUR // 2)))
    start = cluster.now + timedelta(minutes=40)
    cluster.add_reservation(ReservationRequest(Millis(HOUR // 2), start, "vc1", 1, "GPU-NODE"))
    before, real = cluster.now, time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    other = EmbeddedCluster.at(tmp_path / "c")
    assert before <= other.now < before + timedelta(minutes=20)
    assert [one.active for one in other.windows()] == [True]
    assert [one.active for one in other.reservations()] == [False]
    other.set_node("worker2", NodeChange.CORDON)  # a command that is written down
    assert [one.active for one in EmbeddedCluster.at(tmp_path / "c").windows()] == [True]
