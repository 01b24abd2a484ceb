"""What every command writes down for those who only look: when it holds, and that it is what the world shows.

That it always is, whatever was asked before, is in `test_properties`.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from paictl.cluster.embedded import present
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.store import FILE
from paictl.cluster.embedded.views import WorldViews, view_of
from paictl.cluster.interface import ClusterError, NodeChange, NodeCondition
from tests.unit.cluster.conftest import Bench, MakeBench

MINUTE = 60_000


def looked(cluster: EmbeddedCluster) -> list[object]:
    """All that can be written down."""
    jobs = cluster.jobs()
    return [jobs, [cluster.job(job.key) for job in jobs], cluster.nodes(), cluster.services(), cluster.events()]


def from_world(lab: Bench) -> list[object]:
    cluster = lab.again()
    with cluster._world():
        pass
    assert is_alive(cluster)
    return looked(cluster)


def is_alive(cluster: EmbeddedCluster) -> bool:
    return cluster._awake


def changed(lab: Bench, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(lab.folder / FILE)) as database, database:
        database.execute(statement, values)


@pytest.fixture
def busy(bench: MakeBench) -> Bench:
    """A cluster in which jobs run, wait, were preempted, and a node is cordoned."""
    lab = bench()
    lab.submit("one", "vc1", "test")
    lab.submit("high", "vc1", "prod")
    lab.submit("wide", "default", instances=2, gang=False)
    lab.cluster.set_node(lab.cluster.nodes()[-1].machine.name, NodeChange.CORDON)
    return lab


def test_who_looks_wakes_nothing_and_sees_the_same(busy: Bench) -> None:
    cluster = busy.again()
    assert looked(cluster) == from_world(busy)
    assert not is_alive(cluster)
    assert {job.state.value for job in cluster.jobs()} == {"Running", "Waiting"}
    assert any(task.devices for job in cluster.jobs() for task in cluster.job(job.key).tasks)


def test_jobs_that_have_ended_are_shown_with_their_tasks(busy: Bench) -> None:
    busy.pass_time(60 * MINUTE)
    busy.submit("short", commands=["sleep 1"])
    busy.pass_time(MINUTE)
    cluster = busy.again()
    assert looked(cluster) == from_world(busy)
    assert not is_alive(cluster)
    ended = [cluster.job(job.key) for job in cluster.jobs() if job.state.ended]
    assert len(ended) >= 3
    with cluster._world() as world:
        assert ended == [view_of(cluster._job(world, job.key), cluster.epoch) for job in ended]
    assert all(task.node and task.ended is not None for job in ended for task in job.tasks)
    with pytest.raises(ClusterError, match="no job"):
        cluster.job("ann~nobody")


def test_jobs_that_an_older_paictl_wrote_are_shown_as_well(busy: Bench) -> None:
    busy.pass_time(60 * MINUTE)
    (kept,) = busy.cluster._store._db.execute("SELECT data FROM job WHERE key = 'ann~one'").fetchone()
    data = json.loads(kept)
    del data["shown"]
    changed(busy, "UPDATE job SET data = ? WHERE key = 'ann~one'", json.dumps(data))
    assert looked(busy.again()) == from_world(busy)


def test_it_holds_until_something_happens_by_itself(busy: Bench) -> None:
    busy.cluster.set_speed(1.0, run_out=False)
    busy.wall[0] += 299.9
    assert looked(busy.again()) == from_world(busy)
    cluster = busy.again()
    assert all(job.started is None or job.ended is None for job in cluster.jobs())
    assert not is_alive(cluster)
    busy.wall[0] += 0.2
    cluster = busy.again()
    assert any(job.state.value == "Succeeded" for job in cluster.jobs()), "the job of five minutes has ended"
    assert is_alive(cluster)
    assert looked(cluster) == from_world(busy)
    events = [event for event in cluster.events() if event.subject == "job/ann~one"]
    for number, event in enumerate(events):  # the last of them are not stored yet
        assert cluster.events(event.subject, event.number) == events[number + 1 :]


def test_it_does_not_hold_after_somebody_who_writes_none(busy: Bench) -> None:
    changed(busy, "INSERT INTO log (at, command) VALUES (0, ?)", json.dumps({"do": "tick", "span": 0}))
    cluster = busy.again()
    assert cluster.jobs()
    assert is_alive(cluster)
    changed(busy, "DELETE FROM log WHERE number = (SELECT max(number) FROM log)")


@pytest.mark.parametrize("what", ["form", "seal", "gone"])
def test_what_another_version_wrote_is_computed_anew(busy: Bench, what: str) -> None:
    row = busy.cluster._store.meta(present.KEY)
    other = None if what == "gone" else {**row, what: 0}
    changed(busy, "UPDATE meta SET value = ? WHERE key = ?", json.dumps(other), present.KEY)
    cluster = busy.again()
    assert looked(cluster) == from_world(busy)
    assert is_alive(cluster)


def test_a_damaged_state_is_told_though_views_were_written_down(busy: Bench) -> None:
    (kept,) = busy.cluster._store._db.execute("SELECT data FROM state").fetchone()
    changed(busy, "UPDATE state SET data = ?", kept.replace('"now":', '"mow":'))
    with pytest.raises(ClusterError, match=r"damaged|corrupt"):
        busy.again().nodes()
    changed(busy, "UPDATE state SET data = ?", kept)


def test_damaged_views_are_told(busy: Bench) -> None:
    row = busy.cluster._store.meta(present.KEY)
    changed(busy, "UPDATE meta SET value = ? WHERE key = ?", json.dumps({**row, "nodes": [{}]}), present.KEY)
    with pytest.raises(ClusterError, match=r"damaged|corrupt"):
        busy.again().nodes()
    assert busy.again().jobs(), "what is not damaged can be seen"


def test_a_large_cluster_is_not_written_down(busy: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.cluster.embedded.views.MOST", 3)
    busy.pass_time(1)
    assert busy.cluster._store.meta(present.KEY) is None
    assert looked(busy.again()) == from_world(busy)


def test_whoever_has_the_world_at_hand_asks_it(busy: Bench) -> None:
    """A server answers thousands of requests: it reads the world once."""
    assert is_alive(busy.cluster)
    with busy.cluster._look() as views:
        assert isinstance(views, WorldViews)


def test_whoever_has_the_world_at_hand_sees_what_others_do(busy: Bench) -> None:
    with busy.cluster._world():
        pass
    node = busy.again().set_node(busy.cluster.nodes()[0].machine.name, NodeChange.CORDON)
    assert node == busy.cluster.nodes()[0]
    assert node.condition is NodeCondition.CORDONED
