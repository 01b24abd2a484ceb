"""Logs that are followed: what is waited for, and what is refused at once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paictl.cli.console import Output
from paictl.cli.job import opening, streams
from paictl.cluster.interface import ClusterError, NotStartedError, TaskPlace
from paictl.errors import PaictlError
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB


class Slow:
    """A cluster whose job has a task from the second look on, which writes at the third time it is asked."""

    def __init__(self, refusals: list[ClusterError]) -> None:
        self.looks = 0
        self.refusals = refusals

    def job(self, key: str) -> Any:
        self.looks += 1
        tasks = [SimpleNamespace(role="worker", index=0)] if self.looks > 1 else []
        return SimpleNamespace(key=key, tasks=tasks)

    def output(self, key: str, task: TaskPlace, *, follow: bool, lines: int | None) -> Iterator[bytes]:  # noqa: ARG002
        if self.refusals:
            raise self.refusals.pop(0)
        yield b"first\n"
        yield f"second of {task}\n".encode()


def shown(cluster: Slow, *, follow: bool) -> None:
    job: Any = SimpleNamespace(key="ann~train", tasks=[])
    streams.show_log(cluster, job, None, Output.TABLE, follow=follow, lines=None)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LOOK", 0)


def test_who_follows_waits_until_there_is_a_task_and_its_container(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    shown(Slow([NotStartedError("no image"), NotStartedError("no image"), NotStartedError("starting")]), follow=True)
    out, err = capfdbinary.readouterr()
    assert out == b"first\nsecond of worker:0\n"
    assert [line.partition(b";")[0] for line in err.splitlines()] == [
        b"job ann~train has no tasks yet",
        b"no image",
        b"starting",
    ]


def test_who_does_not_follow_is_told_at_once() -> None:
    with pytest.raises(NotStartedError, match="has no tasks yet"):
        shown(Slow([]), follow=False)


def test_a_start_is_waited_for_no_longer_than_was_said(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()
    clock = SimpleNamespace(monotonic=lambda: next(ticks), sleep=lambda _: None)
    monkeypatch.setattr(streams, "time", clock)
    cluster = Slow([NotStartedError("no image")] * 1_000_000)
    job: Any = SimpleNamespace(key="ann~train", tasks=[])
    with pytest.raises(NotStartedError, match="no image; timed out"):
        streams.show_log(cluster, job, None, Output.TABLE, follow=True, lines=None, timeout=9)  # type: ignore[arg-type]
    assert cluster.looks >= 2
    assert b"no image; waiting" in capfdbinary.readouterr().err


def test_what_will_never_start_is_not_waited_for() -> None:
    with pytest.raises(ClusterError, match="its pod is gone"):
        shown(Slow([ClusterError("its pod is gone")]), follow=True)


class Served:
    """A cluster whose task answers what it is asked, in capitals."""

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        if (key, str(task), port) != ("ann~train", "worker:0", 6006):
            raise ClusterError("not that one")
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._answer, args=(theirs,), daemon=True).start()
        return ours

    def _answer(self, theirs: socket.socket) -> None:
        with theirs:
            while data := theirs.recv(1 << 16):
                theirs.sendall(data.upper())
                if data.endswith(b"!"):
                    return


def test_a_port_of_a_task_is_one_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    local = opening.listener(0, 6006)
    port = local.getsockname()[1]
    place, served = TaskPlace("worker", 0), Served()
    threading.Thread(
        target=opening.serve,
        args=(served, "ann~train", place, 6006, local),
        kwargs={"browser": False, "raw": True},
        daemon=True,
    ).start()
    for word in (b"first!", b"second!"):
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.settimeout(10)
            connection.sendall(word)
            assert b"".join(iter(lambda: connection.recv(100), b"")) == word.upper()
    said = capsys.readouterr()
    assert said.out == f"127.0.0.1:{port}\n"
    assert "port 6006 of task worker:0 of ann~train" in said.err
    with pytest.raises(PaictlError, match=f"cannot listen on 127.0.0.1:{port}"):
        opening.listener(port, 6006)
    taken = opening.listener(None, port)
    assert taken.getsockname()[1] != port, "the task's own port is taken here, so another one is as good"
    taken.close()


@pytest.fixture
def simulated(home: Path, paictl: Paictl) -> Paictl:
    """A cluster of this machine, where ann's job `hold` runs."""
    (home / "hold.yaml").write_text(JOB.format(name="hold", vc="default"))
    assert paictl("cluster", "up").code == 0
    assert paictl("job", "submit", str(home / "hold.yaml"), "--duration", "1h").code == 0
    return paictl


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("job open hold --port 80", "pods of this cluster are simulated: nothing listens on port 80 of"),
        ("job open hold", "names no port"),
        ("job open hold --port web", "has no port 'web'"),
        ("job open hold --port 80 --raw --browser", "--browser and --raw exclude each other"),
        ("job open hold --task nobody --port 80", "no task nobody:0"),
        ("job run --interactive ubuntu", "tasks of this cluster are simulated: nothing runs in them"),
        ("job run --notebook ubuntu", "tasks of this cluster are simulated: nothing runs in them"),
        ("job run ubuntu", "needs either --interactive or --notebook"),
        ("job run -i --notebook ubuntu", "needs either --interactive or --notebook"),
        ("job run --notebook ubuntu -- ls", "needs either --interactive or --notebook"),
        ("job run -i ubuntu --idle-timeout 5s", "must be 1m to 30d"),
        ("job run -i ubuntu --idle-timeout soon", "'soon' is not a duration"),
    ],
)
def test_what_a_simulated_cluster_cannot_do_is_refused(simulated: Paictl, line: str, said: str) -> None:
    done = simulated(*line.split())
    assert done.code in (1, 2)
    assert said in done.err
    assert "hint:" in done.err
    assert len(simulated("job", "list", "-o", "json").data) == 1
