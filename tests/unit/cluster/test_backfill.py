"""Backfill on a cluster on this machine: who overtakes, what is promised, and that it holds."""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from paictl.cluster.eventtext import detail
from paictl.cluster.interface import JobRequest, NodeChange, PromisedStart
from paictl.cluster.scheduling import JobSituation, LatestStart
from paictl.i18n import Text
from paictl.operate import status
from paictl.operate.explaining import data, lines
from paictl.operate.status import summary
from paictl.units import Millis, rfc3339
from paictl.workload.backfill import GRACE
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.test_sharing import kinds, load

HOUR = 60 * MINUTE
OPERATIONS = 300 if os.environ.get("PAICTL_SOAK") else 30
EASY = "sharing: {backfill: [{mode: easy}]}\n"
CONSERVATIVE = "sharing: {backfill: [{mode: conservative}]}\n"


@pytest.fixture
def lab(bench: MakeBench) -> Bench:
    """tenanta is promised 8 devices."""
    found = bench("three-tenants")
    load(found, EASY)
    return found


def submit(lab: Bench, name: str, gpu: int, limit: str | None, hours: float = 1000, **options: Any) -> str:
    """A job of tenanta that says `limit` and runs for so many hours."""
    priority, vc = options.pop("priority", "test"), options.pop("vc", "tenanta")
    job = lab.job(name, vc, gpu=gpu, max_run_time=limit, **options)
    return lab.cluster.submit([JobRequest("ann", job, None, priority, Millis(round(hours * HOUR)))])[0].key


def states(lab: Bench, *keys: str) -> list[str]:
    return [lab.state(key) for key in keys]


def start(lab: Bench, key: str) -> LatestStart:
    found = lab.cluster.explain(key)
    assert found.start is not None
    return found.start


def at(lab: Bench, millis: float) -> str:
    return rfc3339(lab.at(round(millis)))


def test_the_first_in_line_has_a_promised_start_and_others_overtake_that_do_not_delay_it(lab: Bench) -> None:
    whole, socket = submit(lab, "whole", 8, "10h"), submit(lab, "socket", 4, "2h", hours=2)
    big = submit(lab, "big", 8, "5h")
    lab.pass_time(3 * HOUR)  # 4 devices of a socket are free, which the large gang cannot use
    beside = submit(lab, "beside", 2, None)
    assert states(lab, whole, socket, big, beside) == ["Running", "Succeeded", "Waiting", "Running"]
    assert start(lab, big) == LatestStart(at(lab, 10 * HOUR), (("ann~whole", at(lab, 10 * HOUR)),))
    text = "\n".join(map(str, lines(lab.cluster.explain(big))))
    assert f"it starts at {at(lab, 10 * HOUR)} at the latest" in text
    assert f"by then ann~whole will have ended, at {at(lab, 10 * HOUR)} at the latest" in text
    assert data(lab.cluster.explain(big))["start"]["at"] == at(lab, 10 * HOUR)
    lab.pass_time(7 * HOUR)
    assert states(lab, whole, big) == ["Stopped", "Running"]
    assert lab.cluster.job(big).started == lab.at(10 * HOUR)
    assert kinds(lab, f"job/{big}")[:2] == ["Submitted", "StartPromised"]
    assert "StartDelayed" not in kinds(lab, f"job/{big}")


def part(lab: Bench) -> tuple[str, str]:
    """A job of four devices on the node of tenanta until hour 10, another on its socket; a gang waits for the node."""
    half = fill(lab, "10h")
    return half, submit(lab, "big", 8, "5h")


def fill(lab: Bench, limit: str | None, **options: Any) -> str:
    """A job on one half of the node of tenanta, and one for ever on its socket; the other half is free."""
    half, other = submit(lab, "half", 4, limit, **options), submit(lab, "other", 4, None)
    submit(lab, "socket", 4, None)
    lab.cluster.stop_job(other)
    return half


def test_who_would_delay_the_promised_start_waits_and_is_told_with_which_limit_it_would_start(lab: Bench) -> None:
    half, big = part(lab)
    in_time, late, endless = (
        submit(lab, "in-time", 2, "10h"),
        submit(lab, "late", 2, "11h"),
        submit(lab, "less", 2, None),
    )
    assert states(lab, half, big, in_time, late, endless) == ["Running", "Waiting", "Running", "Waiting", "Waiting"]
    found = lab.cluster.explain(late)
    assert (found.situation, found.longest) == (JobSituation.BACKFILL, 10 * HOUR)
    said = [str(line) for line in lines(found)]
    assert said[0] == f"job ann~late waits: it would delay ann~big, which starts at {at(lab, 10 * HOUR)} at the latest"
    assert said[1] == "hint: it would start now with a maxRunTime of at most 10h"
    assert data(found)["longest"] == 10 * HOUR
    lab.cluster.stop_job(big)
    assert states(lab, late) == ["Running"], "nobody has a promise any more"


