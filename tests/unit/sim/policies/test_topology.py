"""SC'17's four schedulers: places, waiting jobs, and interference between neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import ClusterShape, Node, homogeneous
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.run import JobOutcome, RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis

ONE = homogeneous(1, 4)
VARIANTS = ("fcfs", "best-fit", "topo", "topo-p")


def job(name: str, at: float, gpus: int, seconds: float, **more: object) -> Job:
    return Job(name, Millis(round(at * 1000)), gpus, Millis(round(seconds * 1000)), **more)  # type: ignore[arg-type]


def play(jobs: list[Job], variant: str, spec: ClusterShape = ONE) -> RunResult:
    return simulate(jobs, spec, f"topology:variant={variant}", log=True, check=Invariants())


def places(result: RunResult) -> dict[str, tuple[int, ...]]:
    return {entry.job: entry.devices for entry in result.log if entry.what == "start"}


def by_id(result: RunResult) -> dict[str, JobOutcome]:
    return {outcome.id: outcome for outcome in result.outcomes}


def starts(result: RunResult) -> dict[str, float | None]:
    return {
        outcome.id: None if outcome.first_start is None else outcome.first_start / 1000 for outcome in result.outcomes
    }


@pytest.mark.parametrize(
    ("variant", "place"), [("fcfs", (1, 2)), ("best-fit", (1, 2)), ("topo", (2, 3)), ("topo-p", (2, 3))]
)
def test_only_those_that_look_at_the_topology_keep_a_job_on_one_socket(variant: str, place: tuple[int, ...]) -> None:
    assert places(play([job("a", 0, 1, 50), job("b", 1, 2, 50)], variant))["b"] == place


@pytest.mark.parametrize(("variant", "place"), [("fcfs", (0,)), ("best-fit", (3,))])
def test_first_room_or_fullest_machine(variant: str, place: tuple[int, ...]) -> None:
    """`a` leaves machine 0 idle while `b` is still on machine 1."""
    spec = homogeneous(2, 2)
    jobs = [job("a", 0, 2, 5), job("b", 1, 1, 50), job("c", 10, 1, 50)]
    assert places(play(jobs, variant, spec))["c"] == place


def test_best_fit_begins_with_the_fullest_socket() -> None:
    jobs = [job("a", 0, 2, 5), job("b", 1, 1, 50), job("c", 10, 1, 50)]
    assert places(play(jobs, "best-fit"))["c"] == (3,), "socket 1 has one device left, socket 0 is idle"
    assert places(play(jobs, "fcfs"))["c"] == (0,)


@pytest.mark.parametrize("variant", VARIANTS)
def test_under_fcfs_alone_nobody_overtakes(variant: str) -> None:
    times = starts(play([job("a", 0, 3, 100), job("b", 1, 2, 10), job("c", 2, 1, 10)], variant))
    assert times == {"a": 0, "b": 100, "c": 100 if variant == "fcfs" else 2}


APART = [job("a", 0, 1, 60), job("b", 0, 1, 20), job("c", 0, 1, 80), job("d", 30, 2, 10, sensitivity={"node": 0.5})]
"""At 30 s the devices 1 and 3 are free, on two sockets; at 60 s device 0 is as well."""


def test_topo_takes_a_bad_place_and_topo_p_waits_for_a_good_one() -> None:
    eager, patient = play(APART, "topo"), play(APART, "topo-p")
    assert (places(eager)["d"], starts(eager)["d"], by_id(eager)["d"].end) == ((1, 3), 30, 50_000)
    assert (places(patient)["d"], starts(patient)["d"], by_id(patient)["d"].end) == ((0, 1), 60, 70_000)
    assert (eager.counters["utility_violations"], patient.counters["utility_violations"]) == (1, 0)
    assert by_id(eager)["d"].notes == pytest.approx({"utility": 0.2 / (0.1 + 0.475**0.5), "minimum": 0.4})
    assert by_id(patient)["d"].notes == {"utility": 1.0, "minimum": 0.4}


def test_a_job_that_asks_for_little_does_not_wait() -> None:
    modest = [*APART[:3], replace(APART[3], facts={"utility": 0.25})]
    assert starts(play(modest, "topo-p"))["d"] == 30
    assert starts(play([*APART[:3], replace(APART[3], facts={"utility": 0.26})], "topo-p"))["d"] == 60


def test_who_asks_for_little_overtakes_one_of_its_kind_that_asks_for_more() -> None:
    jobs = [*APART, replace(APART[3], id="e", submit=Millis(31_000), facts={"utility": 0.2})]
    assert (starts(play(jobs, "topo-p"))["d"], starts(play(jobs, "topo-p"))["e"]) == (60, 31)


def test_nobody_can_ask_for_more_than_there_is() -> None:
    assert starts(play([job("a", 0, 2, 5, facts={"utility": 7.0})], "topo-p"))["a"] == 0


def test_topo_keeps_away_from_whom_it_would_slow_and_who_slows_it() -> None:
    loud = [job("a", 0, 1, 50, model="loud"), job("b", 1, 1, 50, model="soft", beside={"loud": 0.5})]
    assert places(play(loud, "topo"))["b"] == (2,)
    assert places(play([replace(loud[1], submit=Millis(0)), replace(loud[0], submit=Millis(1000))], "topo"))["a"] == (
        2,
    )
    assert places(play(loud, "best-fit"))["b"] == (1,)


def test_a_neighbour_that_comes_and_goes_is_felt_as_long_as_it_is_there() -> None:
    jobs = [job("a", 0, 1, 30, model="soft", beside={"loud*1": 0.5, "loud": 0.1}), job("b", 10, 1, 10, model="loud")]
    outcomes = by_id(play(jobs, "fcfs"))
    assert (outcomes["a"].end, outcomes["b"].end) == (35_000, 20_000), "10 s alone, 10 at half the pace, 15 alone"
    far = by_id(play([jobs[0], job("x", 0, 1, 99), jobs[1]], "fcfs"))
    assert far["a"].end == 30_000, "on the other socket it is not felt"


def test_the_worst_neighbour_counts_and_not_below_what_the_place_costs_anyway() -> None:
    table = {"loud": 0.5, "louder": 0.25}
    three = [job("a", 0, 2, 10, beside=table, sensitivity={"node": 0.4}), job("b", 0, 1, 1000, model="loud")]
    spec = ClusterShape("", (Node("n", 4, "gpu", (("socket", 1),)),))
    assert by_id(play(three, "fcfs", spec))["a"].end == 25_000, "sockets of one device: nobody is near"
    wide = ClusterShape("", (Node("n", 4, "gpu", (("socket", 3),)),))
    assert by_id(play(three, "fcfs", wide))["a"].end == 20_000
    both = [*three, job("c", 0, 1, 1000, model="louder")]
    assert by_id(play(both, "fcfs", ClusterShape("", (Node("n", 4, "gpu", (("socket", 4),)),))))["a"].end == 40_000
    apart = [job("x", 0, 1, 1000, model="loud"), replace(three[0], id="y")]
    assert by_id(play(apart, "fcfs"))["y"].end == 25_000, "apart at 0.4, which is worse than 0.5 beside it"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_job_larger_than_a_machine_gets_whole_machines_first(variant: str) -> None:
    result = play([job("a", 0, 1, 9), job("b", 1, 7, 9), job("c", 2, 9, 9)], variant, homogeneous(2, 4))
    assert places(result)["b"] == (1, 2, 3, 4, 5, 6, 7)
    assert starts(result)["c"] is None


def test_a_level_that_the_cluster_has_is_used_and_else_halves() -> None:
    jobs = [job("a", 0, 1, 50), job("b", 1, 2, 50)]
    quarters = ClusterShape("", (Node("n", 8, "gpu", (("socket", 4), ("pcie", 2))),))
    assert places(play(jobs, "topo", quarters))["b"] == (1, 2)
    result = simulate(jobs, quarters, "topology:variant=topo,level=pcie", log=True)
    assert places(result)["b"] == (2, 3)
    result = simulate(jobs, homogeneous(1, 8), "topology:variant=topo,sockets=4", log=True)
    assert places(result)["b"] == (2, 3)


@pytest.mark.parametrize("wrong", ["level=node", "level=cluster", "sockets=0", "sockets=17"])
def test_what_cannot_be_is_refused(wrong: str) -> None:
    with pytest.raises(ParameterError):
        simulate([job("a", 0, 1, 1)], ONE, f"topology:{wrong}")


def test_a_job_that_can_never_get_what_it_asks_for_blocks_nobody() -> None:
    times = starts(play([job("a", 0, 9, 5, elastic=(1, 9)), job("b", 1, 1, 5)], "fcfs"))
    assert times == {"a": None, "b": 1}


MODELS = st.sampled_from(["loud", "soft", "calm"])


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=25)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 6), st.integers(0, 30), MODELS, st.floats(0, 1)),
        min_size=1,
        max_size=14,
    ),
    size=st.sampled_from([2, 3, 4, 8]),
)
def test_every_variant_keeps_every_invariant(
    variant: str, rows: list[tuple[int, int, int, str, float]], size: int
) -> None:
    jobs = [
        job(
            str(number),
            at,
            gpus,
            seconds,
            model=model,
            sensitivity={"node": 0.6},
            facts={"utility": least},
            beside={"loud": 0.5, "soft*2": 0.7},
        )
        for number, (at, gpus, seconds, model, least) in enumerate(rows)
    ]
    result = simulate(jobs, homogeneous(2, size), f"topology:variant={variant}", check=Invariants())
    assert all(outcome.end is not None for outcome in result.outcomes if outcome.gpus <= 2 * size)
    if variant == "topo-p":
        assert result.counters["utility_violations"] == 0
    if variant == "fcfs":
        begun = [outcome.first_start for outcome in result.outcomes if outcome.first_start is not None]
        assert begun == sorted(begun)
