"""Our own CSV: every field of a job, times in seconds, only the columns that some job needs.

Required are ``id, submit, gpus, duration``. Lists are ``key=value`` joined by ``;``: deadlines ``3600=10;7200=5``
(instant and what the job is worth until then), ``throughput`` ``V100=1;K80=0.25``, ``elastic`` ``1-8``. Missing
columns have the default of `Job`. A written file is read back to the same jobs, to the last digit.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from itertools import pairwise
from typing import Any, Final

from paictl import i18n
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, listed
from paictl.sim.job import Deadline, DeadlineKind, Job, Share, TraceStatus
from paictl.sim.traces.base import Format, Rows, has
from paictl.sim.traces.lines import SECOND, Line, RowError, number, span, table, whole
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis
from paictl.workload.job import Restart


@frozen
class TraceColumn:
    """How one field of a job is written in the table."""

    name: str
    field: str
    read: Callable[[str, str], Any]
    """(text, name of the column) -> value; raises `RowError`."""
    write: Callable[[Any], str] = str
    required: bool = False


def _seconds(millis: int) -> str:
    whole_seconds, rest = divmod(millis, SECOND)
    return f"{whole_seconds}.{rest:03}".rstrip("0") if rest else str(whole_seconds)


def _exact(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _one_of(kind: type[Share] | type[DeadlineKind] | type[TraceStatus] | type[Restart], text: str, column: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise RowError(
            i18n.text("{what} is {text!r}, not one of {names}", what=column, text=text, names=", ".join(kind))
        ) from None


def _pairs(text: str, column: str) -> list[tuple[str, str]]:
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, mark, value = part.rpartition("=")
        if not mark or not key:
            raise RowError(i18n.text("{what} has {part!r}, not KEY=VALUE", what=column, part=part))
        pairs.append((key.strip(), value.strip()))
    if len({key for key, _ in pairs}) != len(pairs):
        raise RowError(i18n.text("{what} has a duplicate key", what=column))
    return pairs


def _rates(text: str, column: str) -> dict[str, float]:
    return {key: number(value, column) for key, value in _pairs(text, column)}


def _counted(text: str, column: str) -> dict[int, float]:
    return {whole(key, column, 1): number(value, column) for key, value in _pairs(text, column)}


def _deadlines(text: str, column: str) -> tuple[Deadline, ...]:
    deadlines = tuple(Deadline(span(key, column, SECOND), number(value, column)) for key, value in _pairs(text, column))
    if any(late.time <= early.time for early, late in pairwise(deadlines)):
        raise RowError(i18n.text("{what} must be in order of time", what=column))
    return deadlines


def _range(text: str, column: str) -> tuple[int, int]:
    low, mark, high = text.partition("-")
    if not mark:
        raise RowError(i18n.text("{what} is {text!r}, not FEWEST-MOST", what=column, text=text))
    bounds = (whole(low, column, 1), whole(high, column, 1))
    if bounds[0] > bounds[1]:
        raise RowError(i18n.text("{what} is {text!r}, the first is more than the second", what=column, text=text))
    return bounds


def _joined(mapping: Mapping[Any, float]) -> str:
    return ";".join(f"{key}={_exact(value)}" for key, value in mapping.items())


def _names(text: str, _: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("|") if part.strip())


def _text(text: str, _: str) -> str:
    return text


def _time(text: str, column: str, least: int = 0) -> Millis:
    return span(text, column, SECOND, least)


COLUMNS: Final = (
    TraceColumn("id", "id", _text, required=True),
    TraceColumn("submit", "submit", _time, _seconds, required=True),
    TraceColumn("gpus", "gpus", partial(whole, least=0), required=True),
    TraceColumn("duration", "work", _time, _seconds, required=True),
    TraceColumn("user", "user", _text),
    TraceColumn("vc", "vc", _text),
    TraceColumn("gpu_milli", "gpu_milli", partial(whole, least=1)),
    TraceColumn("cpu_milli", "cpu_milli", partial(whole, least=0)),
    TraceColumn("memory_mib", "memory_mib", partial(whole, least=0)),
    TraceColumn("gpu_types", "gpu_types", _names, "|".join),
    TraceColumn("pod", "pod", partial(whole, least=0)),
    TraceColumn("model", "model", _text),
    TraceColumn("priority", "priority", partial(whole, least=-(10**9))),
    TraceColumn("share", "share", partial(_one_of, Share)),
    TraceColumn("urge", "urge", partial(_one_of, DeadlineKind)),
    TraceColumn(
        "deadlines",
        "deadlines",
        _deadlines,
        lambda value: ";".join(f"{_seconds(deadline.time)}={_exact(deadline.value)}" for deadline in value),
    ),
    TraceColumn("elastic", "elastic", _range, lambda value: "{}-{}".format(*value)),
    TraceColumn("scaling", "scaling", _counted, _joined),
    TraceColumn("throughput", "throughput", _rates, _joined),
    TraceColumn("sensitivity", "sensitivity", _rates, _joined),
    TraceColumn("spread", "spread", _counted, _joined),
    TraceColumn("skew", "skew", number, _exact),
    TraceColumn("gpu_util", "gpu_util", number, _exact),
    TraceColumn("gpu_mem", "gpu_mem", number, _exact),
    TraceColumn("coloc", "coloc", _rates, _joined),
    TraceColumn("beside", "beside", _rates, _joined),
    TraceColumn("gpu_type", "gpu_type", _text),
    TraceColumn("pinned_cell", "pinned_cell", _text),
    TraceColumn("reservation", "reservation", _text),
    TraceColumn("restart", "restart", partial(_one_of, Restart)),
    TraceColumn("iterations", "iterations", partial(whole, least=0)),
    TraceColumn("fate", "fate", partial(_one_of, TraceStatus)),
    TraceColumn("dies_after", "dies_after", _time, _seconds),
    TraceColumn("limit", "limit", partial(_time, least=1), _seconds),
    TraceColumn("facts", "facts", _rates, _joined),
)
"""Every field of `Job` once, except `training`, which comes from profiles; a test checks this."""

_BY_NAME: Final = {column.name: column for column in COLUMNS}
_DEFAULTS: Final = {
    field.name: field.default_factory() if field.default_factory is not MISSING else field.default
    for field in fields(Job)
}


def _row(line: Line, used: Iterable[TraceColumn]) -> Job:
    values = {}
    for column in used:
        text = line.text(column.name) if column.required else line.get(column.name)
        if text:
            values[column.field] = column.read(text, column.name)
    return Job(**values)


def _read(source: TraceFile) -> Rows:
    first = next(csv.reader(source.text().splitlines()), [])
    names = [name.strip() for name in first]
    for name in names:
        if name not in _BY_NAME:
            raise TraceError(
                i18n.text("no column {name!r}", name=name),
                where=f"{source.name}:1",
                hint=did_you_mean(name, _BY_NAME) or i18n.text("one of: {names}", names=listed(_BY_NAME, 30)),
            )
    return table(source, partial(_row, used=[_BY_NAME[name] for name in names]))


def to_csv(jobs: Iterable[Job]) -> str:
    """The jobs as a CSV table, in their order, with line feeds as line ends.

    Raises `TraceError` for a name that a table in CSV cannot hold, such as one with a line break.
    """
    rows = list(jobs)
    used = [
        column
        for column in COLUMNS
        if column.required or any(getattr(job, column.field) != _DEFAULTS[column.field] for job in rows)
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in used])
    for job in rows:
        values = []
        for column in used:
            value = getattr(job, column.field)
            text = "" if not column.required and value == _DEFAULTS[column.field] else column.write(value)
            if text != text.strip() or any(mark in text for mark in "\r\n\0"):
                raise TraceError(
                    i18n.text("{name} {text!r} is not allowed in a table", name=column.name, text=text),
                    where=f"job {job.id}",
                )
            values.append(text)
        writer.writerow(values)
    return out.getvalue()


REQUIRED: Final = tuple(column.name for column in COLUMNS if column.required)
"""Columns that a trace must have."""

NATIVE = Format(
    "native",
    "paictl's own",
    "s",
    ", ".join(REQUIRED) + "; " + ", ".join(c.name for c in COLUMNS if not c.required),
    "written by `paictl sim generate`",
    has(*REQUIRED),
    _read,
)
