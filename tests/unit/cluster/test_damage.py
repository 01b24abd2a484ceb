"""Files that a kill, a full disk, bad hardware or another version of paictl left: each says what to do, and can go."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.present import anchor, steady
from paictl.cluster.embedded.store import FILE, Store
from paictl.cluster.interface import ClusterError, JobRequest, JobState, MachineSpec, NodeRole
from paictl.errors import PaictlError
from paictl.scheduler.snapshot import EARLIER
from paictl.units import Millis
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.conftest import paictl as paictl
from tests.unit.cluster.conftest import MINUTE, MakeBench


def test_a_cluster_is_brought_up_in_few_transactions(tmp_path: Path) -> None:
    """Each waits for the disk; SQLite counts them in the head of the file: tables, what fills them, the journal."""
    Store.create(tmp_path, lambda store: store.set_meta("name", "x")).close()
    assert int.from_bytes((tmp_path / FILE).read_bytes()[24:28], "big") == 3


def test_what_a_killed_start_left_is_removed(bench: MakeBench) -> None:
    lab = bench()
    drafts = [lab.folder / f"{FILE}.{number}.new{tail}" for number in (4194305, 4194306) for tail in ("", "-journal")]
    for draft in drafts:
        draft.touch()
    alive = lab.folder / f"{FILE}.{os.getppid()}.new"
    alive.touch()
    Store.remove(lab.folder)
    assert [path.name for path in lab.folder.iterdir()] == [alive.name], "a start that is at work keeps its draft"
    alive.unlink()
    for draft in drafts:
        draft.touch()
    Store.create(lab.folder, lambda store: store.set_meta("name", "x"))
    assert not any(draft.exists() for draft in drafts)
    lab.cluster = bench().cluster


@pytest.mark.parametrize("what", ["empty", "text", "newer", "rot", "nonsense"])
def test_whatever_became_of_the_file_it_is_told_and_can_be_taken_down(
    what: str, tmp_path: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    monkeypatch.setenv("PAICTL_STATE", str(folder))
    assert paictl("cluster", "up", "--speed", "0").code == 0
    spoil(folder / FILE, what)
    done = paictl("job", "list")
    assert (done.code, "internal error" in done.err) == (2, False), done.err
    assert "paictl cluster down" in done.err, done.err
    asked = paictl("cluster", "down")
    assert (asked.code, (folder / FILE).exists()) == (2, True)
    down = paictl("cluster", "down", "-y")
    assert (down.code, folder.exists()) == (0, False), down.err
    assert paictl("cluster", "up", "--speed", "0").code == 0


def spoil(path: Path, what: str) -> None:
    for tail in ("-wal", "-shm"):
        path.with_name(path.name + tail).unlink(missing_ok=True)
    match what:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("just text " * 1000)
        case _:
            with closing(sqlite3.connect(path)) as database, database:
                if what == "newer":
                    database.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
                elif what == "rot":
                    database.execute("UPDATE state SET data = CAST(X'7B22FF' AS TEXT)")
                else:
                    database.execute(
                        "UPDATE state SET data = ?", (json.dumps({"name": "pai", "now": [], "timers": 1}),)
                    )
            database.close()


def test_a_rotten_event_is_no_internal_error(bench: MakeBench) -> None:
    lab = bench()
    with closing(sqlite3.connect(lab.folder / FILE)) as database, database:
        (kept,) = database.execute("SELECT data FROM event WHERE number = 1").fetchone()
        database.execute("UPDATE event SET data = '{\"a' WHERE number = 1")
    with pytest.raises(ClusterError, match=r"damaged|corrupt"):
        lab.again().events()
    with closing(sqlite3.connect(lab.folder / FILE)) as database, database:
        database.execute("UPDATE event SET data = ? WHERE number = 1", (kept,))


def test_a_wall_clock_that_is_set_back_takes_nobody_back_in_time(
    tmp_path: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path))
    present = time.time()
    if anchor(present) is None:
        pytest.skip("this system does not tell its boots apart")
    monkeypatch.setattr(time, "time", lambda: present)
    assert paictl("cluster", "up", "--speed", "1000").code == 0
    present += 10
    before = EmbeddedCluster.at(tmp_path).now
    present -= 3600
    assert EmbeddedCluster.at(tmp_path).now >= before > EmbeddedCluster.at(tmp_path).epoch
    cluster = EmbeddedCluster.at(tmp_path)
    later = cluster.now
    cluster.tick(Millis(1))
    assert EmbeddedCluster.at(tmp_path).now > later


def test_after_a_reboot_the_wall_clock_counts_again() -> None:
    assert steady([1000.0, "another boot", 5.0], 2000.0) == 2000.0
    assert steady(None, 2000.0) == 2000.0


def test_a_rotten_scheduler_is_told_when_it_is_asked_and_changes_nothing(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("runs")
    kept = lab.cluster.stored()
    endless = {"length": 1 << 100, "most": 0, "places": [], "values": []}
    state = {name: endless if "length" in table else table for name, table in kept["engine"]["state"].items()}
    for key, value in (("digest", "0"), ("format", None), ("state", 3), ("state", state)):
        _store(lab.folder, {**kept, "engine": {**kept["engine"], key: value}})
        assert [job.key for job in lab.again().jobs()] == ["ann~runs"], "which asks no scheduler"
        with pytest.raises(PaictlError, match=r"damaged|corrupt|format"):
            lab.again().submit([JobRequest("ann", lab.job("more", "default"))])
        assert [job.key for job in lab.again().jobs()] == ["ann~runs"]
    _store(lab.folder, kept)


def test_a_cluster_of_an_earlier_version_which_did_not_store_the_nodes_of_the_scheduler(bench: MakeBench) -> None:
    lab = bench()
    lab.cluster.add_node(MachineSpec("extra", "10.0.9.9", NodeRole.WORKER, "gpu", devices=4))
    lab.cluster.remove_node(lab.cluster.nodes()[-1].machine.name)
    kept, nodes, services = lab.cluster.stored(), lab.cluster.nodes(), lab.cluster.services()
    assert any("in no cell" in view.reason for view in nodes)
    assert any("nodes that do not exist" in view.reason for view in services)
    _store(lab.folder, {key: value for key, value in kept.items() if key != "nodes"})
    assert (lab.again().nodes(), lab.again().services()) == (nodes, services)
    _store(lab.folder, kept)


def _store(folder: Path, state: Mapping[str, Any]) -> None:
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute("UPDATE state SET data = ?", (json.dumps(state),))


def test_a_cluster_of_an_earlier_version_goes_on(bench: MakeBench) -> None:
    """Its scheduler's state is of another format: jobs that run keep their places, and those that wait get theirs."""
    lab = bench("lab")
    runs = [lab.submit(f"runs{n}", vc, duration=Millis(5 * MINUTE)) for n, vc in enumerate(("default", "vc1"))]
    waits = lab.submit("waits", "default", duration=Millis(MINUTE))
    lab.pass_time(MINUTE)
    before = {job.key: (job.state, [(task.node, task.devices) for task in job.tasks]) for job in lab.cluster.jobs()}
    with closing(sqlite3.connect(lab.folder / FILE)) as database, database:
        database.execute(
            "UPDATE state SET data = json_set(json_remove(data, '$.engine.state'), '$.engine.format', ?)", EARLIER
        )
    again = lab.again()
    again.tick(Millis(1000))
    assert {job.key: (job.state, [(task.node, task.devices) for task in job.tasks]) for job in again.jobs()} == before
    again.tick(Millis(7 * MINUTE))
    assert {job.key for job in again.jobs() if job.state is JobState.SUCCEEDED} == {*runs, waits}
