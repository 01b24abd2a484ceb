"""A pin that is refused, or gets no answer and may have been taken: its place is nobody else's until that is known."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paictl.placer import term
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from tests.unit.extender.harness import gang
from tests.unit.placer.test_placing import PatchingServer, Placer

STARTING = KubeError('User "placer" cannot patch resource "pods": RBAC: clusterrole not found', status=403)
"""What an API server answers in its first moments."""


class Mute(PatchingServer):
    """Takes pins and does not answer; with `starting` it refuses all PATCHes."""

    lost: Exception | None = None
    starting = False

    def request(self, method: str, path: str, body: Any = None, **named: object) -> Json:
        if self.starting and method == "PATCH":
            raise STARTING
        found = super().request(method, path, body, **named)
        if self.lost is not None and method == "PATCH" and "spec" in body and named.get("query") is None:
            raise self.lost
        return found


class Unanswered(Placer):
    server_type = Mute
    server: Mute


@pytest.fixture
def placer() -> Unanswered:
    return Unanswered()


def sent(placer: Unanswered, name: str, pods: int, lost: Exception) -> None:
    """A gang whose pins are taken without an answer, and the news of it is not there yet."""
    placer.create(gang(name, pods, 4))
    placer.server.lost = lost
    for pins in placer.place():
        assert not placer.pinner.refused(pins)
        for pin in pins:
            placer.pinner.send(pin)
    placer.server.lost = None


@pytest.mark.parametrize("lost", [NoAnswerError("connection reset"), KubeError("etcdserver: timed out", status=500)])
def test_a_refusal_of_a_starting_api_server_gives_no_place_of_a_pinned_pod_away(
    placer: Unanswered, lost: Exception
) -> None:
    sent(placer, "g", 2, lost)
    held = {name: placer.core.book.pods[f"uid-{name}"].info for name in ("g-0", "g-1")}
    assert all(held.values())
    placer.server.starting = True
    for _ in range(40):
        placer.now += 1
        for pins in placer.place():
            if not placer.pinner.refused(pins):
                for pin in pins:
                    placer.pinner.send(pin)
    assert {name: placer.core.book.pods[f"uid-{name}"].info for name in held} == held, "nobody else can have them"
    placer.server.starting = False
    placer.tell()
    assert {name: placer.core.book.pods[f"uid-{name}"].info for name in held} == held
    assert all(placer.node(name) for name in held)
    assert not placer.core.unsure
    assert "DevicesUnknown" not in {event.reason for event in placer.recorded}


def test_a_pin_that_was_not_taken_is_sent_again(placer: Unanswered) -> None:
    placer.server.refuse |= {"pin g-0": NoAnswerError("refused"), "pin g-1": NoAnswerError("refused")}
    placer.create(gang("g", 2, 4))
    placer.round()
    assert not placer.node("g-0")
    placer.server.refuse.clear()
    placer.round()
    assert not placer.node("g-0"), "it pauses first"
    placer.now += 1
    placer.round()
    assert placer.node("g-0")
    assert placer.node("g-1")
    assert not placer.core.unsure


@pytest.mark.parametrize("words", ["etcdserver: request is too large", 'failed calling webhook "w.example.org"'])
def test_a_pin_that_etcd_or_a_webhook_refuses_holds_no_place_for_ever(placer: Unanswered, words: str) -> None:
    """It was certainly not taken; its owner can have filled the pod up since it was read."""
    placer.server.refuse["pin g-0"] = KubeError(words, status=500)
    placer.create(gang("g", 1, 4))
    placer.round()
    assert not placer.core.unsure
    placer.now += placer.core.options.deadline + 1
    placer.reconciler.reconcile()
    assert not placer.core.book.holds("uid-g-0")


def test_a_gang_that_may_be_pinned_keeps_its_place_though_a_device_turns_bad(placer: Unanswered) -> None:
    sent(placer, "g", 2, NoAnswerError("connection reset"))
    held = {name: placer.core.book.pods[f"uid-{name}"].info for name in ("g-0", "g-1")}
    first = held["g-0"]
    assert first is not None
    for index in placer.core.health.judge_devices(first.node, {first.devices[0]: "gone"}):
        placer.core.book.report_device(first.node, index, False, placer.now)
    placer.now += 1
    placer.place()
    assert {name: placer.core.book.pods[f"uid-{name}"].info for name in held} == held


def test_a_fault_in_a_round_does_not_end_the_placing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its thread nobody would be placed any more, and nobody would learn of it."""
    faults, news = [KeyError("metadata")], threading.Event()
    door = SimpleNamespace(core=SimpleNamespace(news=news), binder=SimpleNamespace(pin_soon=None), ended=False)
    door.remaining = lambda: 60.0

    def place(_core: object, _send: object) -> None:
        news.set()  # the next round need not wait
        if faults:
            raise faults.pop()
        door.ended = True

    monkeypatch.setattr(term, "place_round", place)
    news.set()
    term.PlacerTerm._run(cast("Any", door))
    assert door.ended


@pytest.mark.parametrize(("owner", "there"), [("Job", False), ("MyKind", True)])
def test_a_pin_that_is_refused_is_told_and_counted(placer: Placer, owner: str, there: bool) -> None:
    placer.create(gang("a", 1, 4))
    placer.round()
    made = placer.server.pods["default/a-0"]
    made["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "controller": True}]
    made["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "Insufficient cpu"}
    ]
    placer.tell()
    placer.reconciler.reconcile()
    assert placer.reasons("a-0") == []
    placer.now += 61
    placer.reconciler.reconcile()
    assert placer.reasons("a-0") == ["PinRefused"]
    assert "Insufficient cpu" in placer.recorded[-1].message
    assert placer.core.decisions["pin refused"] == 1
    assert ("default/a-0" in placer.server.pods) is there
