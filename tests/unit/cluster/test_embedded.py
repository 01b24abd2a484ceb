"""The embedded cluster as a user meets it: the phenomena of the textbook's lab."""

from __future__ import annotations

import pytest

from paictl.cluster.interface import (
    Cluster,
    ClusterError,
    ConflictError,
    MachineSpec,
    NodeChange,
    NodeRole,
    UnreachableError,
)
from paictl.cluster.presets import SERVICES as SETTINGS
from paictl.cluster.presets import preset_files
from paictl.operate import explaining
from tests.unit.cluster.conftest import MINUTE, SERVICES, Bench, MakeBench


def one_vc(files: dict[str, str]) -> dict[str, str]:
    """The lab's configuration with both GPUs in `default`."""
    head, _, _ = files[SETTINGS].partition("  default:\n        virtualCells")
    vc = "\n      default:\n        virtualCells:\n        - {cellType: GPU-POOL.GPU-NODE, cellNumber: 2}\n"
    return {**files, SETTINGS: head.rstrip() + vc}


def test_a_job_runs_for_as_long_as_it_sleeps(bench: MakeBench) -> None:
    lab = bench()
    key = lab.submit("one")
    assert lab.state(key) == "Running"
    lab.pass_time(5 * MINUTE - 1)
    assert lab.state(key) == "Running"
    lab.pass_time(1)
    assert lab.state(key) == "Succeeded"
    assert lab.cluster.job(key).ended == lab.at(5 * MINUTE)


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


def test_a_lazy_victim_runs_on_only_where_its_devices_are_not_needed(bench: MakeBench) -> None:
    def low_job_with(others: list[str]) -> list[str]:
        cluster = bench()
        for vc in others:
            cluster.submit(f"other-{vc}", vc)
        low = cluster.submit("low", "vc1", hived={"lazyPreemptionEnable": True})
        cluster.submit("high", "vc1", "prod")
        kinds = [event.kind for event in cluster.cluster.events(f"job/{low}")]
        return [kind for kind in kinds if kind in ("Demoted", "Preempted")]

    assert low_job_with([]) == ["Demoted"]
    assert low_job_with(["default"]) == ["Preempted"]


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
    lab.cluster.push(one_vc(dict(lab.cluster.configuration().files)), "one VC")
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
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(4 * MINUTE)
    assert lab.state(job) == "Running"
    lab.pass_time(2 * MINUTE)
    assert lab.cluster.job(job).attempt == 1
    assert lab.state(job) == "Waiting" or lab.cluster.job(job).tasks[0].node != node


