"""Kills, crowds and bad disks: no acknowledged command is lost, and what cannot be done says so."""

from __future__ import annotations

import os
import random
import resource
import select
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from paictl.cluster.accounts import Account
from paictl.cluster.embedded import sidefiles
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.store import FILE, Store
from paictl.cluster.interface import ClusterError, ConflictError, JobRequest, UnreachableError
from paictl.units import Millis
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench

MOMENTS = int(os.environ.get("PAICTL_KILLS", "200"))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def forked(work: Callable[[], None]) -> int:
    """Run work in a child process that ends without cleaning up; returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return pid


def submit_for_ever(bench: Bench, acknowledge: int, prefix: str) -> None:
    """Submit jobs and let time pass, writing each name to a pipe once the cluster has taken it."""
    cluster = EmbeddedCluster.at(bench.folder, lambda: 1_000_000.0)
    for number in range(10_000):
        name = f"{prefix}{number}"
        data = bench.job(name, "default", commands=["sleep 30"])
        cluster.submit([JobRequest("ann", data, None, "oppo" if number % 3 else "test")])
        os.write(acknowledge, f"{name}\n".encode())
        if number % 4 == 3:
            cluster.tick(Millis(MINUTE))


@pytest.mark.slow
def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(bench: MakeBench) -> None:
    lab = bench()
    chance = random.Random(7)  # noqa: S311 - moments, not secrets
    acknowledged: list[str] = []
    for moment in range(MOMENTS):
        reader, writer = os.pipe()
        pid = forked(lambda moment=moment, writer=writer: submit_for_ever(lab, writer, f"k{moment}n"))  # type: ignore[misc]
        os.close(writer)
        if moment % 2:  # half of the kills come after the first acknowledgement, however slow the machine is
            poll = select.poll()
            poll.register(reader, select.POLLIN)
            poll.poll(30_000)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with os.fdopen(reader) as pipe:
            acknowledged += pipe.read().splitlines()
        if moment % 10 == 9:
            known = {job.key for job in lab.again().jobs()}
            missing = [name for name in acknowledged if f"ann~{name}" not in known]
            assert missing == []
    assert len(acknowledged) > MOMENTS / 4, "the test killed too early to show anything"


def test_two_commands_at_once_are_serialised_and_none_is_lost(bench: MakeBench) -> None:
    lab = bench("dgx2")

    def submit(prefix: str) -> None:
        cluster = EmbeddedCluster.at(lab.folder, lambda: 1_000_000.0)
        for number in range(15):
            cluster.submit([JobRequest("ann", lab.job(f"{prefix}{number}", "default"), None, "test")])

    pids = [forked(lambda prefix=prefix: submit(prefix)) for prefix in ("a", "b", "c")]  # type: ignore[misc]
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
    assert {job.key for job in lab.again().jobs()} == {f"ann~{p}{n}" for p in "abc" for n in range(15)}


def test_a_full_disk_changes_nothing_and_says_so(bench: MakeBench) -> None:
    lab = bench()
    before = lab.cluster.stored()
    database = lab.cluster._store._db
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages}")
    big = ["echo " + "x" * 200_000]
    with pytest.raises(ClusterError, match="disk is full") as caught:
        lab.submit("big", commands=big)
    assert "nothing was changed" in str(caught.value.hint)
    assert lab.cluster.stored() == before
    database.execute("PRAGMA max_page_count = 1000000")
    lab.submit("after")


def test_a_full_disk_changes_no_account_and_says_so(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = bench()
    ann = lab.cluster.users.put_account(Account("ann", email="a@b"))
    opened = sidefiles._opened

    def full(path: Path) -> sqlite3.Connection:
        database = opened(path)
        database.execute(f"PRAGMA max_page_count = {database.execute('PRAGMA page_count').fetchone()[0]}")
        return database

    monkeypatch.setattr(sidefiles, "_opened", full)
    with pytest.raises(ClusterError, match="disk is full") as caught:
        lab.cluster.users.put_account(replace(ann, email="x" * 100_000))
    assert "nothing was changed" in str(caught.value.hint)
    assert lab.cluster.users.account("ann") == ann


def test_a_file_that_may_not_grow_gives_a_clear_error(bench: MakeBench) -> None:
    lab = bench()
    reader, writer = os.pipe()

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            lab.again().submit([JobRequest("ann", lab.job("one", "default"))])
        except ClusterError as error:
            os.write(writer, f"{error} | {error.hint}".encode())

    os.waitpid(forked(work), 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    assert str(lab.folder / FILE) in said
    assert "--state DIR" in said or "disk" in said


def test_a_folder_that_cannot_be_used_gives_a_clear_error(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    with pytest.raises(ClusterError, match="cannot be used"):
        Store.create(occupied / "below", lambda _: None)
    with pytest.raises(UnreachableError):
        Store.open(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_gives_a_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ClusterError, match="cannot be used"):
        Store.create(tmp_path / "state", lambda _: None)


def test_a_cluster_that_may_not_be_written_can_be_read(bench: MakeBench) -> None:
    """Even in a folder where SQLite cannot put its files beside the database, as long as all is in that."""
    lab = bench()
    key = lab.submit("one")
    lab.cluster._store.close()
    folder = Path(tempfile.mkdtemp(prefix="paictl-"))  # unlike tmp_path, below a folder that anybody may enter
    shutil.copy(lab.folder / FILE, folder)
    (folder / FILE).chmod(0o444)
    folder.chmod(0o555)
    reader, writer = os.pipe()

    def work() -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        cluster = EmbeddedCluster.at(folder, lambda: 1_000_000.0)
        os.write(writer, f"{cluster.jobs()[0].key} ".encode())
        try:
            cluster.stop_job(key)
        except ClusterError as error:
            os.write(writer, str(error.hint).encode())

    os.waitpid(forked(work), 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == (
            "ann~one the disk is full, or the folder or file is read-only; free some space, or use another folder: "
            "--state DIR"
        )
    folder.chmod(0o755)
    shutil.rmtree(folder)
    lab.cluster = lab.again()


def test_what_is_no_cluster_is_told_apart(tmp_path: Path, bench: MakeBench) -> None:
    (tmp_path / FILE).write_text("just text " * 1000)
    with pytest.raises(ClusterError, match="cannot be used"):
        Store.open(tmp_path)
    with pytest.raises(ConflictError):
        Store.create(tmp_path, lambda _: None)
    lab = bench()
    with closing(sqlite3.connect(lab.folder / FILE)) as database, database:
        database.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(ClusterError, match="another version"):
        lab.again()
    with closing(sqlite3.connect(lab.folder / FILE)) as database, database:
        database.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")


def test_only_the_owner_may_read_the_state(bench: MakeBench) -> None:
    lab = bench()
    lab.submit("one")
    for path in lab.folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_secrets_of_a_job_are_not_stored(bench: MakeBench) -> None:
    lab = bench()
    data = lab.job("one", "default", commands=["echo <% $secrets.token %>"])
    lab.cluster.submit([JobRequest("ann", {**data, "secrets": {"token": "hunter2-very-secret"}})])
    stored = b"".join(path.read_bytes() for path in lab.folder.iterdir())
    assert b"hunter2-very-secret" not in stored
