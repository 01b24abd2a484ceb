"""`paictl sim run`: one trace under one policy on one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from paictl import i18n
from paictl.cli.command import App
from paictl.cli.console import Output, localized, progress, progressing, write, write_data, write_table
from paictl.cli.options import OutputOption
from paictl.cli.sim.runs import (
    ClusterOption,
    FailuresOption,
    HtmlOption,
    InflateOption,
    JobsOption,
    PolicyOption,
    ReproducibleOption,
    ResumeOption,
    SeedOption,
    estimating,
    resumable,
    write_figures,
    write_results,
)
from paictl.cli.sim.shared import FormatOption, TraceArgument, number, read_trace, span
from paictl.errors import PaictlError
from paictl.sim.parallel import play
from paictl.sim.report import COUNTED, compared, events_jsonl, run_data
from paictl.sim.sweep import check_fits, planned

app = App()


@app.command(
    epilog="""
    paictl sim run tiny --policy fifo --cluster 2x4
    paictl sim run pods.csv --policy fgd --cluster nodes.csv --inflate 1.3
    paictl sim run trace.csv --policy las:queues=3250/7200 --cluster 15x4 -o json --jobs jobs.csv --html page.html
"""
)
def run(
    trace: TraceArgument,
    policy: PolicyOption,
    cluster: ClusterOption,
    kind: FormatOption = None,
    seed: SeedOption = 0,
    inflate: InflateOption = None,
    failures: FailuresOption = "none",
    resume: ResumeOption = False,
    jobs: JobsOption = None,
    events: Annotated[
        Path | None, typer.Option("--events", metavar="FILE.jsonl", help="Write one line per event to this file.")
    ] = None,
    html: HtmlOption = None,
    reproducible: ReproducibleOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Simulate a trace under a policy and report the results; times are in seconds in data and CSV."""
    # mistakes on the command line are reported before a long trace is read
    request, *more_runs = planned([policy], [cluster], [str(seed)], inflate, [failures])
    if more_runs:
        raise PaictlError("run simulates one policy once", where=policy, hint="to simulate ranges: paictl sim sweep")
    with progress(f"reading {trace}"):
        workload = read_trace(trace, kind)
    check_fits(workload, [request])
    words = i18n.text("simulating {count:,} jobs under {policy}", count=len(workload.jobs), policy=policy)
    with progressing(words) as say:
        part = estimating(say, words)
        with resumable(workload, resume=resume) as (kept,):
            (result,) = play(
                workload.jobs, [replace(request, log=events is not None)], processes=1, part=part, kept=kept
            )
        given = compared(workload, [result])
    more = {events: "".join(events_jsonl(result))} if events else {}
    title = i18n.text("{trace} under {policy}", trace=trace, policy=policy)
    write_results(given, title, jobs=jobs, html=html, more=more)
    if output is not Output.TABLE:
        write_data(run_data(result, workload, given.figures[0], reproducible=reproducible), output)
        return
    write(
        localized(
            "{trace} ({count:,} jobs, sha256 {sha256}) on {cluster} ({devices} devices)",
            trace=trace,
            count=len(workload.jobs),
            sha256=workload.sha256[:12],
            cluster=cluster,
            devices=result.devices,
        )
    )
    write("")
    write_figures([policy], given.figures)
    data = run_data(result, workload, given.figures[0])
    _write_tenants(data["tenants"])
    _write_counters(data, COUNTED)


def _write_tenants(rows: Sequence[dict[str, Any]]) -> None:
    if len(rows) < 2:
        return
    write("")
    write_table(
        ("TENANT", "JOBS", "MEAN WAIT", "MEAN JCT", "P95 JCT", "DEVICE HOURS"),
        (
            (
                row["name"] or "-",
                f"{row['jobs']:,}",
                span(row["mean_waiting"]),
                span(row["mean_jct"]),
                span(row["p95_jct"]),
                f"{row['service'] / 3600:,.1f}",
            )
            for row in rows
        ),
    )


def _write_counters(data: dict[str, Any], counters: Sequence[str]) -> None:
    """What only some policies count."""
    causes = data.get("delay_causes", {})
    names = sorted({cause for row in causes.values() for cause in row})
    if names:
        write("")
        write_table(
            ("DELAY OF", *(name.upper() for name in names)),
            ((of, *(span(row.get(name, 0.0)) for name in names)) for of, row in causes.items()),
        )
    rows = [(name, number(data[name])) for name in counters if name in data]
    if rows:
        write("")
        write_table(("COUNTED", ""), rows)
