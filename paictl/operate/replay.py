"""Playing a cluster's decisions again from a support bundle: what is taken along for it, and what comes of it.

A cluster that keeps a log of commands computes everything from it, so the log is enough. Into a bundle go no more of
its jobs than the scheduler reads: how long commands sleep, not the commands; no parameters, no plugins, no images.
On Kubernetes, what schedules keeps a record of its newest decisions (`recorded_decisions`).
"""

from __future__ import annotations

import json
import math
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from paictl.cluster.capabilities import Recorded
from paictl.cluster.embedded.commands import replayed_events
from paictl.cluster.interface import Event, EventKind
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate import recorded_decisions
from paictl.operate.recorded_decisions import Decision, Replay
from paictl.units import Millis, rfc3339, unix_millis
from paictl.workload.duration import sleep_seconds

FILE: Final = "replay.json"
"""Its name in a bundle."""
FOLDER: Final = "scheduler"
"""The folder of a bundle with what the scheduler shows on Kubernetes, a folder for each that leads."""
RECORD: Final = "/decisions.json"
"""How the names of their records end."""
FORMAT: Final = 1
MOST_BYTES: Final = 512 << 20
"""What a recording may be when it is unpacked: who made the archive is not known."""
DECISIONS: Final = frozenset(
    {
        EventKind.STARTED,
        EventKind.PREEMPTED,
        EventKind.DEMOTED,
        EventKind.FAILED,
        EventKind.RETRIED,
        EventKind.LOST,
        EventKind.KILLED,
        EventKind.SUBMITTED,
        EventKind.SUCCEEDED,
        EventKind.STOPPED,
        EventKind.FINISHED,
    }
)
"""Events that tell what became of jobs."""
_SEAL: Final = f"sealed:scrypt:4:1:1:{'A' * 22}:{'A' * 43}"
"""In the place of every seal: it has the form of one, and nothing can be guessed from it."""
_KEPT: Final = ("protocolVersion", "name", "type", "jobRetryCount")
_ROLE: Final = ("instances", "completion", "taskRetryCount", "dockerImage", "resourcePerInstance")
_EXTRAS: Final = (
    "hivedScheduler",
    "gangAllocation",
    "maxRunTime",
    "reservation",
    "restart",
    "checkpointEvery",
    "saveOnSigterm",
)
"""All that the scheduler and the controller read of a job."""

Row = list[Any]
"""An event: number, instant in milliseconds, kind, subject, data."""


def recording(cluster: Recorded, sealed: re.Pattern[str]) -> dict[str, str]:
    """What a bundle holds for a replay; `sealed` is the pattern of seals, which are replaced."""
    for _ in range(3):
        log = cluster.log()
        events, until = cluster.events(), cluster.present  # in this order: events up to then at least are played
        if len(cluster.log()) == len(log):
            break
    epoch = cluster.epoch
    data = {
        "format": FORMAT,
        "epoch": unix_millis(epoch),
        "until": until,
        "log": [[at, _hiding(line, sealed)] for at, line in log],
        "events": [_row(unix_millis(event.at) - unix_millis(epoch), event) for event in events],
    }
    return {FILE: json.dumps(data, ensure_ascii=False) + "\n"}


def _row(at: int, event: Event) -> Row:
    row: Row = json.loads(json.dumps([event.number, at, event.kind.value, event.subject, dict(event.data)]))
    return row


def _hiding(line: Mapping[str, Any], sealed: re.Pattern[str]) -> dict[str, Any]:
    """A line of the log without what may hold secrets."""
    cleaned = dict(line)
    if cleaned["do"] == "submit":
        cleaned["jobs"] = [{**job, "data": scheduling_part(job["data"])} for job in cleaned["jobs"]]
    if cleaned["do"] == "push":
        cleaned["files"] = {name: sealed.sub(_SEAL, content) for name, content in cleaned["files"].items()}
    return cleaned


