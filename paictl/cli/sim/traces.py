"""`paictl sim traces`: the formats and built-in traces, and what is in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli.command import App
from paictl.cli.console import Output, localized, progress, write, write_data, write_table
from paictl.cli.options import OutputOption
from paictl.cli.sim.shared import FormatOption, packaged_traces, say_bad_rows, share, span
from paictl.sim.specify import cluster_named
from paictl.sim.survey import survey, survey_data
from paictl.sim.traces.load import FORMATS, load
from paictl.sim.traces.source import packaged

if TYPE_CHECKING:
    from paictl.sim.survey import TraceSurvey

app = App()


@app.command(
    epilog="""
    paictl sim traces
    paictl sim traces tiny --cluster 2x4
    paictl sim traces x.tar.gz/inner/jobs.csv -o json
"""
)
def traces(
    name: Annotated[
        str | None, typer.Argument(metavar="[TRACE]", autocompletion=packaged_traces, help="Describe this one.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="SPEC", help="Report the load on this cluster.")
    ] = None,
    kind: FormatOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the formats and built-in traces, or describe a file: jobs, time span, demand, sizes, durations, load."""
    if name is None:
        _write_formats(output)
        return

    spec = cluster_named(cluster) if cluster else None
    with progress(f"reading {name}"):
        trace = load(name, kind)
        result = survey(trace, spec)
    if output is not Output.TABLE:
        write_data(survey_data(result), output)
        return
    say_bad_rows(trace)
    _write_survey(result)


def _write_survey(survey: TraceSurvey) -> None:
    write(
        localized(
            "{path}: {format}, {jobs:,} jobs, sha256 {sha256}",
            path=survey.path,
            format=survey.format,
            jobs=survey.jobs,
            sha256=survey.sha256[:12],
        )
    )
    rows = [
        ("submitted over", span(survey.span)),
        ("demand", localized("{hours:,.1f} device hours", hours=survey.demand / 3600)),
        ("mean duration", span(survey.mean)),
        *((f"{words} duration", span(value)) for words, value in survey.durations),
        ("tenants", f"{len(survey.tenants):,}"),
        ("models", f"{survey.models:,}"),
        ("with a deadline", f"{survey.deadlines:,}"),
        ("opportunistic", f"{survey.opportunistic:,}"),
        ("rows left out", f"{len(survey.bad):,}"),
    ]
    if survey.load is not None:
        load = localized("{share} of {devices:,} devices", share=share(survey.load), devices=survey.devices)
        rows.append((localized("load on {cluster}", cluster=survey.cluster), load))
    write_table(("", ""), ((localized(words), value) for words, value in rows))
    write("")
    write_table(
        ("DEVICES EACH", "JOBS", "SHARE", "DEVICE HOURS", "SHARE"),
        (
            (
                f"{row.gpus:,}",
                f"{row.jobs:,}",
                share(row.jobs / survey.jobs),
                f"{row.demand / 3600:,.1f}",
                share(row.demand / survey.demand if survey.demand else None),
            )
            for row in survey.sizes
        ),
    )
    if len(survey.tenants) > 1:
        write("")
        write_table(
            ("TENANT", "JOBS", "DEVICE HOURS"),
            ((row.name or "-", f"{row.jobs:,}", f"{row.demand / 3600:,.1f}") for row in survey.tenants),
        )


def _write_formats(output: Output) -> None:
    own = sorted(packaged())
    if output is not Output.TABLE:
        write_data(
            {
                "formats": [
                    {
                        "name": entry.name,
                        "title": entry.title,
                        "unit": entry.unit,
                        "columns": entry.columns,
                        "origin": entry.origin,
                        "tested_on_published_file": entry.published,
                    }
                    for entry in FORMATS
                ],
                "traces": own,
            },
            output,
        )
        return
    write_table(
        ("FORMAT", "OF", "UNIT", "TESTED ON"),
        (
            (
                entry.name,
                localized(entry.title),
                localized(entry.unit),
                localized("published file" if entry.published else "documented columns"),
            )
            for entry in FORMATS
        ),
    )
    write("")
    write(localized("Bundled with paictl, by name: {names}", names=", ".join(own)))
