"""Records of decisions: what was recorded comes out the same when played, also after the beginning was dropped."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Allocation, ScheduleResult
from paictl.scheduler.decision import Bind, Phase, Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.playback import OlderRecordError, PlaybackError, PlayedOperation, play
from paictl.scheduler.record import RecordedBook, RecordLimits, checksum, encode
from paictl.scheduler.request import PodRequest
from tests.unit.scheduler.random_configs import random_config
from tests.unit.scheduler.support import NODES, config, pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from paictl.scheduler.decision import BindInfo
    from paictl.scheduler.groups import Group

SPEC = ClusterSpec.from_mapping(config(A={"NODE": 2}, B={"NODE": 2}))


def written(book: RecordedBook) -> dict[str, Any]:
    """The record as it is read from a file."""
    data: dict[str, Any] = json.loads(json.dumps(encode(book.record(), {"door": "test"})))
    return data


def differences(data: Any) -> list[PlayedOperation]:
    return [one for one in play(data) if one.difference]


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """A record with the checksum of what it says now."""
    return data | {"checksum": checksum(data)}


class SparingByName:
    """What groups lose, and which are shielded: by their names, whatever these are, by whom for, and a clock."""

    def __init__(self) -> None:
        self.now = 0

    def loss(self, group: Group, vc: str) -> int:
        return (crc32(f"{vc}/{group.name}".encode()) + self.now) % 30

    def shields(self, group: Group) -> bool:
        return self.loss(group, group.vc) < 6


class Story:
    """A recorded book and whatever may happen to one, at random, as doors have it happen."""

    def __init__(self, pick: Callable[[int], int], limits: RecordLimits | None = None) -> None:
        self.pick = pick
        self.spec = ClusterSpec.from_mapping(random_config(pick))
        self.book = RecordedBook(Engine(self.spec), limits)
        self.count = self.made = 0
        self.now = 1000.0
        self.nodes = list(self.book.engine.state.physical.nodes)
        self.requests: dict[str, PodRequest] = {}
        self.sparing = SparingByName()
        if pick(2):
            self.book.spare(self.sparing)
        for name in self.nodes:
            self.did(partial(self.book.report, name, bool(pick(8)), self.now))

    def did(self, call: Callable[[], object]) -> object:
        self.made += 1
        try:
            return call()
        except RequestError:
            return None

    def step(self) -> None:
        self.now += self.pick(5)
        self.sparing.now += self.pick(4)
        steps = (self.decide,) * 6 + (self.settle,) * 3 + (self.leave,) * 3 + (self.health, self.seen)
        steps[self.pick(len(steps))]()

    def request(self) -> PodRequest:
        """A pod of a new gang, or another of a known one."""
        if self.requests and not self.pick(2):
            known = list(self.requests.values())
            first = known[self.pick(len(known))]
            if not self.pick(2):
                return first
        else:
            vcs = sorted(self.book.engine.state.vcs)
            size = (1, 1, 2, 4)[self.pick(4)]
            self.count += 1
            first = PodRequest(
                "",
                "",
                vcs[self.pick(len(vcs))],
                (-1, 0, 1, 5)[self.pick(4)],
                size,
                f"g{self.count}",
                ((size, 1 + self.pick(3)),),
                lazy_preemption=not self.pick(2),
                ignore_suggested=bool(self.pick(2)),
                repair=not self.pick(4),
            )
        self.count += 1
        made = replace(first, uid=f"p{self.count:03}", name=f"default/p{self.count:03}")
        self.requests[made.uid] = made
        return made

    def decide(self) -> None:
        asked, book = self.request(), self.book
        offered = None if asked.ignore_suggested and self.pick(2) else [one for one in self.nodes if self.pick(4)]
        if self.pick(3):
            self.did(lambda: book.place(asked, offered, self.now))
            return
        phase = (Phase.FILTERING, Phase.PREEMPTING)[self.pick(2)]
        done = self.did(lambda: book.schedule(asked, offered, phase, self.now))
        if isinstance(done, ScheduleResult) and isinstance(done.decision, Bind) and phase is Phase.FILTERING:
            self.did(lambda: book.allocate(asked.uid, self.now))  # at once, as doors do

    def some(self) -> str:
        known = [*self.requests, "nobody"]
        return known[self.pick(len(known))]

    def settle(self) -> None:
        uid, book = self.some(), self.book
        if self.pick(2):
            self.did(lambda: book.bound(uid))
        else:
            self.did(lambda: book.cancel(uid, self.now))

    def leave(self) -> None:
        uid = self.some()
        self.requests.pop(uid, None)
        self.did(lambda: self.book.gone(uid, self.now))

    def health(self) -> None:
        tree, name = self.book.engine.state.physical, self.nodes[self.pick(len(self.nodes))]
        leaf = next(leaf for cell in tree.nodes[name] for leaf in tree.leaves(cell))
        healthy = bool(self.pick(2))
        if self.pick(2):
            self.did(lambda: self.book.report(name, healthy, self.now))
        else:
            self.did(lambda: self.book.report_device(name, tree.device(leaf), healthy, self.now))

    def seen(self) -> None:
        """A pod was seen to run: where it was put, or where another's annotation says."""
        holders = [one for one in self.book.pods.values() if one.info is not None]
        if holders:
            one, other = (holders[self.pick(len(holders))] for _ in range(2))
            info: BindInfo | None = one.info if self.pick(3) else other.info
            assert info is not None
            self.did(lambda: self.book.observe_bound(RunningPod(one.request, info), self.now))