def scheduling_part(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job of protocol v2 with nothing but what decisions depend on; its tasks run for as long as they did."""
    part = {name: job[name] for name in _KEPT if name in job}
    part["taskRoles"] = {
        name: {
            **{key: role[key] for key in _ROLE if key in role},
            "commands": [_sleeping(role.get("commands") or ())],
        }
        for name, role in job["taskRoles"].items()
    }
    part["prerequisites"] = [
        {"name": prerequisite["name"], "type": "dockerimage", "uri": "image"}
        for prerequisite in job.get("prerequisites") or ()
        if prerequisite.get("type") == "dockerimage"
    ]
    if "virtualCluster" in (job.get("defaults") or {}):
        part["defaults"] = {"virtualCluster": job["defaults"]["virtualCluster"]}
    extras = job.get("extras") or {}
    part["extras"] = {name: extras[name] for name in _EXTRAS if name in extras}
    return part


def _sleeping(commands: Sequence[str]) -> str:
    """A command that lasts as long as some others."""
    seconds = sleep_seconds(map(str, commands))
    if seconds is None:
        return "true"
    return f"sleep {seconds:f}" if math.isfinite(seconds) else "sleep infinity"


def replay(path: Path) -> Replay:
    """Play the decisions in a bundle again, and compare them with what was recorded.

    A record of decisions alone can be played, too: as a door gives it, or in the file that it leaves when it stops.
    Raises `PaictlError` for a file that cannot be played.
    """
    recordings = _recordings(path)
    done = [
        _replayed_log(data, path) if name == FILE else recorded_decisions.replayed(data, f"{path}: {name}")
        for name, data in recordings.items()
    ]
    return Replay(
        tuple(decision for result in done for decision in result.decisions),
        sum(result.compared for result in done),
        next((result.difference for result in done if result.difference), ""),
        sum(result.dropped for result in done),
    )


def _recordings(path: Path) -> dict[str, Any]:
    """What can be played of a file, by its name in the bundle; raises `PaictlError` if nothing can."""
    try:
        with path.open("rb") as file:
            if file.read(1) == b"{":
                file.seek(0)
                return {path.name: _loaded(file, path.stat().st_size, path)}
        with tarfile.open(path) as tar:
            recordings = {}
            for member in tar:
                name = member.name.partition("/")[2]
                if member.isfile() and (name == FILE or (name.startswith(f"{FOLDER}/") and name.endswith(RECORD))):
                    recordings[name] = _loaded(tar.extractfile(member), member.size, path)
    except OSError as error:
        raise PaictlError(
            text("cannot be read: {strerror}", strerror=error.strerror or error), where=str(path)
        ) from None
    except (tarfile.TarError, EOFError, ValueError, RecursionError) as error:
        raise PaictlError(text("not a support bundle: {error}", error=error), where=str(path)) from None
    if not recordings:
        hint = text("missing.json in the bundle may say why; make a new one: paictl support bundle")
        raise PaictlError(text("the bundle has no recording to replay"), where=str(path), hint=hint)
    return recordings


def _loaded(file: IO[bytes] | None, size: int, path: Path) -> Any:
    if size > MOST_BYTES:
        raise PaictlError(text("the recording is too large"), where=str(path))
    return json.loads(file.read()) if file is not None else None


def _replayed_log(data: Any, path: Path) -> Replay:
    """The log of commands of a cluster on this machine, played again."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        message = text("the recording was made by another version of paictl")
        raise PaictlError(message, where=str(path), hint=text("replay it with the version in about.json"))
    try:
        log = [(Millis(at), line) for at, line in data["log"]]
        recorded: list[Row] = [list(row) for row in data["events"]]
        epoch, until = Millis(data["epoch"]), Millis(data["until"])
        events = replayed_events(log, epoch, until)
    except (PaictlError, KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        hint = text("make a new bundle; if this one is complete, this is a bug in paictl")
        message = text("the recording cannot be replayed: {error}", error=error)
        raise PaictlError(message, where=str(path), hint=hint) from None
    computed = [(_row(unix_millis(event.at) - epoch, event), event) for event in events]
    recorded_rows = {row[0]: row for row in recorded}
    return Replay(
        tuple(
            Decision(
                event.number,
                rfc3339(event.at),
                event.kind.value,
                event.subject,
                event.message,
                same=recorded_rows.get(event.number, row) == row,
            )
            for row, event in computed
            if event.kind in DECISIONS and event.subject.startswith("job/")
        ),
        len(recorded),
        next(_differences(recorded, [row for row, _ in computed]), ""),
    )


def _differences(recorded: Sequence[Row], computed: Sequence[Row]) -> Iterator[str]:
    """In what the computed events differ from the recorded ones, which are the newest of them."""
    by_number = {row[0]: row for row in computed}
    for row in recorded:
        other = by_number.pop(row[0], None)
        if other is None:
            yield text(
                "event {number} ({kind} {subject}) was recorded, but replay does not produce it",
                number=row[0],
                kind=row[2],
                subject=row[3],
            )
        elif other != row:
            yield text(
                "event {number} was recorded as {recorded}, but replay gives {computed}",
                number=row[0],
                recorded=_row_text(row),
                computed=_row_text(other),
            )
    numbers = [row[0] for row in recorded]  # what came before was wiped or left out; what comes behind is later
    for number, row in by_number.items():
        if numbers and numbers[0] < number < numbers[-1]:
            yield text(
                "replay produces event {number} ({kind} {subject}), which was not recorded",
                number=number,
                kind=row[2],
                subject=row[3],
            )


def _row_text(row: Row) -> str:
    return f"{row[2]} {row[3]} @{row[1]} {json.dumps(row[4], sort_keys=True)}"