def test_without_backfill_whoever_fits_overtakes(lab: Bench) -> None:
    load(lab, "")
    _, big = part(lab)
    assert states(lab, submit(lab, "late", 2, "11h"), big) == ["Running", "Waiting"]
    assert lab.cluster.explain(big).start is None


def test_an_early_end_brings_the_start_forward(lab: Bench) -> None:
    half = fill(lab, "10h", hours=4)
    other, big = submit(lab, "next", 4, "20h", hours=3), submit(lab, "big", 8, "5h")
    assert states(lab, half, other) == ["Running"] * 2
    assert start(lab, big).at == at(lab, 20 * HOUR)
    assert [job for job, _ in start(lab, big).ends] == ["ann~half", "ann~next"]
    lab.pass_time(3 * HOUR)
    assert start(lab, big).at == at(lab, 10 * HOUR)
    late = submit(lab, "late", 4, "8h")
    assert states(lab, late) == ["Waiting"], "it would have been in time for the first promise, not for this one"
    lab.pass_time(HOUR)
    assert states(lab, big, late) == ["Running", "Waiting"]


def test_jobs_without_a_limit_promise_nothing_and_are_named(lab: Bench) -> None:
    fill(lab, None)
    big = submit(lab, "big", 8, "5h")
    assert start(lab, big) == LatestStart("", unlimited=("ann~half",))
    said = "\n".join(map(str, lines(lab.cluster.explain(big))))
    assert "no start can be promised: these jobs have no maxRunTime: ann~half" in said
    assert states(lab, submit(lab, "small", 2, None)) == ["Running"], "whoever fits overtakes, as without backfill"


def test_a_higher_priority_keeps_no_promise_to_a_lower_one_and_the_delay_is_told(lab: Bench) -> None:
    half, big = part(lab)
    urgent = submit(lab, "urgent", 4, "20h", priority="prod")
    assert states(lab, half, big, urgent) == ["Running", "Waiting", "Running"]
    assert start(lab, big).at == at(lab, 20 * HOUR)
    assert kinds(lab, f"job/{big}")[1:] == ["StartPromised", "StartDelayed"]


def test_a_job_that_starts_again_stays_behind_whom_a_start_was_promised(lab: Bench) -> None:
    first = fill(lab, "10h", retries=5)
    big = submit(lab, "big", 8, "5h")
    assert start(lab, big).at == at(lab, 10 * HOUR)
    node = lab.cluster.job(first).tasks[0].node
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(10 * MINUTE)
    lab.cluster.set_node(node, NodeChange.HEAL)
    assert lab.state(big) == "Running"
    assert lab.state(first) in ("Waiting", "Running")
    begun = lab.cluster.job(big).started
    assert begun is not None
    assert begun <= lab.at(10 * HOUR)


def test_promises_survive_every_process_and_a_restart_of_the_scheduler(lab: Bench) -> None:
    _, big = part(lab)
    lab.cluster.restart_services(["hivedscheduler"])
    again = lab.again()
    found = again.explain(big).start
    assert found is not None
    assert found.at == at(lab, 10 * HOUR)
    assert "StartDelayed" not in kinds(lab, f"job/{big}")


