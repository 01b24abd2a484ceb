"""`paictl sim compare --config`: how long each tenant waits under three kinds of promises."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from paictl.cells.spec import ClusterSpec
from paictl.cli.console import Output, info, localized, progressing, write, write_data, write_table
from paictl.cli.sim.runs import estimating, resumable
from paictl.cli.sim.shared import read_trace
from paictl.config.quotas.capacity import configuration
from paictl.config.reading.load import load
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.sim.promises import PolicyRun, PromiseKind, play_each, tenants, worse_off
from paictl.sim.specify import from_hived
from paictl.sim.traces.source import TraceError
from paictl.units import span_text


def compare_promises(
    trace: str, config: str, policies: list[str], kind: str | None, *, each_job: bool, resume: bool, output: Output
) -> None:
    """Play a trace under several kinds of promises and compare how long each tenant waits."""
    kinds = [kind for kind in PromiseKind if not policies or kind in policies]
    if unknown := [name for name in policies or () if name not in list(PromiseKind)]:
        raise PaictlError(
            text("no policy {name!r}", name=unknown[0]),
            hint=text("one of: {names}", names=", ".join(PromiseKind)),
        )
    loaded = load([config])
    document = configuration(loaded)
    spec = from_hived(document, config, loaded.documents)
    hived = ClusterSpec.from_mapping(document.data)  # type: ignore[arg-type] # a mapping, or the line above had refused
    workload = read_trace(trace, kind)
    jobs = workload.jobs
    every = list(dict.fromkeys([*kinds, PromiseKind.PRIVATE]))
    words = text("simulating {count:,} jobs {runs} times", count=len(jobs), runs=len(every))
    try:
        with progressing(words) as say, resumable(workload, resume=resume) as (kept,):
            played = play_each(every, jobs, hived, spec, estimating(say, words), kept)
    except TraceError as error:
        where = f"{trace}: {error.where}" if error.where else trace
        raise TraceError(error.message, where=where, hint=error.hint) from None
    courses, private = [played[kind] for kind in kinds], played[PromiseKind.PRIVATE]
    worse = {course.policy: worse_off(course, private) for course in courses}
    if output is not Output.TABLE:
        write_data([_data(course, worse[course.policy]) for course in courses], output)
    else:
        _show(courses, each_job=each_job)
    for policy, vcs in worse.items():
        if vcs:
            info(text("{policy}: {names} waited longer than in a private cluster", policy=policy, names=", ".join(vcs)))
    if any(worse.values()):
        raise typer.Exit(ExitCode.NEGATIVE)


def _show(courses: list[PolicyRun], *, each_job: bool) -> None:
    columns = ("POLICY", "VC", "JOBS", "MEAN WAIT", "LONGEST", "MEAN JCT", "BLOCKED")
    rows = (
        (
            tenant.policy,
            tenant.vc,
            tenant.jobs,
            span_text(tenant.wait),
            span_text(tenant.longest),
            span_text(tenant.completion),
            tenant.blocked,
        )
        for course in courses
        for tenant in tenants(course)
    )
    write_table(columns, rows)
    if each_job:
        write("")
        write_table(("POLICY", "JOB", "DEVICES", "SUBMITTED", "WAITED", "NODES"), map(_row, _all(courses)))
    write("")
    for course in courses:
        write(
            localized(
                "{policy}: {pieces} free devices on partly used nodes on average",
                policy=course.policy,
                pieces=course.pieces,
            )
        )


def _all(courses: list[PolicyRun]) -> list[tuple[PolicyRun, int]]:
    return [(course, number) for course in courses for number in range(len(course.jobs))]


def _row(entry: tuple[PolicyRun, int]) -> tuple[object, ...]:
    course, number = entry
    ran = course.jobs[number]
    job = ran.job
    size = f"{job.gpus // job.pod} x {job.pod}" if 0 < job.pod < job.gpus else str(job.gpus)
    return (
        course.policy,
        job.id,
        size,
        span_text(job.submit),
        span_text(ran.waited),
        ", ".join(dict.fromkeys(ran.nodes)),
    )


def _data(course: PolicyRun, worse: list[str]) -> dict[str, Any]:
    return {
        "policy": course.policy.value,
        "piecesMean": course.pieces,
        "worseThanPrivate": worse,
        "tenants": [{**asdict(tenant), "policy": tenant.policy.value} for tenant in tenants(course)],
        "jobs": [
            {
                "name": ran.job.id,
                "vc": ran.job.vc,
                "submitted": ran.job.submit,
                "waited": ran.waited,
                "despiteFreeCount": ran.despite,
                "nodes": list(dict.fromkeys(ran.nodes)),
            }
            for ran in course.jobs
        ],
    }
