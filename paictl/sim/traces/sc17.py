"""Workloads of the topology-aware scheduler of SC'17 (Amaral et al.): Caffe jobs on machines with two sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from paictl import i18n
from paictl.sim.job import BadRow, Job
from paictl.sim.traces.base import FileHead, Format, Rows
from paictl.sim.traces.lines import SECOND, RowError, number, span, whole
from paictl.sim.traces.profiles import TopologyProfile, parsed, topology
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis

_PROFILES: Final = ("prof_from_experiments.json", "prof_from_experiments_full.json")


def model_name(kind: str, size: str) -> str:
    """A name for a model with its batch size: jobs with one name behave alike."""
    return f"{kind}/{size}"


def _job(row: Any, profile: TopologyProfile) -> Job:
    kind, size = str(row["type"]), str(row["size"])
    gpus = whole(str(row["gpus"]), "gpus", 1) * whole(str(row.get("tasks", 1)), "tasks", 1)
    job_key = (kind, size, gpus)
    one_socket, two_sockets = profile.alone.get(job_key, (0.0, 0.0))
    if one_socket <= 0:
        raise RowError(
            i18n.text(
                "{kind} with batch size {size} on {gpus} devices was not measured", kind=kind, size=size, gpus=gpus
            )
        )
    measured = (
        job_key if any(key[:3] == job_key for key in profile.beside) else (kind, size, 1)
    )  # most with 1 device only
    base = profile.alone.get(measured, (0.0, 0.0))[0]
    beside = {
        model_name(other, other_size): min(1.0, base / seconds)
        for (*own_key, other, other_size, count), seconds in profile.beside.items()
        if tuple(own_key) == measured and count == 1 and seconds > 0
    }
    close = {
        f"{model_name(other, other_size)}*{count}": min(1.0, one_socket / seconds)
        for (*own_key, other, other_size, count), seconds in profile.beside.items()
        if tuple(own_key) == job_key and seconds > 0
    }
    return Job(
        id=str(row["id"]),
        submit=span(str(row["arrival"]), "arrival", SECOND),
        gpus=gpus,
        work=Millis(round(one_socket * SECOND)),
        model=model_name(kind, size),
        coloc=beside,
        beside=close,
        sensitivity={"node": one_socket / two_sockets} if two_sockets > 0 else {},
        facts={
            "utility": number(str(row["minimal_utility"]), "minimal_utility"),
            "memory": number(str(row.get("mem", 0)), "mem"),
        },
    )


def _read(source: TraceFile) -> Rows:
    profile_file = next((file for name in _PROFILES if (file := source.sibling(name)) is not None), None)
    if profile_file is None:
        raise TraceError(
            "lists what runs, but the profile with the durations is missing",
            where=source.name,
            hint=i18n.text("put {file} into the same folder", file=_PROFILES[0]),
        )
    jobs, profile = parsed(source), topology(profile_file)
    lines = _lines(source.text())
    line = 1
    for key, row in jobs.items():
        line = next(lines, line)  # of several jobs in a line
        try:
            yield line, _job(row, profile)
        except RowError as error:
            yield BadRow(line, str(error))
        except (AttributeError, KeyError, TypeError) as error:
            yield BadRow(
                line,
                i18n.text(
                    "job {key} is not a job of a workload: {kind} {reason}",
                    key=key,
                    kind=type(error).__name__,
                    reason=error,
                ),
            )


def _lines(text: str) -> Iterator[int]:
    """The lines where the jobs of the object begin: they are the only objects in it."""
    return (number for number, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith(": {") or ":{" in line)


def _tells(head: FileHead) -> bool:
    return head.start.lstrip().startswith("{") and '"minimal_utility"' in head.start


SC17 = Format(
    "sc17",
    "SC'17 topology-aware scheduler",
    "s",
    "JSON {id: {arrival, gpus, type, size, minimal_utility}}; prof_from_experiments.json beside it",
    "HiEST/gpu-topo-aware, Apache-2.0",
    _tells,
    _read,
)
