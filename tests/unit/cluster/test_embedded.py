"""The embedded cluster as a user meets it: the phenomena of the textbook's lab."""

from __future__ import annotations

import pytest

from paictl.cluster.interface import ClusterError, UnreachableError
from tests.unit.cluster.conftest import MINUTE, MakeBench


def test_a_job_runs_for_as_long_as_it_sleeps(bench: MakeBench) -> None:
    lab = bench()
    key = lab.submit("one")
    assert lab.state(key) == "Running"
    lab.pass_time(5 * MINUTE - 1)
    assert lab.state(key) == "Running"
    lab.pass_time(1)
    assert lab.state(key) == "Succeeded"
    assert lab.cluster.job(key).ended == 5 * MINUTE


def test_vc_safety_the_second_job_waits_though_the_other_vc_is_idle(bench: MakeBench) -> None:
    lab = bench()
    first, second = lab.submit("one", "vc1", "prod"), lab.submit("two", "vc1", "prod")
    other = lab.submit("three", "default", "prod")
    assert [lab.state(key) for key in (first, second, other)] == ["Running", "Waiting", "Running"]
    lab.pass_time(5 * MINUTE)
    assert lab.state(second) == "Running"


def test_a_higher_priority_preempts_within_the_vc_and_the_victim_starts_again(bench: MakeBench) -> None:
    lab = bench()
    low = lab.submit("low", "vc1", "test")
    lab.pass_time(2 * MINUTE)
    high = lab.submit("high", "vc1", "prod")
    assert (lab.state(low), lab.state(high)) == ("Waiting", "Running")
    assert lab.cluster.job(low).preemptions == 1
    lab.pass_time(5 * MINUTE)
    assert (lab.state(low), lab.state(high)) == ("Running", "Succeeded")
    lab.pass_time(5 * MINUTE - 1)
    assert lab.state(low) == "Running", "progress was lost, it needs its whole time again"
    lab.pass_time(1)
    assert lab.state(low) == "Succeeded"


def test_an_opportunistic_job_uses_what_is_idle_and_gives_way_to_the_owner(bench: MakeBench) -> None:
    lab = bench()
    own = lab.submit("own", "vc1", "prod")
    guest = lab.submit("guest", "vc1", "oppo")
    assert (lab.state(own), lab.state(guest)) == ("Running", "Running")
    owner = lab.submit("owner", "default", "test")
    assert (lab.state(owner), lab.state(guest)) == ("Running", "Waiting")
    kinds = [event.kind for event in lab.cluster.events(f"job/{guest}")]
    assert kinds == ["Submitted", "Started", "Preempted", "Retried"]


def test_a_gang_waits_for_all_its_tasks_and_single_tasks_do_not(bench: MakeBench) -> None:
    lab = bench("dgx2")
    lab.submit("half", "default", gpu=8)
    gang = lab.submit("gang", "default", gpu=8, instances=2)
    single = lab.submit("single", "default", gpu=8, instances=2, gang=False)
    assert lab.state(gang) == "Waiting"
    states = [task.state for task in lab.cluster.job(single).tasks]
    assert states == ["Running", "Waiting"]


def test_a_job_that_can_never_run_is_refused_with_the_reason(bench: MakeBench) -> None:
    lab = bench()
    with pytest.raises(Exception, match="can never run"):
        lab.submit("huge", "vc1", gpu=2)
    assert lab.cluster.jobs() == []


def test_a_stopped_scheduler_starts_nothing_while_running_jobs_go_on(bench: MakeBench) -> None:
    lab = bench()
    running = lab.submit("running")
    lab.cluster.set_service("hivedscheduler", running=False)
    waiting = lab.submit("waiting", "vc1")
    lab.pass_time(5 * MINUTE)
    assert (lab.state(running), lab.state(waiting)) == ("Succeeded", "Waiting")
    lab.cluster.set_service("hivedscheduler", running=True)
    assert lab.state(waiting) == "Running"


def test_a_stopped_api_takes_no_jobs(bench: MakeBench) -> None:
    lab = bench()
    lab.cluster.set_service("rest-server", running=False)
    with pytest.raises(UnreachableError) as caught:
        lab.submit("one")
    assert "paictl service start -n rest-server" in str(caught.value.hint)


def test_a_stopped_controller_learns_later_what_happened(bench: MakeBench) -> None:
    lab = bench()
    running = lab.submit("running")
    lab.cluster.set_service("frameworkcontroller", running=False)
    late = lab.submit("late", "vc1")
    lab.pass_time(6 * MINUTE)
    assert (lab.state(running), lab.state(late)) == ("Running", "Waiting")
    lab.cluster.set_service("frameworkcontroller", running=True)
    assert (lab.state(running), lab.state(late)) == ("Succeeded", "Running")


def test_one_vc_after_reconfiguration_and_the_running_job_stays(bench: MakeBench) -> None:
    lab = bench()
    job = lab.submit("before", "vc1")
    node = lab.cluster.job(job).tasks[0].node
    files = dict(lab.cluster.configuration().files)
    text = files["services-configuration.yaml"]
    head, _, _ = text.partition("  default:\n        virtualCells")
    one = (
        head.rstrip()
        + "\n      default:\n        virtualCells:\n        - {cellType: GPU-POOL.GPU-NODE, cellNumber: 2}\n"
    )
    files["services-configuration.yaml"] = one
    lab.cluster.push(files, "one VC")
    assert {view.name: view.reason for view in lab.cluster.services()}["hivedscheduler"] != ""
    for name in ("rest-server", "hivedscheduler"):
        lab.cluster.set_service(name, running=False)
        lab.cluster.set_service(name, running=True)
    assert lab.cluster.job(job).tasks[0].node == node
    assert lab.state(job) == "Running"
    after = lab.submit("after", "default", "prod")
    both = lab.submit("both", "default", "prod")
    assert lab.state(after) == "Running"
    assert lab.state(both) == "Running", "the guarantee of default is two GPUs now; the old job gives way"


def test_pods_on_a_failed_node_are_lost_after_five_minutes(bench: MakeBench) -> None:
    lab = bench()
    job = lab.submit("one", "vc1", commands=["sleep 1h"])
    node = lab.cluster.job(job).tasks[0].node
    lab.cluster.set_node(node, "fail")
    lab.pass_time(4 * MINUTE)
    assert lab.state(job) == "Running"
    lab.pass_time(2 * MINUTE)
    assert lab.cluster.job(job).attempt == 1
    assert lab.state(job) == "Waiting" or lab.cluster.job(job).tasks[0].node != node


def test_cordoned_nodes_keep_their_pods(bench: MakeBench) -> None:
    lab = bench()
    job = lab.submit("one", "vc1")
    node = lab.cluster.job(job).tasks[0].node
    lab.cluster.set_node(node, "cordon")
    lab.pass_time(5 * MINUTE)
    assert lab.state(job) == "Succeeded"


def test_another_process_sees_the_same(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    for number in range(6):
        lab.submit(f"job{number}", "tenanta", "test" if number % 2 else "prod", gpu=4)
    assert lab.again().jobs() == lab.cluster.jobs()


def test_a_name_is_used_once(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("one")
    with pytest.raises(ClusterError, match="already"):
        lab.submit("one")
    lab.pass_time(6 * MINUTE)
    with pytest.raises(ClusterError, match="already"):
        lab.submit("one")