def check(story: Story, limits: RecordLimits | None) -> None:
    data = written(story.book)
    played = list(play(data))
    assert [one for one in played if one.difference] == []
    kept = sum(len(part["operations"]) for part in data["parts"])
    assert len(played) == kept == story.made - data["dropped"]
    if limits is not None:
        assert kept <= 2 * limits.operations + 2, "a plan and what carries it out are not parted"
        assert data["dropped"] == 0 or len(data["parts"]) == 2


def test_what_looks_between_two_operations_settle_is_recorded() -> None:
    """They choose which virtual cells stand for bad hardware, which this story would otherwise choose another way."""
    story = Story(random.Random(1938).randrange, RecordLimits(operations=20))  # noqa: S311 - a test
    for _ in range(120):
        story.step()
    data = written(story.book)
    assert any(row[7] for part in data["parts"] for row in part["operations"])
    check(story, None)


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_was_recorded_is_decided_alike_again(data: Any) -> None:
    limits = data.draw(st.sampled_from([None, RecordLimits(operations=5), RecordLimits(size=9000)]))
    story = Story(lambda n: int(data.draw(st.integers(0, n - 1))), limits)
    for _ in range(data.draw(st.integers(1, 25))):
        story.step()
    check(story, limits if limits is not None and limits.operations == 5 else None)


@pytest.mark.parametrize("seed", range(12))
def test_long_histories_are_decided_alike_again_however_they_are_cut(seed: int) -> None:
    numbers = random.Random(seed)  # noqa: S311 - a test
    limits = RecordLimits(operations=(7, 20, 1000)[seed % 3])
    story = Story(numbers.randrange, limits)
    for count in range(150):
        story.step()
        if not count % 30:
            check(story, limits)
    check(story, limits)
    if limits.operations < 100:
        assert written(story.book)["dropped"] > 50


def test_recovery_preemption_and_a_restart_are_played() -> None:
    book = RecordedBook(Engine(SPEC))
    for name in NODES:
        book.report(name, True, 1.0)
    first = [book.place(pod(f"p{i}", "A", 4, priority=-1), None, 2.0) for i in range(4)]
    assert all(type(one) is Allocation for one in first)
    running = [RunningPod(one.request, one.info) for one in first if isinstance(one, Allocation)]
    new = RecordedBook(Engine(SPEC))
    for name in NODES:
        new.report(name, True, 3.0)
    new.recover(running, 3.0)
    decision = new.place(pod("strong", "A", 4, priority=5), None, 4.0)
    assert not isinstance(decision, Allocation)
    assert isinstance(decision.decision, Preempt)
    (victim,) = (uid for _, uids in decision.decision.victims for uid in uids)
    new.gone(victim, 5.0)
    assert isinstance(new.place(pod("strong", "A", 4, priority=5), None, 6.0), Allocation)
    data = written(new)
    words = [one.recorded.word for one in play(data) if one.kind == "place"]
    assert words == ["preempt", "bind"]
    assert differences(data) == []
    assert next(one for one in play(data) if one.kind == "recover").subject == "4"
    assert [one.recorded.changed for one in play(data) if one.kind == "gone"] != [None]


def test_the_plan_of_a_pod_is_not_parted_from_its_allocation() -> None:
    book = RecordedBook(Engine(SPEC), RecordLimits(operations=1))
    for name in NODES:
        book.report(name, True)
    assert isinstance(book.schedule(pod("p", "A", 4)).decision, Bind)
    book.allocate("p")
    data = written(book)
    assert [row[0] for row in data["parts"][-1]["operations"]] == ["schedule", "allocate"]
    assert differences(data) == []


def test_what_only_confirms_a_decision_is_kept_without_its_annotation() -> None:
    book = RecordedBook(Engine(SPEC))
    book.report(NODES[0], True)
    done = book.place(pod("p", "A", 4))
    assert isinstance(done, Allocation)
    book.observe_bound(RunningPod(done.request, done.info))
    assert book.pods["p"].bound
    assert book.newest()[:3] == ("bound", None, "p")


