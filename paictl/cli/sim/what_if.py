"""`paictl sim what-if`: a month of jobs under the old and the new configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli.clusters import StateOption, open_cluster
from paictl.cli.console import Output, error, info, progressing, warning, write, write_data, write_segments, write_table
from paictl.cli.options import OutputOption
from paictl.cli.sim.shared import (
    FormatOption,
    HtmlOption,
    JobsOption,
    ReproducibleOption,
    number,
    read_trace,
    say_bad_rows,
    span,
    write_figures,
    write_files,
)
from paictl.errors import ExitCode, PaictlError

if TYPE_CHECKING:
    from paictl.config.reading.document import Document
    from paictl.sim.job import Trace
    from paictl.sim.what_if import Moved, TenantChange, WhatIf

EPILOG = """
paictl sim what-if jobs.csv --config hivedscheduler.yaml --config new-hivedscheduler.yaml
paictl sim what-if --from-cluster --config cluster/ --config new/ -o json
"""


def what_if(
    trace: Annotated[
        str | None, typer.Argument(metavar="[TRACE]", help="The jobs, as for run; their VC says whose they are.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="HIVED", help="Twice: the old and the new hivedscheduler configuration."),
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Take the jobs that the cluster on this machine has run.")
    ] = False,
    state: StateOption = None,
    kind: FormatOption = None,
    jobs: JobsOption = None,
    html: HtmlOption = None,
    reproducible: ReproducibleOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play jobs under an old and a new configuration: which tenants wait less, which more, and which jobs.

    The scheduler core decides, as it would in the cluster. A configuration with errors is refused with what
    `paictl config validate` finds (exit code 1).
    """
    from paictl.sim.page import page
    from paictl.sim.parallel import Wanted, play
    from paictl.sim.report import compared, jobs_csv
    from paictl.sim.specify import from_hived
    from paictl.sim.what_if import what_if as compare_both
    from paictl.sim.what_if import what_if_data

    if len(config or ()) != 2:
        raise PaictlError("what-if needs two configurations", hint="--config OLD.yaml --config NEW.yaml")
    if (trace is None) is not from_cluster:
        raise PaictlError("the jobs are those of a trace, or with --from-cluster those of the cluster", hint="give one")
    documents = [_sound(path) for path in config or ()]
    if None in documents:
        raise typer.Exit(ExitCode.NEGATIVE)
    specs = [from_hived(document, document.path) for document in documents if document is not None]
    with progressing("reading the jobs") as say:
        found = _from_cluster(state) if trace is None else read_trace(trace, kind)
        say(f"playing {len(found.jobs):,} jobs twice")
        old, new = play(found.jobs, [Wanted("hived", spec) for spec in specs])
        given = compare_both(found, old, new, (dict(specs[0].quotas), dict(specs[1].quotas)))
        both = compared(found, [old, new])
    _warn_of_strangers(found, [dict(spec.quotas) for spec in specs], config or [])
    for text in both.warnings:
        if "cannot tell policies apart" not in text:
            warning(text)
    files = {}
    if jobs:
        files[jobs] = jobs_csv([old, new])
    if html:
        files[html] = page(both, f"{found.path}: {specs[0].text} and {specs[1].text}")
    write_files(files)
    if output is Output.TABLE:
        _write(given)
    else:
        write_data(what_if_data(given, reproducible=reproducible), output)


def _sound(path: str) -> Document | None:
    """The hivedscheduler configuration in a file; None, with the findings on stdout, if it has errors."""
    from paictl.config.linting.report import FORMATS
    from paictl.config.linting.validate import Choice, validate
    from paictl.config.quotas.capacity import configuration
    from paictl.config.reading.load import load
    from paictl.config.reading.problem import Severity

    loaded = load([path])
    document = configuration(loaded)
    report = validate(loaded, Choice(severity=Severity.ERROR))
    wrong = [problem for problem in report.problems if problem.place.path == document.path]
    if not wrong:
        return document
    write_segments(FORMATS["text"](report))
    error(PaictlError("is not played: it has errors", where=path, hint=f"paictl config validate {path}"))
    return None


def _from_cluster(state: object) -> Trace:
    from pathlib import Path

    from paictl.operate.history import history

    cluster = open_cluster(state if isinstance(state, Path) else None)
    found = history(cluster.jobs(), cluster.name)
    say_bad_rows(found)
    return found


def _warn_of_strangers(trace: Trace, promised: list[dict[str, int]], paths: list[str]) -> None:
    for path, quotas in zip(paths, promised, strict=True):
        strangers = sorted({job.vc for job in trace.jobs} - quotas.keys())
        if strangers:
            count = sum(job.vc in strangers for job in trace.jobs)
            names = ", ".join(repr(name) for name in strangers[:5]) + (", ..." if len(strangers) > 5 else "")
            warning(f"{path} promises nothing to {names}: {count} jobs run as opportunistic ones there")


def _write(given: WhatIf) -> None:
    write(f"{given.trace.path} ({len(given.trace.jobs):,} jobs, sha256 {given.trace.sha256[:12]})")
    old, new = given.old, given.new
    write(f"old: {old.cluster} ({old.devices} devices); new: {new.cluster} ({new.devices} devices)")
    write("")
    write_table(
        ("VC", "JOBS", "DEVICES", "MEAN WAIT", "THEN", "P95 WAIT", "THEN", "WAIT LESS", "MORE", "SAME"),
        (
            (row.vc or "-", number(row.jobs), _arrow(row.promised_before, row.promised_after), span(row.wait_before),
             span(row.wait_after), span(row.p95_before), span(row.p95_after), number(row.less), number(row.more),
             number(row.same))
            for row in given.tenants
        ),
    )  # fmt: skip
    _write_jobs("Waits less", given.tenants, "gained")
    _write_jobs("Waits more", given.tenants, "lost")
    write("")
    write_figures(["old", "new"], [given.old_figures, given.new_figures])
    loses = [row.vc for row in given.tenants if _loses(row)]
    gains = [row.vc for row in given.tenants if _gains(row)]
    info(f"waits less on average: {', '.join(gains) or 'nobody'}; more: {', '.join(loses) or 'nobody'}")


def _arrow(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} > {after}"


def _loses(row: TenantChange) -> bool:
    return row.unfinished_after > row.unfinished_before or (row.wait_after or 0) > (row.wait_before or 0)


def _gains(row: TenantChange) -> bool:
    return not _loses(row) and (
        row.unfinished_after < row.unfinished_before or (row.wait_after or 0) < (row.wait_before or 0)
    )


def _write_jobs(title: str, tenants: tuple[TenantChange, ...], side: str) -> None:
    rows: list[Moved] = [job for row in tenants for job in getattr(row, side)]
    if not rows:
        return
    write("")
    write_table(
        (title.upper(), "VC", "DEVICES", "WAITED", "THEN"),
        ((job.id, job.vc or "-", number(job.gpus), _waited(job.before), _waited(job.after)) for job in rows),
    )


def _waited(millis: int | None) -> str:
    return "never ends" if millis is None else span(millis / 1000)
