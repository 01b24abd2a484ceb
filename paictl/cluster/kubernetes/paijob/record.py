"""What has become of a job: the controller's record, as it is kept in the status of the `PaiJob`.

Compact, so that a job of 10,000 tasks stays far below the megabyte that an object may have: tasks of a role are ranges
of indices by state (``0-41,43``), what is the same for many tasks is said once, and the last run of each task, written
when the job ends or the pod goes, takes some 25 bytes: indices into tables of nodes, devices and reasons, and seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Final, TypeVar

from paictl.cluster.pods.times import read_time
from paictl.frozen import frozen
from paictl.units import Millis, from_unix, rfc3339
from paictl.workload.lifecycle import JobStatus, RunState, TaskStatus

Json = dict[str, Any]
Place = tuple[str, int]
"""Role and index of a task."""
H = TypeVar("H", bound=Hashable)

KEPT_ATTEMPTS: Final = 40
"""Attempts of a job whose times are kept; the first five always are."""
_FIRST: Final = 5
KEPT_TASKS: Final = 16
"""Of jobs with so many tasks or less it is kept how each of them ran in the attempts before the present one."""
KEPT_REPAIRS: Final = 50
"""Repairs of a job that are kept, the last ones."""
_STATES: Final = {state: state.value.lower() for state in RunState}


@frozen
class LastRun:
    """The last pod of a task: where and when it ran, and why it ended; `devices` are indices on `node`.

    `what` is how it ended in an attempt that is over, empty where the attempt's end was its own.
    """

    node: str
    devices: tuple[int, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    reason: str = ""
    what: str = ""
    isolation: str = ""
    """What its containers got where devices are MIG instances (`TaskView.isolation`)."""


@frozen
class AttemptLine:
    """An attempt of the job that is over: its number from 0, when it ran, and why another followed.

    `runs` are those of its tasks, of a job with few of them (`KEPT_TASKS`).
    """

    number: int
    started: datetime | None
    ended: datetime
    reason: str
    runs: Mapping[Place, LastRun] = field(default_factory=dict)


@frozen
class RepairLine:
    """A task that was lost while the others of its gang kept running; `back` once it runs again, on `node`."""

    role: str
    index: int
    lost: datetime
    before: str
    reason: str
    back: datetime | None = None
    node: str = ""


@frozen
class JobRecord:
    """The state machine's status and what goes with it.

    `scheduling` has for each role the spec that HiveD reads from its pods (`scheduler.wire`), decided once for all
    attempts. `started` and `runs` are about the present attempt.
    """

    status: JobStatus
    scheduling: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    devices: int = 0
    started: datetime | None = None
    ended: datetime | None = None
    preemptions: int = 0
    reason: str = ""
    runs: Mapping[Place, LastRun] = field(default_factory=dict)
    attempts: tuple[AttemptLine, ...] = ()
    max_run_time: Millis | None = None
    """How long an attempt runs at most, decided once for all attempts."""
    repairs: tuple[RepairLine, ...] = ()
    """Tasks that were replaced alone, the last `KEPT_REPAIRS`."""
    closed: bool = False
    """Whether the job has ended and nothing of it runs any more: nobody need look at it again."""


def with_attempt(lines: Sequence[AttemptLine], line: AttemptLine) -> tuple[AttemptLine, ...]:
    """The attempts with one more; of too many those after the first few are forgotten."""
    kept = (*lines, line)
    return kept if len(kept) <= KEPT_ATTEMPTS else (*kept[:_FIRST], *kept[_FIRST + 1 :])


# --- writing


def status_json(record: JobRecord) -> Json:
    """The status of a `PaiJob`."""
    status = record.status
    alive = sum(task.state is RunState.RUNNING for task in status.tasks)
    fields: Json = {
        "state": status.state.value.capitalize(),
        "attempt": status.attempt,
        "counted": status.counted,
        "running": alive,
        "total": len(status.tasks),
        "devices": record.devices,
        "preemptions": record.preemptions,
        "maxRunTime": record.max_run_time,
        "closed": record.closed,
        "scheduling": {role: dict(spec) for role, spec in record.scheduling.items()},
        "roles": [_role_json(role, tasks) for role, tasks in _by_role(status.tasks)],
        "started": _text(record.started),
        "ended": _text(record.ended),
        "reason": record.reason,
        "attempts": [_attempt_json(attempt) for attempt in record.attempts],
        "runs": _runs_json(record.runs),
        "repairs": [_repair_json(repair) for repair in record.repairs],
    }
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}


def _attempt_json(line: AttemptLine) -> Json:
    row = {"number": line.number, "started": _text(line.started), "ended": _text(line.ended), "reason": line.reason}
    return {**row, **({"runs": _runs_json(line.runs)} if line.runs else {})}


def _repair_json(line: RepairLine) -> Json:
    row = {
        "role": line.role,
        "index": line.index,
        "lost": _text(line.lost),
        "before": line.before,
        "reason": line.reason,
        "back": _text(line.back),
        "node": line.node,
    }
    return {key: value for key, value in row.items() if value not in (None, "")}


def _role_json(role: str, tasks: Sequence[TaskStatus]) -> Json:
    row: Json = {"name": role, "instances": len(tasks)}
    for state, word in _STATES.items():
        if indices := ranges([task.index for task in tasks if task.state is state]):
            row[word] = indices
    tried: dict[tuple[int, int, int], list[int]] = {}
    for task in tasks:
        if task.incarnation:
            tried.setdefault((task.incarnation, task.retries, task.counted), []).append(task.index)
    if tried:
        row["tried"] = [
            {"tasks": ranges(indices), "incarnation": incarnation, "retries": retries, "counted": counted}
            for (incarnation, retries, counted), indices in tried.items()
        ]
    return row


def _by_role(tasks: Iterable[TaskStatus]) -> Iterator[tuple[str, list[TaskStatus]]]:
    rows: dict[str, list[TaskStatus]] = {}
    for task in tasks:
        rows.setdefault(task.role, []).append(task)
    yield from rows.items()


def _runs_json(runs: Mapping[Place, LastRun]) -> Json:
    """``role: "index/node/devices/started/seconds/reason/what …"`` with numbers that point into tables."""
    if not runs:
        return {}
    nodes, devices, reasons = _Table(str), _Table(lambda run: ranges(run[0])), _Table(str)
    rows: dict[str, list[str]] = {}
    for (role, index), run in sorted(runs.items()):
        start = "" if run.started is None else f"{int(run.started.timestamp())}"
        span = "" if run.ended is None or run.started is None else f"{int((run.ended - run.started).total_seconds())}"
        held = devices.put((run.devices, run.isolation))
        words = (index, nodes.put(run.node), held, start, span, reasons.put(run.reason))
        rows.setdefault(role, []).append("/".join(map(str, (*words, run.what) if run.what else words)))
    return {
        "nodes": nodes.rows,
        "devices": devices.rows,
        "reasons": reasons.rows,
        **({"isolation": isolation} if any(isolation := [isolation for _, isolation in devices]) else {}),
        "tasks": [{"role": role, "last": " ".join(row)} for role, row in rows.items()],
    }


class _Table:
    """Values that stand for themselves once."""

    def __init__(self, text: Callable[[Any], str]) -> None:
        self.rows: list[str] = []
        self._text = text
        self._known: dict[Any, int] = {}

    def put(self, value: Hashable) -> int:
        if value not in self._known:
            self._known[value] = len(self.rows)
            self.rows.append(self._text(value))
        return self._known[value]

    def __iter__(self) -> Iterator[Any]:
        """The values, in the order of their rows."""
        return iter(self._known)


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in ascending order as Kubernetes writes the indices of a Job: ``0-3,5``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


# --- reading


def read_record(status: Mapping[str, Any]) -> JobRecord | None:
    """The inverse of `status_json`; None for a status that nobody has written yet.

    Raises `ValueError`, `KeyError` or `TypeError` for one that the controller has not written.
    """
    if "state" not in status:
        return None
    tasks = [task for row in status.get("roles") or () for task in _tasks(row)]
    return JobRecord(
        JobStatus(
            RunState(status["state"].upper()),
            tuple(tasks),
            int(status.get("attempt", 0)),
            int(status.get("counted", 0)),
        ),
        status.get("scheduling") or {},
        int(status.get("devices", 0)),
        read_time(status.get("started")),
        read_time(status.get("ended")),
        int(status.get("preemptions", 0)),
        str(status.get("reason", "")),
        _runs(status.get("runs") or {}),
        tuple(_attempts(status.get("attempts") or ())),
        None if status.get("maxRunTime") is None else Millis(int(status["maxRunTime"])),
        tuple(_repairs(status.get("repairs") or ())),
        bool(status.get("closed")),
    )


def _tasks(row: Mapping[str, Any]) -> Iterator[TaskStatus]:
    name, instances = str(row["name"]), int(row["instances"])
    states = {index: state for state, word in _STATES.items() for index in numbers(row.get(word, ""))}
    tried = {
        index: (int(entry["incarnation"]), int(entry.get("retries", 0)), int(entry.get("counted", 0)))
        for entry in row.get("tried") or ()
        for index in numbers(entry["tasks"])
    }
    for index in range(instances):
        yield TaskStatus(name, index, states[index], *tried.get(index, (0, 0, 0)))


def _runs(table: Mapping[str, Any]) -> dict[Place, LastRun]:
    runs: dict[Place, LastRun] = {}
    for row in table.get("tasks") or ():
        for words in str(row["last"]).split():
            index, node, devices, start, span, reason, *what = words.split("/")
            started = from_unix(int(start)) if start else None
            isolation = table["isolation"][int(devices)] if "isolation" in table else ""
            runs[str(row["role"]), int(index)] = LastRun(
                table["nodes"][int(node)],
                tuple(numbers(table["devices"][int(devices)])),
                started,
                from_unix(int(start) + int(span)) if span else None,
                table["reasons"][int(reason)],
                what[0] if what else "",
                isolation,
            )
    return runs


def _attempts(rows: Iterable[Mapping[str, Any]]) -> Iterator[AttemptLine]:
    for row in rows:
        ended = read_time(row["ended"])
        if ended is not None:
            reason = str(row.get("reason", ""))
            yield AttemptLine(
                int(row["number"]), read_time(row.get("started")), ended, reason, _runs(row.get("runs") or {})
            )


def _repairs(rows: Iterable[Mapping[str, Any]]) -> Iterator[RepairLine]:
    for row in rows:
        lost = read_time(row["lost"])
        if lost is not None:
            yield RepairLine(
                str(row["role"]),
                int(row["index"]),
                lost,
                str(row.get("before", "")),
                str(row.get("reason", "")),
                read_time(row.get("back")),
                str(row.get("node", "")),
            )


def numbers(text: str) -> Iterator[int]:
    """The inverse of `ranges`."""
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)


def _text(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)
