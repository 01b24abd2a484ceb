"""The accounts of an embedded cluster: what is booked, and that nothing is lost over kills and upgrades."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from sqlite3 import connect

import pytest

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.store import FILE
from paictl.cluster.interface import FOREVER, ClusterError, JobRequest, NodeChange, NodeRole, UnsupportedError
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.operate.usage import usage_report
from paictl.units import Millis
from paictl.workload.usagereport import Dimension, UsageRow, add_up, total
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.fakekube import FakeKube
from tests.unit.cluster.occupancy import check_books
from tests.unit.cluster.test_crash import forked
from tests.unit.cluster.test_properties import second_files

KILLS = int(os.environ.get("PAICTL_KILLS", "20"))


def books(cluster: EmbeddedCluster, *by: Dimension) -> dict[tuple[str, ...], UsageRow]:
    """The rows of everything until now, by key; also checked against what happened."""
    check_books(cluster)
    found = cluster.usage(cluster.epoch, cluster.now)
    return {row.key: row for row in add_up(found.amounts, by)}


def minutes(row: UsageRow) -> tuple[float, float, float]:
    """Guaranteed, opportunistic and lost device-minutes."""
    return row.guaranteed / MINUTE, row.opportunistic / MINUTE, row.lost / MINUTE


def test_pods_count_from_the_bind_to_the_end_by_class_and_tenant(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    promised = books(lab.cluster)
    lab.submit("mine", "tenanta", "test", gpu=2, duration=Millis(10 * MINUTE))
    lab.submit("lent", "tenantb", "oppo", gpu=1, duration=Millis(4 * MINUTE))
    lab.pass_time(60 * MINUTE)
    rows = books(lab.cluster, Dimension.VC, Dimension.USER, Dimension.SKU)
    assert promised == {}
    assert minutes(rows["tenanta", "ann", "V100"]) == (20, 0, 0)
    assert minutes(rows["tenantb", "ann", "V100"]) == (0, 4, 0)
    assert rows["tenanta", "", "V100"].idle / MINUTE == 12 * 60 - 20
    assert total(rows.values()).idle / MINUTE == 32 * 60 - 20


def test_a_lazy_victim_counts_as_opportunistic_from_then_on(bench: MakeBench) -> None:
    lab = bench("lab")
    keys = lazily_preempted(lab)
    lab.pass_time(5 * MINUTE)
    rows = books(lab.cluster, Dimension.JOB)
    assert any(minutes(rows[(key,)])[0] > 0 and minutes(rows[(key,)])[1] > 0 for key in keys)


def lazily_preempted(lab: Bench) -> list[str]:
    """A job that lost its guarantee after a minute and runs on."""
    low = lab.submit("low", "vc1", hived={"lazyPreemptionEnable": True}, duration=FOREVER)
    lab.pass_time(MINUTE)
    keys = [low]
    for number in range(40):
        keys.append(lab.submit(f"high{number}", "vc1", "prod", duration=FOREVER))
        if any(event.kind == "Demoted" for event in lab.cluster.events(f"job/{low}")):
            return keys
    raise AssertionError("nobody was demoted")


def test_what_a_preemption_cuts_off_is_lost(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    keys = [lab.submit(f"lent{n}", "tenantb", "oppo", gpu=8, duration=FOREVER) for n in range(4)]
    lab.pass_time(3 * MINUTE)
    for number in range(4):
        lab.submit(f"own{number}", "tenantb", "prod", gpu=8, duration=FOREVER)
    lab.pass_time(MINUTE)
    preempted = [key for key in keys if any(e.kind == "Preempted" for e in lab.cluster.events(f"job/{key}"))]
    rows = books(lab.cluster, Dimension.JOB)
    assert preempted
    assert {minutes(rows[(key,)])[2] for key in preempted} == {8 * 3}
    assert all(rows[(key,)].lost == 0 for key in keys if key not in preempted)


def test_what_a_dead_node_takes_with_it_is_lost_and_what_finished_is_not(bench: MakeBench) -> None:
    lab = bench("lab")
    done = lab.submit("done", "default", duration=Millis(2 * MINUTE))
    cut = lab.submit("cut", "vc1", duration=FOREVER)
    lab.pass_time(2 * MINUTE)
    node = next(task.node for task in lab.cluster.job(cut).tasks)
    lab.cluster.set_node(node, NodeChange.FAIL)
    lab.pass_time(10 * MINUTE)
    rows = books(lab.cluster, Dimension.JOB)
    assert rows[(done,)].lost == 0
    assert minutes(rows[(cut,)])[2] >= 7  # two minutes, and five in which the node might have come back


def test_another_configuration_changes_promises_and_classes_when_the_scheduler_loads_it(bench: MakeBench) -> None:
    lab = bench("three-tenants")
    lab.submit("mine", "tenantb", "test", gpu=4, duration=FOREVER)
    lab.pass_time(10 * MINUTE)
    lab.cluster.push(second_files("three-tenants"), "the first has all of the second's")
    lab.pass_time(10 * MINUTE)
    before = books(lab.cluster, Dimension.VC)
    lab.cluster.restart_services(["hivedscheduler"])
    lab.pass_time(10 * MINUTE)
    after = books(lab.cluster, Dimension.VC)
    assert minutes(before["tenantb",]) == (80, 0, 0)
    assert minutes(after["tenantb",]) == (80, 40, 0)
    assert after["tenantb",].idle == before["tenantb",].idle
    assert after["tenanta",].idle - before["tenanta",].idle == 10 * MINUTE * (12 + 14)


def test_accounts_outlive_the_service_that_keeps_old_jobs(bench: MakeBench) -> None:
    lab = bench("lab")
    key = lab.submit("old", "default", duration=Millis(MINUTE))
    lab.pass_time(2 * MINUTE)
    lab.cluster.wipe_service("rest-server")
    lab.cluster.wipe_service("hivedscheduler")
    assert minutes(books(lab.cluster, Dimension.JOB)[(key,)])[0] == 1


def test_a_cluster_of_an_earlier_version_is_counted_from_now_on_with_what_runs(
    bench: MakeBench, tmp_path: Path
) -> None:
    lab = bench("lab")
    lab.submit("over", "default", duration=Millis(MINUTE))
    runs = lab.submit("runs", "vc1", duration=FOREVER)
    lab.pass_time(5 * MINUTE)
    now = lab.cluster.now
    earlier = tmp_path / "earlier"
    shutil.copytree(lab.folder, earlier)
    with closing(connect(earlier / FILE)) as database:
        database.execute("DROP TABLE usage")
        database.execute("UPDATE state SET data = json_remove(data, '$.usage')")
        database.commit()
    again = EmbeddedCluster.at(earlier, lambda: lab.wall[0])
    again.tick(Millis(MINUTE))
    found = again.usage(again.epoch, again.now + timedelta(days=1))
    rows = {row.key: row for row in add_up(found.amounts, (Dimension.JOB,))}
    assert found.since == now
    assert minutes(rows[(runs,)]) == (6, 0, 0)
    assert ("ann~over",) not in rows


def test_a_cluster_that_keeps_no_accounts_says_so_and_what_would() -> None:
    kube = FakeKube()
    with pytest.raises(ClusterError, match="no accounts are written yet"):
        usage_report(KubernetesCluster(kube, "pai"), None, (Dimension.VC,))
    kube.lacks = ("usagebooks",)
    with pytest.raises(UnsupportedError, match="keeps no accounts") as refused:
        usage_report(KubernetesCluster(kube, "pai"), None, (Dimension.VC,))
    assert "accounts: false" in str(refused.value.hint)


def work_for_ever(lab: Bench, acknowledge: int, prefix: str) -> None:
    """Submit, let time pass and change nodes; a byte to a pipe for each time that it was all done."""
    cluster = EmbeddedCluster.at(lab.folder, lambda: 1_000_000.0)
    nodes = [node.machine.name for node in cluster.nodes() if node.machine.role is NodeRole.WORKER]
    for number in range(10_000):
        data = lab.job(f"{prefix}{number}", ("default", "vc1")[number % 2], commands=["sleep 30"])
        cluster.submit([JobRequest("ann", data, None, ("oppo", "test", "prod")[number % 3])])
        cluster.tick(Millis(7_001))
        cluster.set_node(nodes[number % len(nodes)], tuple(NodeChange)[number % 4])
        os.write(acknowledge, b".")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_moment_leaves_the_books_right(bench: MakeBench) -> None:
    lab = bench("lab")
    chance = random.Random(5)  # noqa: S311 - moments, not secrets
    for moment in range(KILLS):
        reader, writer = os.pipe()
        pid = forked(lambda moment=moment, writer=writer: work_for_ever(lab, writer, f"k{moment}n"))  # type: ignore[misc]
        os.close(writer)
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        poll.poll(30_000)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)
        if moment % 4 == 3:
            check_books(lab.again())
    assert total(books(lab.again(), Dimension.JOB).values()).used > 0
