"""`paictl sim policies`, `traces` and `generate`: what there is, what is in a file, and a file of our own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl.cli import names as names_of
from paictl.cli.console import Output, progress, reflowed, said, spoken, write, write_data, write_table
from paictl.cli.options import OutputOption
from paictl.cli.sim.shared import FormatOption, say_bad_rows, share, span, write_files

if TYPE_CHECKING:
    from paictl.sim.policies.base import Policy
    from paictl.sim.survey import TraceSurvey


POLICIES_EPILOG = """
paictl sim policies
paictl sim policies srtf
"""
TRACES_EPILOG = """
paictl sim traces
paictl sim traces tiny --cluster 2x4
paictl sim traces x.tar.gz/inner/jobs.csv -o json
"""
GENERATE_EPILOG = """
paictl sim generate
paictl sim generate tiresias --jobs 480 --seed 1 -o trace.csv
"""


def policies(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", autocompletion=names_of.policy_names, help="Only this one, in full."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the policies: what each knows about jobs, its parameters with defaults, its paper."""
    from paictl.sim.policies.table import known_policies, policy_class

    if name is not None:
        kind = policy_class(name)
        if output is Output.TABLE:
            _write_policy(kind)
        else:
            write_data(_policy(kind), output)
        return
    kinds = [policy_class(name) for name in known_policies()]
    if output is not Output.TABLE:
        write_data([_policy(kind) for kind in kinds], output)
        return
    write_table(("POLICY", "KNOWS", "WHAT IT DOES"), ((kind.id, _knows(kind), said(kind.title)) for kind in kinds))


def _knows(kind: type[Policy]) -> str:
    return ", ".join(sorted(ability.name.lower() for ability in kind.knows)) or said("nothing")


def _policy(kind: type[Policy]) -> dict[str, Any]:

    from paictl.sim.policies.parameters import described

    return {
        "name": kind.id,
        "title": kind.title,
        "paper": kind.paper,
        "knows": sorted(ability.name.lower() for ability in kind.knows),
        "parameters": [asdict(parameter) for parameter in described(kind.Parameters)],
        "choices": list(kind.choices),
        "about": " ".join(_about(kind)),
    }


def _about(kind: type[Policy]) -> list[str]:
    """The paragraphs of what a policy says about itself, each on one line."""
    return [" ".join(paragraph.split()) for paragraph in (kind.__doc__ or "").split("\n\n")]


def _write_policy(kind: type[Policy]) -> None:
    from paictl.sim.policies.parameters import described

    write(f"{kind.id}: {said(kind.title)}")
    write(spoken("from: {paper}", paper=kind.paper))
    write("")
    for paragraph in _about(kind):
        write(reflowed(said(paragraph)))
        write("")
    knows = sorted(kind.knows, key=lambda ability: ability.name)
    if knows:
        write(said("Besides the user's request, it knows about a job:"))
        for ability in knows:
            write(f"  {ability.name.lower()}: {said(ability.value)}")
    else:
        write(said("It knows nothing about a job except its user's request."))
    write("")
    write_table(
        ("PARAMETER", "DEFAULT", "VALUES", "WHAT IT DOES"),
        (
            (parameter.name, parameter.default, said(parameter.allowed), said(parameter.help))
            for parameter in described(kind.Parameters)
        ),
    )
    if kind.choices:
        write("")
        write(said("Choices that the paper leaves open:"))
        for choice in kind.choices:
            write(reflowed(f"- {said(choice)}"))


