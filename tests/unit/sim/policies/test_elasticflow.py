"""ElasticFlow: admission, the least devices for a promise, and the distribution of the rest."""

from __future__ import annotations

from paictl.sim.cluster import homogeneous
from paictl.sim.invariants import Invariants
from paictl.sim.job import Deadline, DeadlineKind, Job
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0}
POOR = {1: 1.0, 2: 1.2, 4: 1.3}


def job(
    name: str,
    seconds: float,
    due: float | None = None,
    at: float = 0,
    scaling: dict[int, float] | None = None,
    **more: object,
) -> Job:
    if due is not None:
        more |= {"deadlines": (Deadline(Millis(round(due * 1000))),), "urge": DeadlineKind.STRICT}
    if scaling:
        more |= {"elastic": (1, max(scaling)), "scaling": scaling}
    return Job(name, Millis(round(at * 1000)), 1, Millis(round(seconds * 1000)), **more)  # type: ignore[arg-type]


def play(jobs: list[Job], devices: int, more: str = "slot=10") -> RunResult:
    return simulate(jobs, homogeneous(1, devices), f"elasticflow:{more}", log=True, check=Invariants())


def ends(result: RunResult) -> dict[str, float]:
    return {outcome.id: (outcome.end or 0) / 1000 for outcome in result.outcomes}


def admitted(result: RunResult) -> list[str]:
    return [outcome.id for outcome in result.outcomes if outcome.notes.get("admitted")]


def test_a_job_alone_runs_on_all_devices_that_make_it_faster() -> None:
    assert ends(play([job("a", 100, 60, scaling=LINEAR)], 4)) == {"a": 25}
    slower = {1: 1.0, 2: 2.0, 4: 1.5}
    assert ends(play([job("a", 100, 60, scaling=slower)], 4)) == {"a": 50}


def test_as_many_are_admitted_as_can_all_be_in_time() -> None:
    result = play([job(name, 100, 60, scaling=LINEAR) for name in "abc"], 4)
    assert admitted(result) == ["a", "b"], "each needs two of the four devices"
    assert [outcome.id for outcome in result.outcomes if (outcome.end or 0) <= 60_000] == ["a", "b"]
    assert ends(result)["c"] > 60, "who is refused runs on what is left, later"


def test_a_job_without_a_promise_that_lost_its_devices_runs_again() -> None:
    """The one with less service left comes first; then the other goes on where it was."""
    result = play([job("long", 100), job("short", 20, at=10)], 1)
    assert ends(result) == {"short": 30, "long": 120}
    assert result.counters["preemptions"] == 1


def test_jobs_of_a_slot_are_admitted_all_or_none_as_in_the_published_code() -> None:
    jobs = [job(name, 100, 60, scaling=LINEAR) for name in "abc"]
    refused = play(jobs, 4, "slot=10,admission=slot")
    assert admitted(refused) == [], "two of them could be in time"
    assert refused.counters["promises_broken"] == 0, "nothing was promised to any of them"
    assert admitted(play(jobs[:2], 4, "slot=10,admission=slot")) == ["a", "b"]
    later = [job("a", 100, 60, scaling=LINEAR), job("b", 100, 70, at=10, scaling=LINEAR), job("c", 100, 75, at=20)]
    assert admitted(play(later, 4, "slot=10,admission=slot")) == ["a", "b"], "slots are judged one by one"
    loose = job("none", 100, scaling=LINEAR)
    assert ends(play([*jobs, loose], 4, "slot=10,admission=slot")).keys() == {"a", "b", "c", "none"}, "all of them run"


def test_a_job_that_is_not_elastic_is_promised_what_it_asks_for() -> None:
    assert admitted(play([job("a", 50, 60), job("b", 70, 60)], 2)) == ["a"]


def test_who_has_time_makes_room_for_who_has_not() -> None:
    result = play([job("later", 100, 200, scaling=LINEAR), job("sooner", 100, 50, at=10, scaling=LINEAR)], 4)
    assert admitted(result) == ["later", "sooner"]
    assert ends(result)["sooner"] <= 50
    assert any(entry.what == "resize" or entry.what == "preempt" for entry in result.log if entry.job == "later")


def test_what_is_left_goes_where_it_wastes_least() -> None:
    jobs = [job("poor", 100, 200, scaling=POOR), job("linear", 100, 200, scaling=LINEAR)]
    for order in (jobs, jobs[::-1]):
        first = {entry.job: len(entry.devices) for entry in play(order, 3).log if entry.what == "start"}
        assert first == {"poor": 1, "linear": 2}


def test_promises_come_before_jobs_without_deadlines() -> None:
    result = play([job("free", 30), job("due", 100, 110, at=10)], 1)
    assert ends(result) == {"free": 130, "due": 110}


def test_a_promise_that_restarts_make_late_is_counted() -> None:
    promised = job("a", 95, 100)
    assert play([promised, job("b", 5, at=20)], 1).counters["promises_broken"] == 0
    assert play([promised, job("b", 5, at=20)], 1, "slot=10,profile=20").counters["promises_broken"] == 1
