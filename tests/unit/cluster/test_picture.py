"""The data of a picture: cells, virtual clusters and the timeline of embedded clusters."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from paictl.cells.ids import PhysicalCell
from paictl.cluster.interface import Event, EventKind, JobState, NodeChange
from paictl.cluster.picture import JobLine, Picture, PromiseState, picture_data
from paictl.cluster.timeline import timeline
from paictl.cluster.values import AttemptOutcome
from paictl.scheduler.groups import Hold
from paictl.scheduler.occupancy import CellState
from paictl.scheduler.state import State as SchedulerState
from paictl.units import Millis, instant
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench

LAYOUT = "services-configuration.yaml"


def at(millis: int) -> datetime:
    return instant(datetime(2026, 1, 5, 12, tzinfo=UTC), Millis(millis))


def line(picture: Picture, key: str) -> JobLine:
    assert picture.timeline is not None
    return next(each for each in picture.timeline.jobs if each.key == key)


def outcomes(picture: Picture, key: str) -> list[list[str]]:
    return [[attempt.outcome.value for attempt in task.attempts] for task in line(picture, key).tasks]


def reload(lab: Bench, old: str, new: str) -> None:
    """Change the configuration and let the scheduler load it."""
    files = dict(lab.cluster.configuration().files)
    assert old in files[LAYOUT]
    lab.cluster.push({**files, LAYOUT: files[LAYOUT].replace(old, new)}, "changed")
    for name in ("rest-server", "hivedscheduler"):
        lab.cluster.set_service(name, running=False)
        lab.cluster.set_service(name, running=True)


def test_devices_say_who_uses_them_and_with_which_right(bench: MakeBench) -> None:
    lab = bench("dgx2")
    owner, guest = lab.submit("owner", "default", "prod", gpu=4), lab.submit("guest", "vc1", "oppo", gpu=2)
    picture = lab.cluster.picture()
    users = Counter((leaf.job, leaf.hold, leaf.vc) for leaf in picture.leaves() if leaf.job)
    assert users == {(owner, Hold.GUARANTEED, "default"): 4, (guest, Hold.OPPORTUNISTIC, "vc1"): 2}
    vcs = {vc.name: (vc.quota, vc.used, vc.extra) for vc in picture.vcs}
    assert vcs == {"default": (16, 4, 0), "vc1": (16, 0, 2)}
    assert [job.key for job in picture.jobs] == [owner, guest]
    assert picture.timeline is None


def summary(state: SchedulerState, cell: PhysicalCell) -> str:
    """A cell's state, from those of all its leaves at once."""
    found = {state.occupancy.state(leaf) for leaf in state.physical.leaves(cell)}
    if CellState.USED in found:
        return "Used"
    return str(found.pop()) if len(found) == 1 else "Free"


