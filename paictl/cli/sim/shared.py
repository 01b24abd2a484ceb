"""What the commands of `paictl sim` have in common: their options, how a trace is read, how figures are shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl import i18n
from paictl.cli import names as names_of
from paictl.cli.console import info, language, said, warning, write_table
from paictl.errors import PaictlError

if TYPE_CHECKING:
    from paictl.sim.job import Trace
    from paictl.sim.kept import KeptRuns
    from paictl.sim.metrics import Figures
    from paictl.sim.report import Comparison

TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        autocompletion=names_of.traces,
        help="File, file in an archive (x.tar.gz/inner.csv), or a built-in trace (paictl sim traces).",
    ),
]
_POLICY = typer.Option(
    "--policy",
    "-p",
    metavar="NAME[:KEY=VALUE,…]",
    autocompletion=names_of.policies,
    help="See paictl sim policies.",
)
PolicyOption = Annotated[str, _POLICY]
PoliciesOption = Annotated[list[str] | None, _POLICY]
ClusterOption = Annotated[
    str, typer.Option("--cluster", metavar="SPEC", help="15x4, V100=2x4,P100=4x4, layout, HiveD or cluster file.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        autocompletion=names_of.trace_formats,
        help="Format of the trace, where it cannot be detected.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed for policies that use random numbers.")]
InflateOption = Annotated[
    float | None,
    typer.Option(
        "--inflate",
        min=0.01,
        max=100,
        metavar="RATIO",
        help="Draw random jobs from the trace by seed until they request this share of the cluster.",
    ),
]
_FAILURES = typer.Option(
    "--failures", metavar="SPEC|FILE.csv", help="Let nodes and devices fail: node=30d,device=180d,repair=4h."
)
FailuresOption = Annotated[str, _FAILURES]
SeveralFailuresOption = Annotated[list[str] | None, _FAILURES]
SeedsOption = Annotated[
    list[str] | None,
    typer.Option("--seed", metavar="N|A..B", help="Seed for policies that use random numbers; repeatable."),
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Resume where Ctrl-C stopped the same command."),
]
JobsOption = Annotated[
    Path | None, typer.Option("--jobs", metavar="FILE.csv", help="Write one row per job to this file.")
]
HtmlOption = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts; it opens offline.")
]
ReproducibleOption = Annotated[
    bool, typer.Option("--reproducible", help="Omit values that differ between runs (wall_seconds).")
]

_SHOWN_ROWS = 5


def read_trace(name: str, kind: str | None) -> Trace:
    """The jobs of a trace; says on stderr which rows were left out."""
    from paictl.sim.traces.load import load

    trace = load(name, kind)
    say_bad_rows(trace)
    return trace


def say_bad_rows(trace: Trace) -> None:
    """How many rows are no jobs, and the first few of them."""
    if not trace.bad:
        return
    rows = len(trace.bad) + len(trace.jobs)
    warning(
        i18n.text(
            "{path}: {count} of {rows} rows are not jobs and were left out",
            path=trace.path,
            count=len(trace.bad),
            rows=rows,
        )
    )
    for row in trace.bad[:_SHOWN_ROWS]:
        info(f"  {trace.path}:{row.line}: {said(row.message)}")
    if len(trace.bad) > _SHOWN_ROWS:
        info(
            i18n.text(
                "  and {more} more (all: paictl sim traces {path} -o json)",
                more=len(trace.bad) - _SHOWN_ROWS,
                path=trace.path,
            )
        )


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Write results beside the one on stdout; raises `PaictlError` for the first that cannot be written."""
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


def write_results(
    given: Comparison, title: str, *, jobs: Path | None, html: Path | None, more: Mapping[Path, str] | None = None
) -> None:
    """Say what speaks against the figures, and write what of them is wanted: by job, as a page, and `more`."""
    from paictl.sim.page import page
    from paictl.sim.report import jobs_csv

    for remark in given.warnings:
        warning(remark)
    files: dict[Path, str | bytes] = {jobs: jobs_csv(given.runs)} if jobs else {}
    files |= more or {}
    if html:
        files[html] = page(given, title, language())
    write_files(files)


@contextmanager
def resumable(*traces: Trace, resume: bool) -> Iterator[list[KeptRuns]]:
    """Where the runs of each trace are kept; after Ctrl-C say how to resume, if anything was."""
    from paictl.sim.kept import KeptRuns

    kept = [KeptRuns(trace, resume=resume) for trace in traces]
    try:
        yield kept
    except KeyboardInterrupt:
        if any(runs.number for runs in kept):
            info(i18n.text("progress was kept: run the same command with --resume to continue"))
        raise


def estimating(say: Callable[[str], None], words: str) -> Callable[[float], None]:
    """Say how much is done, and after a second how long the rest will take at this pace."""
    begun = time.monotonic()

    def part(done: float) -> None:
        passed = time.monotonic() - begun
        if passed < 1 or done <= 0:
            return
        left = span(max(1, round(passed * (1 - done) / done)))
        say(i18n.text("{words}: {done:.0%}, about {left} left", words=words, done=done, left=left))

    return part


def span(seconds: float | None) -> str:
    """A span for people; as many digits as are worth reading."""
    from paictl.units import span_text

    if seconds is None:
        return "-"
    if abs(seconds) < 100:
        return f"{seconds:.2f}s".replace(".00s", "s")
    sign = "-" if seconds < 0 else ""
    return sign + span_text(round(abs(seconds) * 1000))


def share(value: float | None) -> str:
    """A part as a percentage."""
    return "-" if value is None else f"{100 * value:.1f}%"


def number(value: float | None) -> str:
    """A count."""
    return "-" if value is None else f"{int(value):,}" if value == int(value) else f"{value:,.2f}"


ROWS = (
    ("jobs done", "jobs", number), ("not done", "unfinished", number), ("mean JCT", "mean_jct", span),
    ("median JCT", "p50_jct", span), ("p95 JCT", "p95_jct", span), ("p99 JCT", "p99_jct", span),
    ("mean queueing", "mean_queueing", span), ("mean waiting", "mean_waiting", span), ("makespan", "makespan", span),
    ("preemptions", "preemptions", number), ("migrations", "migrations", number), ("resizes", "resizes", number),
    ("utilization", "utilization", share), ("fragmentation", "fragmentation", share),
    ("deadline misses", "deadline_misses", number), ("weighted miss", "weighted_miss", share),
    ("JCT with a deadline", "slo_jct", span), ("JCT, best effort", "best_effort_jct", span),
    ("admitted", "admitted", number), ("admitted misses", "admitted_misses", number),
    ("interruptions", "interruptions", number), ("undone by failures", "wasted", share), ("down", "down", share),
)  # fmt: skip
"""(words, field of `Figures`, how it is shown)."""

_ALWAYS = frozenset({"jobs", "unfinished", "mean_jct", "p50_jct", "p95_jct", "makespan", "preemptions", "utilization"})


def figure_rows(rows: Sequence[Figures]) -> Iterable[list[str]]:
    """A row for each figure that says something, a column for each run."""
    for words, field, show in ROWS:
        values = [getattr(row, field) for row in rows]
        if field in _ALWAYS or any(values) or (field == "interruptions" and None not in values):
            yield [said(words), *map(show, values)]


def write_figures(labels: Sequence[str], rows: Sequence[Figures]) -> None:
    """Figures down, runs across."""
    write_table(("METRIC", *labels), figure_rows(rows))