def traces(
    name: Annotated[
        str | None, typer.Argument(metavar="[TRACE]", autocompletion=names_of.traces, help="Describe this one.")
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
    from paictl.sim.specify import cluster_named
    from paictl.sim.survey import survey, survey_data
    from paictl.sim.traces.load import load

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
        spoken(
            "{path}: {format}, {jobs:,} jobs, sha256 {sha256}",
            path=survey.path,
            format=survey.format,
            jobs=survey.jobs,
            sha256=survey.sha256[:12],
        )
    )
    rows = [
        ("submitted over", span(survey.span)),
        ("demand", spoken("{hours:,.1f} device hours", hours=survey.demand / 3600)),
        ("mean duration", span(survey.mean)),
        *((f"{words} duration", span(value)) for words, value in survey.durations),
        ("tenants", f"{len(survey.tenants):,}"),
        ("models", f"{survey.models:,}"),
        ("with a deadline", f"{survey.deadlines:,}"),
        ("opportunistic", f"{survey.opportunistic:,}"),
        ("rows left out", f"{len(survey.bad):,}"),
    ]
    if survey.load is not None:
        load = spoken("{share} of {devices:,} devices", share=share(survey.load), devices=survey.devices)
        rows.append((spoken("load on {cluster}", cluster=survey.cluster), load))
    write_table(("", ""), ((said(words), value) for words, value in rows))
    write("")
    write_table(("DEVICES EACH", "JOBS", "SHARE", "DEVICE HOURS", "SHARE"), (
        (f"{row.gpus:,}", f"{row.jobs:,}", share(row.jobs / survey.jobs), f"{row.demand / 3600:,.1f}",
         share(row.demand / survey.demand if survey.demand else None))
        for row in survey.sizes
    ))  # fmt: skip
    if len(survey.tenants) > 1:
        write("")
        write_table(("TENANT", "JOBS", "DEVICE HOURS"), (
            (row.name or "-", f"{row.jobs:,}", f"{row.demand / 3600:,.1f}") for row in survey.tenants
        ))  # fmt: skip


def _write_formats(output: Output) -> None:
    from paictl.sim.traces.load import FORMATS
    from paictl.sim.traces.source import packaged

    own = sorted(packaged())
    if output is not Output.TABLE:
        write_data(
            {
                "formats": [
                    {"name": entry.name, "title": entry.title, "unit": entry.unit, "columns": entry.columns,
                     "origin": entry.origin, "tested_on_published_file": entry.published}
                    for entry in FORMATS
                ],
                "traces": own,
            },
            output,
        )  # fmt: skip
        return
    write_table(
        ("FORMAT", "OF", "UNIT", "TESTED ON"),
        (
            (
                entry.name,
                said(entry.title),
                said(entry.unit),
                said("published file" if entry.published else "documented columns"),
            )
            for entry in FORMATS
        ),
    )  # fmt: skip
    write("")
    write(spoken("Our own, by name: {names}", names=", ".join(own)))


def generate(
    mix: Annotated[
        str | None,
        typer.Argument(
            metavar="[MIX]", autocompletion=names_of.mixes, help="Name of the mix; without it, list the mixes."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=1_000_000, help="How many.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same jobs.")] = 0,
    load: Annotated[float | None, typer.Option("--load", help="Multiply the arrival rate by this.")] = None,
    target: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE.csv", help="File to write (default: stdout).")
    ] = None,
) -> None:
    """Generate a trace from a published mix; the same seed gives the same bytes on every machine."""
    from paictl.sim.generate import MIXES
    from paictl.sim.generate import generate as made
    from paictl.sim.traces.native import to_csv

    if mix is None:
        forms = [form.value for form in Output]
        if target in forms and target != Output.TABLE:
            data = [{"name": mix.name, "title": mix.title, "source": mix.source, "choices": mix.choices}
                    for mix in MIXES.values()]  # fmt: skip
            write_data(data, Output(target))
            return
        write_table(
            ("MIX", "WHAT IT IS", "FROM", "OUR CHOICE"),
            ((m.name, said(m.title), said(m.source), said(m.choices)) for m in MIXES.values()),
        )
        return
    text = to_csv(made(mix, jobs, seed, load))
    if target is None or target == "-":
        write(text.rstrip("\n"))
    else:
        write_files({Path(target): text})
