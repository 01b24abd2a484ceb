"""Events of pods against a server that refuses them, or is away: what must be told is told at last, and once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paictl.remote.kube import events
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.remote.kube.events import EventRecorder, NewEvent, PodReference


class Server:
    """Events by name, and what stands in their way."""

    def __init__(self) -> None:
        self.told: dict[str, Json] = {}
        self.calls = 0
        self.trouble: Exception | None = None

    def request(self, method: str, path: str, body: Any, **_: object) -> Json:
        self.calls += 1
        if self.trouble is not None:
            raise self.trouble
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.told:
                raise KubeError("it is there", status=409)
            self.told[name] = dict(body)
        else:
            self.told[path.rpartition("/")[2]].update(body)
        return {}

    def get(self, path: str) -> Json:
        return self.told[path.rpartition("/")[2]]

    def reasons(self) -> list[str]:
        return sorted(one["reason"] for one in self.told.values())


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def made(server: Server, now: Time) -> EventRecorder:
    return EventRecorder(server, "test", clock=now)  # type: ignore[arg-type]


def event(reason: str, message: str = "so it is", *, vital: bool = False, pod: str = "p") -> NewEvent:
    return NewEvent(PodReference("default", pod, f"uid-{pod}"), reason, message, vital=vital)


@pytest.mark.parametrize("trouble", [NoAnswerError("away"), KubeError("not now", status=500)])
def test_what_must_be_told_is_told_when_the_server_takes_it(trouble: Exception) -> None:
    server, now = Server(), Time()
    recorder = made(server, now)
    server.trouble = trouble
    recorder.tell(event("Preempted", vital=True))
    recorder.tell(event("Preempting"))
    for _ in range(200):
        now.now += 30
        recorder.again()
    assert server.calls < 150, "ever less often"
    server.trouble = None
    now.now += 60
    recorder.again()
    assert "Preempted" in server.reasons()
    assert recorder.waiting == 0
    assert server.told[events.event_name(event("Preempted"))]["count"] == 1
    recorder.again()
    assert recorder.dropped == (0 if isinstance(trouble, NoAnswerError) else 1), "what was only useful was given up"


def test_while_the_server_is_away_only_one_event_is_tried() -> None:
    server, now = Server(), Time()
    recorder = made(server, now)
    server.trouble = NoAnswerError("away")
    for number in range(500):
        recorder.tell(event("GuaranteeLost", vital=True, pod=f"p{number}"))
    assert server.calls == 1
    server.trouble = None
    now.now += 5
    recorder.again()
    assert len(server.told) == 500


def test_the_newest_words_are_told() -> None:
    server, now = Server(), Time()
    recorder = made(server, now)
    server.trouble = KubeError("not now", status=429)
    recorder.tell(event("Preempting", "for 2 pods"))
    recorder.tell(event("Preempting", "for 1 pod"))
    server.trouble = None
    now.now += 5
    recorder.again()
    assert [one["message"] for one in server.told.values()] == ["for 1 pod"]


def test_of_too_many_the_useful_ones_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "WAITING", 10)
    server, now = Server(), Time()
    recorder = made(server, now)
    server.trouble = NoAnswerError("away")
    for number in range(10):
        recorder.tell(event("Preempting", pod=f"u{number}"))
        recorder.tell(event("Preempted", vital=True, pod=f"v{number}"))
    assert recorder.dropped == 10
    server.trouble = None
    now.now += 100
    recorder.again()
    assert server.reasons() == ["Preempted"] * 10


def test_what_need_be_told_once_leaves_the_words_of_others_alone() -> None:
    server, now = Server(), Time()
    made(server, now).tell(event("Preempted", "by whom and why", vital=True))
    again, untold = made(server, now), event("Preempted", "evicted", vital=True)  # another process
    again.tell(replace(untold, once=True))
    now.now += 3600
    again.tell(replace(untold, once=True))
    (one,) = server.told.values()
    assert (one["message"], one["count"]) == ("by whom and why", 1)


def test_nobody_is_told_in_a_namespace_that_is_gone() -> None:
    server, now = Server(), Time()
    recorder = made(server, now)
    server.trouble = KubeError("namespace not found", status=404)
    recorder.tell(event("Preempted", vital=True))
    assert (recorder.waiting, recorder.dropped) == (0, 1)


def test_what_waits_is_sent_before_the_end() -> None:
    server = Server()
    recorder = EventRecorder(server, "test")  # type: ignore[arg-type]
    server.trouble = KubeError("not now", status=503)
    recorder.start()
    recorder.record(event("Preempted", vital=True))
    while not recorder._retries:
        pass
    server.trouble = None
    recorder.stop(10)
    assert server.reasons() == ["Preempted"]


def test_a_day_of_waiting_with_changing_numbers_is_a_handful() -> None:
    """One object, and a few writes of it."""
    server, now = Server(), Time()
    recorder = made(server, now)
    for number in range(24 * 360):  # every ten seconds
        recorder.tell(event("Preempting", f"waits for {number} pods"))
        now.now += 10
    assert len(server.told) == 1
    assert server.calls <= 36
    (one,) = server.told.values()
    assert one["count"] > 8000


def test_the_count_goes_on_in_another_process() -> None:
    server, now = Server(), Time()
    made(server, now).tell(event("Waiting", vital=True))
    (told,) = server.told.values()
    told["count"] = 4
    made(server, now).tell(event("Waiting", vital=True))
    assert [one["count"] for one in server.told.values()] == [5]
