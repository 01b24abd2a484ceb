"""What a book was told and what it answered, in order: enough to make every decision again.

A `RecordedBook` keeps its newest operations, preceded by a copy of the state that they began with. When there are too
many, the older half is dropped: the newer half begins with a copy of its own. An operation is kept as references to
values that never change; they are turned into text only on request (`encode`). `playback` is the counterpart.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from paictl.frozen import frozen
from paictl.scheduler.book import Allocation, Book, BookedPod, Insist, ScheduleResult, ignored
from paictl.scheduler.decision import Bind, BindInfo, Phase, Preempt, Wait
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.events import GroupChange
from paictl.scheduler.snapshot import StateCopy, copy_state, dump_copy
from paictl.scheduler.wire import bind_info_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.events import Outcome, RunningPod
    from paictl.scheduler.groups import Group, GroupState
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.sparing import Sparing

Json = dict[str, Any]
T = TypeVar("T")

FORMAT: Final = "paictl-decisions/1"
BASE: Final = 800
"""Bytes of memory of an operation: its own and, roughly, those of a request and a place that only it may reference."""
_LARGE: Final = frozenset({"recover", "seen"})
"""Kinds of operations with annotations of their own."""


@frozen
class RecordLimits:
    """What half of a record may hold; a record has at most twice as much, since it is dropped by halves."""

    operations: int = 4096
    size: int = 4 << 20
    """Bytes of memory without the copies of the state, roughly."""


class OperationResult(NamedTuple):
    """The result of an operation.

    `word` is ``bind``, ``insist``, ``preempt``, ``wait``, ``refused``, ``stopped`` or ``ok``; `detail` is the bind
    annotation, the victims by node, the reason (until it is written, the `Wait`), or how many events were ignored.
    `changed` says by group how it changed, in words once it is written.
    """

    word: str
    detail: Any = None
    changed: Any = None

    def settled(self) -> OperationResult:
        """The same with the reason of a `Wait`, and with words for the changes of groups."""
        detail = self.detail.reason if isinstance(self.detail, Wait) else self.detail
        changed = {name: _words(*rest) for name, *rest in self.changed} if self.changed else None
        return OperationResult(self.word, detail, changed)


_Change = tuple[str, "GroupState | None", "GroupState | None", str | None]

Losses = dict[str, tuple[int | None, bool | None]]
"""What the core was told about running groups: what they lose if they go, and whether they are shielded."""


class RecordedOperation(NamedTuple):
    """One call of a book: `subject` are its arguments, `version` is the engine's afterwards."""

    kind: str
    now: float | None
    subject: Any
    offered: tuple[str, ...] | None
    """Names that were added or removed since the last operation with offered nodes; None: all nodes are offered."""
    losses: Losses | None
    result: OperationResult
    version: int
    settled: bool
    """Whether the state was read before this operation, which settled what the last operation had left open.

    Which virtual cells stand for bad hardware depends on when that happened.
    """


@frozen
class BookCopy:
    """A book at one moment."""

    state: StateCopy
    pods: Mapping[str, BookedPod]
    health: Mapping[str, bool]
    bad_devices: frozenset[tuple[str, int]]


@frozen
class RecordCopy:
    """A record at one moment, to be written without holding the lock.

    Of each part the state that it began with (None: the empty one) and its operations; `end` is the state after the
    last, None if the engine had stopped.
    """

    spec: ClusterSpec
    dropped: int
    parts: tuple[tuple[BookCopy | None, tuple[RecordedOperation, ...]], ...]
    end: StateCopy | None


class NotedSparing:
    """A `Sparing` whose answers are noted while an operation lasts."""

    def __init__(self, sparing: Sparing) -> None:
        self._sparing = sparing
        self.losses: Losses | None = None

    def loss(self, group: Group, vc: str) -> int:
        """What is lost if the group gives way to a virtual cluster: that of the operation's pod."""
        loss = self._sparing.loss(group, vc)
        if self.losses is not None:
            self.losses[group.name] = loss, self.losses.get(group.name, (None, None))[1]
        return loss

    def shields(self, group: Group) -> bool:
        """Whether the group has run for less than its minimum run time."""
        shielded = self._sparing.shields(group)
        if self.losses is not None:
            self.losses[group.name] = self.losses.get(group.name, (None, None))[0], shielded
        return shielded


