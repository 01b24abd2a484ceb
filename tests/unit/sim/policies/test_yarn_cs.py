"""Philly's scheduler: locality relaxed after retries, idle quota lent, preemption only when nearly full, causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paictl.sim.cluster import Cluster, ClusterShape, Node, homogeneous
from paictl.sim.job import Job
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis


def job(name: str, at: int, gpus: int, seconds: int, vc: str = "a") -> Job:
    return Job(name, Millis(at * 1000), gpus, Millis(seconds * 1000), vc=vc)


def start(result: RunResult, name: str) -> int:
    first_start = next(outcome.first_start for outcome in result.outcomes if outcome.id == name)
    assert first_start is not None
    return first_start // 1000


FULL = {"a": 8}
SPLIT = [job("x", 0, 3, 5000), job("y", 0, 3, 5000)]
"""On two nodes of four: one device left on each."""


def test_retries_relax_locality() -> None:
    spec = replace(homogeneous(2, 4), quotas=FULL)
    strict = simulate([*SPLIT, job("pair", 1, 2, 10)], spec, "yarn-cs:relax=1000")
    assert start(strict, "pair") == 5000, "as long as it insists on one server it waits for one"
    # three tries of 150 s hold and 120 s back-off each, then any servers of a domain will do
    relaxed = simulate([*SPLIT, job("pair", 1, 2, 10)], spec, "yarn-cs:relax=3")
    assert start(relaxed, "pair") == 1 + 3 * (150 + 120)
    assert relaxed.counters["starts_at_degree.1"] == 1


def test_across_domains_only_after_twice_as_many() -> None:
    nodes = tuple(Node(f"n{i}", 4, outer=(("rack", f"r{i}"), ("domain", f"d{i}"))) for i in range(2))
    spec = ClusterShape("two domains", nodes, FULL)
    result = simulate([*SPLIT, job("pair", 1, 2, 10)], spec, "yarn-cs:relax=3")
    assert start(result, "pair") == 1 + 6 * (150 + 120)


def test_larger_jobs_get_the_fewest_servers_of_the_emptiest_rack() -> None:
    nodes = tuple(Node(f"n{i}", 4, outer=(("rack", f"r{i // 2}"),)) for i in range(4))
    spec = ClusterShape("two racks", nodes, {"a": 16})
    result = simulate([job("small", 0, 1, 50), job("large", 1, 8, 50)], spec, "yarn-cs", log=True)
    devices = {entry.job: entry.devices for entry in result.log if entry.what == "start"}
    assert devices["large"] == tuple(range(8, 16))


def test_small_jobs_are_packed() -> None:
    spec = replace(homogeneous(3, 4), quotas=FULL)
    result = simulate([job("one", 0, 2, 50), job("two", 1, 2, 50)], spec, "yarn-cs", log=True)
    cluster = Cluster(homogeneous(3, 4))
    used = {cluster.node_of[device] for entry in result.log if entry.what == "start" for device in entry.devices}
    assert len(used) == 1


def test_idle_quota_is_lent() -> None:
    spec = replace(homogeneous(2, 4), quotas={"a": 4, "b": 4})
    result = simulate([job("mine", 0, 4, 100), job("borrowed", 0, 4, 100)], spec, "yarn-cs")
    assert start(result, "borrowed") == 0


@pytest.mark.parametrize(("busy", "preempted"), [(8, True), (7, False)])
def test_preemption_only_when_nearly_full(busy: int, preempted: bool) -> None:
    """Seven of eight devices are 87.5 %: b must wait, although it is under its share."""
    spec = replace(homogeneous(2, 4), quotas={"a": 4, "b": 4})
    lent = [job(f"a{number}", number, 1, 500) for number in range(busy)]
    result = simulate([*lent, job("b", 50, 4, 100, "b")], spec, "yarn-cs:hold=0")
    assert (start(result, "b") == 50) is preempted
    assert (result.counters["preemptions"] == 4) is preempted
    if preempted:
        gone = {outcome.id for outcome in result.outcomes if outcome.preemptions}
        assert gone == {"a4", "a5", "a6", "a7"}, "the newest jobs over the share, and not more than needed"


def test_nobody_is_preempted_below_its_share_or_for_somebody_above_it() -> None:
    spec = replace(homogeneous(2, 4), quotas={"a": 4, "b": 4})
    jobs = [job("a1", 0, 4, 500), job("b1", 0, 4, 500, "b"), job("b2", 50, 4, 100, "b"), job("a2", 60, 1, 10)]
    assert simulate(jobs, spec, "yarn-cs").counters["preemptions"] == 0


def test_delays_have_causes() -> None:
    spec = replace(homogeneous(2, 4), quotas={"a": 4, "b": 4})
    lines = [job("b", 0, 8, 100, "b"), job("small", 1, 1, 10), job("over", 2, 8, 10)]
    result = simulate(lines, spec, "yarn-cs:hold=0,backoff=10,threshold=2")
    notes = {outcome.id: outcome.notes for outcome in result.outcomes}
    assert set(notes["over"]) == {"delay.fair-share"}, "8 devices are more than the 4 of its tenant"
    assert set(notes["small"]) == {"delay.fragmentation"}, "its tenant is within its quota, but all is lent"
    assert result.counters["delay_causes.a.fair-share"] > 0
    by_job = sum(sum(note.values()) for note in notes.values()) / 1000
    by_tenant = sum(v for k, v in result.counters.items() if k.startswith(("delay_causes.a", "delay_causes.b")))
    assert by_job == pytest.approx(by_tenant)
    waited = sum((outcome.queueing or 0) for outcome in result.outcomes) / 1000
    assert by_job == pytest.approx(waited), "every second of waiting has its cause"


def test_a_kill_without_checkpoint_loses_the_work() -> None:
    spec = replace(homogeneous(1, 4), quotas={"a": 2, "b": 2})
    jobs = [job("a1", 0, 2, 100), job("a2", 1, 2, 100), job("b", 11, 2, 10, "b")]
    resumed = simulate(jobs, spec, "yarn-cs")
    lost = simulate(jobs, spec, "yarn-cs:checkpoint=false")
    assert [outcome.lost for outcome in resumed.outcomes] == [0, 0, 0]
    assert {outcome.id: outcome.lost for outcome in lost.outcomes} == {"a1": 0, "a2": 10_000, "b": 0}


def test_a_victim_never_brings_its_tenant_below_its_share() -> None:
    """a is over its share by 4: its job of 6 stays, and as b then has no place, its job of 2 stays too."""
    spec = replace(homogeneous(1, 8), quotas={"a": 4, "b": 4})
    jobs = [job("a1", 0, 2, 500), job("a2", 1, 6, 500), job("b", 50, 4, 100, "b")]
    assert simulate(jobs, spec, "yarn-cs").counters["preemptions"] == 0
