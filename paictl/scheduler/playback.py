"""Makes the decisions of a record again, up to the first that differs.

Everything is computed from the record alone. A record comes from a file that anyone may have written: what cannot be
played raises a `PlaybackError` that says where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from paictl.cells.spec import ClusterSpec
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.scheduler import snapshot
from paictl.scheduler.book import BookedPod
from paictl.scheduler.decision import BindInfo, Phase
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.record import FORMAT, OperationResult, RecordedBook, RecordedOperation, RecordLimits, checksum
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import isolation_text, read_bind_info

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group
    from paictl.scheduler.record import Losses

_WRONG: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RequestError)
"""What reading raises for a value that does not have the shape that `encode` writes."""
_LATEST: Final = 253_402_300_799
"""The last second of the year 9999, as Unix time."""
_ENDLESS: Final = RecordLimits(operations=1 << 62, size=1 << 62)


class PlaybackError(PaictlError, ValueError):
    """The data is not a record, or cannot be played; `where` is the place in it."""


class OlderRecordError(PlaybackError):
    """The record is of another format."""


@frozen
class PlayedOperation:
    """An operation as it was recorded, and its result now.

    `pod` is ``namespace/name`` (the uid of a pod that the record does not name), empty where the operation is about a
    node or many pods; `subject` is what it is about, in words. `difference` says which part differs: ``result``,
    ``version`` (the state changed in one case only), or ``state``; empty if none does.
    """

    number: int
    """From 1; counts operations that were dropped from the beginning of the record."""
    kind: str
    now: float | None
    subject: str
    pod: str
    gang: str
    recorded: OperationResult
    computed: OperationResult
    difference: str
    spec: ClusterSpec
    """The specification with which it was carried out."""


def play(data: Any) -> Iterator[PlayedOperation]:
    """Carry out the operations of a record one by one; ends after the first whose result differs.

    Raises `PlaybackError` for data that is not a record, or damaged.
    """
    reader = _checked_reader(data)
    try:
        yield from _play_parts(data, reader)
    except PlaybackError:
        raise
    except _WRONG as error:
        raise PlaybackError(f"the record is damaged ({type(error).__name__}: {error})") from None


def _play_parts(data: Mapping[str, Any], reader: _Reader) -> Iterator[PlayedOperation]:
    number = reader.dropped
    book: RecordedBook | None = None
    for index, part in enumerate(data["parts"]):
        where = f"parts[{index}]"
        rows = reader.rows(part, where)
        if book is None:
            book = reader.book(part["start"], where)
        elif mismatch := _state_mismatch(number, book, part["start"]["engine"]["digest"]):
            yield mismatch
            return
        player = _Player(book, reader)
        for row_index, row in enumerate(rows):
            number += 1
            played = player.play(number, row, f"{where}.operations[{row_index}]")
            yield played
            if played.difference:
                return
    if book is not None and data["end"] is not None and (mismatch := _state_mismatch(number, book, data["end"])):
        yield mismatch


def _state_mismatch(number: int, book: RecordedBook, digest: object) -> PlayedOperation | None:
    """A played operation that says that the state differs; None if the state has this digest."""
    if book.engine.stopped or book.engine.state.digest() == digest:
        return None
    nothing = OperationResult("ok")  # the results of all operations agree: what differs is their effect on the state
    return PlayedOperation(number, "state", None, "", "", "", nothing, nothing, "state", book.engine.spec)


def _checked_reader(data: Any) -> _Reader:
    if not isinstance(data, dict) or not str(data.get("format", "")).startswith(FORMAT.partition("/")[0]):
        raise PlaybackError("is not a record of decisions")
    if data["format"] != FORMAT:
        raise OlderRecordError(f"the record has the format {data['format']}, expected {FORMAT}")
    if data.get("checksum") != checksum(data):
        raise PlaybackError("the record was changed after it was made, or is not complete: its checksum differs")
    try:
        return _Reader(data)
    except PlaybackError:
        raise
    except (*_WRONG, PaictlError) as error:
        raise PlaybackError(f"the record is damaged ({type(error).__name__}: {error})") from None


class _Reader:
    """The values of a record."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.dropped = int(data["dropped"])
        self._spec = ClusterSpec.from_mapping(data["configuration"])
        self.requests = [
            PodRequest(**{**fields, "members": tuple((leaves, pods) for leaves, pods in fields["members"])})
            for fields in data["requests"]
        ]
        self._places = data["places"]
        self._members: dict[int, tuple[Any, ...]] = {}
        self.by_uid = {request.uid: request for request in self.requests}
        if not isinstance(data["parts"], list) or "end" not in data:
            raise ValueError("it has no parts")

    def rows(self, part: Any, where: str) -> list[Any]:
        """The operations of a part."""
        if not isinstance(part, dict) or not isinstance(part.get("operations"), list) or "start" not in part:
            raise PlaybackError("is not a part of a record", where=where)
        rows: list[Any] = part["operations"]
        return rows

    def book(self, start: Any, where: str) -> RecordedBook:
        """A book with the state that a part begins with."""
        try:
            if start is None:
                return RecordedBook(Engine(self._spec), _ENDLESS)
            book = RecordedBook(snapshot.restore(self._spec, start["engine"]), _ENDLESS)
            pods = {}
            for number, info, bound in start["pods"]:
                request = self.requests[number]
                pods[request.uid] = BookedPod(request, None, None if info is None else self.info(info), bool(bound))
            health = {str(name): bool(healthy) for name, healthy in start["health"].items()}
            book.resume(pods, health, [(str(node), int(device)) for node, device in start["badDevices"]])
        except (*_WRONG, PaictlError) as error:
            raise PlaybackError(f"the state is damaged ({type(error).__name__}: {error})", where=where) from None
        return book

    def info(self, written: Mapping[str, Any]) -> BindInfo:
        """A bind annotation; the annotations of one gang share its places."""
        number = written["affinityGroupBindInfo"]
        head = read_bind_info({**written, "affinityGroupBindInfo": []})
        if number not in self._members:
            whole = read_bind_info({**written, "affinityGroupBindInfo": self._places[number]})
            self._members[number] = whole.members
        return replace(head, members=self._members[number])

    def result(self, written: Any) -> OperationResult:
        """The recorded result of an operation."""
        word, detail, changed = written
        if changed is not None:
            changed = dict(changed.items())
        if word in ("bind", "insist"):
            detail = self.info(detail)
        elif word == "preempt":
            detail = tuple((node, tuple(uids)) for node, uids in detail)
        return OperationResult(word, detail, changed)


