"""What the commands of `paictl sim` share: naming and reading a trace, writing files, figures as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl import i18n
from paictl.cli.console import info, localized, warning
from paictl.errors import PaictlError
from paictl.sim.traces.load import FORMATS, load
from paictl.sim.traces.source import packaged
from paictl.units import span_text

if TYPE_CHECKING:
    from paictl.sim.job import Trace


def packaged_traces() -> list[str]:
    """The built-in traces, for completion; the shell completes files."""
    return list(packaged())


def trace_formats() -> list[str]:
    """The formats of traces, for completion."""
    return [entry.name for entry in FORMATS]


TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        autocompletion=packaged_traces,
        help="File, file in an archive (x.tar.gz/inner.csv), or a built-in trace (paictl sim traces).",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        autocompletion=trace_formats,
        help="Format of the trace, where it cannot be detected.",
    ),
]

_SHOWN_ROWS = 5


def read_trace(name: str, kind: str | None) -> Trace:
    """The jobs of a trace; reports on stderr which rows were left out."""
    trace = load(name, kind)
    say_bad_rows(trace)
    return trace


def say_bad_rows(trace: Trace) -> None:
    """Report how many rows are not jobs, and the first few of them."""
    if not trace.bad:
        return
    rows = len(trace.bad) + len(trace.jobs)
    warning(
        i18n.counted(
            "{path}: {count} of {rows} rows is not a job and was left out",
            "{path}: {count} of {rows} rows are not jobs and were left out",
            len(trace.bad),
            path=trace.path,
            rows=rows,
        )
    )
    for row in trace.bad[:_SHOWN_ROWS]:
        info(f"  {trace.path}:{row.line}: {localized(row.message)}")
    if len(trace.bad) > _SHOWN_ROWS:
        info(
            i18n.text(
                "  and {more} more (all: paictl sim traces {path} -o json)",
                more=len(trace.bad) - _SHOWN_ROWS,
                path=trace.path,
            )
        )


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Write files in addition to stdout; raises `PaictlError` for the first one that cannot be written."""
    for path, data in files.items():
        try:
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
        except OSError as error:
            raise PaictlError(
                i18n.text("cannot write: {reason}", reason=error.strerror or error),
                where=str(path),
                hint="check the folder",
            ) from None
        info(i18n.text("wrote {path}", path=path))


def span(seconds: float | None) -> str:
    """A span of seconds for people, rounded to the digits that matter."""
    if seconds is None:
        return "-"
    if abs(seconds) < 100:
        return f"{seconds:.2f}s".replace(".00s", "s")
    sign = "-" if seconds < 0 else ""
    return sign + span_text(round(abs(seconds) * 1000))


def share(value: float | None) -> str:
    """A fraction as a percentage."""
    return "-" if value is None else f"{100 * value:.1f}%"


def number(value: float | None) -> str:
    """A count."""
    return "-" if value is None else f"{int(value):,}" if value == int(value) else f"{value:,.2f}"
