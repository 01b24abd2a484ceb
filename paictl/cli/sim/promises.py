"""`paictl sim compare --config`: what tenants get of what they were promised, under three kinds of promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from paictl.cli.clusters import span_text
from paictl.cli.console import Output, info, write, write_data, write_table
from paictl.errors import ExitCode, PaictlError

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.sim.lab_compare import Course
    from paictl.sim.trace import TraceJob


def compare_promises(trace: str, config: str, policies: list[str], *, each_job: bool, output: Output) -> None:
    """Play a trace under several kinds of promises and compare how long each tenant waits."""
    from paictl.sim.lab_compare import Kind, play, tenants, worse_off

    kinds = [kind for kind in Kind if not policies or kind in policies]
    if unknown := [name for name in policies or () if name not in list(Kind)]:
        raise PaictlError(f"there is no policy {unknown[0]!r}", hint=f"one of: {', '.join(Kind)}")
    listed, spec = _trace(Path(trace)), _spec(config)
    courses = [play(kind, listed, spec) for kind in kinds]
    private = play(Kind.PRIVATE, listed, spec)
    worse = {course.policy: worse_off(course, private) for course in courses}
    if output is not Output.TABLE:
        write_data([_data(course, worse[course.policy]) for course in courses], output)
    else:
        write_table(
            ("POLICY", "VC", "JOBS", "MEAN WAIT", "LONGEST", "MEAN JCT", "BLOCKED"),
            (
                (one.policy, one.vc, one.jobs, span_text(one.wait), span_text(one.longest), span_text(one.completion),
                 one.blocked)
                for course in courses for one in tenants(course)
            ),
        )  # fmt: skip
        if each_job:
            write("")
            write_table(("POLICY", "JOB", "DEVICES", "SUBMITTED", "WAITED", "NODES"), map(_row, _all(courses)))
        write("")
        for course in courses:
            write(f"{course.policy}: {course.pieces} free devices on partly used nodes on average")
    for policy, vcs in worse.items():
        if vcs:
            info(f"{policy}: {', '.join(vcs)} waited longer than in a cluster of its own")
    if any(worse.values()):
        raise typer.Exit(ExitCode.NEGATIVE)


def _all(courses: list[Course]) -> list[tuple[Course, int]]:
    return [(course, number) for course in courses for number in range(len(course.jobs))]


def _row(entry: tuple[Course, int]) -> tuple[object, ...]:
    course, number = entry
    ran = course.jobs[number]
    size = f"{ran.job.pods} x {ran.job.devices}" if ran.job.pods > 1 else str(ran.job.devices)
    nodes = ", ".join(dict.fromkeys(place.node for place in ran.places))
    return course.policy, ran.job.name, size, span_text(ran.job.at), span_text(ran.waited), nodes


def _data(course: Course, worse: list[str]) -> dict[str, Any]:
    from dataclasses import asdict

    from paictl.sim.lab_compare import tenants

    return {
        "policy": course.policy.value,
        "piecesMean": course.pieces,
        "worseThanPrivate": worse,
        "tenants": [{**asdict(one), "policy": one.policy.value} for one in tenants(course)],
        "jobs": [
            {"name": ran.job.name, "vc": ran.job.vc, "submitted": ran.job.at, "waited": ran.waited,
             "despiteFreeCount": ran.despite, "nodes": [place.node for place in ran.places]}
            for ran in course.jobs
        ],
    }  # fmt: skip


def _trace(path: Path) -> tuple[TraceJob, ...]:
    import yaml

    from paictl.sim.trace import trace_from

    try:
        return trace_from(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PaictlError(f"cannot read: {error.strerror}", where=str(path), hint="check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        what, look = (
            "is not YAML: " + " ".join(str(error).split()),
            "look there at indentation, colons, brackets, quotes",
        )
        raise PaictlError(what, where=str(path), hint=look) from None
    except PaictlError as error:
        raise type(error)(error.message, where=f"{path}: {error.where}", hint=error.hint) from None


def _spec(path: str) -> ClusterSpec:
    from paictl.cells.spec import ClusterSpec
    from paictl.config.quotas.capacity import configuration
    from paictl.config.reading.load import load

    data = configuration(load([path])).data
    if not isinstance(data, dict):
        raise PaictlError("the hivedscheduler configuration is not a mapping", where=path)
    return ClusterSpec.from_mapping(data)
