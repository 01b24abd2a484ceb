"""The table of formats, and loading a trace with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paictl.i18n import did_you_mean, listed, text
from paictl.sim.job import BadRow, Job, Trace
from paictl.sim.traces.base import FileHead, Format
from paictl.sim.traces.datacenters import ACME, HELIOS, PAI, SPOT
from paictl.sim.traces.gavel import GAVEL
from paictl.sim.traces.handwritten import LISTED
from paictl.sim.traces.native import NATIVE, REQUIRED
from paictl.sim.traces.papers import CHRONUS, ITP, MURI, OPENB, SYNERGY, TIRESIAS
from paictl.sim.traces.philly import PCS, PHILLY, PHILLY_LOG
from paictl.sim.traces.pollux import POLLUX
from paictl.sim.traces.sc17 import SC17
from paictl.sim.traces.shockwave import SHOCKWAVE
from paictl.sim.traces.sia import SIA
from paictl.sim.traces.source import TraceError, TraceFile, source
from paictl.units import Millis

FORMATS: Final[tuple[Format, ...]] = (
    NATIVE,
    LISTED,
    OPENB,
    SHOCKWAVE,
    CHRONUS,
    MURI,
    ITP,
    TIRESIAS,
    PHILLY,
    PCS,
    PHILLY_LOG,
    SIA,
    POLLUX,
    SC17,
    GAVEL,
    SYNERGY,
    HELIOS,
    ACME,
    PAI,
    SPOT,
)
"""In the order in which they are tried: specific formats before less demanding ones."""

_BY_NAME: Final = {kind.name: kind for kind in FORMATS}
_NODE: Final = 8
"""Devices of a node in nearly all traces."""
_FAR: Final = 10**10
"""Milliseconds (four months): a trace that begins later has dates, and is moved to begin at 0."""


def load(name: str, kind: str | None = None) -> Trace:
    """The jobs of a file (see `source.source` for names), in a given format or the detected one.

    Rows that are not jobs are in `Trace.bad`. Raises `TraceError` without a file, a matching format, or any job.
    """
    file = source(name)
    trace_format = _named(kind) if kind else detected_format(file)
    jobs: list[Job] = []
    bad: list[BadRow] = []
    ids: set[str] = set()
    lines: list[int] = []
    """Of each job."""
    for row in trace_format.read(file):
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        line, job = row
        if job.id in ids:
            bad.append(BadRow(line, text("job {id!r} already exists", id=job.id)))
        else:
            ids.add(job.id)
            jobs.append(job)
            lines.append(line)
    if not jobs:
        raise TraceError(
            text("contains no job: {count} rows, the first: {message}", count=len(bad), message=bad[0].message)
            if bad
            else "has no job",
            where=f"{name}:{bad[0].line}" if bad else name,
            hint=text("it was read as {name}; to choose another format: --format", name=trace_format.name),
        )
    if (suspicious := _time_like_sizes(jobs)) is not None:
        raise TraceError(
            text(
                "{count} of {jobs} jobs request numbers of devices that look like times, for example {example}",
                count=suspicious[0],
                jobs=len(jobs),
                example=suspicious[1],
            ),
            where=f"{name}:{lines[suspicious[2]]}",
            hint=text("compare the column names with the rows: gpus and a time may be swapped"),
        )
    return Trace(tuple(_rebased(jobs)), name, file.sha256, trace_format.name, tuple(bad))


def _time_like_sizes(jobs: Sequence[Job]) -> tuple[int, int, int] | None:
    """How many jobs have sizes that look like times, and size and index of the first; None if sizes look normal.

    Jobs larger than a node use whole nodes: in all published traces nearly all sizes above 8 are multiples of 4.
    """
    places = [place for place, job in enumerate(jobs) if job.gpus > _NODE and job.gpus % 4]
    if len(places) * 2 <= len(jobs):
        return None
    return len(places), jobs[places[0]].gpus, places[0]


def detected_format(file: TraceFile) -> Format:
    """Detect the format of a file by its beginning; raises `TraceError` if none matches."""
    if not file.data.strip():
        raise TraceError("is empty", where=file.name, hint="check that it was written correctly")
    start = file.data[:8192].decode("utf-8-sig", "replace")
    first = (start.splitlines() or [""])[0]
    head = FileHead(file.name, start, frozenset(part.strip() for part in first.split(",")), first.count("\t"))
    for kind in FORMATS:
        if kind.tells(head):
            return kind
    missing = [name for name in REQUIRED if name not in head.columns]
    native = len(missing) * 2 <= len(REQUIRED)
    raise TraceError(
        text("the first line lacks a column: {missing}", missing=listed(missing))
        if native
        else "not in a format that paictl reads",
        where=file.name,
        hint=text("it must have the columns {columns}", columns=", ".join(REQUIRED))
        if native
        else "paictl sim traces lists them; --format chooses one",
    )


def _named(name: str) -> Format:
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = did_you_mean(name, _BY_NAME)
    raise TraceError(
        text("no format {name!r}", name=name), hint=near or text("one of: {names}", names=", ".join(_BY_NAME))
    )


def _rebased(jobs: list[Job]) -> list[Job]:
    """Dates become time since the first submission; other times stay as they are."""
    first = min(job.submit for job in jobs)
    if first < _FAR:
        return jobs
    return [replace(job, submit=Millis(job.submit - first)) for job in jobs]
