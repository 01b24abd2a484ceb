"""The decisions that a scheduler on Kubernetes has recorded, played again, and what came of them in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cells.spec import ClusterSpec
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.playback import OlderRecordError, PlaybackError, PlayedOperation, play
from paictl.scheduler.record import OperationResult
from paictl.scheduler.wire import isolation_text
from paictl.units import rfc3339

_SHOWN: Final = frozenset({"place", "schedule", "recover"})
"""Operations that decide something; the others tell the core what happened."""


@frozen
class Decision:
    """An event of a job or pod as it was computed again; `at` is an RFC 3339 time.

    `same` says whether it was recorded so; `group` is the gang of a pod.
    """

    number: int
    at: str
    kind: str
    subject: str
    message: str
    same: bool = True
    group: str = ""


@frozen
class Replay:
    """What came of it: decisions about jobs or pods, how many events were compared, and the first difference, in words.

    `dropped` counts events that were too old to be in the record.
    """

    decisions: tuple[Decision, ...]
    compared: int
    difference: str = ""
    dropped: int = 0


def replayed(data: Any, where: str) -> Replay:
    """Play a record of decisions, or what a scheduler leaves when it stops; `where` is the file, for messages.

    Raises `PaictlError` for one that cannot be played.
    """
    record = data["decisions"] if isinstance(data, dict) and "decisions" in data else data
    decisions: list[Decision] = []
    names: dict[str, str] = {}
    """Of pods that the record knows, by uid."""
    compared, difference = 0, ""
    try:
        for operation in play(record):
            names = names or {request["uid"]: request["name"] for request in record["requests"]}
            compared += operation.kind != "state"
            if operation.kind in _SHOWN:
                decisions.append(_decision(operation, names))
            if operation.difference:
                difference = _difference(operation, names)
                break
    except OlderRecordError as error:
        version = record.get("about", {}).get("paictl", "?") if isinstance(record.get("about"), dict) else "?"
        hint = text("replay it with the version that made it: {version}", version=version)
        raise PaictlError(
            text("the recording was made by another version of paictl"), where=where, hint=hint
        ) from error
    except PlaybackError as error:
        place = f"{where}, {error.where}" if error.where else where
        hint = text("make a new bundle; if this one is complete, this is a bug in paictl")
        message = text("the recording cannot be replayed: {error}", error=error.message)
        raise PaictlError(message, where=place, hint=hint) from error
    return Replay(tuple(decisions), compared, difference, record["dropped"])


def _decision(operation: PlayedOperation, names: Mapping[str, str]) -> Decision:
    at = "" if operation.now is None else rfc3339(datetime.fromtimestamp(operation.now, UTC))
    kind = "recover" if operation.kind == "recover" else operation.computed.word
    outcome = _outcome(operation.computed, names, operation.spec)
    if operation.kind == "recover":
        outcome = text("{count} running pods", count=operation.subject)
    subject = f"pod/{operation.pod}" if operation.pod else ""
    return Decision(operation.number, at, kind, subject, outcome, not operation.difference, operation.gang)


def _outcome(result: OperationResult, names: Mapping[str, str], spec: ClusterSpec) -> str:
    """What came of an operation, in words."""
    detail = result.detail
    match result.word:
        case "bind" | "insist" if isinstance(detail, BindInfo):
            instances = spec.mig_instances(detail.chain)
            devices = isolation_text(detail.devices, instances).replace(",", ", ")
            return text("node {node}, devices {devices}", node=detail.node, devices=devices)
        case "preempt":
            pods = ", ".join(names.get(uid, uid) for _, uids in detail for uid in uids)
            return text("these pods must leave: {pods}", pods=pods)
        case "ok":
            return ", ".join(f"{group} {words}" for group, words in (result.changed or {}).items())
    return str(detail)


def _difference(operation: PlayedOperation, names: Mapping[str, str]) -> str:
    """Where the replay leaves the record, and what each says."""
    about = f"{operation.kind} {operation.subject}".strip()
    if operation.difference == "state":
        return text(
            "after operation {number}, the state of the replay differs from the scheduler's", number=operation.number
        )
    if operation.difference == "version":
        return text(
            "operation {number} ({about}) has the recorded result, but only one of the two changes the state",
            number=operation.number,
            about=about,
        )
    recorded, computed = (
        f"{result.word} {_outcome(result, names, operation.spec)}".strip()
        for result in (operation.recorded, operation.computed)
    )
    if recorded == computed:  # they differ in what is written to the pod about the rest of its gang, or in other gangs
        recorded, computed = (
            f"{result.word} {result.detail} {result.changed}" for result in (operation.recorded, operation.computed)
        )
    return text(
        "operation {number} ({about}) was recorded as {recorded}, but replay gives {computed}",
        number=operation.number,
        about=about,
        recorded=recorded,
        computed=computed,
    )