def test_a_scheduler_that_starts_again_knows_which_devices_are_broken(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    for node in ("worker1", "worker2", "worker3"):
        lab.cluster.set_devices(node, NodeChange.FAIL, [0])
    lab.cluster.set_service("hivedscheduler", running=False)
    lab.cluster.set_service("hivedscheduler", running=True)
    job = lab.submit("whole", "tenanta", gpu=8)
    assert lab.cluster.job(job).tasks[0].node == "worker4"


def test_cordoned_nodes_keep_their_pods(bench: MakeBench) -> None:
    lab = bench()
    job = lab.submit("one", "vc1")
    node = lab.cluster.job(job).tasks[0].node
    lab.cluster.set_node(node, NodeChange.CORDON)
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
    lab.cluster.set_speed(1.0, run_out=False)
    lab.wall[0] += 6 * 60
    with pytest.raises(ClusterError, match="already"):
        lab.submit("one")
    lab.pass_time(6 * MINUTE)
    with pytest.raises(ClusterError, match="existed before"):
        lab.submit("one")


def test_an_embedded_cluster_is_a_cluster(bench: MakeBench) -> None:
    cluster: Cluster = bench().cluster  # what counts is that mypy agrees
    assert cluster.name == "pai"


def test_two_who_push_at_once_do_not_undo_each_other(bench: MakeBench) -> None:
    lab = bench()
    mine, yours = lab.cluster, lab.again()
    files = dict(mine.configurations()[-1].files)
    mine.push({**files, "mine.yaml": ""}, "mine", base=1)
    with pytest.raises(ConflictError, match="newest version is 2"):
        yours.push({**files, "yours.yaml": ""}, "yours", base=1)
    yours.push({**yours.configurations()[-1].files, "yours.yaml": ""}, "yours", base=2)
    assert set(mine.configuration().files) == {*files, "mine.yaml", "yours.yaml"}


def test_deleting_a_service_destroys_its_data(bench: MakeBench) -> None:
    lab = bench(services=(*SERVICES, "postgresql"))
    done, goes = lab.submit("done", commands=["sleep 10"]), lab.submit("goes", "vc1")
    lab.pass_time(MINUTE)
    assert lab.cluster.losses("postgresql") == ("1 ended job in the history",)
    assert lab.cluster.losses("hivedscheduler") == ()
    lab.cluster.wipe_service("postgresql")
    assert [job.key for job in lab.cluster.jobs()] == [goes]
    assert "postgresql" not in {service.name for service in lab.cluster.services()}
    assert lab.submit("done") == done, "the name is free again"
    assert lab.cluster.losses("frameworkcontroller") == ("2 jobs that wait or run",)
    lab.cluster.wipe_service("frameworkcontroller")
    assert {job.state.value for job in lab.cluster.jobs()} == {"Stopped"}
    assert sum(node.used for node in lab.cluster.nodes()) == 0
    lab.cluster.wipe_service("cluster-configuration")
    assert lab.cluster.configurations() == []
    lab.cluster.wipe_service("cluster-configuration")
    lab.cluster.set_service("hivedscheduler", running=False)
    with pytest.raises(ClusterError, match="was deleted"):
        lab.cluster.set_service("hivedscheduler", running=True)
    lab.cluster.set_service("cluster-configuration", running=True)
    assert lab.cluster.push(preset_files("lab"), "again").number == 2, "numbers are never given twice"
    for name in SERVICES:
        lab.cluster.set_service(name, running=True)
    assert lab.state(lab.submit("after")) == "Running"


def test_a_node_in_no_cell_says_so_and_so_does_the_scheduler_of_one_that_is_missing(bench: MakeBench) -> None:
    lab = bench()
    added = lab.cluster.add_node(MachineSpec("worker9", "10.0.9.9", NodeRole.WORKER, devices=1))
    assert "in no cell" in added.reason
    assert [node.machine.name for node in lab.cluster.nodes() if node.reason] == ["worker9"]
    lab.cluster.remove_node("worker2")
    reasons = {service.name: service.reason for service in lab.cluster.services()}
    assert reasons["hivedscheduler"] == "its configuration names nodes that do not exist: worker2"


def test_a_preempted_job_has_not_started_until_it_runs_again(bench: MakeBench) -> None:
    lab = bench()
    low = lab.submit("low", "vc1", "test")
    lab.pass_time(2 * MINUTE)
    lab.submit("high", "vc1", "prod")
    assert lab.cluster.job(low).started is None
    lab.pass_time(6 * MINUTE)
    assert lab.cluster.job(low).started == lab.at(7 * MINUTE)


def test_what_helps_a_waiting_job_is_said_in_classes(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("one", "vc1", "prod")
    two, top = lab.submit("two", "vc1", "prod"), lab.submit("top", "vc1", "crit")
    said = "\n".join(explaining.lines(lab.cluster.explain(two)))
    assert "give it the class oppo" in said
    assert "priority 1" in said
    assert lab.state(top) == "Running"
    assert "- give it the class crit" not in said, "that would have to wait for top"


def test_a_job_whose_virtual_cluster_is_gone_is_explained(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("one", "vc1", "prod")
    waiting = lab.submit("two", "vc1", "prod")
    lab.cluster.push(one_vc(dict(lab.cluster.configuration().files)), "one VC")
    lab.cluster.set_service("hivedscheduler", running=False)
    assert "hivedscheduler is stopped" in explaining.lines(lab.cluster.explain(waiting))[0]
    lab.cluster.set_service("hivedscheduler", running=True)
    first, hint = explaining.lines(lab.cluster.explain(waiting))
    assert "what the scheduler's configuration does not have" in first
    assert "vc1" in first
    assert hint == f"hint: stop it, and submit it again for cells that the configuration has: paictl job stop {waiting}"


def test_to_stop_a_job_that_has_ended_is_no_error(bench: MakeBench) -> None:
    lab = bench()
    key = lab.submit("one")
    lab.pass_time(6 * MINUTE)
    lab.cluster.stop_job(key)
    assert lab.state(key) == "Succeeded"
    with pytest.raises(ClusterError, match="no job") as caught:
        lab.cluster.stop_job("bob~one")
    assert caught.value.hint == "did you mean ann~one?"


def test_a_clock_at_max_runs_out_after_every_command(bench: MakeBench) -> None:
    lab = bench(clock=(0.0, True))
    key = lab.submit("one")
    job = lab.cluster.job(key)
    assert (job.state.value, job.ended) == ("Succeeded", lab.at(5 * MINUTE))
    assert lab.cluster.pace is None
    assert [line["do"] for _, line in lab.cluster.log()][-2:] == ["submit", "run-out"]
    before = len(lab.cluster.log())
    lab.cluster.tick(None)
    assert len(lab.cluster.log()) == before + 1, "to run out is not followed by another one"


def test_the_only_master_stays_and_one_of_two_may_go(bench: MakeBench) -> None:
    lab = bench()
    with pytest.raises(ClusterError, match="master1 is the only master"):
        lab.cluster.remove_node("master1")
    lab.cluster.add_node(MachineSpec("master2", "10.0.0.2", NodeRole.MASTER))
    lab.cluster.remove_node("master1")
    with pytest.raises(ClusterError, match="master2 is the only master"):
        lab.cluster.remove_node("master2")
    lab.cluster.remove_node("worker1")
    assert [node.machine.name for node in lab.cluster.nodes()] == ["master2", "worker2"]


def with_deadline(lab: Bench, said: str) -> None:
    """The scheduler runs by a configuration with this deadline for bad devices."""
    files = dict(lab.cluster.configuration().files)
    name = "services-configuration.yaml"
    files[name] = files[name].replace("hivedscheduler:\n", f"hivedscheduler:\n  bad-device-deadline: {said}\n")
    lab.cluster.push(files, "deadline")
    lab.cluster.set_service("hivedscheduler", running=False)
    lab.cluster.set_service("hivedscheduler", running=True)


def test_a_gang_starts_again_elsewhere_if_its_device_stays_bad(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    with_deadline(lab, "120")
    job = lab.submit("one", "tenanta", gpu=4, instances=2, commands=["sleep 5h"], retries=0)
    node = lab.cluster.job(job).tasks[1].node
    lab.cluster.set_devices(node, NodeChange.FAIL, [3])
    lab.pass_time(MINUTE)
    lab.cluster.set_devices(node, NodeChange.HEAL, [3])
    lab.pass_time(2 * MINUTE)
    assert lab.cluster.job(job).attempt == 0, "it recovered in time"
    lab.cluster.set_devices(node, NodeChange.FAIL, [3])
    lab.pass_time(MINUTE)
    lab.cluster.set_devices(node, NodeChange.FAIL, [4])
    assert lab.cluster.job(job).attempt == 0
    lab.pass_time(MINUTE)
    again = lab.cluster.job(job)
    held = {(task.node, device) for task in again.tasks for device in task.devices}
    assert not held & {(node, 3), (node, 4)}
    assert again.attempt == 1, "started again as a whole, held against nobody's retries"


def test_the_deadline_of_each_device_counts_from_when_it_turned_bad(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    with_deadline(lab, "120")
    job = lab.submit("one", "tenanta", gpu=4, commands=["sleep 5h"])
    (task,) = lab.cluster.job(job).tasks
    other = next(device for device in range(8) if device not in task.devices)
    lab.cluster.set_devices(task.node, NodeChange.FAIL, [other])
    lab.pass_time(100_000)
    lab.cluster.set_devices(task.node, NodeChange.FAIL, [task.devices[0]])
    lab.pass_time(60_000)
    assert lab.cluster.job(job).attempt == 0, "the other one's deadline is over, not its own"
    lab.cluster.set_devices(task.node, NodeChange.FAIL, [task.devices[0]])  # it has been said before
    lab.pass_time(61_000)
    assert lab.cluster.job(job).attempt == 1


def test_a_deadline_that_comes_later_counts_for_devices_that_are_bad_already(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    job = lab.submit("one", "tenanta", gpu=8, commands=["sleep 5h"])
    node = lab.cluster.job(job).tasks[0].node
    lab.cluster.set_devices(node, NodeChange.FAIL, [0])
    lab.pass_time(60 * MINUTE)
    assert lab.cluster.job(job).attempt == 0, "by default it is only told"
    with_deadline(lab, "120")
    lab.pass_time(1)
    assert lab.cluster.job(job).attempt == 1


def test_a_deadline_that_is_no_time_is_refused_and_named(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    with pytest.raises(ClusterError, match="not a number of seconds") as refused:
        with_deadline(lab, "soon")
    assert refused.value.where == "services-configuration.yaml: hivedscheduler.bad-device-deadline"
