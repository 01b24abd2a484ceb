"""Options and output of commands that play traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl import i18n
from paictl.cli.console import info, language, localized, warning, write_table
from paictl.cli.sim.shared import number, share, span, write_files
from paictl.sim.checkpoints import KeptRuns
from paictl.sim.page import page
from paictl.sim.policies.parameters import described
from paictl.sim.policies.table import known_policies, policy_class
from paictl.sim.report import jobs_csv

if TYPE_CHECKING:
    from paictl.sim.job import Trace
    from paictl.sim.metrics import Figures
    from paictl.sim.report import Comparison


def completed_policies(incomplete: str) -> list[str]:
    """Complete a policy; after its colon the names of its parameters, and after an equals sign their values.

    Candidates are whole words (`las:dimension=1`): not every shell ends a word at `:` or `=`.
    """
    name, colon, rest = incomplete.partition(":")
    if not colon or name not in known_policies():
        return known_policies()
    done, _, last = rest.rpartition(",")
    before = f"{name}:{done}," if done else f"{name}:"
    parameters = described(policy_class(name).Parameters)
    key, equals, _ = last.partition("=")
    if equals:
        words = next(
            (
                parameter.allowed.split(" | ")
                for parameter in parameters
                if parameter.name == key and " | " in parameter.allowed
            ),
            [],
        )
        return [f"{before}{key}={word}" for word in words]
    return [f"{before}{parameter.name}=" for parameter in parameters]


_POLICY = typer.Option(
    "--policy",
    "-p",
    metavar="NAME[:KEY=VALUE,…]",
    autocompletion=completed_policies,
    help="See paictl sim policies.",
)
PolicyOption = Annotated[str, _POLICY]
PoliciesOption = Annotated[list[str] | None, _POLICY]
ClusterOption = Annotated[
    str, typer.Option("--cluster", metavar="SPEC", help="15x4, V100=2x4,P100=4x4, layout, HiveD or cluster file.")
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


def write_results(
    given: Comparison, title: str, *, jobs: Path | None, html: Path | None, more: Mapping[Path, str] | None = None
) -> None:
    """Print warnings about the figures, and write the requested files: one row per job, a page, and `more`."""
    for remark in given.warnings:
        warning(remark)
    files: dict[Path, str | bytes] = {jobs: jobs_csv(given.runs)} if jobs else {}
    files |= more or {}
    if html:
        files[html] = page(given, title, language())
    write_files(files)


@contextmanager
def resumable(*traces: Trace, resume: bool) -> Iterator[list[KeptRuns]]:
    """Where the runs of each trace are saved; after Ctrl-C, say how to resume if any were."""
    kept = [KeptRuns(trace, resume=resume) for trace in traces]
    try:
        yield kept
    except KeyboardInterrupt:
        if any(runs.number for runs in kept):
            info(i18n.text("progress was kept: run the same command with --resume to continue"))
        raise


def estimating(say: Callable[[str], None], words: str) -> Callable[[float], None]:
    """Report the part that is done and, from the first second on, the estimated time left."""
    begun = time.monotonic()

    def part(done: float) -> None:
        passed = time.monotonic() - begun
        if passed < 1 or done <= 0:
            return
        left = span(max(1, round(passed * (1 - done) / done)))
        say(i18n.text("{words}: {done:.0%}, about {left} left", words=words, done=done, left=left))

    return part


ROWS = (
    ("jobs done", "jobs", number),
    ("not done", "unfinished", number),
    ("mean JCT", "mean_jct", span),
    ("median JCT", "p50_jct", span),
    ("p95 JCT", "p95_jct", span),
    ("p99 JCT", "p99_jct", span),
    ("mean queueing", "mean_queueing", span),
    ("mean waiting", "mean_waiting", span),
    ("makespan", "makespan", span),
    ("preemptions", "preemptions", number),
    ("migrations", "migrations", number),
    ("resizes", "resizes", number),
    ("utilization", "utilization", share),
    ("fragmentation", "fragmentation", share),
    ("deadline misses", "deadline_misses", number),
    ("weighted miss", "weighted_miss", share),
    ("JCT with a deadline", "slo_jct", span),
    ("JCT, best effort", "best_effort_jct", span),
    ("admitted", "admitted", number),
    ("admitted misses", "admitted_misses", number),
    ("interruptions", "interruptions", number),
    ("undone by failures", "wasted", share),
    ("down", "down", share),
)
"""(words, field of `Figures`, how it is shown)."""

_ALWAYS = frozenset({"jobs", "unfinished", "mean_jct", "p50_jct", "p95_jct", "makespan", "preemptions", "utilization"})


def figure_rows(rows: Sequence[Figures]) -> Iterable[list[str]]:
    """A row for each figure that applies to any of the runs, a column for each run."""
    for words, field, show in ROWS:
        values = [getattr(row, field) for row in rows]
        if field in _ALWAYS or any(values) or (field == "interruptions" and None not in values):
            yield [localized(words), *map(show, values)]


def write_figures(labels: Sequence[str], rows: Sequence[Figures]) -> None:
    """Write a table: a row for each figure, a column for each run."""
    write_table(("METRIC", *labels), figure_rows(rows))
