"""Pods about which the API server never answers, as while a webhook for their namespace hangs, hold up no others."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.maintenance import KEY, windows_text
from paictl.doors import housekeeping, reconciler
from paictl.doors.core import DoorOptions
from paictl.doors.gangs import AFTER
from paictl.doors.table import PodRef
from paictl.remote.kube.client import READ, NoAnswerError
from paictl.units import Millis
from paictl.workload.windows import Window, Windows
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import FakeServer, Harness, gang
from tests.unit.extender.test_repair import away, lost

ROUNDS = 12


class Hanging(FakeServer):
    """Does not answer about some pods until the client gives up."""

    silent: frozenset[str] = frozenset()
    seconds = 0.0
    """How long it takes for each other answer."""
    harness: Harness

    def request(self, method: str, path: str, body: Any = None, **named: object) -> Any:
        name = path.split("/")[6] if "/pods/" in path else ""
        if name in self.silent and method != "GET":
            self.harness.now += READ
            raise NoAnswerError("timed out")
        self.harness.now += self.seconds
        return super().request(method, path, body, **named)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setattr(reconciler, "PERIOD", 0.0)
    made = Harness(spec(), DoorOptions(bad_device_deadline=60))
    made.server = server = Hanging()
    server.harness = made
    made.begin(spec())
    made.open(NODES)
    return made


def silence(harness: Harness, *names: str) -> None:
    assert isinstance(harness.server, Hanging)
    harness.server.silent = frozenset(names)


def rounds(harness: Harness) -> None:
    for _ in range(ROUNDS):
        harness.reconciler.round()
        harness.now += 0.5


def borrowed(harness: Harness) -> list[str]:
    """Names of the opportunistic pods that have to go for others: all four nodes are theirs, and wanted back."""
    names = [f"borrower{number}-0" for number in range(4)]
    for number in range(4):
        harness.run(gang(f"borrower{number}", 1, 4, "A", -1)[0])
    for name, vc in (("a0", "A"), ("a1", "A"), ("a2", "A"), ("b", "B")):
        assert not harness.ask(gang(name, 1, 4, vc)[0]).names
    return names


@pytest.mark.parametrize("silent", [1, 2, 3])
def test_victims_about_which_nobody_answers_hold_up_no_other_preemption(hanging: Harness, silent: int) -> None:
    names = borrowed(hanging)
    silence(hanging, *names[:silent])
    rounds(hanging)
    assert {call.split()[-1] for call in hanging.evictions()} == set(names[silent:])


def test_many_preemptions_of_one_virtual_cluster_hold_up_neither_another_nor_repairs(hanging: Harness) -> None:
    """Names decide in which order groups are looked at, and tenants choose them."""
    for number in range(8):
        hanging.run(gang(f"borrower{number}", 1, 2, "A", -1)[0])
    for name, vc in (*((f"a{number}", "A") for number in range(6)), ("z", "B")):
        assert not hanging.ask(gang(name, 1, 2, vc)[0]).names
    server = hanging.server
    assert isinstance(server, Hanging)
    server.seconds = 0.5
    hanging.reconciler.round()
    assert len(hanging.evictions()) == 2, "one for each"
    (mine,) = (group for group in hanging.core.book.engine.state.groups.by_name.values() if group.vc == "B")
    victims = {uid for _, uids in hanging.core.book.engine.victims(mine.leaves()) for uid in uids}
    assert {f"uid-{call.split()[-1]}" for call in hanging.evictions()} & victims
    rounds(hanging)
    assert len({*hanging.evictions()}) == 7, "and all others have their turn"


def test_of_one_virtual_cluster_the_most_urgent_preemption_comes_first(hanging: Harness) -> None:
    for number in range(4):
        hanging.run(gang(f"borrower{number}", 1, 4, "A", -1)[0])
    for name, priority in (("a", 0), ("b", 5), ("z", 100)):
        assert not hanging.ask(gang(name, 1, 4, "A", priority)[0]).names
    assert [row.group for row in housekeeping.preemptions(hanging.core)] == ["default/z", "default/b", "default/a"]
    seen = {"default/z": 2.0, "default/b": 1.0}
    rows = housekeeping.preemptions(hanging.core, seen)
    assert [row.group for row in rows] == ["default/a", "default/b", "default/z"], "but each has its turn"


def test_a_preemption_about_which_nobody_answers_does_not_make_others_be_remembered(hanging: Harness) -> None:
    """A pod that is to go again later must not find that it was asked long ago: its budget would be overruled."""
    names = borrowed(hanging)
    silence(hanging, names[0])
    rounds(hanging)
    for name in names[1:]:
        hanging.core.pod_gone(f"uid-{name}")
    hanging.reconciler.round()
    assert hanging.reconciler._attempts.keys() == {f"uid-{names[0]}"}


@pytest.mark.parametrize("silent", [1, 2, 3])
def test_gangs_about_which_nobody_answers_hold_up_no_others_that_leave_a_node(hanging: Harness, silent: int) -> None:
    names = [f"a{number}-0" for number in range(3)] + ["b-0"]
    for name in names:
        hanging.run(gang(name[:-2], 1, 4, "B" if name == "b-0" else "A")[0])
    start = Millis(int(1000 * hanging.now))
    window = Window("disks", tuple(NODES), start, Millis(start + 10_000_000))
    hanging.core.windows_changed({"data": {KEY: windows_text(Windows((window,)))}})
    silence(hanging, *names[:silent])
    rounds(hanging)
    assert {call.split()[-1] for call in hanging.evictions()} == set(names[silent:])


def test_members_about_which_nobody_answers_hold_up_no_other_repair(hanging: Harness) -> None:
    for name in ("a", "b", "c"):
        for made in gang(name, 2, 2, memberRepairEnable=True):
            hanging.run(made)
    for node in NODES:
        away(hanging, node)
    hanging.now += AFTER
    silence(hanging, "a-0", "a-1", "b-0")
    rounds(hanging)
    assert {call for call in lost(hanging) if call.startswith("DELETE")} == {
        "DELETE pod b-1",
        "DELETE pod c-0",
        "DELETE pod c-1",
    }


def test_waiting_pods_about_which_nobody_answers_keep_nobody_waiting(hanging: Harness) -> None:
    """All of them would get devices now, and kube-scheduler is to ask again about each."""
    (mine,) = gang("mine", 1, 4, "B")
    others = [gang(f"other{number}", 1, 4)[0] for number in range(3)]
    for made in others:
        made["metadata"]["namespace"] = "other"
    for made in (*others, mine):
        assert hanging.ask(made).names
        entry = hanging.core.table.by_uid[made["metadata"]["uid"]]
        hanging.core.book.cancel(entry.ref.uid)
        entry.cached, entry.assumed = None, 0.0
    silence(hanging, *(made["metadata"]["name"] for made in others))
    hanging.now += 100
    for _ in range(2):
        hanging.reconciler.round()
        hanging.now += 0.5
    assert "PATCH pod mine-0" in hanging.server.calls


def test_a_fault_in_preempting_keeps_nobody_from_being_repaired(
    hanging: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    for made in gang("g", 2, 4, memberRepairEnable=True):
        hanging.run(made)
    monkeypatch.setattr(housekeeping, "preemptions", broken)
    away(hanging, "n1")
    hanging.now += AFTER
    hanging.reconciler.round()
    assert lost(hanging) == ["PATCH status g-1", "DELETE pod g-1"]
    assert "a fault of ours" in caplog.text


def test_a_doubtful_pod_that_raises_a_fault_keeps_no_other_from_being_asked_about(
    hanging: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        assert hanging.ask(gang(name, 1, 4)[0]).names
    hanging.now += 1000
    check, checked = hanging.reconciler._check, list[str]()

    def faulty(ref: PodRef) -> None:
        if ref.name == "a-0":
            raise RuntimeError("a fault of ours")
        checked.append(ref.name)
        check(ref)

    monkeypatch.setattr(hanging.reconciler, "_check", faulty)
    rounds(hanging)
    assert {"b-0", "c-0"} <= {*checked}
