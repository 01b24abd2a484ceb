"""`paictl sim what-if`: a month of jobs under the old and the new configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from paictl.cli.clusters import StateOption
from paictl.cli.command import App
from paictl.cli.console import (
    Output,
    info,
    localized,
    progressing,
    warning,
    write,
    write_data,
    write_table,
)
from paictl.cli.options import OutputOption
from paictl.cli.sim.inputs import from_files, from_pushed, jobs_that_ended, named_cluster
from paictl.cli.sim.runs import (
    FailuresOption,
    HtmlOption,
    JobsOption,
    ReproducibleOption,
    ResumeOption,
    SeedOption,
    estimating,
    resumable,
    write_figures,
    write_results,
)
from paictl.cli.sim.shared import FormatOption, number, packaged_traces, read_trace, span
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.sim.report import compared
from paictl.sim.what_if import play_both, requests, what_if_data

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from paictl.cluster.interface import Cluster
    from paictl.sim.checkpoints import RunRequest
    from paictl.sim.cluster import ClusterShape
    from paictl.sim.job import Trace
    from paictl.sim.what_if import JobChange, TenantChange, WhatIf

PUSHED: Final = "what was pushed"
"""The name of the old configuration in messages if it is the one that was pushed."""

app = App()


@app.command(
    "what-if",
    epilog="""
    paictl sim what-if jobs.csv --config hivedscheduler.yaml --config new-hivedscheduler.yaml
    paictl sim what-if --from-cluster prod --config new-hivedscheduler.yaml
    paictl sim what-if --from-cluster --config cluster/ --config new/ -o json
    paictl sim what-if jobs.csv --config old/ --config new/ --failures node=30d,device=180d
""",
)
def what_if(
    trace: Annotated[
        str | None,
        typer.Argument(
            metavar="[TRACE]",
            autocompletion=packaged_traces,
            help="The jobs, as for run; their VC is their tenant. With --from-cluster: a cluster's name.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="HIVED",
            help="Twice: the old and the new hivedscheduler configuration. Once with --from-cluster: the new one; "
            "the old one is the pushed one.",
        ),
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Use the jobs that a cluster has run and still stores.")
    ] = False,
    state: StateOption = None,
    kind: FormatOption = None,
    failures: FailuresOption = "none",
    seed: SeedOption = 0,
    resume: ResumeOption = False,
    jobs: JobsOption = None,
    html: HtmlOption = None,
    reproducible: ReproducibleOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Simulate jobs under an old and a new configuration, and show which tenants and jobs wait less or more.

    The scheduler core decides, as it would in the cluster. A configuration with errors is rejected with the findings
    of `paictl config validate` (exit code 1). With --failures, nodes of the same name fail at the same
    times under both.
    """
    cluster, paths, (old, new) = _configurations(trace, config or [], state, from_cluster=from_cluster)
    workload, given = _played(trace or "", kind, cluster, requests((old, new), failures, seed), resume=resume)
    both = compared(workload, [given.old, given.new], discriminating=False)
    _warn_of_strangers(workload, [dict(old.quotas), dict(new.quotas)], paths)
    title = text("{trace}: {old} and {new}", trace=workload.path, old=old.text, new=new.text)
    write_results(both, title, jobs=jobs, html=html)
    if output is Output.TABLE:
        _write(given)
    else:
        write_data(what_if_data(given, reproducible=reproducible), output)


def _configurations(
    trace: str | None, paths: list[str], state: Path | None, *, from_cluster: bool
) -> tuple[Cluster | None, list[str], tuple[ClusterShape, ClusterShape]]:
    """The cluster that ran the jobs, the names of the old and the new configuration in messages, and both of them."""
    if len(paths) != 2 and not (from_cluster and len(paths) == 1):
        raise PaictlError(
            "what-if needs two configurations",
            hint="--config OLD.yaml --config NEW.yaml; with --from-cluster only the new one",
        )
    if trace is None and not from_cluster:
        raise PaictlError("give a trace, or use the cluster's jobs with --from-cluster", hint="give one")
    cluster = named_cluster(trace, state) if from_cluster else None
    specs = [from_files(path) for path in paths]
    if cluster is not None and len(paths) == 1:
        paths, specs = [PUSHED, *paths], [from_pushed(cluster), *specs]
    old, new = specs
    if old is None or new is None:
        raise typer.Exit(ExitCode.NEGATIVE)
    return cluster, paths, (old, new)


