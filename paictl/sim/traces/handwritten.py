"""Traces written by hand: a YAML list of jobs, their shapes and submission times, as in lab 15.

``jobs: [{name: a, vc: x, at: 5m, runs: 1h, devices: 4, pods: 2}]``: `pods` (1 if left out) run at the same time, each
with `devices` of one node. `type` is the only type of device that will do, `pinned` a pinned cell of the virtual
cluster, `reservation` the reservation that the job is for. Such a file is rejected at the first mistake, since
its author can fix it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from paictl.i18n import text
from paictl.sim.job import Job
from paictl.sim.traces.base import FileHead, Format, Rows
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import FOREVER, DurationError, Millis, parse_duration

_KEYS: Final = frozenset({"name", "vc", "at", "runs", "pods", "devices", "type", "pinned", "reservation"})


def jobs_from(data: object) -> tuple[Job, ...]:
    """The jobs of a trace (as loaded from YAML), in the order in which they are listed.

    Raises `TraceError` naming the first invalid field.
    """
    listed = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise TraceError("expected a list of jobs", where="jobs", hint="jobs: [{name: a, vc: x, devices: 1, runs: 1h}]")
    jobs = tuple(_job(item, f"jobs[{i}]") for i, item in enumerate(listed))
    seen: set[str] = set()
    for i, job in enumerate(jobs):
        if job.id in seen:
            raise TraceError(text("job {id!r} already exists", id=job.id), where=f"jobs[{i}].name")
        seen.add(job.id)
    return jobs


def _job(item: object, path: str) -> Job:
    if not isinstance(item, Mapping):
        raise TraceError("expected a job", where=path)
    for key in item:
        if key not in _KEYS:
            raise TraceError(
                text("unknown key {key!r}", key=key),
                where=path,
                hint=text("one of: {names}", names=", ".join(sorted(_KEYS))),
            )
    devices = _count(item, "devices", path)
    return Job(
        id=_name(item, "name", path),
        vc=_name(item, "vc", path),
        submit=_span(item.get("at", 0), f"{path}.at", 0),
        work=_span(item.get("runs"), f"{path}.runs", 1),
        gpus=devices * _count(item, "pods", path),
        pod=devices,
        gpu_type=_name(item, "type", path) if "type" in item else None,
        pinned_cell=_name(item, "pinned", path) if "pinned" in item else "",
        reservation=_name(item, "reservation", path) if "reservation" in item else "",
    )


def _name(item: Mapping[str, object], key: str, path: str) -> str:
    value = item.get(key)
    if not isinstance(value, str) or not value:
        raise TraceError("expected a name", where=f"{path}.{key}")
    return value


def _count(item: Mapping[str, object], key: str, path: str) -> int:
    value = item.get(key, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TraceError("expected a whole number of at least 1", where=f"{path}.{key}")
    return value


def _span(value: object, path: str, least: int) -> Millis:
    try:
        seconds = parse_duration(str(value))
    except DurationError as error:
        raise TraceError(error.message, where=path, hint=error.hint) from None
    millis = 0 if seconds == FOREVER else round(seconds * 1000)
    if seconds == FOREVER or millis < least:
        raise TraceError("expected a finite duration", where=path, hint="for instance 90m")
    return Millis(millis)


def _read(source: TraceFile) -> Rows:
    try:
        jobs = jobs_from(yaml.safe_load(source.text()))
    except yaml.YAMLError as error:
        message = "is not YAML: " + " ".join(str(error).split())
        hint = "look there at indentation, colons, brackets, quotes"
        raise TraceError(message, where=source.name, hint=hint) from None
    except TraceError as error:
        where = source.name if error.where == source.name else f"{source.name}: {error.where}"
        raise TraceError(error.message, where=where, hint=error.hint) from None
    return ((number, job) for number, job in enumerate(jobs, 1))


def _tells(head: FileHead) -> bool:
    return any(line.startswith("jobs:") for line in head.start.splitlines())


LISTED = Format(
    "listed",
    "written by hand, in YAML",
    "s, or with a unit",
    "jobs: a list of {name, vc, at, runs, devices, pods, type, pinned, reservation}",
    "paictl, lab 15",
    _tells,
    _read,
)
