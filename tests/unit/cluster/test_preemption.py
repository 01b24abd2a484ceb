"""Preemption that spares on a cluster on this machine: who goes, who is left alone, until when, and what is said."""

from __future__ import annotations

import pytest

from paictl.cluster.interface import FOREVER, JobRequest
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.test_sharing import load, said

LEAST_LOSS = "sharing: {preemption: {victims: least-loss}}\n"


@pytest.fixture
def lab(bench: MakeBench) -> Bench:
    return bench("three-tenants")


def submit(lab: Bench, name: str, vc: str, priority: str, checkpoint: str = "", save: str = "") -> str:
    job = lab.job(name, vc, gpu=8)
    job["extras"] |= {"checkpointEvery": checkpoint} if checkpoint else {}
    job["extras"] |= {"saveOnSigterm": save} if save else {}
    return lab.cluster.submit([JobRequest("ann", job, None, priority, FOREVER)])[0].key


def lend(lab: Bench, checkpoints: tuple[str, ...] = ("", "", "", "")) -> list[str]:
    """All four nodes are lent, one each ten minutes."""
    keys = []
    for number, checkpoint in enumerate(checkpoints):
        keys.append(submit(lab, f"lent{number}", "tenantc", "oppo", checkpoint))
        lab.pass_time(10 * MINUTE)
    assert {lab.state(key) for key in keys} == {"Running"}
    return keys


def waiting(lab: Bench, keys: list[str]) -> list[int]:
    return [number for number, key in enumerate(keys) if lab.state(key) == "Waiting"]


def test_without_the_section_the_first_goes(lab: Bench) -> None:
    keys = lend(lab)
    assert lab.state(submit(lab, "owner", "tenanta", "test")) == "Running"
    assert waiting(lab, keys) == [0]


def test_the_job_goes_that_started_last(lab: Bench) -> None:
    load(lab, LEAST_LOSS)
    keys = lend(lab)
    assert lab.state(submit(lab, "owner", "tenanta", "test")) == "Running"
    assert waiting(lab, keys) == [3]


def test_the_job_goes_that_saved_its_work_last(lab: Bench) -> None:
    load(lab, LEAST_LOSS)
    keys = lend(lab, ("", "29m", "", ""))
    submit(lab, "owner", "tenanta", "test")
    assert waiting(lab, keys) == [1], "30 minutes, the last one not saved; the youngest loses ten"


def test_the_job_goes_that_saves_its_work_when_it_is_told_to_stop(lab: Bench) -> None:
    load(lab, LEAST_LOSS)
    keys = [submit(lab, "long", "tenantc", "oppo", "1h", save="2m")]
    lab.pass_time(60 * MINUTE)
    keys += lend(lab, ("", "", "1m"))
    lab.pass_time(MINUTE // 2)
    submit(lab, "owner", "tenanta", "test")
    assert waiting(lab, keys) == [0], "the last one saved its work half a minute ago"


def test_who_goes_is_the_same_after_the_scheduler_starts_again(lab: Bench) -> None:
    keys = lend(lab)
    load(lab, LEAST_LOSS)
    submit(lab, "owner", "tenanta", "test")
    assert waiting(lab, keys) == [3]
    load(lab, "")
    submit(lab, "owner2", "tenantb", "test")
    assert waiting(lab, keys) == [0, 3]


def test_a_job_is_left_alone_by_stronger_ones_of_its_tenant_until_its_minimum_run_time(lab: Bench) -> None:
    load(lab, "sharing: {min-run-times: [{vc: tenanta, time: 10m}, {time: 1h}]}\n")
    weak = submit(lab, "weak", "tenanta", "test")
    lab.pass_time(MINUTE)
    strong = submit(lab, "strong", "tenanta", "prod")
    assert [lab.state(weak), lab.state(strong)] == ["Running", "Waiting"]
    assert "have not run for their minimum run time yet" in said(lab, strong)
    assert f"{lab.at(10 * MINUTE):%H:%M:%S}Z" in said(lab, strong)
    assert "paictl usage" not in said(lab, strong), "no limit or budget holds it back"
    lab.pass_time(9 * MINUTE - 1)
    assert [lab.state(weak), lab.state(strong)] == ["Running", "Waiting"]
    lab.pass_time(1)
    assert [lab.state(weak), lab.state(strong)] == ["Waiting", "Running"]


def test_a_guarantee_does_not_wait_for_it(lab: Bench) -> None:
    load(lab, "sharing: {min-run-times: [{time: 1h}]}\n")
    keys = lend(lab)
    assert lab.state(submit(lab, "owner", "tenanta", "test")) == "Running"
    assert len(waiting(lab, keys)) == 1


def test_who_has_run_long_enough_goes_before_others(lab: Bench) -> None:
    load(lab, "sharing: {preemption: {victims: least-loss}, min-run-times: [{time: 15m}]}\n")
    keys = lend(lab)
    submit(lab, "owner", "tenanta", "test")
    assert waiting(lab, keys) == [2], "lent3 loses less, but has run for ten minutes only"