def test_each_job_in_line_has_a_start_that_those_behind_it_do_not_delay(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    load(lab, CONSERVATIVE)
    half, big = part(lab)
    again, small = submit(lab, "again", 8, "3h"), submit(lab, "small", 2, "12h")
    assert states(lab, half, big, again, small) == ["Running", "Waiting", "Waiting", "Waiting"]
    found = [start(lab, key) for key in (big, again, small)]
    assert [(one.at, one.place) for one in found] == [
        (at(lab, 10 * HOUR), 1),
        (at(lab, 15 * HOUR), 2),
        (at(lab, 18 * HOUR), 3),
    ]
    said = "\n".join(map(str, lines(lab.cluster.explain(again))))
    assert "it is number 2 in the line of its virtual cluster" in said
    load(lab, EASY)
    assert lab.cluster.explain(again).start is None, "only the first has one"
    load(lab, CONSERVATIVE)
    lab.pass_time(10 * HOUR)
    assert states(lab, half, big) == ["Stopped", "Running"]
    found_again = lab.again().explain(small).start
    assert found_again is not None
    assert found_again.at == at(lab, 18 * HOUR), "as it was written down"
    lab.cluster.stop_job(big)
    assert states(lab, again, small) == ["Running", "Waiting"]
    assert start(lab, small).at == at(lab, 13 * HOUR)
    assert "StartDelayed" not in kinds(lab, f"job/{small}")


def test_who_has_a_promise_and_would_delay_another_is_told_both(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    load(lab, CONSERVATIVE)
    _, big = part(lab)
    late = submit(lab, "late", 2, "11h")
    found = lab.cluster.explain(late)
    assert (found.situation, found.longest) == (JobSituation.BACKFILL, 10 * HOUR)
    assert [str(line) for line in lines(found)] == [
        f"job ann~late waits: it would delay ann~big, which starts at {at(lab, 10 * HOUR)} at the latest",
        f"  it starts at {at(lab, 15 * HOUR)} at the latest",
        "  it is number 2 in the line of its virtual cluster",
        "hint: it would start now with a maxRunTime of at most 10h",
    ]
    assert data(found)["start"]["at"] == at(lab, 15 * HOUR)
    assert lab.cluster.explain(big).situation is not JobSituation.BACKFILL


def test_who_waits_behind_a_gang_that_may_run_for_ever_is_told_its_name(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    load(lab, CONSERVATIVE)
    fill(lab, "10h")
    endless = submit(lab, "endless", 8, None)
    behind = [submit(lab, "next", 8, "1h"), submit(lab, "small", 2, "20h")]
    assert start(lab, endless).at == at(lab, 10 * HOUR)
    for key in behind:
        assert start(lab, key) == LatestStart("", unlimited=(endless,))
    said = "\n".join(map(str, lines(lab.cluster.explain(behind[0]))))
    assert "no start can be promised: these jobs have no maxRunTime: ann~endless" in said


def test_gangs_without_a_start_use_up_no_promise(monkeypatch: pytest.MonkeyPatch, bench: MakeBench) -> None:
    monkeypatch.setattr("paictl.workload.backfill.MOST", 3)
    lab = bench("three-tenants")
    load(lab, CONSERVATIVE)
    fill(lab, None)
    hopeless = [submit(lab, f"hopeless-{number}", 8, "5h") for number in range(3)]
    endings = [submit(lab, f"ending-{number}", 4, "5h", hours=1) for number in range(3)]
    said = [start(lab, key) for key in hopeless]
    assert {(one.at, one.unlimited, one.place, one.behind) for one in said} == {("", ("ann~half",), 0, 0)}
    assert states(lab, *endings[:2]) == ["Running", "Waiting"]
    endings += [submit(lab, f"ending-{number}", 4, "5h", hours=1) for number in (3, 4)]
    said = [start(lab, key) for key in endings[1:]]
    assert [(one.place, one.behind) for one in said] == [(1, 0), (2, 0), (3, 0), (0, 3)]


def test_who_loses_a_promise_and_gets_a_later_one_is_told(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    load(lab, CONSERVATIVE)
    _, big = part(lab)
    urgent = submit(lab, "urgent", 8, None, priority="prod")
    assert start(lab, big).at == "", "behind what may run for ever"
    lab.cluster.stop_job(urgent)
    submit(lab, "later", 8, "20h", priority="prod")
    assert start(lab, big).at > at(lab, 10 * HOUR)
    assert kinds(lab, f"job/{big}")[1:] == ["StartPromised", "StartDelayed"]


def test_who_waits_is_asked_again_at_its_promised_start_where_nothing_else_happens(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    load(lab, CONSERVATIVE)
    part(lab)
    lab.pass_time(10 * HOUR - MINUTE // 2)
    short = submit(lab, "short", 2, "1m", hours=1)
    lab.cluster.set_service("frameworkcontroller", running=False)  # nobody ends the job that is past its limit
    lab.pass_time(5 * HOUR + 2 * MINUTE)
    lab.cluster.set_service("frameworkcontroller", running=True)
    assert lab.cluster.job(short).tasks[0].started == lab.at(15 * HOUR)


@pytest.mark.parametrize("mode", [EASY, CONSERVATIVE])
def test_a_job_past_its_limit_does_not_delay_others_minute_by_minute(bench: MakeBench, mode: str) -> None:
    lab = bench("three-tenants")
    load(lab, mode)
    half, big = part(lab)
    again = submit(lab, "again", 8, "1h")
    lab.cluster.set_service("frameworkcontroller", running=False)  # nobody ends the job that is past its limit
    lab.pass_time(9 * HOUR)
    lab.pass_time(8 * HOUR)
    said = [kinds(lab, f"job/{key}").count("StartDelayed") for key in (big, again)]
    assert max(said) <= 2
    lab.cluster.set_service("frameworkcontroller", running=True)
    lab.pass_time(MINUTE)
    assert states(lab, half, big, again) == ["Stopped", "Running", "Waiting"]


@pytest.mark.parametrize("mode", [EASY, CONSERVATIVE])
@pytest.mark.parametrize("seed", range(2))
def test_no_promised_start_is_broken(bench: MakeBench, seed: int, mode: str) -> None:
    lab, rng = bench("three-tenants"), random.Random(seed)  # noqa: S311 - a property test
    load(lab, mode)
    promised: dict[str, datetime] = {}
    for number in range(OPERATIONS):
        match rng.randrange(8):
            case 0 if running := [job.key for job in lab.cluster.jobs(ended=False)]:
                lab.cluster.stop_job(rng.choice(running))
            case 1 | 2:
                lab.pass_time(rng.randrange(1, 120) * MINUTE)
            case _:
                limit = rng.choice((None, *(["1h", "2h", "5h", "9h"] * 20)))
                gpu, many = rng.choice(((1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (2, 3)))
                submit(
                    lab,
                    f"job{number}",
                    gpu,
                    limit,
                    rng.choice((0.5, 1, 3, 20)),
                    instances=many,
                    vc=rng.choice(("tenanta", "tenantb")),
                    priority=rng.choice(("test", "test", "test", "oppo")),
                )
    for event in lab.cluster.events():
        assert event.kind.value != "StartDelayed", event
        if event.kind.value == "StartPromised":
            when = datetime.fromisoformat(str(event.data["at"]))
            promised[event.subject] = min(when, promised.get(event.subject, when))
    begun = 0
    for subject, when in promised.items():
        job = lab.cluster.job(subject.partition("/")[2])
        if job.started is not None:
            begun += 1
            assert job.started <= when, subject
        elif not job.state.ended:
            assert lab.cluster.now <= when, subject
    assert begun


def test_who_loses_a_promise_to_bad_hardware_is_told_once_and_why(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    load(lab, CONSERVATIVE)
    _, big = part(lab)
    again = submit(lab, "again", 8, "3h")
    was = start(lab, again).at
    node = next(node.machine.name for node in lab.cluster.nodes() if node.machine.name.startswith("worker"))
    lab.cluster.set_devices(node, NodeChange.FAIL, [7])
    lab.pass_time(MINUTE)
    lab.again().tick(Millis(MINUTE))
    told = [event for event in lab.cluster.events(f"job/{again}") if event.kind == "StartDelayed"]
    assert [(event.data["before"], event.data["why"]) for event in told] == [(was, "hardware is bad")]
    said = detail(told[0])
    assert isinstance(said, Text)
    assert said == f"was promised to start at {was} at the latest, which no longer holds: hardware is bad"
    assert "有硬件故障" in said.of("zh")
    assert "StartDelayed" not in kinds(lab, f"job/{big}"), "it is the first in line"
    lab.cluster.set_devices(node, NodeChange.HEAL, [7])
    assert start(lab, again).at == was
    assert kinds(lab, f"job/{again}")[-1] == "StartPromised"


def test_the_status_counts_promised_starts_and_those_that_are_late(lab: Bench) -> None:
    assert summary(lab.cluster).starts == ()
    _, big = part(lab)
    promised = PromisedStart(big, lab.at(10 * HOUR))
    for cluster in (lab.cluster, lab.again()):  # as the world knows it, and as it was written down
        assert summary(cluster).starts == (promised,)
        assert summary(cluster).late == ()
    lab.cluster.set_service("frameworkcontroller", running=False)  # nobody ends the job that is past its limit
    lab.pass_time(10 * HOUR + GRACE)
    assert summary(lab.cluster).late == (), "pods are made and bound in the minute after"
    lab.pass_time(MINUTE)
    for cluster in (lab.cluster, lab.again()):
        assert summary(cluster).late == (promised,)
    lab.cluster.set_service("frameworkcontroller", running=True)
    lab.pass_time(10 * MINUTE)
    assert lab.state(big) == "Running"
    assert summary(lab.cluster).starts == (), "who runs does not wait for a start"


def test_the_status_takes_a_start_for_late_after_the_same_minute_as_the_scheduler() -> None:
    assert timedelta(milliseconds=GRACE) == status.GRACE