def test_a_core_that_stops_says_so_in_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    book = RecordedBook(Engine(SPEC))
    book.report(NODES[0], True)

    def broken(*_: object) -> None:
        raise InvariantError("planted")

    monkeypatch.setattr(Engine, "_bind", broken)
    with pytest.raises(InvariantError):
        book.place(pod("p", "A", 4))
    data = written(book)
    assert data["end"] is None
    assert data["parts"][-1]["operations"][-1][5] == ["stopped", "planted", None]
    assert differences(data) == [], "it stops again, by the same fault"
    monkeypatch.undo()
    (difference,) = differences(data)
    assert (difference.recorded.word, difference.computed.word, difference.difference) == ("stopped", "bind", "result")


@pytest.fixture
def data() -> dict[str, Any]:
    """A record of two parts: a gang, a pod that waits, one that is refused."""
    book = RecordedBook(Engine(SPEC), RecordLimits(operations=6))
    for name in NODES:
        book.report(name, True, 1.0)
    for i in range(2):
        book.place(replace(pod(f"g{i}", "A", 4), group="gang", members=((4, 2),)), NODES[: 2 + i], 2.0)
    book.place(pod("waits", "A", 4), None, 3.0)
    with pytest.raises(RequestError):
        book.place(pod("none", "C", 4), None, 3.0)
    return written(book)


def test_the_first_decision_that_differs_is_told(data: dict[str, Any]) -> None:
    assert [len(part["operations"]) for part in data["parts"]] == [6, len(NODES) - 2]
    row = next(row for row in data["parts"][0]["operations"] if row[0] == "place")
    row[5][1]["node"] = "elsewhere"
    played = list(play(sealed(data)))
    last = played[-1]
    assert [one.difference for one in played] == [""] * len(NODES) + ["result"]
    assert (last.number, last.kind, last.pod, last.gang) == (len(NODES) + 1, "place", "default/g0", "gang")
    assert (last.recorded.detail.node, last.computed.detail.node) == ("elsewhere", NODES[0])


def test_other_changes_of_the_state_are_found_without_another_decision(data: dict[str, Any]) -> None:
    whole = json.dumps(data)
    data["parts"][0]["operations"][0][6] += 1
    (difference,) = differences(sealed(data))
    assert (difference.number, difference.difference) == (1, "version")
    data = json.loads(whole)
    data["end"] = "0" * 64
    (difference,) = differences(sealed(data))
    assert difference.difference == "state"
    data = json.loads(whole)
    data["parts"][1]["start"]["engine"]["digest"] = "0" * 64
    (difference,) = differences(sealed(data))
    assert (difference.number, difference.difference) == (6, "state")


@pytest.mark.parametrize("now", [1e300, float("nan"), -1.0])
def test_an_instant_that_cannot_be_is_refused(data: dict[str, Any], now: float) -> None:
    data["parts"][0]["operations"][0][1] = now
    with pytest.raises(PlaybackError, match="not an instant"):
        list(play(sealed(data)))


def test_a_changed_record_and_one_of_another_format_are_told_apart(data: dict[str, Any]) -> None:
    with pytest.raises(PlaybackError, match="checksum"):
        list(play(data | {"dropped": 5}))
    with pytest.raises(OlderRecordError, match="paictl-decisions/0"):
        list(play(sealed(data | {"format": "paictl-decisions/0"})))
    others: tuple[Any, ...] = (None, 5, [], {}, {"format": 3}, {"format": "other"})
    for other in others:
        with pytest.raises(PlaybackError, match="is not a record"):
            list(play(other))


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of everything in a JSON value."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [path, *(one for key, inner in items for one in paths(inner, (*path, key)))]


JUNK: tuple[Any, ...] = (None, -7, "x", [], {}, [[]], True)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_no_damage_gives_more_than_an_error_or_a_difference(data: dict[str, Any], junk: Any) -> None:
    """A fifth of the values of a record, others for each junk, are replaced one after the other."""
    text = json.dumps(data)
    places = [path for path in paths(data) if path and path[0] not in ("checksum", "format")]
    for path in places[JUNK.index(junk) % 5 :: 5]:
        damaged = json.loads(text)
        inner = damaged
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = junk
        with suppress(PlaybackError):
            list(play(sealed(damaged)))


@pytest.mark.parametrize("junk", [junk for junk in (*JUNK, 1.5, ["x"]) if junk not in (None, {})], ids=repr)
def test_what_became_of_groups_is_read_by_name(data: dict[str, Any], junk: Any) -> None:
    """Whoever shows it looks for names in it."""
    data["parts"][0]["operations"][0][5][2] = junk
    with pytest.raises(PlaybackError, match="damaged"):
        list(play(sealed(data)))
