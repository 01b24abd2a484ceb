"""Run-time limits of jobs on the embedded cluster."""

from __future__ import annotations

import pytest

from paictl.cluster.interface import NodeChange
from paictl.workload.fields import JobError
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench

NAME = "services-configuration.yaml"


def with_rules(lab: Bench, rules: str) -> None:
    """The API server takes jobs by these rules of tenants."""
    files = dict(lab.cluster.configuration().files)
    files[NAME] += f"sharing:\n  run-times: [{rules}]\n"
    lab.cluster.push(files, "rules")
    lab.cluster.restart_services(["rest-server"])


def test_a_job_is_stopped_at_its_limit_with_the_reason(bench: MakeBench) -> None:
    lab = bench()
    key = lab.submit("one", max_run_time="2m", commands=["sleep 1h"], retries=3)
    assert lab.cluster.job(key).ends_by == lab.at(2 * MINUTE)
    lab.pass_time(2 * MINUTE - 1)
    assert lab.state(key) == "Running"
    lab.pass_time(1)
    found = lab.again().job(key)
    assert (found.state.value, found.reason) == ("Stopped", "ran longer than its maxRunTime of 2m")
    assert (found.ended, found.attempt, found.ends_by) == (lab.at(2 * MINUTE), 0, None)
    last = lab.cluster.events(f"job/{key}")[-1]
    assert (last.kind.value, last.message) == ("Stopped", found.reason)
    assert {node.used for node in lab.cluster.nodes()} == {0}


def test_who_ends_at_the_limit_has_succeeded(bench: MakeBench) -> None:
    lab = bench()
    key = lab.submit("one", max_run_time="5m", commands=["sleep 5m"])
    lab.pass_time(10 * MINUTE)
    assert lab.state(key) == "Succeeded"


def test_the_time_counts_from_the_start_not_from_the_submission(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("first", "vc1", commands=["sleep 4m"])
    second = lab.submit("second", "vc1", max_run_time="2m", commands=["sleep 1h"])
    lab.pass_time(5 * MINUTE)
    assert lab.state(second) == "Running"
    lab.pass_time(MINUTE)
    assert lab.state(second) == "Stopped"


def test_an_attempt_after_a_lost_node_has_the_whole_time_again(bench: MakeBench) -> None:
    lab = bench()
    key = lab.submit("one", max_run_time="10m", commands=["sleep 1h"])
    node = lab.cluster.job(key).tasks[0].node
    lab.pass_time(2 * MINUTE)
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(5 * MINUTE)  # its pods are given up
    lab.cluster.set_node(node, NodeChange.HEAL)
    again = lab.cluster.job(key)
    assert (again.attempt, again.ends_by) == (1, lab.at(17 * MINUTE))
    lab.pass_time(4 * MINUTE)  # the first attempt's limit
    assert lab.state(key) == "Running"
    lab.pass_time(6 * MINUTE)
    assert lab.state(key) == "Stopped"


def test_a_limit_that_passes_without_a_controller_is_kept_when_it_starts(bench: MakeBench) -> None:
    lab = bench()
    key = lab.submit("one", max_run_time="2m", commands=["sleep 1h"])
    lab.cluster.set_service("frameworkcontroller", running=False)
    lab.pass_time(5 * MINUTE)
    assert lab.state(key) == "Running"
    lab.cluster.set_service("frameworkcontroller", running=True)
    assert lab.cluster.job(key).reason == "ran longer than its maxRunTime of 2m"


def test_no_clock_runs_out_to_the_limit_of_a_job_that_has_ended(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("one", max_run_time="3d", commands=["sleep 1m"])
    lab.cluster.tick(None)
    assert lab.cluster.present == MINUTE


def test_a_tenant_gives_a_default_and_refuses_what_is_too_long(bench: MakeBench) -> None:
    lab = bench()
    with_rules(lab, "{vc: vc1, default: 2m, max: 1h}")
    with pytest.raises(JobError, match="exceeds the limit of virtual cluster vc1"):
        lab.submit("long", "vc1", max_run_time="2h")
    key = lab.submit("one", "vc1", commands=["sleep 1h"])
    assert lab.submit("other", "default", commands=["sleep 1h"])
    extras = lab.cluster.job_data(key)["extras"]
    assert isinstance(extras, dict)
    assert extras["maxRunTime"] == "120s"
    lab.cluster.restart_services(["frameworkcontroller"])
    lab.pass_time(2 * MINUTE)
    assert (lab.state(key), lab.state("ann~other")) == ("Stopped", "Running")


def test_a_tenant_that_demands_a_limit_refuses_jobs_without(bench: MakeBench) -> None:
    lab = bench()
    with_rules(lab, "{vc: vc1, required: true}")
    with pytest.raises(JobError, match="must set a maximum run time") as refused:
        lab.submit("one", "vc1")
    assert refused.value.path == "extras.maxRunTime"
    assert lab.state(lab.submit("two", "vc1", max_run_time=60)) == "Running"
