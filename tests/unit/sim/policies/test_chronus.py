"""Chronus: promises are kept, the remaining devices go to the smallest service; minutes, leases of 20, slots of 5."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.run import JobOutcome
from paictl.sim.simulate import simulate
from tests.unit.sim.policies.test_edf import FREE, MINUTE, ends, job, play

CHRONUS = f"chronus:solver=greedy,{FREE}"


def admitted(jobs: list[Job], policy: str = CHRONUS, devices: int = 1) -> dict[str, float]:
    return {
        outcome.id: outcome.notes["admitted"]
        for outcome in play(jobs, policy, devices).outcomes
        if "admitted" in outcome.notes
    }


def met(outcome: JobOutcome) -> bool:
    return outcome.end is not None and any(outcome.end <= deadline.time for deadline in outcome.deadlines)


def test_a_promise_is_made_only_where_there_is_room_for_it() -> None:
    jobs = [job("a", 0, 1, 30, 40), job("b", 0, 1, 30, 40), job("free", 0, 1, 5)]
    assert admitted(jobs) == {"a": 1, "b": 0}
    assert play(jobs, CHRONUS).counters["admitted"] == play(jobs, CHRONUS).counters["refused"] == 1


@pytest.mark.parametrize(("minutes", "promised"), [(18, 1), (18.5, 0)])
def test_the_estimate_is_padded_by_a_tenth_and_leases_are_whole(minutes: float, promised: float) -> None:
    """18 minutes are 19.8 padded: one lease of 20; 18.5 are 20.35: two."""
    assert admitted([job("a", 0, 1, minutes, 20)]) == {"a": promised}


def test_the_cost_of_starting_at_each_lease_is_part_of_the_estimate() -> None:
    """18 minutes, 0.5 * (1 + log2 1) a lease: 19.8 * (1 + 0.5 / 20) = 20.3, more than a lease."""
    assert admitted([job("a", 0, 1, 18, 20)], "chronus:solver=greedy") == {"a": 0}
    assert admitted([job("a", 0, 1, 17.5, 20)], "chronus:solver=greedy") == {"a": 1}


def test_sizes_count_rounded_up() -> None:
    """Three devices count as four: beside them there is room for four more of eight, not for five."""
    jobs = [job("a3", 0, 3, 15, 20), job("b5", 0, 5, 15, 20)]
    assert admitted(jobs, devices=8) == {"a3": 1, "b5": 0}
    assert admitted([jobs[0], job("b4", 0, 4, 15, 20)], devices=8) == {"a3": 1, "b4": 1}


def test_a_promised_job_runs_before_a_shorter_one_without_deadline() -> None:
    jobs = [job("free", 0, 1, 10), job("due", 0, 1, 15, 20)]
    assert ends(jobs, CHRONUS) == {"due": 15, "free": 25}


def test_what_is_left_goes_to_the_smallest_service() -> None:
    jobs = [job("wide", 0, 2, 10), job("long", 0, 1, 15), job("short", 0, 1, 12)]
    times = ends(jobs, CHRONUS, 2)
    assert (times["short"], times["long"]) == (12, 15)
    assert times["wide"] == 25


def test_who_can_make_no_deadline_any_more_comes_last() -> None:
    jobs = [job("lost", 0, 1, 30, 10), job("free", 0, 1, 60)]
    assert ends(jobs, CHRONUS) == {"free": 60, "lost": 90}


def test_a_refused_job_that_ends_within_the_lease_keeps_its_devices() -> None:
    """18.5 minutes before 20 are refused (padded: two leases), although there is time for them."""
    jobs = [job("due", 0, 1, 18.5, 20), job("free", 0, 1, 60)]
    assert ends(jobs, CHRONUS) == {"due": 18.5, "free": 80}
    assert ends([jobs[0], job("short", 5, 1, 3), job("kept", 5, 1, 12, 19)], CHRONUS)["due"] == 18.5
    assert ends([job("free", 0, 1, 60), job("due", 1, 1, 12, 20)], CHRONUS)["due"] == 17, "it moves others aside"


def test_a_longer_refused_job_and_one_without_a_deadline_are_of_one_class() -> None:
    """38 minutes before 45 are three leases padded, of which there are two: refused, but possible until minute 7."""
    due = job("due", 0, 1, 38, 45)
    assert ends([due, job("longer", 0, 1, 60)], CHRONUS) == {"due": 38, "longer": 100}
    assert ends([due, job("shorter", 0, 1, 30)], CHRONUS) == {"shorter": 30, "due": 68}


def test_a_soft_job_is_promised_its_first_deadline_or_nothing() -> None:
    assert admitted([job("a", 0, 1, 30, 40, 200)]) == {"a": 1}
    assert admitted([job("a", 0, 1, 30, 30, 200)]) == {"a": 0}


def test_jobs_admitted_in_one_lease_move_for_each_other() -> None:
    """The first alone would take both last leases; the second has only the middle one."""
    jobs = [job("a", 1, 1, 30, 80), job("b", 2, 1, 15, 60)]
    assert admitted(jobs) == {"a": 1, "b": 1}
    later = [job("a", 1, 1, 45, 80), job("b", 2, 1, 15, 60)]
    assert admitted(later) == {"a": 1, "b": 0}


def test_whoever_runs_stays_until_its_lease_ends() -> None:
    jobs = [job("free", 0, 1, 60), job("due", 1, 1, 10, 100), job("short", 1, 1, 2)]
    outcomes = play(jobs, CHRONUS).outcomes
    assert {outcome.id: (outcome.first_start or 0) / MINUTE for outcome in outcomes}["short"] >= 20
    assert all(met(outcome) for outcome in outcomes if outcome.deadlines)


@pytest.mark.parametrize("solver", ["greedy", "highs"])
@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 90), st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 90), st.integers(0, 200)),
        min_size=1,
        max_size=10,
    )
)
def test_whoever_was_promised_meets_its_deadline(solver: str, rows: list[tuple[int, int, int, int]]) -> None:
    jobs = [
        job(str(i), at, gpus, span, *([at + span + slack] if slack else []))
        for i, (at, gpus, span, slack) in enumerate(rows)
    ]
    result = simulate(jobs, homogeneous(1, 8), f"chronus:solver={solver}", check=Invariants())
    assert [outcome.id for outcome in result.outcomes if outcome.notes.get("admitted") and not met(outcome)] == []
    assert all(outcome.end is not None for outcome in result.outcomes)
