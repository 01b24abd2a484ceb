"""The chart of the home page: what was used until now, and that a cluster far away is not read for each visit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from paictl.cluster.interface import ClusterError, Event, EventKind
from paictl.cluster.jobpages import FollowsJobs
from paictl.errors import PaictlError
from paictl.server.portal.usage import Remembered, UsageHistory

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


def happened(number: int, hours: float, kind: EventKind, **data: object) -> Event:
    return Event(number, BEGIN + timedelta(hours=hours), kind, "job/ann~one", "", data)


EVENTS = [
    happened(1, 0, EventKind.SUBMITTED, vc="vc1", priority="test"),
    happened(2, 1, EventKind.STARTED, role="a", index=0, node="n", devices=(0, 1)),
    happened(3, 3, EventKind.FINISHED, role="a", index=0),
]


class Far:
    """A cluster that is followed; `reads` counts how often all of it is read."""

    name, epoch = "far", BEGIN

    def __init__(self) -> None:
        self.now = BEGIN + timedelta(hours=4)
        self.reads = 0
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False

    def follow_jobs(self) -> None:
        """Nothing to follow."""

    def events(self, subject: str | None = None, after: int = 0) -> list[Event]:
        del subject, after
        self.reads += 1
        assert self.gate.wait(30)
        if self.fails:
            raise ClusterError("away")
        return EVENTS


def charted(history: UsageHistory, cluster: Any) -> tuple[str, float]:
    chart = history.chart(cluster, 4)
    assert chart is not None
    (band,) = chart.bands
    return band.vc, band.mean


def waited(done: Callable[[], bool]) -> None:
    for _ in range(3000):
        if done():
            return
        threading.Event().wait(0.01)
    pytest.fail("it did not come to pass")


def test_a_cluster_far_away_is_read_beside_the_visits() -> None:
    far, history = Far(), UsageHistory()
    assert isinstance(far, FollowsJobs)
    assert charted(history, far) == ("vc1", 1.0)
    assert charted(history, far) == ("vc1", 1.0)
    assert far.reads == 1
    history.followed.fresh = -1.0
    far.gate.clear()
    far.now += timedelta(hours=4)
    for _ in range(3):
        assert charted(history, far) == ("vc1", 1.0), "what is known is shown while it is counted again"
    waited(lambda: far.reads == 2)
    far.gate.set()
    history.followed.fresh = 1e9
    waited(lambda: charted(history, far) == ("vc1", 0.5))
    assert far.reads == 2


def test_a_cluster_that_does_not_answer_leaves_what_is_known() -> None:
    far, history = Far(), UsageHistory()
    charted(history, far)
    history.followed.fresh = -1.0
    far.fails = True
    charted(history, far)
    waited(lambda: far.reads >= 2 and not history.followed.reading)
    assert charted(history, far) == ("vc1", 1.0)
    waited(lambda: not history.followed.reading)


def test_what_takes_long_to_read_is_read_once_even_if_there_is_nothing() -> None:
    read: list[int] = []

    def nothing() -> None:
        read.append(1)

    remembered: Remembered[int] = Remembered(fresh=1000)
    for _ in range(3):
        assert remembered.get(nothing) is None
    assert read == [1]


def test_what_could_not_be_read_is_read_again_by_the_next() -> None:
    answers: Iterator[PaictlError | int] = iter([PaictlError("unreachable"), 7])

    def read() -> int:
        answer = next(answers)
        if isinstance(answer, PaictlError):
            raise answer
        return answer

    remembered: Remembered[int] = Remembered(fresh=1000)
    with pytest.raises(PaictlError):
        remembered.get(read)
    assert not remembered.reading
    assert remembered.get(read) == 7
