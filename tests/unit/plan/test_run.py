"""Phases in their order, what is told of them, and what a run folder remembers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.errors import PaictlError
from paictl.plan import events
from paictl.plan.events import Event, PhaseBlocked, PhaseSaid, PhaseSkipped, RunBegan, RunEnded
from paictl.plan.folder import EVENTS, RUN, begin_run, forget_runs, unfinished_run
from paictl.plan.run import Phase, PhaseStatus, Tell, carry_out

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@dataclass
class Recorded(Phase):
    """Notes what is asked of it; fails in `at` if that is said."""

    name: str
    diary: list[str]
    wants: tuple[str, ...] = ()
    fails: str = ""
    idle: str = ""
    act: Callable[[], None] = field(default=lambda: None)

    @property
    def id(self) -> str:
        return self.name

    @property
    def title(self) -> str:
        return f"do {self.name}"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.wants)

    def _note(self, what: str) -> None:
        self.diary.append(f"{what} {self.name}")
        if self.fails == what:
            raise PaictlError(f"{what} of {self.name} went wrong", hint="mend it")

    def prepare(self) -> None:
        self._note("prepare")

    def should_run(self) -> str:
        return self.idle

    def run(self, tell: Tell) -> None:
        tell("half way", "host1")
        self._note("run")
        self.act()

    def clean_up(self) -> None:
        self._note("clean")


def test_all_are_prepared_before_one_runs_and_clean_up_in_reverse() -> None:
    diary: list[str] = []
    told: list[Event] = []
    outcomes = carry_out([Recorded("a", diary), Recorded("b", diary)], told.append)
    assert diary == ["prepare a", "prepare b", "run a", "run b", "clean b", "clean a"]
    assert [one.status for one in outcomes] == [PhaseStatus.DONE, PhaseStatus.DONE]
    assert told[0] == RunBegan((("a", "do a"), ("b", "do b")))
    assert PhaseSaid("a", "half way", "host1") in told
    assert told[-1] == RunEnded(True)
    assert [events.from_data(json.loads(json.dumps(events.to_data(event)))) for event in told] == told


def test_what_can_be_known_beforehand_stops_the_run_before_anything_changed() -> None:
    diary: list[str] = []
    told: list[Event] = []
    with pytest.raises(PaictlError, match="prepare of b"):
        carry_out([Recorded("a", diary), Recorded("b", diary, fails="prepare")], told.append)
    assert diary == ["prepare a", "prepare b"]
    assert told[-1] == RunEnded(False)


def test_a_failure_blocks_those_that_need_it_through_others_as_well() -> None:
    diary: list[str] = []
    told: list[Event] = []
    phases = [
        Recorded("a", diary, fails="run"),
        Recorded("b", diary, ("a",)),
        Recorded("c", diary, ("b",)),
        Recorded("d", diary),
        Recorded("e", diary, idle="is so already"),
        Recorded("f", diary, ("e",)),
    ]
    found = {one.phase: one for one in carry_out(phases, told.append)}
    assert [one.status for one in found.values()] == ["failed", "blocked", "blocked", "done", "skipped", "done"]
    assert (found["c"].by, str(found["a"].error)) == ("a", "run of a went wrong")
    assert PhaseBlocked("c", "a") in told
    assert PhaseSkipped("e", "is so already") in told
    assert told[-1] == RunEnded(False)
    assert diary[-3:] == ["clean f", "clean d", "clean a"]


def test_a_phase_that_cannot_clean_up_keeps_no_other_from_it() -> None:
    diary: list[str] = []
    told: list[Event] = []
    carry_out([Recorded("a", diary), Recorded("b", diary, fails="clean")], told.append)
    assert diary[-2:] == ["clean b", "clean a"]
    assert PhaseSaid("b", "could not clean up: clean of b went wrong") in told


def test_who_interrupts_leaves_nothing_behind(tmp_path: Path) -> None:
    diary: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    folder = begin_run(tmp_path, "deploy", {"hosts": 3}, NOON)
    phases = [Recorded("a", diary), Recorded("b", diary, act=interrupt), Recorded("c", diary)]
    with pytest.raises(KeyboardInterrupt):
        carry_out(phases, folder.listener(lambda: NOON))
    assert diary[-2:] == ["clean b", "clean a"]
    assert list(folder.events())[-1] == RunEnded(False, interrupted=True)
    resumed = unfinished_run(tmp_path, "deploy", {"hosts": 3})
    assert resumed is not None
    assert resumed.done() == {"a"}
    diary.clear()
    phases[1].act = lambda: None
    carry_out(phases, resumed.listener(lambda: NOON), done=resumed.done())
    assert [one for one in diary if one.startswith("run")] == ["run b", "run c"]
    assert unfinished_run(tmp_path, "deploy", {"hosts": 3}) is None


def test_another_wish_is_not_resumed_and_a_cut_line_does_not_count(tmp_path: Path) -> None:
    folder = begin_run(tmp_path, "deploy", {"hosts": 3}, NOON)
    assert begin_run(tmp_path, "deploy", {"hosts": 4}, NOON).id == f"{folder.id}-1"
    assert unfinished_run(tmp_path, "deploy", {"hosts": 5}) is None
    assert unfinished_run(tmp_path, "upgrade", {"hosts": 3}) is None
    carry_out([Recorded("a", [])], folder.listener(lambda: NOON))
    path = folder.path / EVENTS
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    assert folder.done() == {"a"}
    assert not folder.finished


def test_no_secret_gets_into_the_folder_and_nobody_else_reads_it(tmp_path: Path) -> None:
    wish = {"password": "hunter2", "of": ["ssh hunter2"]}
    folder = begin_run(tmp_path / "runs", "deploy", wish, NOON, ["hunter2", ""])
    diary: list[str] = []
    phase = Recorded("a", diary)

    def leak() -> None:
        raise PaictlError("hunter2 was refused", where="hunter2@host")

    phase.act = leak
    carry_out([phase], folder.listener(lambda: NOON))
    for path in folder.path.iterdir():
        assert "hunter2" not in path.read_text(encoding="utf-8")
        assert path.stat().st_mode & 0o077 == 0
    assert folder.path.stat().st_mode & 0o077 == 0
    assert "******" in (folder.path / RUN).read_text(encoding="utf-8")
    assert unfinished_run(tmp_path / "runs", "deploy", wish, ["hunter2"]) == folder
    other = {"password": "hunter3", "of": ["ssh hunter3"]}
    again = unfinished_run(tmp_path / "runs", "deploy", other, ["hunter3"])
    assert again is not None, "with a new password it is the same wish"


@dataclass
class Meeting(Phase):
    """Waits until so many are under way at the same time; ends early if it is interrupted."""

    name: str
    room: threading.Barrier | None = None
    wants: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    diary: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    fails: bool = False

    @property
    def id(self) -> str:
        return self.name

    @property
    def title(self) -> str:
        return self.name

    @property
    def needs(self) -> frozenset[str]:
        return self.wants

    @property
    def follows(self) -> frozenset[str]:
        return self.after

    def run(self, tell: Tell) -> None:
        tell("begins", "")
        if self.room is not None:
            self.room.wait(20)
        self.diary.append(self.name)
        if self.fails:
            raise PaictlError("went wrong")

    def interrupt(self) -> None:
        self.stopped.set()


def test_phases_that_need_nothing_of_each_other_are_under_way_together() -> None:
    room = threading.Barrier(3)
    diary: list[str] = []
    told: list[Event] = []
    phases: list[Phase] = [Meeting(name, room, diary=diary) for name in "abc"]
    phases.append(Meeting("last", wants=frozenset("abc"), diary=diary))
    outcomes = carry_out(phases, told.append, workers=4)
    assert [one.status for one in outcomes] == [PhaseStatus.DONE] * 4
    assert [one.phase for one in outcomes] == ["a", "b", "c", "last"], "in the order of the plan"
    assert diary[-1] == "last"
    assert isinstance(told[-1], RunEnded)
    assert [event.phase for event in told if isinstance(event, events.PhaseDone)] == diary


def test_what_fails_blocks_those_that_need_it_and_not_those_that_only_follow_it() -> None:
    diary: list[str] = []
    phases = [
        Meeting("bad", fails=True, diary=diary),
        Meeting("needs", wants=frozenset({"bad"}), diary=diary),
        Meeting("deep", wants=frozenset({"needs"}), diary=diary),
        Meeting("follows", after=frozenset({"bad"}), diary=diary),
    ]
    outcomes = carry_out(phases, workers=4)
    assert [(one.status, one.by) for one in outcomes] == [
        (PhaseStatus.FAILED, ""),
        (PhaseStatus.BLOCKED, "bad"),
        (PhaseStatus.BLOCKED, "bad"),
        (PhaseStatus.DONE, ""),
    ]
    assert diary == ["bad", "follows"]


def test_phases_that_follow_each_other_in_a_circle_are_done_all_the_same() -> None:
    diary: list[str] = []
    phases = [Meeting(one, after=frozenset({other}), diary=diary) for one, other in (("a", "b"), ("b", "a"))]
    assert [one.status for one in carry_out(phases, workers=2)] == [PhaseStatus.DONE] * 2
    assert diary == ["a", "b"]


def test_who_interrupts_stops_those_under_way_and_nothing_more_begins() -> None:
    """What a phase raises that is no error of ours ends the run as Ctrl-C does."""
    diary: list[str] = []

    class Waits(Meeting):
        def run(self, tell: Tell) -> None:
            tell("waits", "")
            assert self.stopped.wait(20), "nobody said so"

    class Breaks(Meeting):
        def run(self, tell: Tell) -> None:
            tell("breaks", "")
            raise KeyboardInterrupt

    waits = Waits("waits")
    never = Meeting("never", wants=frozenset({"waits"}), diary=diary)
    told: list[Event] = []
    with pytest.raises(KeyboardInterrupt):
        carry_out([waits, Breaks("breaks"), never], told.append, workers=3)
    assert diary == []
    assert told[-1] == RunEnded(ok=False, interrupted=True)


@given(st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=1, max_size=8), st.integers(2, 8))
def test_whatever_is_needed_has_ended_before(wants: list[set[int]], workers: int) -> None:
    diary: list[str] = []
    phases = [
        Meeting(str(number), wants=frozenset(str(one) for one in needs if one < number), diary=diary)
        for number, needs in enumerate(wants)
    ]
    carry_out(phases, workers=workers)
    assert sorted(diary) == sorted(phase.id for phase in phases)
    for phase in phases:
        assert all(diary.index(need) < diary.index(phase.id) for need in phase.needs)


def test_old_runs_of_a_kind_are_forgotten_and_others_stay(tmp_path: Path) -> None:
    forget_runs(tmp_path / "none", "service-", keep=1)
    for second in range(5):
        begin_run(tmp_path, "service-start" if second % 2 else "service-stop", {}, NOON.replace(second=second))
    begin_run(tmp_path, "deploy", {}, NOON)
    forget_runs(tmp_path, "service-", keep=2)
    left = sorted(path.name.partition("-")[2] for path in tmp_path.iterdir())
    assert left == ["deploy", "service-start", "service-stop"]
    assert sorted(path.name for path in tmp_path.glob("*-service-*"))[0].startswith("20260105T120003")
    forget_runs(tmp_path, "service-", keep=2)
    assert len(list(tmp_path.iterdir())) == 3