class _PlayedSparing:
    """Gives the recorded answers; a question that was not recorded gets a neutral one, and the decision differs."""

    def __init__(self) -> None:
        self.losses: Losses = {}

    def loss(self, group: Group, vc: str) -> int:  # noqa: ARG002 - that of the operation's pod
        """What is lost if the group gives way to a virtual cluster."""
        return self.losses.get(group.name, (None, None))[0] or 0

    def shields(self, group: Group) -> bool:
        """Whether the group has run for less than its minimum run time."""
        return bool(self.losses.get(group.name, (None, None))[1])


class _Player:
    """Operations on a book."""

    def __init__(self, book: RecordedBook, reader: _Reader) -> None:
        self._book = book
        self._reader = reader
        self._offered: frozenset[str] = frozenset()
        self._sparing = _PlayedSparing()

    def play(self, number: int, row: Any, where: str) -> PlayedOperation:
        """Carry out one operation; raises `PlaybackError` if the row is not one."""
        try:
            kind, now, subject, offered, losses, result, version, settled = row
            recorded = self._reader.result(result)
            names = self._names(offered)
            self._sparing.losses = {name: (pair[0], pair[1]) for name, pair in (losses or {}).items()}
            # no recorded answers: the rules were off, or not needed
            self._book.engine.sparing = self._sparing if losses else None
            if now is not None and not 0 <= float(now) <= _LATEST:  # NaN is neither
                raise ValueError("not an instant")
            call, request = self._call(kind, None if now is None else float(now), subject, names)
        except PlaybackError:
            raise
        except _WRONG as error:
            raise PlaybackError(f"the operation is damaged ({type(error).__name__}: {error})", where=where) from None
        if settled and not self._book.engine.is_settled:
            self._book.engine.state.doomed.settle()  # as it was then: someone looked at the state at this moment
        computed = self._carry_out(call, where)
        difference = "result" if computed != recorded else "version" if self._book.engine.version != version else ""
        pod, gang = ("", "") if request is None else (request.name, request.group)
        description = pod or self._describe_subject(kind, subject)
        return PlayedOperation(
            number, kind, now, description, pod, gang, recorded, computed, difference, self._book.engine.spec
        )

    def _carry_out(self, call: Callable[[], object], where: str) -> OperationResult:
        try:
            with suppress(RequestError, InvariantError):  # the book records them as the result
                call()
        except _WRONG as error:  # such as a list for a name
            raise PlaybackError(f"the operation is damaged ({type(error).__name__}: {error})", where=where) from None
        newest: RecordedOperation = self._book.newest()
        return newest.result.settled()

    def _names(self, offered: Any) -> frozenset[str] | None:
        """All offered names, from the names that were added or removed; the same object if there are none."""
        if offered is None:
            return None
        if offered:
            self._offered ^= frozenset(offered)
        return self._offered

    def _call(
        self, kind: str, now: float | None, subject: Any, names: frozenset[str] | None
    ) -> tuple[Callable[[], object], PodRequest | None]:
        """The call to make, and the request of the pod that it is about."""
        book, reader = self._book, self._reader
        match kind:
            case "node":
                name, healthy = subject
                return (lambda: book.report(name, healthy, now)), None
            case "device":
                name, index, healthy = subject
                return (lambda: book.report_device(name, index, healthy, now)), None
            case "schedule":
                request, phase = reader.requests[subject[0]], Phase(subject[1])
                return (lambda: book.schedule(request, names, phase, now)), request
            case "place":
                request = reader.requests[subject]
                return (lambda: book.place(request, names, now)), request
            case "seen":
                running = RunningPod(reader.requests[subject[0]], reader.info(subject[1]))
                return (lambda: book.observe_bound(running, now)), running.request
            case "recover":
                pods = [RunningPod(reader.requests[request], reader.info(info)) for request, info in subject]
                return (lambda: book.recover(pods, now)), None
        calls: Mapping[str, Callable[[], object]] = {
            "allocate": lambda: book.allocate(subject, now),
            "bound": lambda: book.bound(subject),
            "cancel": lambda: book.cancel(subject, now),
            "gone": lambda: book.gone(subject, now),
        }
        return calls[kind], reader.by_uid.get(subject)

    def _describe_subject(self, kind: str, subject: Any) -> str:
        """The subject, in words, of an operation that is not about a known pod."""
        match kind:
            case "node":
                return str(subject[0])
            case "device":
                tree = self._book.engine.state.physical
                divided = [tree.chains[tree.chain[cell]].instances for cell in tree.nodes.get(subject[0], ())]
                return f"{subject[0]}:{isolation_text((subject[1],), max(divided, default=0))}"
            case "recover":
                return str(len(subject))
        return str(subject)
