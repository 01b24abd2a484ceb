"""One leader: who holds the lease, until when for sure, and when another may take it."""

from __future__ import annotations

import copy
import math
import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paictl.remote.kube import leases
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.remote.kube.leases import LeaderElector, Leadership, LeaseTimes


class Leases:
    """The API server's leases; `away` makes every request fail."""

    where = "test"

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.away = False
        self.version = 0

    def get(self, _path: str, **_: object) -> Json:
        self._answer()
        if self.lease is None:
            raise KubeError("none", status=404)
        return copy.deepcopy(self.lease)

    def request(self, method: str, _path: str, body: Any = None, **_: object) -> Json:
        self._answer()
        about = self.lease["metadata"] if self.lease else {}
        seen = body["metadata"].get("resourceVersion", "")
        conflict = self.lease is not None if method == "POST" else seen != str(self.version)
        if conflict:
            raise KubeError(f"conflict over {about.get('name')}", status=409)
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)

    def _answer(self) -> None:
        if self.away:
            raise NoAnswerError("away")


class Elections:
    """Two replicas on one clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.server = Leases()
        self.changes: list[str] = []
        self.a, self.b = (self._elector(name) for name in "ab")

    def _elector(self, name: str) -> LeaderElector:
        client: Any = self.server
        return LeaderElector(
            client,
            ("default", "lease"),
            name,
            gained=lambda: self.changes.append(f"+{name}"),
            lost=lambda: self.changes.append(f"-{name}"),
            terms=LeaseTimes(duration=8, retry=1.5),
            clock=lambda: self.now,
        )

    def round(self, elector: LeaderElector) -> float:
        elector.step()
        return elector.remaining


@pytest.fixture
def elections() -> Elections:
    return Elections()


def test_the_first_leads_and_the_other_waits(elections: Elections) -> None:
    assert elections.round(elections.a) == 8
    assert elections.round(elections.b) <= 0
    assert elections.changes == ["+a"]
    for _ in range(20):
        elections.now += 1.5
        assert elections.round(elections.a) == 8
        assert elections.round(elections.b) <= 0
    assert elections.changes == ["+a"]


def test_who_cannot_renew_stops_before_another_begins(elections: Elections) -> None:
    elections.round(elections.a)
    elections.round(elections.b)
    elections.server.away = True
    elections.now += 7.9
    assert elections.round(elections.a) == pytest.approx(0.1), "an attempt that fails gains no time"
    elections.now += 0.2
    assert elections.round(elections.a) < 0
    assert elections.changes == ["+a", "-a"]
    elections.server.away = False
    elections.round(elections.b)
    assert elections.changes == ["+a", "-a", "+b"]
    assert elections.round(elections.a) <= 0, "the old one sees that it has been taken"


def test_a_lease_is_taken_only_when_it_has_not_changed_for_its_whole_duration(elections: Elections) -> None:
    elections.round(elections.a)
    elections.now += 7  # b hears of it late, and counts from there on its own clock
    elections.round(elections.b)
    elections.now += 7.9
    assert elections.round(elections.b) <= 0
    elections.now += 0.2
    assert elections.round(elections.b) == 8
    assert elections.changes[-1] == "+b"
    elections.round(elections.a)
    assert elections.changes[-1] == "-a"


def test_who_cannot_begin_to_lead_says_so_and_tries_again(elections: Elections) -> None:
    """The thread of the election would have ended, with the lease in its hands or not, and nobody have led again."""
    failures = [NoAnswerError("it restarts")]

    def begin() -> None:
        if failures:
            raise failures.pop()
        elections.changes.append("+a")

    elections.a.gained = begin
    elections.round(elections.a)
    assert "cannot begin to lead" in elections.a.problem
    elections.now += 1.5
    assert elections.round(elections.a) == 8
    assert (elections.changes, elections.a.problem) == (["+a"], "")
    elections.round(elections.a)
    assert elections.changes == ["+a"], "it begins once"


def test_who_has_a_fault_of_its_own_leaves_leading_to_another(elections: Elections) -> None:
    """It would keep the lease for ever, and lead never."""

    def begin() -> None:
        raise RuntimeError("can't start new thread")

    elections.a.gained = begin
    assert elections.round(elections.a) <= 0
    assert elections.changes == ["-a"], "what has begun has ended"
    for _ in range(7):
        elections.round(elections.b)
        assert elections.round(elections.a) <= 0
        assert "cannot begin to lead: RuntimeError: can't start new thread" in elections.a.problem
        elections.now += 1.5
    assert elections.changes == ["-a", "+b"]
    assert elections.round(elections.b) == 8


def test_who_has_had_a_fault_and_is_alone_tries_again(elections: Elections) -> None:
    failures = [KeyError("metadata")]

    def begin() -> None:
        if failures:
            raise failures.pop()
        elections.changes.append("+a")

    elections.a.gained = begin
    for _ in range(12):
        elections.round(elections.a)
        elections.now += 1.5
    assert (elections.changes, elections.a.problem) == (["-a", "+a"], "")


def test_a_process_that_was_killed_and_started_again_waits_like_any_other() -> None:
    """In a pod it has the same host name and number. What the killed one has sent may still be carried out."""
    leases, begun = Leases(), threading.Event()
    first = Leadership(cast("Any", leases), ("space", "name"), begun.set, begun.clear, LeaseTimes(8, 0.01))
    first.start()
    assert begun.wait(20)
    killed = copy.deepcopy(leases.lease)
    first.stop()
    assert killed is not None
    leases.lease, leases.version = killed, int(killed["metadata"]["resourceVersion"])
    begun.clear()
    second = Leadership(cast("Any", leases), ("space", "name"), begun.set, begun.clear, LeaseTimes(8, 0.01))
    second.start()
    assert not begun.wait(0.2)
    assert second.holder == killed["spec"]["holderIdentity"]
    assert second.remaining() <= 0
    second.stop()


def test_without_a_lease_a_process_leads_from_start_to_stop() -> None:
    told: list[str] = []
    alone = Leadership(cast("Any", None), None, lambda: told.append("begin"), lambda: told.append("end"))
    assert (alone.remaining(), alone.problem, alone.holder) == (math.inf, "", "")
    alone.start()
    assert told == ["begin"]
    alone.stop()
    assert told == ["begin", "end"]


def test_with_a_lease_it_leads_once_it_has_it_and_gives_it_back() -> None:
    leases, begun, told = Leases(), threading.Event(), list[str]()
    elected = Leadership(
        cast("Any", leases), ("space", "name"), begun.set, lambda: told.append("end"), LeaseTimes(8, 0.01)
    )
    assert elected.remaining() <= 0
    elected.start()
    assert begun.wait(20)
    assert elected.remaining() > 0
    assert elected.holder
    elected.stop()
    assert told == ["end"]
    assert leases.lease is not None
    assert leases.lease["spec"]["holderIdentity"] == "", "another may take it at once"
    assert elected.remaining() <= 0


def test_a_lease_that_cannot_be_had_is_said() -> None:
    leases, told = Leases(), threading.Event()
    leases.away = True
    elected = Leadership(cast("Any", leases), ("space", "name"), told.set, told.clear, LeaseTimes(8, 0.01))
    elected.start()
    deadline = time.monotonic() + 20
    while not elected.problem and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    elected.stop()
    assert elected.problem
    assert not told.is_set()


@pytest.mark.parametrize("jump", [-3600, 3600])
def test_a_wall_clock_that_jumps_moves_no_lease(
    elections: Elections, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    """What is written into the lease is wall time, for people: nobody counts by it."""
    elections.round(elections.a)
    elections.round(elections.b)
    moved = datetime.now(UTC) + timedelta(seconds=jump)
    monkeypatch.setattr(leases, "datetime", SimpleNamespace(now=lambda _: moved))
    for _ in range(20):
        elections.now += 1.5
        assert elections.round(elections.b) <= 0
        assert elections.round(elections.a) == 8
    assert elections.server.lease is not None
    assert elections.server.lease["spec"]["renewTime"].startswith(f"{moved:%Y-%m-%dT%H:%M}")
    assert elections.changes == ["+a"]
