"""A trace: jobs of several tenants, when they come, what they need and how long they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paictl.errors import PaictlError
from paictl.units import FOREVER, DurationError, Millis, parse_duration

_KEYS: Final = frozenset({"name", "vc", "at", "runs", "pods", "devices"})


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job: `pods` that run at the same time, each with `devices` of one node."""

    name: str
    vc: str
    at: Millis
    runs: Millis
    devices: int
    pods: int = 1

    @property
    def demand(self) -> int:
        """Devices of the whole job."""
        return self.pods * self.devices


class TraceError(PaictlError, ValueError):
    """The trace cannot be played; `where` is the path of the field at fault."""


def trace_from(data: object) -> tuple[TraceJob, ...]:
    """The jobs of a trace (as loaded from YAML), in the order in which they are listed.

    Raises `TraceError` naming the first field that is not as it must be.
    """
    listed = data.get("jobs") if isinstance(data, Mapping) else None
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise TraceError("expected a list of jobs", where="jobs", hint="jobs: [{name: a, vc: x, devices: 1, runs: 1h}]")
    jobs = tuple(_job(item, f"jobs[{i}]") for i, item in enumerate(listed))
    seen: set[str] = set()
    for i, job in enumerate(jobs):
        if job.name in seen:
            raise TraceError(f"there is a job {job.name!r} already", where=f"jobs[{i}].name")
        seen.add(job.name)
    return jobs


def _job(item: object, path: str) -> TraceJob:
    if not isinstance(item, Mapping):
        raise TraceError("expected a job", where=path)
    for key in item:
        if key not in _KEYS:
            raise TraceError(f"unknown key {key!r}", where=path, hint=f"one of: {', '.join(sorted(_KEYS))}")
    return TraceJob(
        name=_name(item, "name", path),
        vc=_name(item, "vc", path),
        at=_span(item.get("at", 0), f"{path}.at", 0),
        runs=_span(item.get("runs"), f"{path}.runs", 1),
        devices=_count(item, "devices", path),
        pods=_count(item, "pods", path),
    )


def _name(item: Mapping[str, object], key: str, path: str) -> str:
    found = item.get(key)
    if not isinstance(found, str) or not found:
        raise TraceError("expected a name", where=f"{path}.{key}")
    return found


def _count(item: Mapping[str, object], key: str, path: str) -> int:
    found = item.get(key, 1)
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise TraceError("expected a whole number of at least 1", where=f"{path}.{key}")
    return found


def _span(found: object, path: str, least: int) -> Millis:
    try:
        seconds = parse_duration(str(found))
    except DurationError as error:
        raise TraceError(error.message, where=path, hint=error.hint) from None
    millis = 0 if seconds == FOREVER else round(seconds * 1000)
    if seconds == FOREVER or millis < least:
        raise TraceError("expected a span that ends", where=path, hint="for instance 90m")
    return Millis(millis)
