"""`paictl sim compare`: one trace under several policies, and on several clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli.command import App
from paictl.cli.console import Output, info, localized, progressing, write, write_data, write_table
from paictl.cli.options import OutputOption
from paictl.cli.sim.promises import compare_promises
from paictl.cli.sim.runs import (
    HtmlOption,
    InflateOption,
    JobsOption,
    PoliciesOption,
    ReproducibleOption,
    ResumeOption,
    SeedsOption,
    SeveralFailuresOption,
    estimating,
    resumable,
    write_figures,
    write_results,
)
from paictl.cli.sim.shared import FormatOption, TraceArgument, number, read_trace, span
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.sim.parallel import play
from paictl.sim.report import MOVES, REPAIRS, compared, compared_data, label
from paictl.sim.sweep import check_fits, planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paictl.sim.compare import Pair
    from paictl.sim.parallel import RunRequest
    from paictl.sim.report import Comparison
    from paictl.sim.run import RunResult

app = App()


@app.command(
    epilog="""
    paictl sim compare tiny --policy fifo --policy srtf --cluster 2x4
    paictl sim compare trace.csv --policy fifo:placement=consolidate --policy backfill --cluster 15x4 --html page.html
    paictl sim compare trace.yaml --config services-configuration.yaml --each-job
"""
)
def compare(
    trace: TraceArgument,
    policies: PoliciesOption = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option("--cluster", metavar="SPEC", help="15x4, V100=2x4,P100=4x4, layout, HiveD or cluster file."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="HIVED", help="Compare three kinds of promises: private, quota, cells."),
    ] = None,
    each_job: Annotated[bool, typer.Option("--each-job", help="With --config: show where each job ran.")] = False,
    kind: FormatOption = None,
    seeds: SeedsOption = None,
    inflate: InflateOption = None,
    failures: SeveralFailuresOption = None,
    resume: ResumeOption = False,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, max=256, help="Number of parallel runs; default: one per processor."),
    ] = None,
    jobs: JobsOption = None,
    html: HtmlOption = None,
    reproducible: ReproducibleOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Simulate a trace under several policies, and compare them job by job.

    Differences are paired: the same job under both policies. Warns if the workload cannot distinguish them.

    With --config: shows how long each tenant waits in a private cluster (private), with a quota of devices anywhere
    (quota), and with cells (cells). The exit code is 1 if a tenant waits longer than in a private cluster.
    """
    if config is not None:
        others = {
            "--cluster": clusters,
            "--seed": seeds,
            "--inflate": inflate,
            "--failures": failures,
            "--processes": processes,
            "--jobs": jobs,
            "--html": html,
        }
        if given_too := [name for name, value in others.items() if value]:
            raise PaictlError(
                text("{option} cannot be used with --config", option=given_too[0]),
                hint=text("with --config: {options}", options="--policy, --each-job, --format, --resume, --output"),
            )
        compare_promises(trace, config, policies or [], kind, each_job=each_job, resume=resume, output=output)
        return
    if not policies:
        raise PaictlError("a comparison needs policies", hint="for instance: --policy fifo --policy srtf")
    if not clusters:
        raise PaictlError("a comparison needs a cluster", hint="for instance: --cluster 15x4")
    wanted = planned(policies, clusters, seeds or [], inflate, failures or [])
    given = _played(trace, kind, wanted, processes, resume=resume)
    runs = given.runs
    write_results(given, f"{trace}: {', '.join(label(run, runs) for run in runs)}", jobs=jobs, html=html)
    if output is Output.TABLE:
        _write(given)
    else:
        write_data(compared_data(given, reproducible=reproducible), output)


def _played(
    trace: str,
    kind: str | None,
    requests: Sequence[RunRequest],
    processes: int | None,
    *,
    resume: bool,
) -> Comparison:
    """Run the requests on a trace, reporting progress."""
    with progressing(f"reading {trace}") as say:
        workload = read_trace(trace, kind)
        check_fits(workload, requests)
        words = text("simulating {count:,} jobs {runs} times", count=len(workload.jobs), runs=len(requests))
        say(words)
        with resumable(workload, resume=resume) as (kept,):
            runs = play(workload.jobs, requests, processes=processes, part=estimating(say, words), kept=kept)
        return compared(workload, runs)


def _write(given: Comparison) -> None:
    runs = given.runs
    labels = [label(run, runs) for run in runs]
    seeds = ", ".join(dict.fromkeys(str(run.seed) for run in runs))
    parts = dict.fromkeys((run.cluster, run.devices) for run in runs)
    clusters = ", ".join(localized("{name} ({devices} devices)", name=name, devices=number) for name, number in parts)
    trace = given.trace
    write(
        localized(
            "{path} ({count:,} jobs, sha256 {sha256}) on {clusters}, seed {seeds}",
            path=trace.path,
            count=len(trace.jobs),
            sha256=trace.sha256[:12],
            clusters=clusters,
            seeds=seeds,
        )
    )
    write("")
    write_figures(labels, given.figures)
    _write_counted(labels, runs, (*REPAIRS, *MOVES))
    if not given.pairs:
        return
    for pair in given.pairs:
        if pair.significant is not None:
            info(_said_of(pair, labels))
    write("")
    write_table(
        ("JOB BY JOB", "AGAINST", "BETTER", "BY", "WORSE", "BY", "SAME", "MEAN DIFFERENCE"),
        (
            (
                labels[pair.second],
                labels[pair.first],
                number(pair.better),
                span(pair.mean_gain),
                number(pair.worse),
                span(pair.mean_loss),
                number(pair.same),
                span(pair.mean_difference),
            )
            for pair in given.pairs
        ),
    )


def _write_counted(labels: Sequence[str], runs: Sequence[RunResult], names: Sequence[str]) -> None:
    """Write the counters that any of the runs has."""
    rows = [
        (name, *(number(run.counters.get(name)) for run in runs))
        for name in names
        if any(name in run.counters for run in runs)
    ]
    if rows:
        write("")
        write_table(("COUNTED", *labels), rows)


def _said_of(pair: Pair, labels: Sequence[str]) -> str:
    """Whether the mean difference of a pair is significant."""
    words: dict[str, object] = {
        "second": labels[pair.second],
        "first": labels[pair.first],
        "low": span(pair.low),
        "high": span(pair.high),
    }
    if pair.significant:
        return text(
            "{second} against {first}: the mean difference is significant (95 % interval {low} to {high})", **words
        )
    return text(
        "{second} against {first}: the mean difference is not significant (95 % interval {low} to {high})", **words
    )