class _Part:
    """Operations after a state."""

    def __init__(self, start: BookCopy | None) -> None:
        self.start = start
        self.operations: list[RecordedOperation] = []
        self.size = 0
        self.engine_names: Collection[str] = ()
        """The names of the last operation that had some: the engine's own object, to compare by identity."""
        self.offered: frozenset[str] = frozenset()
        """The same names."""


class RecordedBook(Book):
    """A book that records what happens to it; needs the same lock."""

    def __init__(self, engine: Engine, limits: RecordLimits | None = None) -> None:
        super().__init__(engine)
        self._limits = limits or RecordLimits()
        self._parts = [_Part(None)]
        self._dropped = 0
        self._inside = False
        self._left_open = False
        """Whether the last operation left doomed cells to be settled."""
        self._sparing: NotedSparing | None = None

    def spare(self, sparing: Sparing) -> None:
        """Make this decide who is spared."""
        self._sparing = self.engine.sparing = NotedSparing(sparing)

    def record(self) -> RecordCopy:
        """The record as it is now."""
        parts = tuple((part.start, tuple(part.operations)) for part in self._parts)
        end = None if self.engine.stopped else copy_state(self.engine)
        return RecordCopy(self.engine.spec, self._dropped, parts, end)

    def newest(self) -> RecordedOperation:
        """The operation that was recorded last. Raises `IndexError` if there is none."""
        return self._parts[-1].operations[-1]

    # --- recorded operations

    def report(self, node: str, healthy: bool, now: float | None = None) -> list[Outcome]:
        """As `Book.report`."""
        return self._recorded("node", now, (node, healthy), lambda: Book.report(self, node, healthy, now))

    def report_device(self, node: str, device: int, healthy: bool, now: float | None = None) -> list[Outcome]:
        """As `Book.report_device`."""
        subject = node, device, healthy
        return self._recorded("device", now, subject, lambda: Book.report_device(self, node, device, healthy, now))

    def schedule(
        self,
        request: PodRequest,
        suggested: Collection[str] | None = None,
        phase: Phase = Phase.FILTERING,
        now: float | None = None,
    ) -> ScheduleResult:
        """As `Book.schedule`."""
        subject = request, phase
        return self._recorded(
            "schedule", now, subject, lambda: Book.schedule(self, request, suggested, phase, now), suggested
        )

    def place(
        self, request: PodRequest, suggested: Collection[str] | None = None, now: float | None = None
    ) -> ScheduleResult | Allocation:
        """As `Book.place`."""
        return self._recorded("place", now, request, lambda: Book.place(self, request, suggested, now), suggested)

    def allocate(self, uid: str, now: float | None = None) -> Allocation:
        """As `Book.allocate`."""
        return self._recorded("allocate", now, uid, lambda: Book.allocate(self, uid, now))

    def bound(self, uid: str) -> bool:
        """As `Book.bound`."""
        return self._recorded("bound", None, uid, lambda: Book.bound(self, uid))

    def observe_bound(self, pod: RunningPod, now: float | None = None) -> list[Outcome]:
        """As `Book.observe_bound`; what only confirms a decision is recorded as ``bound``."""
        booked = self.pods.get(pod.request.uid)
        if booked is not None and booked.info == pod.info:
            self.bound(pod.request.uid)
            return []
        return self._recorded("seen", now, pod, lambda: Book.observe_bound(self, pod, now))

    def cancel(self, uid: str, now: float | None = None) -> list[Outcome]:
        """As `Book.cancel`."""
        return self._recorded("cancel", now, uid, lambda: Book.cancel(self, uid, now))

    def gone(self, uid: str, now: float | None = None) -> list[Outcome]:
        """As `Book.gone`."""
        return self._recorded("gone", now, uid, lambda: Book.gone(self, uid, now))

    def recover(self, pods: Iterable[RunningPod], now: float | None = None) -> list[Outcome]:
        """As `Book.recover`."""
        running = tuple(pods)
        return self._recorded("recover", now, running, lambda: Book.recover(self, running, now))

    # --- recording

    def _recorded(
        self, kind: str, now: float | None, subject: Any, call: Callable[[], T], offered: Collection[str] | None = None
    ) -> T:
        """Carry out an operation and record it, but not the operations that it makes in turn."""
        if self._inside:
            return call()
        part = self._parts[-1]
        if kind != "allocate" and (  # it carries out the plan of the previous call, and copies have no plans
            len(part.operations) >= self._limits.operations or part.size >= self._limits.size
        ):
            part = self._begin_part()
        if self._sparing is not None:
            self._sparing.losses = {}
        settled = self._left_open and self.engine.is_settled
        self._inside = True
        try:
            returned = call()
        except RequestError as error:
            self._append(part, kind, now, subject, offered, OperationResult("refused", error.message), settled)
            raise
        except InvariantError as error:
            self._append(part, kind, now, subject, offered, OperationResult("stopped", str(error)), settled)
            raise
        finally:
            self._inside = False
        self._append(part, kind, now, subject, offered, _result(returned), settled)
        return returned

    def _append(
        self,
        part: _Part,
        kind: str,
        now: float | None,
        subject: Any,
        offered: Collection[str] | None,
        result: OperationResult,
        settled: bool,
    ) -> None:
        losses = None
        if self._sparing is not None:
            losses, self._sparing.losses = self._sparing.losses or None, None
        # the engine keeps the names that it used; if it used none, any will do
        change = None if offered is None else _change(part, self.engine.offered)
        version, self._left_open = self.engine.version, not self.engine.is_settled
        part.operations.append(RecordedOperation(kind, now, subject, change, losses, result, version, settled))
        part.size += BASE
        if change or losses or result.changed or kind in _LARGE or result.word == "preempt":
            part.size += _size(part.operations[-1])

    def _begin_part(self) -> _Part:
        """Drop the older part, and begin a new one with the current state."""
        start = BookCopy(copy_state(self.engine), self.pods.copy(), self.health.copy(), frozenset(self.bad_devices))
        self._dropped += sum(len(part.operations) for part in self._parts[:-1])
        self._parts = [self._parts[-1], _Part(start)]
        return self._parts[-1]


