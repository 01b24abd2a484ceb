"""Logs that are followed: what is waited for, and what is refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from paictl.cli import jobstreams
from paictl.cli.console import Output
from paictl.cluster.interface import ClusterError, NotStartedError, TaskPlace


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
    jobstreams.show_log(cluster, job, None, Output.TABLE, follow=follow, lines=None)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobstreams, "_LOOK", 0)


def test_who_follows_waits_until_there_is_a_task_and_its_container(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    shown(Slow([NotStartedError("no image"), NotStartedError("no image"), NotStartedError("starting")]), follow=True)
    out, err = capfdbinary.readouterr()
    assert out == b"first\nsecond of worker:0\n"
    assert [line.partition(b";")[0] for line in err.splitlines()] == [
        b"job ann~train has no tasks yet", b"no image", b"starting",
    ]  # fmt: skip


def test_who_does_not_follow_is_told_at_once() -> None:
    with pytest.raises(NotStartedError, match="has no tasks yet"):
        shown(Slow([]), follow=False)


def test_a_start_is_waited_for_no_longer_than_was_said(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    cluster = Slow([NotStartedError("no image")] * 1_000_000)
    job: Any = SimpleNamespace(key="ann~train", tasks=[])
    with pytest.raises(NotStartedError, match="no image; timed out"):
        jobstreams.show_log(cluster, job, None, Output.TABLE, follow=True, lines=None, timeout=0.05)  # type: ignore[arg-type]
    assert cluster.looks >= 2
    assert b"no image; waiting" in capfdbinary.readouterr().err


def test_what_will_never_start_is_not_waited_for() -> None:
    with pytest.raises(ClusterError, match="its pod is gone"):
        shown(Slow([ClusterError("its pod is gone")]), follow=True)
