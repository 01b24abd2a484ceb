"""EDF and its stronger variant on Chronus' time grid; times in minutes, leases of 20 and slots of 5."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous, mixed
from paictl.sim.invariants import Invariants
from paictl.sim.job import Deadline, DeadlineKind, Job, in_order
from paictl.sim.policies.edf import Edf, EdfInfeasibleLast, Ordered
from paictl.sim.policies.queue import Key
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.sim.view import JobView
from paictl.units import Millis

MINUTE = 60_000
FREE = "resume-log=0"


def job(name: str, at: float, gpus: int, minutes: float, *due: float) -> Job:
    steps = tuple(Deadline(Millis(round(time * MINUTE)), 10.0 / (1 + place)) for place, time in enumerate(due))
    urge = (DeadlineKind.BEST_EFFORT, DeadlineKind.STRICT, DeadlineKind.SOFT)[min(2, len(due))]
    return Job(name, Millis(round(at * MINUTE)), gpus, Millis(round(minutes * MINUTE)), urge=urge, deadlines=steps)


def play(jobs: list[Job], policy: str, devices: int = 1) -> RunResult:
    return simulate(jobs, homogeneous(1, devices), policy, check=Invariants())


def ends(jobs: list[Job], policy: str, devices: int = 1) -> dict[str, float]:
    return {outcome.id: (outcome.end or 0) / MINUTE for outcome in play(jobs, policy, devices).outcomes}


@pytest.mark.parametrize("policy", [f"edf:{FREE}", f"edf-infeasible-last:{FREE}"])
def test_the_earliest_deadline_goes_first_and_jobs_without_one_last(policy: str) -> None:
    jobs = [job("free", 0, 1, 10), job("late", 0, 1, 10, 90), job("soon", 0, 1, 10, 60)]
    assert ends(jobs, policy) == {"soon": 10, "late": 20, "free": 30}


def test_at_the_end_of_a_lease_the_more_urgent_takes_over_and_not_before() -> None:
    jobs = [job("a", 0, 1, 60, 500), job("b", 1, 1, 10, 50)]
    assert ends(jobs, f"edf:{FREE}") == {"a": 70, "b": 30}
    assert ends(jobs, f"edf:{FREE},lease=10m") == {"a": 70, "b": 20}


def test_free_devices_are_given_at_the_end_of_a_slot() -> None:
    assert ends([job("a", 0, 1, 7), job("b", 1, 1, 3)], f"edf:{FREE}") == {"a": 7, "b": 13}
    assert ends([job("a", 0, 1, 7), job("b", 1, 1, 3)], f"edf:{FREE},slot=1m") == {"a": 7, "b": 10}


def test_who_starts_again_pays_half_a_minute_by_doublings() -> None:
    jobs = [job("a", 0, 4, 30, 500), job("b", 1, 4, 5, 50)]
    # a: 20 minutes, b 5, from 25 on 0.5 * (1 + 2) to resume and 10 that are left
    assert ends(jobs, "edf", 4) == {"b": 25, "a": 36.5}


def test_plain_edf_lets_a_lost_job_stand_before_one_that_could_make_it() -> None:
    jobs = [job("lost", 0, 1, 100, 30), job("can", 0, 1, 20, 40)]
    assert ends(jobs, f"edf:{FREE}") == {"lost": 100, "can": 120}
    assert ends(jobs, f"edf-infeasible-last:{FREE}") == {"can": 20, "lost": 120}


def test_who_is_too_late_goes_by_what_is_left_with_those_without_deadlines() -> None:
    jobs = [job("lost", 0, 1, 40, 10), job("free", 0, 1, 10), job("long", 0, 1, 60)]
    assert ends(jobs, f"edf-infeasible-last:{FREE}") == {"free": 10, "lost": 50, "long": 110}


def test_a_passed_soft_deadline_is_followed_by_the_next_one() -> None:
    """At 40 the first of `soft` has passed and its next is 300: `other` with 200 goes first."""
    jobs = [job("first", 0, 1, 40, 25), job("soft", 0, 1, 10, 30, 300), job("other", 0, 1, 10, 200)]
    assert ends(jobs, f"edf:{FREE}") == {"first": 40, "other": 50, "soft": 60}


def test_a_just_feasible_job_is_feasible() -> None:
    jobs = [job("tight", 0, 1, 30, 30), job("easy", 0, 1, 10, 45)]
    assert ends(jobs, f"edf-infeasible-last:{FREE}")["tight"] == 30
    jobs = [job("tight", 0, 1, 30.5, 30), job("easy", 0, 1, 10, 45)]
    assert ends(jobs, f"edf-infeasible-last:{FREE}")["easy"] == 10


def test_a_job_that_does_not_fit_is_passed_over() -> None:
    jobs = [job("a", 0, 2, 30, 100), job("wide", 0, 4, 10, 200), job("b", 0, 2, 30, 300)]
    assert ends(jobs, f"edf:{FREE}", 4) == {"a": 30, "b": 30, "wide": 40}


def test_who_would_have_to_resume_is_too_late_by_that_much_earlier() -> None:
    """At 30 `a` has 10 minutes and half a minute to resume before 40.2: too late, so `c` goes first."""
    jobs = [job("a", 0, 1, 30, 40.2), job("b", 1, 1, 10, 30), job("c", 1, 1, 10, 60)]
    assert ends(jobs, "edf-infeasible-last") == {"b": 30, "c": 40, "a": 50.5}


ROWS = st.lists(
    st.tuples(
        st.integers(0, 90),  # minutes until it comes
        st.integers(1, 6),
        st.integers(1, 70),
        st.lists(st.integers(5, 200), max_size=3, unique=True),
        st.sampled_from([None, None, "a", "b"]),
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, policy=st.sampled_from(["edf", "edf-infeasible-last", "edf-infeasible-last:lease=10m"]))
def test_the_first_of_each_size_are_all_that_a_walk_down_the_whole_ranking_would_take(
    rows: list[tuple[int, int, int, list[int], str | None]], policy: str
) -> None:
    jobs = in_order(
        [
            replace(job(str(place), at, gpus, minutes, *(at + span for span in sorted(due))), gpu_type=kind)
            for place, (at, gpus, minutes, due, kind) in enumerate(rows)
        ]
    )
    cluster = mixed([("a", 1, 4), ("b", 1, 3)])
    quick = simulate(jobs, cluster, policy, check=Invariants()).outcomes

    def ranked(policy: Ordered, among: Iterable[JobView]) -> list[JobView]:
        return sorted(among, key=lambda view: (policy.rank(view)[0], view.number))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Ordered,
            "lease_ends",
            lambda policy: policy.replace(ranked(policy, [*policy.running.values(), *policy.waiting.values()])),
        )
        patch.setattr(Ordered, "slot_ends", lambda policy: policy.fill(ranked(policy, policy.waiting.values())))
        assert simulate(jobs, cluster, policy).outcomes == quick


@pytest.mark.parametrize("policy", ["edf", "edf-infeasible-last"])
def test_who_waits_is_ranked_when_it_comes_and_not_at_every_slot(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = {"edf": Edf, "edf-infeasible-last": EdfInfeasibleLast}[policy]
    rank, calls = kind.rank, 0

    def counted(policy: Edf | EdfInfeasibleLast, view: JobView) -> tuple[Key, Millis | None]:
        nonlocal calls
        calls += 1
        return rank(policy, view)

    monkeypatch.setattr(kind, "rank", counted)
    jobs = [job(str(place), 0, 1, 5, 1000 + place) for place in range(200)]
    assert len(ends(jobs, f"{policy}:{FREE},lease=5m")) == 200
    assert calls < 3 * len(jobs)