def _change(part: _Part, offered: Collection[str]) -> tuple[str, ...]:
    """The names by which these differ from those offered last, in any order."""
    if offered is part.engine_names:
        return ()
    names = offered if isinstance(offered, frozenset) else frozenset(offered)
    withdrawn = part.offered - names
    new = names - part.offered if len(part.offered) - len(withdrawn) != len(names) else ()
    part.engine_names, part.offered = offered, names
    return (*withdrawn, *new)


def _result(returned: object) -> OperationResult:
    """What to record of a returned value."""
    if type(returned) is Allocation:
        return OperationResult("bind", returned.info, _changed(returned.outcomes))
    if type(returned) is list:
        return OperationResult("ok", len(ignored(returned)), _changed(returned))
    if type(returned) is not ScheduleResult:
        return OperationResult("ok")
    changed = _changed(returned.outcomes) if returned.outcomes else None
    match returned.decision:
        case Wait() as wait:
            return OperationResult("wait", wait, changed)
        case Preempt(victims=victims):
            return OperationResult("preempt", victims, changed)
        case Insist():
            return OperationResult("insist", returned.info, changed)
        case Bind():
            return OperationResult("bind", returned.info, changed)


def _changed(outcomes: Iterable[Outcome]) -> list[_Change] | None:
    """Groups whose state or preemptor changed: name, state before and after, and the group that has its guarantee.

    Not the groups themselves, which are large; nor text, which takes longer to make than everything else here.
    """
    changes: list[_Change] | None = None
    for outcome in outcomes:
        if isinstance(outcome, GroupChange):
            before, after = outcome.before, outcome.after
            if before is None or after is None:
                row: _Change = outcome.name, before.state if before else None, after.state if after else None, None
            elif before.state is not after.state or before.preemptor != after.preemptor:
                row = outcome.name, before.state, after.state, after.preemptor
            else:
                continue
            changes = [row] if changes is None else [*changes, row]
    return changes


def _words(before: GroupState | None, after: GroupState | None, preemptor: str | None) -> str:
    change = f"{before or 'none'} -> {after or 'none'}"
    return f"{change}, guarantee taken by {preemptor}" if preemptor else change


