"""`paictl sim sweep`: many runs at once, with means and confidence intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli.command import App
from paictl.cli.console import Output, info, localized, progressing, write, write_data, write_table
from paictl.cli.options import OutputOption
from paictl.cli.sim.runs import (
    InflateOption,
    PoliciesOption,
    ResumeOption,
    SeedsOption,
    SeveralFailuresOption,
    estimating,
    resumable,
)
from paictl.cli.sim.shared import FormatOption, packaged_traces, read_trace, share, span, write_files
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.sim import exports
from paictl.sim import sweep as sweeping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paictl.sim.sweep import Estimate, Setting

app = App()


@app.command(
    epilog="""
    paictl sim sweep tiny --policy 'las:knob=1..8' --cluster 2x4
    paictl sim sweep jan.csv feb.csv --policy fifo --policy 'easy:factor=1..5,limits=user' --cluster 15x4 --seed 1..10
    paictl sim sweep jan.csv --policy 'las:order=start|running' --cluster 15x4 --csv runs.csv --plot sweep.svg
    paictl sim sweep jan.csv --policy fifo --policy srtf --cluster 15x4 --failures none --failures node=30d,repair=4h
"""
)
def sweep(
    traces: Annotated[
        list[str],
        typer.Argument(metavar="TRACE...", autocompletion=packaged_traces, help="One or more, as for `sim run`."),
    ],
    policies: PoliciesOption = None,
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", metavar="SPEC", help="As for run; repeatable.")
    ] = None,
    kind: FormatOption = None,
    seeds: SeedsOption = None,
    inflate: InflateOption = None,
    failures: SeveralFailuresOption = None,
    resume: ResumeOption = False,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, max=256, help="Number of parallel runs; default: one per processor."),
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write one row per run to this file.")
    ] = None,
    columns: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="The same as Parquet (needs paictl[parquet]).")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Write a plot of each metric to this file.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Simulate traces over ranges of parameters and several seeds; report means with 95 % confidence intervals.

    KEY=A..B sweeps a parameter in steps of 1, KEY=A..B..STEP in steps of STEP, KEY=X|Y over values; spans may have
    units (30s..5m..30s). Every policy, cluster and trace is checked before the first run starts. Each setting is
    compared with the first one on the same traces and seeds.
    """
    if not policies or not clusters:
        raise PaictlError("a sweep needs policies and a cluster", hint="--policy 'las:knob=1..8' --cluster 15x4")
    if columns:
        exports.require_parquet()
    wanted = sweeping.planned(policies, clusters, seeds or [], inflate, failures or [])
    with progressing(text("reading {count} traces", count=len(traces))) as say:
        workloads = [read_trace(trace, kind) for trace in dict.fromkeys(traces)]
        words = text("{count:,} runs", count=len(workloads) * len(wanted))
        say(words)
        with resumable(*workloads, resume=resume) as kept:
            runs = sweeping.swept(workloads, wanted, kept=kept, processes=processes, part=estimating(say, words))
    made = sweeping.settings(runs)
    write_files(exports.sweep_files(runs, table=table, columns=columns, plot=plot))
    if output is Output.TABLE:
        _write(made, len(runs))
    else:
        write_data(sweeping.sweep_data(runs), output)


def _write(made: Sequence[Setting], runs: int) -> None:
    write(
        localized(
            "{runs:,} runs; in brackets 95 % confidence intervals over traces, or over the seeds of one", runs=runs
        )
    )
    write("")
    several, failing = len({setting.cluster for setting in made}) > 1, len({setting.failures for setting in made}) > 1
    columns = (("mean_jct", span), ("p95_jct", span), ("makespan", span), ("utilization", share))
    write_table(
        ("SETTING", "N", "MEAN JCT", "P95 JCT", "MAKESPAN", "UTILIZATION", "MEAN JCT VS FIRST", "SIGNIFICANT"),
        (
            (
                setting.policy
                + (f" on {setting.cluster}" if several else "")
                + (f", {setting.failures or 'none'}" if failing else ""),
                str(setting.estimates["utilization"].count),
                *(_estimate(setting.estimates.get(metric), show) for metric, show in columns),
                _estimate(setting.ratios.get("mean_jct"), _change),
                _significant(setting, "mean_jct"),
            )
            for setting in made
        ),
    )
    _say_few(made)


def _say_few(made: Sequence[Setting]) -> None:
    """Warn about too few replications, and say how to get more."""
    counts = {setting.estimates["utilization"].count for setting in made}
    if counts == {1}:
        info(text("one replication has no interval: sweep several traces, or several seeds of a policy that draws"))
    elif (few := min(counts - {1})) < sweeping.FEW:
        info(
            text(
                "{count} replications say little: their intervals are {factor:.1f} standard errors to either side",
                count=few,
                factor=sweeping.quantile(few - 1),
            )
        )


def _estimate(given: Estimate | None, show: Callable[[float | None], str]) -> str:
    if given is None:
        return "-"
    return show(given.mean) + (f" [{show(given.low)}, {show(given.high)}]" if given.low is not None else "")


def _change(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * (ratio - 1):+.1f}%"


def _significant(given: Setting, metric: str) -> str:
    if metric not in given.against or given.against[metric].low is None:
        return "-"
    return localized("yes" if given.certain(metric) else "no")
