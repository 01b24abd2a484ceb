"""Repair in place on the embedded cluster: a lost member comes again, its gang keeps running (`docs/repair.md`)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paictl.cluster.embedded.machines import REPAIR_AFTER
from paictl.cluster.interface import JobView, NodeChange
from paictl.cluster.scheduling import JobSituation
from paictl.operate import explaining
from paictl.operate.limits import limits
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench

FOREVER = ["sleep 99h"]


def nodes_of(found: JobView) -> dict[int, str]:
    return {task.index: task.node for task in found.tasks}


def kinds(lab: Bench, key: str, *wanted: str) -> list[str]:
    return [event.kind.value for event in lab.cluster.events(f"job/{key}") if event.kind.value in wanted]


def filled(bench: MakeBench) -> Bench:
    """A cluster on which all is in use but the promise of tenanta."""
    lab = bench("three-tenants")
    promised = [("tenantb", 8), ("tenantb", 4), ("tenantb", 2), ("tenantc", 4), ("tenantc", 2)]
    for at, (tenant, gpu) in enumerate(promised):
        lab.submit(f"fill-{at}", tenant, gpu=gpu, commands=FOREVER)
    return lab


@pytest.mark.parametrize(
    ("restart", "said"),
    [
        (None, "its pods are given up unless it is back within 5 minutes"),
        (
            "member",
            "its pods are given up unless it is back within 5 minutes, "
            "those of jobs with restart: member within 5 seconds",
        ),
    ],
)
def test_a_node_that_fails_says_when_its_pods_are_given_up(bench: MakeBench, restart: str | None, said: str) -> None:
    lab = bench("three-tenants")
    key = lab.submit("train", "tenanta", gpu=4, instances=2, commands=FOREVER, restart=restart)
    node = lab.cluster.job(key).tasks[0].node
    lab.cluster.set_node(node, NodeChange.FAIL)
    assert [event.message for event in lab.cluster.events(f"node/{node}") if event.kind.value == "Failed"] == [said]
    lab.cluster.set_node(node, NodeChange.HEAL)
    assert lab.cluster.events(f"node/{node}")[-1].message == "back again"


def test_sixty_four_pods_lose_a_node_and_are_whole_again(bench: MakeBench) -> None:
    """At most 15 s after the node has failed, and nobody else was restarted."""
    lab = bench("production")
    key = lab.submit("train", "vc1", gpu=4, instances=64, commands=FOREVER, restart="member")
    before = lab.cluster.job(key)
    assert {task.state for task in before.tasks} == {"Running"}
    failed = before.tasks[17].node
    lost = [task.index for task in before.tasks if task.node == failed]
    lab.cluster.set_node(failed, NodeChange.FAIL)
    lab.pass_time(REPAIR_AFTER - 1)
    assert nodes_of(lab.cluster.job(key)) == nodes_of(before), "it may come back"
    lab.pass_time(1)
    found = lab.again().job(key)
    assert {task.state for task in found.tasks} == {"Running"}
    assert (found.attempt, found.started, found.preemptions) == (0, before.started, 0)
    assert [task.index for task in found.tasks if task.attempt] == lost
    assert {at: node for at, node in nodes_of(found).items() if at not in lost} == {
        at: node for at, node in nodes_of(before).items() if at not in lost
    }
    assert [repair.index for repair in found.repairs] == lost
    for repair in found.repairs:
        assert (repair.before, repair.node) == (failed, found.tasks[repair.index].node)
        assert repair.back is not None
        assert repair.reason == "its node has failed"
        assert (repair.back - lab.at(0)).total_seconds() <= 15
    assert kinds(lab, key, "Lost", "Killed", "Retried", "Repaired") == ["Lost", "Lost", "Repaired", "Repaired"]


def test_a_node_that_fails_again_has_its_full_time_to_come_back(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    key = lab.submit("train", "tenanta", gpu=4, instances=3, commands=FOREVER, restart="member")
    before = lab.cluster.job(key)
    node = before.tasks[2].node
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(REPAIR_AFTER - 1000)
    lab.cluster.set_node(node, NodeChange.HEAL)
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(REPAIR_AFTER - 1000)
    assert nodes_of(lab.cluster.job(key)) == nodes_of(before), "the first failure is over"
    lab.pass_time(1000)
    assert lab.cluster.job(key).repairs


def test_by_default_the_whole_gang_starts_again(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    key = lab.submit("train", "tenanta", gpu=4, instances=3, commands=FOREVER, retries=1)
    lab.cluster.set_node(lab.cluster.job(key).tasks[2].node, NodeChange.FAIL)
    lab.pass_time(REPAIR_AFTER)
    assert lab.cluster.job(key).attempt == 0, "nobody has given its pods up yet"
    lab.pass_time(5 * MINUTE)
    found = lab.cluster.job(key)
    assert (found.attempt, found.repairs) == (1, ())


def test_a_member_without_room_waits_and_is_explained_and_the_rest_runs_on(bench: MakeBench) -> None:
    lab = filled(bench)
    key = lab.submit("train", "tenanta", gpu=4, instances=3, commands=FOREVER, restart="member")
    before = lab.cluster.job(key)
    assert {task.state for task in before.tasks} == {"Running"}
    alone = next(task for task in before.tasks if sum(one.node == task.node for one in before.tasks) == 1)
    lab.cluster.set_node(alone.node, NodeChange.FAIL)
    lab.pass_time(MINUTE)
    found = lab.again().job(key)
    assert sorted(task.state for task in found.tasks) == ["Running", "Running", "Waiting"]
    assert found.tasks[alone.index].state == "Waiting"
    assert found.state.value == "Running"
    assert (found.repairs[0].back, found.repairs[0].node) == (None, "")
    why = lab.cluster.explain(key)
    assert (why.situation, why.waiting, why.tasks) == (JobSituation.NO_ROOM, 1, 3)
    assert why.scheduler is not None
    assert why.scheduler.request.members == ((4, 1),)
    told = "\n".join(map(str, explaining.lines(why, full=True)))
    assert "(repair" not in told, "it speaks of the job, not of what stands for its member"
    assert "4" in told
    lab.cluster.set_node(alone.node, NodeChange.HEAL)
    found = lab.cluster.job(key)
    assert nodes_of(found) == nodes_of(before)
    assert found.repairs[0].back is not None


def leave_bad_devices(lab: Bench) -> None:
    """Whoever has a device that stays bad for half a minute leaves it."""
    files = dict(lab.cluster.configuration().files)
    name = "services-configuration.yaml"
    files[name] = files[name].replace("hivedscheduler:\n", "hivedscheduler:\n  bad-device-deadline: 30\n")
    lab.cluster.push(files, "leave bad devices")
    lab.cluster.restart_services(["hivedscheduler"])


def test_a_bad_device_moves_only_the_member_that_has_it(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    leave_bad_devices(lab)
    key = lab.submit("train", "tenanta", gpu=2, instances=4, commands=FOREVER, restart="member")
    before = lab.cluster.job(key)
    lab.cluster.set_devices(before.tasks[2].node, NodeChange.FAIL, before.tasks[2].devices[:1])
    lab.pass_time(MINUTE)
    found = lab.cluster.job(key)
    assert [task.attempt for task in found.tasks] == [0, 0, 1, 0]
    assert before.tasks[2].devices[0] not in found.tasks[2].devices or found.tasks[2].node != before.tasks[2].node
    assert found.attempt == 0


def test_preemption_takes_the_whole_gang_all_the_same(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    key = lab.submit(
        "train", "tenanta", priority="oppo", gpu=8, instances=4, commands=FOREVER, restart="member", retries=0
    )
    assert lab.state(key) == "Running"
    lab.submit("strong", "tenantb", gpu=8, commands=FOREVER)
    found = lab.cluster.job(key)
    assert (found.state.value, found.attempt, found.repairs) == ("Waiting", 1, ())


def test_borrowers_leave_for_a_member(bench: MakeBench) -> None:
    """The node that the repair may use is lent: the opportunistic job goes, the member gets the node."""
    lab = bench("three-tenants")
    key = lab.submit("train", "tenanta", gpu=8, instances=1, commands=FOREVER, restart="member")
    node = lab.cluster.job(key).tasks[0].node
    borrowers = [lab.submit(f"b{at}", "tenantb", "oppo", gpu=8, commands=FOREVER, retries=0) for at in range(3)]
    assert {lab.state(one) for one in borrowers} == {"Running"}
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(REPAIR_AFTER)
    found = lab.cluster.job(key)
    assert found.tasks[0].state == "Running"
    assert found.tasks[0].node != node
    assert sum(lab.state(one) == "Waiting" for one in borrowers) == 1


def test_a_job_that_is_stopped_in_the_middle_of_a_repair_leaves_nothing(bench: MakeBench) -> None:
    lab = filled(bench)
    key = lab.submit("train", "tenanta", gpu=4, instances=3, commands=FOREVER, restart="member")
    lab.cluster.set_node(lab.cluster.job(key).tasks[0].node, NodeChange.FAIL)
    lab.pass_time(MINUTE)
    lab.cluster.stop_job(key)
    assert lab.cluster.job(key).repairs == ()
    assert sum(node.used for node in lab.cluster.nodes()) == 20


def with_spares(lab: Bench, devices: int, vc: str = "tenanta") -> None:
    files = dict(lab.cluster.configuration().files)
    files["services-configuration.yaml"] += f"sharing:\n  spares:\n  - {{vc: {vc}, devices: {devices}}}\n"
    lab.cluster.push(files, "spares")
    lab.cluster.restart_services(["hivedscheduler", "rest-server"])


def test_only_repairs_use_spare_devices(bench: MakeBench) -> None:
    lab = filled(bench)
    with_spares(lab, 4)
    key = lab.submit("train", "tenanta", gpu=4, instances=2, commands=FOREVER, restart="member")
    before = lab.cluster.job(key)
    assert {task.state for task in before.tasks} == {"Running"}
    waits = lab.submit("waits", "tenanta", gpu=1, commands=FOREVER)
    assert lab.state(waits) == "Waiting"
    why = lab.again().explain(waits)
    assert why.situation is JobSituation.HELD_BACK
    assert why.reason == ("virtual cluster tenanta keeps 4 of its 12 devices for repairs, holds 8, and this needs 1")
    (row,) = limits(lab.cluster, "tenanta")
    assert (str(row.kind), row.held, row.most) == ("without spares", 8, 8), "the hint's command lists it"
    assert "paictl usage limits" in str(explaining.plain(why)[1])
    borrower = lab.submit("borrower", "tenantb", "oppo", gpu=1, commands=FOREVER)
    assert lab.state(borrower) == "Running", "spare devices may be lent"
    devices = [(task.node, task.devices) for task in before.tasks]
    lab.cluster.set_devices(devices[0][0], NodeChange.FAIL, devices[0][1][:1])
    lab.cluster.stop_job(waits)
    lab.cluster.stop_job(key)
    alone = lab.submit("alone", "tenanta", gpu=4, commands=FOREVER)
    assert lab.state(alone) == "Running", "it holds nothing any more"


def test_a_repair_takes_the_spare_devices(bench: MakeBench) -> None:
    lab = filled(bench)
    with_spares(lab, 4)
    leave_bad_devices(lab)
    key = lab.submit("train", "tenanta", gpu=4, instances=2, commands=FOREVER, restart="member")
    before = lab.cluster.job(key)
    lab.cluster.set_devices(before.tasks[1].node, NodeChange.FAIL, before.tasks[1].devices[:1])
    lab.pass_time(MINUTE)
    found = lab.cluster.job(key)
    assert [(task.state, task.attempt) for task in found.tasks] == [("Running", 0), ("Running", 1)]
    assert (found.tasks[1].node, found.tasks[1].devices) != (before.tasks[1].node, before.tasks[1].devices)


@pytest.mark.parametrize("word", ["members", "", 3])
def test_a_word_that_is_none_is_refused_with_its_place(bench: MakeBench, word: object) -> None:
    lab = bench()
    with pytest.raises(Exception, match=r"extras\.restart"):
        lab.submit("train", "vc1", restart=word)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["fail", "heal", "wait", "restart"])), max_size=14))
def test_random_failures(bench: MakeBench, steps: list[tuple[int, str]]) -> None:
    """A member restarts only if its node had failed, no device is held twice, and what is stored is what there is."""
    lab = bench("three-tenants")
    key = lab.submit("train", "tenanta", gpu=2, instances=4, commands=FOREVER, restart="member")
    others = lab.submit("others", "tenantb", gpu=4, instances=2, commands=FOREVER, restart="member", gang=True)
    failed: set[str] = set()
    for at, what in steps:
        node = f"worker{at + 1}"
        before = {one: lab.cluster.job(one) for one in (key, others)}
        if what == "fail" and len(failed) < 2:
            lab.cluster.set_node(node, NodeChange.FAIL)
            failed.add(node)
        elif what == "heal":
            lab.cluster.set_node(node, NodeChange.HEAL)
            failed.discard(node)
        elif what == "restart":
            lab.cluster.restart_services(["hivedscheduler"])
        lab.pass_time(REPAIR_AFTER)
        held: set[tuple[str, int]] = set()
        for one in (key, others):
            found = lab.cluster.job(one)
            for task, past in zip(found.tasks, before[one].tasks, strict=True):
                if task.state == "Running":
                    devices = {(task.node, device) for device in task.devices}
                    assert not held & devices
                    held |= devices
                if past.node not in failed and past.state == "Running":
                    assert (task.node, task.devices) == (past.node, past.devices)
                    assert task.attempt == past.attempt


def test_a_gang_on_its_whole_promise_loses_a_node_with_several_members(bench: MakeBench) -> None:
    """No member has room alone; together they leave the node, and nobody else restarts."""
    lab = bench("production")
    key = lab.submit("train", "vc1", gpu=1, instances=64, commands=FOREVER, restart="member")
    before = lab.cluster.job(key)
    assert {task.state for task in before.tasks} == {"Running"}
    failed = before.tasks[17].node
    lost = [task.index for task in before.tasks if task.node == failed]
    assert len(lost) == 8
    lab.cluster.set_node(failed, NodeChange.FAIL)
    lab.pass_time(REPAIR_AFTER)
    found = lab.again().job(key)
    assert {task.state for task in found.tasks} == {"Running"}
    assert [task.index for task in found.tasks if task.attempt] == lost
    assert {at: node for at, node in nodes_of(found).items() if at not in lost} == {
        at: node for at, node in nodes_of(before).items() if at not in lost
    }
    assert [repair.index for repair in found.repairs] == lost