def test_cells_have_the_addresses_and_states_of_the_scheduler(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    for number in range(9):
        lab.submit(f"job{number}", ("tenanta", "tenantb", "tenantc")[number % 3], "test", gpu=2)
    lab.cluster.set_node("worker3", NodeChange.FAIL)
    with lab.cluster._world() as world:
        assert world.dispatcher.engine is not None
        state = world.dispatcher.engine.state
        cells = [
            (state.physical.address(cell), summary(state, cell), not state.counts.bad[cell])
            for cell in state.physical.cells()
        ]
    found = []
    todo = list(lab.cluster.picture().top_cells())
    while todo:
        cell = todo.pop(0)
        found.append((cell.address, cell.state.value, cell.healthy))
        todo = [*cell.parts, *todo]
    assert found == cells


def test_a_cell_shows_what_its_parts_have_in_common(bench: MakeBench) -> None:
    lab = bench("dgx2")
    key = lab.submit("whole", "default", "prod", gpu=16)
    lab.submit("half", "vc1", "prod", gpu=4)
    top = next(iter(lab.cluster.picture().top_cells()))
    full, other = top.parts
    assert (full.job, full.hold, full.state, full.virtual) == (key, Hold.GUARANTEED, CellState.USED, "default/0")
    assert (other.job, other.hold, other.state) == ("", Hold.NONE, CellState.USED)
    assert [node.name for node in top.nodes()] == ["worker1", "worker2"]


def test_doomed_cells_are_those_that_only_bad_hardware_can_serve(bench: MakeBench) -> None:
    lab = bench("dgx2")
    lab.cluster.set_node("worker2", NodeChange.FAIL)
    lab.submit("own", "default", gpu=1)
    vc1 = next(vc for vc in lab.cluster.picture().vcs if vc.name == "vc1")
    assert [(cell.state, cell.healthy) for cell in vc1.cells] == [(PromiseState.DOOMED, False)] * 2
    assert all("worker2" in cell.physical for cell in vc1.cells)
    lab.cluster.set_node("worker2", NodeChange.HEAL)
    vc1 = next(vc for vc in lab.cluster.picture().vcs if vc.name == "vc1")
    assert [cell.state for cell in vc1.cells] == [PromiseState.FREE] * 2
    assert vc1.doomed == 0


def test_pinned_cells_say_so(bench: MakeBench) -> None:
    lab = bench()
    reload(lab, "- cellAddress: worker2", "- cellAddress: worker2\n          pinnedCellId: mine")
    pinned = "vc1:\n        pinnedCells: [{pinnedCellId: mine}]\n        virtualCells: []\n        old:"
    reload(lab, "vc1:\n        virtualCells:", pinned)
    vc1 = next(vc for vc in lab.cluster.picture().vcs if vc.name == "vc1")
    assert [(cell.pinned, cell.physical) for cell in vc1.cells] == [("mine", "0/worker2")]


def test_a_lazily_preempted_job_is_told_from_an_opportunistic_one(bench: MakeBench) -> None:
    lab = bench("dgx2")
    reload(lab, "DGX2-PAIR.DGX2-NODE, cellNumber: 1", "DGX2-PAIR.DGX2-NODE.V100-BOARD, cellNumber: 1")
    lab.submit("other", "default", "prod", gpu=8)
    lazy = lab.submit("lazy", "vc1", "test", gpu=8, hived={"lazyPreemptionEnable": True})
    lab.submit("first", "vc1", "prod", gpu=8)
    lab.submit("second", "vc1", "prod", gpu=8)
    picture = lab.cluster.picture()
    assert {leaf.hold for leaf in picture.leaves() if leaf.job == lazy} == {Hold.LAZY}


def test_a_stopped_scheduler_is_shown_as_it_would_start(bench: MakeBench) -> None:
    lab = bench("dgx2")
    lab.submit("one", "default", "prod", gpu=4)
    before = lab.cluster.picture()
    lab.cluster.set_service("hivedscheduler", running=False)
    after = lab.cluster.picture()
    assert after.chains == before.chains
    assert not before.note
    assert "hivedscheduler is stopped" in after.note


def test_the_timeline_of_a_preempted_job(bench: MakeBench) -> None:
    lab = bench()
    low = lab.submit("low", "vc1", "test")
    lab.pass_time(2 * MINUTE)
    high = lab.submit("high", "vc1", "prod")
    lab.pass_time(6 * MINUTE)
    picture = lab.cluster.picture(history=True)
    task = line(picture, low).tasks[0]
    assert [(a.start, a.end, a.outcome) for a in task.attempts] == [
        (lab.at(0), lab.at(2 * MINUTE), AttemptOutcome.PREEMPTED),
        (lab.at(7 * MINUTE), None, AttemptOutcome.RUNNING),
    ]
    assert f"preempted by {high}" in task.attempts[0].reason
    assert task.attempts[0].devices == (0,)
    assert task.waits == ((lab.at(2 * MINUTE), lab.at(7 * MINUTE)),)
    assert outcomes(picture, high) == [["finished"]]
    assert [(job.key, job.state) for job in picture.jobs] == [(low, JobState.RUNNING), (high, JobState.SUCCEEDED)]


def test_all_tasks_of_a_preempted_gang_are_preempted_not_stopped(bench: MakeBench) -> None:
    lab = bench("dgx2")
    gang = lab.submit("gang", "vc1", "test", gpu=4, instances=4)
    lab.pass_time(MINUTE)
    lab.submit("urgent", "vc1", "crit", gpu=8)
    picture = lab.cluster.picture(history=True)
    assert outcomes(picture, gang) == [["preempted"]] * 4
    assert {task.waits for task in line(picture, gang).tasks} == {((lab.at(MINUTE), None),)}


def test_a_job_that_never_ran_waits_from_its_submission(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("own", "vc1", "prod")
    waiting, stopped = lab.submit("waiting", "vc1", "prod"), lab.submit("stopped", "vc1", "prod")
    lab.pass_time(MINUTE)
    lab.cluster.stop_job(stopped)
    lab.pass_time(MINUTE)
    picture = lab.cluster.picture(history=True)
    assert line(picture, waiting).tasks[0].waits == ((lab.at(0), None),)
    assert line(picture, stopped).tasks[0].waits == ((lab.at(0), lab.at(MINUTE)),)


def test_stopped_and_lost_tasks_end_as_such(bench: MakeBench) -> None:
    lab = bench("dgx2")
    stopped = lab.submit("stopped", "default", "prod", gpu=8, instances=2)
    lost = lab.submit("lost", "vc1", "prod", gpu=8, commands=["sleep 1h"])
    node = lab.cluster.job(lost).tasks[0].node
    lab.cluster.stop_job(stopped)
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(6 * MINUTE)
    picture = lab.cluster.picture(history=True)
    assert outcomes(picture, stopped) == [["stopped"]] * 2
    assert outcomes(picture, lost)[0][0] == "lost"
    assert picture.timeline is not None
    assert (node, "Failed") in [(mark.node, mark.what) for mark in picture.timeline.marks]


def test_finished_tasks_of_a_gang_that_starts_again_wait_once_more() -> None:
    ref = {"role": "a", "index": 0, "attempt": 0}
    said: list[tuple[str, int, dict[str, Any]]] = [
        ("Submitted", 0, {"tasks": {"a": 1, "b": 1}}),
        ("Started", 0, {**ref, "node": "n", "devices": [0]}),
        ("Started", 0, {**ref, "role": "b", "node": "n", "devices": [1]}),
        ("Finished", 5, {**ref, "reason": ""}),
        ("Preempted", 7, {**ref, "role": "b", "reason": "preempted by x"}),
        ("Retried", 7, {}),
        ("Started", 9, {**ref, "attempt": 1, "node": "n", "devices": [0]}),
    ]
    events = [Event(n, at(span), EventKind(kind), "job/u~j", "", data) for n, (kind, span, data) in enumerate(said, 1)]
    first, second = timeline(events, at(10)).jobs[0].tasks
    assert [attempt.outcome for attempt in first.attempts] == [AttemptOutcome.FINISHED, AttemptOutcome.RUNNING]
    assert (first.waits, second.waits) == (((at(7), at(9)),), ((at(7), None),))


def test_events_of_jobs_that_came_before_the_first_one_are_passed_over() -> None:
    started = Event(
        9, at(5), EventKind.STARTED, "job/u~old", "", {"role": "a", "index": 0, "node": "n", "devices": [0]}
    )
    assert timeline([started], at(6)).jobs == ()


def test_picture_data_is_plain_json(bench: MakeBench) -> None:
    lab = bench("dgx2")
    lab.submit("one", "default", "prod", gpu=4)
    data = picture_data(lab.cluster.picture(history=True))
    assert json.loads(json.dumps(data)) == data
    assert type(data["chains"][0]["cells"][0]["state"]) is str
