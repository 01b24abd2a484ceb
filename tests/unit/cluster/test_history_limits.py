"""How much a cluster on this machine keeps of one user: nobody fills the disk of everybody."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from paictl.cluster.embedded.store import FILE
from paictl.cluster.interface import ClusterError, JobRequest, NodeChange
from tests.unit.cluster.conftest import Bench, MakeBench
from tests.unit.cluster.test_sharing import load

REFUSED = "the history of user ann's jobs would take .* MB with this request; the limit is 1 MB"


@pytest.fixture
def lab(bench: MakeBench) -> Bench:
    return bench("three-tenants")


def submit(lab: Bench, user: str, name: str, size: int = 0, **options: Any) -> str:
    data = lab.job(name, "tenanta", commands=["sleep 1 # " + "x" * size], **options)
    return lab.cluster.submit([JobRequest(user, data)])[0].key


def submit_and_stop(lab: Bench, user: str, times: int, **options: Any) -> None:
    for number in range(times):
        lab.cluster.stop_job(submit(lab, user, f"job-{number}", **options))


def tag_and_untag(lab: Bench, key: str, times: int) -> None:
    for _ in range(times):
        lab.cluster.tag_job(key, add=["t" * 60])
        lab.cluster.tag_job(key, remove=["t" * 60])


def size_of(lab: Bench) -> int:
    with closing(sqlite3.connect(lab.cluster.about().where + f"/{FILE}")) as db:
        return sum(
            db.execute(f"SELECT coalesce(sum(length({columns})), 0) FROM {table}").fetchone()[0]  # noqa: S608
            for table, columns in (("log", "command"), ("job", "view || data"), ("event", "message || data"))
        )


def test_a_user_can_submit_until_the_history_of_their_jobs_is_full_and_others_go_on(lab: Bench) -> None:
    load(lab, "sharing: {history-limits: [{megabytes: 1}, {user: bob, megabytes: 3}]}\n")
    before = size_of(lab)
    for user, most in (("ann", 1), ("bob", 3)):
        with pytest.raises(ClusterError, match=f"the history of user {user}'s jobs .* the limit is {most} MB") as full:
            submit_and_stop(lab, user, 100, size=50_000)
        assert "history-limits" in (full.value.hint or "")
    assert 3_000_000 < size_of(lab) - before < 4_200_000, "what was counted is what was written"
    assert not {"ann~job-30", "bob~job-99"} & {job.key for job in lab.cluster.jobs()}
    submit(lab, "cyd", "other")
    assert lab.cluster.replayed() == lab.cluster.stored()


def test_tasks_and_tags_of_small_requests_count_as_well(lab: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    load(lab, "sharing: {history-limits: [{megabytes: 1}]}\n")
    with pytest.raises(ClusterError, match=REFUSED):
        submit_and_stop(lab, "ann", 40, instances=100, gang=False, priority="oppo")
    monkeypatch.setattr("paictl.workload.historylimits.MEGABYTE", 20_000)
    submit(lab, "bob", "tagged")
    with pytest.raises(ClusterError, match="the history of user bob's jobs"):
        tag_and_untag(lab, "bob~tagged", 500)
    lab.cluster.stop_job("bob~tagged")
    assert lab.state("bob~tagged") == "Stopped"


def test_a_refused_request_and_others_actions_are_not_counted(lab: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(lab, "ann", "first")
    counted = lab.cluster._store.kept()
    monkeypatch.setattr("paictl.workload.historylimits.DEFAULT", 1)
    load(lab, "sharing: {history-limits: [{megabytes: 0}]}\n")
    for _ in range(3):
        with pytest.raises(ClusterError, match="the history of user ann's jobs"):
            submit(lab, "ann", "second")
    lab.cluster.set_node(lab.cluster.nodes()[0].machine.name, NodeChange.CORDON)
    assert lab.again()._store.kept() == counted


def test_a_cluster_of_an_earlier_version_counts_the_jobs_that_it_has(lab: Bench) -> None:
    for number in range(3):
        lab.cluster.stop_job(submit(lab, "ann", f"job-{number}", 300_000))
    with closing(sqlite3.connect(lab.cluster.about().where + f"/{FILE}")) as db:
        db.execute("DELETE FROM meta WHERE key = 'kept'")
        db.commit()
    load(lab, "sharing: {history-limits: [{megabytes: 1}]}\n")
    assert lab.again().replayed() == lab.again().stored()
    submit(lab, "ann", "small")
    with pytest.raises(ClusterError, match=REFUSED):
        submit(lab, "ann", "large", 300_000)
