"""The order of opportunistic jobs on a cluster on this machine: who starts first, over restarts, and what is said."""

from __future__ import annotations

import pytest

from paictl.cluster.interface import FOREVER, JobRequest
from paictl.operate.explaining import data
from paictl.units import Millis
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.test_sharing import load, said

HOUR = 60 * MINUTE
ORDER = "sharing: {opportunistic-order: {by: decayed-use, half-life: 24h}}\n"


@pytest.fixture
def lab(bench: MakeBench) -> Bench:
    return bench("three-tenants")


def lend(lab: Bench, name: str, vc: str, hours: float | None = None, user: str = "ann") -> str:
    """An opportunistic job on a whole node."""
    duration = FOREVER if hours is None else Millis(round(hours * HOUR))
    return lab.cluster.submit([JobRequest(user, lab.job(name, vc, gpu=8), None, "oppo", duration)])[0].key


def crowd(lab: Bench, first: str = "tenantc", user: str = "ann") -> tuple[str, str]:
    """All nodes are lent, most of them to C; then jobs wait of `first` and B, in this order."""
    for number in range(3):
        lend(lab, f"c{number}", "tenantc", 2 + number)
    lend(lab, "b0", "tenantb", 10)
    lab.pass_time(HOUR)
    return lend(lab, "next-c", first), lend(lab, "next-b", "tenantb", user=user)


def running(lab: Bench, *keys: str) -> list[bool]:
    return [lab.state(key) == "Running" for key in keys]


def test_without_the_section_the_first_job_starts_first(lab: Bench) -> None:
    keys = crowd(lab)
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [True, False]


def test_the_job_of_the_virtual_cluster_starts_that_used_less(lab: Bench) -> None:
    load(lab, ORDER)
    keys = crowd(lab)
    assert "1 opportunistic gang is tried before it: virtual cluster tenantb used less lately" in said(lab, keys[0])
    assert "is tried before it" not in said(lab, keys[1])
    found = data(lab.cluster.explain(keys[0]))["ahead"]
    assert (found["gangs"], found["vc"], found["than"]) == (1, "tenantb", "tenantc")
    assert found["used"] < found["more"]
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [False, True]
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [True, True]


def test_within_a_virtual_cluster_the_user_starts_that_used_less(lab: Bench) -> None:
    load(lab, ORDER)
    keys = crowd(lab, "tenantb", "bob")
    assert "user bob used less lately in virtual cluster tenantb (0.00 device hours, ann: " in said(lab, keys[0])
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [False, True]


def test_what_jobs_used_that_have_ended_counts_after_the_scheduler_starts_again(lab: Bench) -> None:
    load(lab, ORDER)
    for number in range(4):
        lend(lab, f"old{number}", "tenantc", 1)
    lab.pass_time(2 * HOUR)
    for number in range(4):
        lend(lab, f"now{number}", "tenanta", 3 + number)
    keys = lend(lab, "next-c", "tenantc"), lend(lab, "next-b", "tenantb")
    lab.cluster.restart_services(["hivedscheduler"])
    lab.pass_time(3 * HOUR)
    assert running(lab, *keys) == [False, True]


def test_jobs_that_start_at_one_instant_are_shared_out(lab: Bench) -> None:
    load(lab, ORDER)
    wide = lab.job("wide", "tenanta", gpu=8, instances=4)
    lab.cluster.submit([JobRequest("ann", wide, None, "oppo", Millis(HOUR))])
    keys = [lend(lab, f"{vc}{number}", vc) for vc in ("tenantb", "tenantc") for number in range(3)]
    lab.pass_time(HOUR)
    assert running(lab, *keys) == [True, True, True, True, False, False], "B is promised 14 devices, C six"


def test_guaranteed_jobs_do_not_care(lab: Bench) -> None:
    load(lab, ORDER)
    crowd(lab)
    key = lab.cluster.submit([JobRequest("ann", lab.job("own", "tenantc", gpu=4), None, "test", FOREVER)])[0].key
    assert lab.state(key) == "Running"
    assert "ahead" not in data(lab.cluster.explain(key))


def test_without_the_order_nothing_is_remembered(lab: Bench) -> None:
    load(lab, ORDER)
    crowd(lab)
    assert "recent" in lab.cluster.stored()["month"]
    load(lab, "sharing: {preemption: {victims: least-loss}}\n")
    assert "recent" not in lab.cluster.stored()["month"]
