"""Table D6 of policies.md: SC'17's schedulers on 5 machines with 2 sockets of 2 devices.

The order of the table is ours; its JCTs are not, and cannot be without a defect. The artifact (`get_jobs` in `fcfs.py`
and `bf.py`, "TODO: by now we have only one machine") starts nobody who does not fit on machine 0 at that moment, while
four other machines stand idle. A simulator of ours with that rule and its one-second steps gives rows 1 and 2 of D6 to
the digit (333.1 / 125.2 / 207.9 / 1667 and 253.2 / 124.3 / 128.9 / 1651), without it 220.6 / 128.0 / 92.6 / 1406 and
175.1 / 127.4 / 47.7 / 1399; our policies come to 210.9 and 161.5 (no steps of a second, best fit by machine too). What
the rule does not touch, the run time that placement gives, is within 2 % of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from paictl.sim.cluster import homogeneous
from tests.sim_reference.support import run, trace

D6 = {
    "fcfs": (125.2, 1.037, 17),
    "best-fit": (124.3, 1.030, 14),
    "topo": (122.2, 1.012, 8),
    "topo-p": (121.6, 1.007, 0),
}
"""Mean run time, mean slowdown, jobs below the utility that they ask for."""


@dataclass(frozen=True)
class Row:
    jct: float
    ran: float
    queue: float
    makespan: float
    slowdown: float
    below: float


@cache
def row(variant: str, workload: int = 100, machines: int = 5) -> Row:
    jobs = trace("topology_sc17", f"workloads-{workload}.json", "sc17")
    result = run(jobs, homogeneous(machines, 4), f"topology:variant={variant}")
    done = result.outcomes
    assert all(one.end is not None for one in done)
    number = 1000 * len(done)
    return Row(
        sum(one.jct or 0 for one in done) / number,
        sum(one.ran for one in done) / number,
        sum(one.waiting or 0 for one in done) / number,
        max(one.end or 0 for one in done) / 1000,
        sum(one.ran / one.work for one in done) / len(done),
        result.counters["utility_violations"],
    )


@pytest.mark.parametrize("variant", D6)
def test_run_time_and_slowdown_are_near_the_table(variant: str) -> None:
    ran, slowdown, _ = D6[variant]
    assert row(variant).ran == pytest.approx(ran, rel=0.02)
    assert row(variant).slowdown == pytest.approx(slowdown, abs=0.012)


def test_the_four_are_in_the_order_of_the_table() -> None:
    fcfs, fit, topo, patient = (row(variant) for variant in D6)
    assert fcfs.jct > fit.jct > topo.jct
    assert patient.jct == pytest.approx(topo.jct, rel=0.01), "the table has 200.0 for both"
    assert fcfs.queue > fit.queue > patient.queue > topo.queue
    assert fcfs.ran > fit.ran > topo.ran > patient.ran
    assert fcfs.slowdown > fit.slowdown > topo.slowdown > patient.slowdown
    assert min(fcfs.makespan, fit.makespan) > topo.makespan > patient.makespan


def test_queueing_falls_as_much_as_in_the_table() -> None:
    """207.9 to 77.8 there: by 2.7."""
    assert row("fcfs").queue / row("topo-p").queue >= 207.9 / 77.8


def test_places_below_the_minimum() -> None:
    fcfs, fit, topo, patient = (row(variant).below for variant in D6)
    assert min(fcfs, fit) > 2 * topo > 0
    assert patient == 0


@pytest.mark.parametrize(("workload", "machines"), [(1000, 5), (1000, 50)])
def test_larger_workloads_keep_what_matters(workload: int, machines: int) -> None:
    fcfs, fit, topo, patient = (row(variant, workload, machines) for variant in D6)
    assert fcfs.jct > fit.jct
    assert max(topo.jct, patient.jct) < fit.jct * 1.02
    assert min(fcfs.slowdown, fit.slowdown) > topo.slowdown > patient.slowdown
    assert min(fcfs.below, fit.below) > topo.below > patient.below == 0