def _size(operation: RecordedOperation) -> int:
    """Roughly the bytes that are kept for an operation alone, beyond `BASE`."""
    _, _, subject, offered, losses, result, _, _ = operation
    size = 60 * len(offered or ()) + 160 * len(losses or ()) + 160 * len(result.changed or ())
    if operation.kind == "recover":
        size += sum(BASE + _info_size(pod.info) for pod in subject)
    elif operation.kind == "seen":
        size += _info_size(subject.info)
    if result.word == "preempt":
        size += 100 * sum(len(uids) for _, uids in result.detail)
    return size


def _info_size(info: BindInfo) -> int:
    return 250 * sum(map(len, info.members))


# --- writing


def encode(record: RecordCopy, about: Mapping[str, Any]) -> Json:
    """A record as JSON values: the configuration, and by part the state that it began with and its operations.

    `about` are JSON values that say where the record comes from. Requests and the places of gangs are written once and
    referred to by number. A book knows no environment, label, command or token of a pod, so none can be in a record.
    """
    writer = _Writer()
    parts = [
        {
            "start": None if start is None else writer.book(start),
            "operations": [writer.operation(operation) for operation in operations],
        }
        for start, operations in record.parts
    ]
    data = {
        "format": FORMAT,
        "about": dict(about),
        "configuration": record.spec.to_mapping(),
        "dropped": record.dropped,
        "requests": writer.requests,
        "places": writer.places,
        "parts": parts,
        "end": None if record.end is None else record.end.digest(),
    }
    return data | {"checksum": checksum(data)}


def checksum(data: Mapping[str, Any]) -> str:
    """A hash of a record without its own checksum; detects damage, but does not authenticate."""
    content = {name: value for name, value in data.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class _Writer:
    """Values by number."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self.places: list[list[Json]] = []
        self._requests: dict[PodRequest, int] = {}
        self._places: dict[Any, int] = {}
        self._numbers_by_id: dict[int, tuple[object, int]] = {}
        """By `id`, along with the object, which keeps the id its own: the rows of a large gang are hashed once."""

    def request(self, request: PodRequest) -> int:
        """The number of a request."""
        number = self._requests.setdefault(request, len(self.requests))
        if number == len(self.requests):
            self.requests.append(asdict(request))
        return number

    def info(self, info: BindInfo) -> Json:
        """A bind annotation with the number of its gang's places."""
        numbered = self._numbers_by_id.get(id(info.members))
        if numbered is None:
            number = self._places.setdefault(info.members, len(self.places))
            if number == len(self.places):
                self.places.append(bind_info_json(info)["affinityGroupBindInfo"])
            numbered = self._numbers_by_id[id(info.members)] = info.members, number
        return bind_info_json(replace(info, members=())) | {"affinityGroupBindInfo": numbered[1]}

    def book(self, book: BookCopy) -> Json:
        """A state."""
        return {
            "engine": dump_copy(book.state),
            "health": dict(book.health),
            "badDevices": sorted(map(list, book.bad_devices)),
            "pods": [
                [self.request(pod.request), None if pod.info is None else self.info(pod.info), pod.bound]
                for pod in book.pods.values()
            ],
        }

    def operation(self, operation: RecordedOperation) -> list[Any]:
        """An operation as a row of its fields."""
        kind, now, subject, offered, losses, result, version, settled = operation
        return [
            kind,
            now,
            self._subject(kind, subject),
            None if offered is None else sorted(offered),
            None if losses is None else {name: list(pair) for name, pair in losses.items()},
            self._result(result),
            version,
            settled,
        ]

    def _subject(self, kind: str, subject: Any) -> Any:
        match kind:
            case "place":
                return self.request(subject)
            case "schedule":
                return [self.request(subject[0]), str(subject[1])]
            case "seen":
                return [self.request(subject.request), self.info(subject.info)]
            case "recover":
                return [[self.request(pod.request), self.info(pod.info)] for pod in subject]
            case _:
                return list(subject) if isinstance(subject, tuple) else subject

    def _result(self, result: OperationResult) -> list[Any]:
        word, detail, changed = result.settled()
        if isinstance(detail, BindInfo):
            detail = self.info(detail)
        elif word == "preempt":
            detail = [[node, list(uids)] for node, uids in detail]
        return [word, detail, None if changed is None else dict(changed)]