def _played(
    trace: str, kind: str | None, cluster: Cluster | None, requests: Sequence[RunRequest], *, resume: bool
) -> tuple[Trace, WhatIf]:
    with progressing("reading the jobs") as say:
        workload = read_trace(trace, kind) if cluster is None else jobs_that_ended(cluster)
        words = text("simulating {count:,} jobs {runs} times", count=len(workload.jobs), runs=2)
        say(words)
        with resumable(workload, resume=resume) as (kept,):
            return workload, play_both(workload, requests, estimating(say, words), kept)


def _warn_of_strangers(trace: Trace, promised: list[dict[str, int]], paths: list[str]) -> None:
    for path, quotas in zip(paths, promised, strict=True):
        strangers = sorted({job.vc for job in trace.jobs} - quotas.keys())
        if strangers:
            count = sum(job.vc in strangers for job in trace.jobs)
            names = ", ".join(repr(name) for name in strangers[:5]) + (", ..." if len(strangers) > 5 else "")
            warning(
                text(
                    "{path} promises nothing to {names}: {count} of their jobs run as opportunistic",
                    path=path,
                    names=names,
                    count=count,
                )
            )


def _write(given: WhatIf) -> None:
    write(
        localized(
            "{path} ({count:,} jobs, sha256 {sha256})",
            path=given.trace.path,
            count=len(given.trace.jobs),
            sha256=given.trace.sha256[:12],
        )
    )
    old, new = given.old, given.new
    write(
        localized(
            "old: {old} ({before} devices); new: {new} ({after} devices)",
            old=old.cluster,
            before=old.devices,
            new=new.cluster,
            after=new.devices,
        )
    )
    write("")
    write_table(
        ("VC", "JOBS", "DEVICES", "MEAN WAIT", "THEN", "P95 WAIT", "THEN", "WAIT LESS", "MORE", "SAME"),
        (
            (
                row.vc or "-",
                number(row.jobs),
                _arrow(row.promised_before, row.promised_after),
                span(row.wait_before),
                span(row.wait_after),
                span(row.p95_before),
                span(row.p95_after),
                number(row.less),
                number(row.more),
                number(row.same),
            )
            for row in given.tenants
        ),
    )
    _write_jobs("WAITS LESS", given.tenants, "gained")
    _write_jobs("WAITS MORE", given.tenants, "lost")
    write("")
    write_figures(["old", "new"], [given.old_figures, given.new_figures])
    loses = [row.vc for row in given.tenants if _loses(row)]
    gains = [row.vc for row in given.tenants if _gains(row)]
    info(
        text(
            "shorter mean wait: {less}; longer: {more}",
            less=", ".join(gains) or text("no tenant"),
            more=", ".join(loses) or text("no tenant"),
        )
    )


def _arrow(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} > {after}"


def _loses(row: TenantChange) -> bool:
    return row.unfinished_after > row.unfinished_before or (row.wait_after or 0) > (row.wait_before or 0)


def _gains(row: TenantChange) -> bool:
    return not _loses(row) and (
        row.unfinished_after < row.unfinished_before or (row.wait_after or 0) < (row.wait_before or 0)
    )


def _write_jobs(title: str, tenants: tuple[TenantChange, ...], side: str) -> None:
    rows: list[JobChange] = [job for row in tenants for job in getattr(row, side)]
    if not rows:
        return
    write("")
    write_table(
        (title, "VC", "DEVICES", "WAITED", "THEN"),
        ((job.id, job.vc or "-", number(job.gpus), _waited(job.before), _waited(job.after)) for job in rows),
    )


def _waited(millis: int | None) -> str:
    return localized("never ends") if millis is None else span(millis / 1000)
