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
    """One name for a network and its batch size: jobs of it behave alike."""
    return f"{kind}/{size}"


def _job(given: Any, known: TopologyProfile) -> Job:
    kind, size = str(given["type"]), str(given["size"])
    gpus = whole(str(given["gpus"]), "gpus", 1) * whole(str(given.get("tasks", 1)), "tasks", 1)
    own = (kind, size, gpus)
    near, apart = known.alone.get(own, (0.0, 0.0))
    if near <= 0:
        raise RowError(
            i18n.text(
                "{kind} with batch size {size} on {gpus} devices was not measured", kind=kind, size=size, gpus=gpus
            )
        )
    measured = own if any(key[:3] == own for key in known.beside) else (kind, size, 1)  # most with 1 device only
    base = known.alone.get(measured, (0.0, 0.0))[0]
    beside = {
        model_name(other, other_size): min(1.0, base / seconds)
        for (*mine, other, other_size, count), seconds in known.beside.items()
        if tuple(mine) == measured and count == 1 and seconds > 0
    }
    close = {
        f"{model_name(other, other_size)}*{count}": min(1.0, near / seconds)
        for (*mine, other, other_size, count), seconds in known.beside.items()
        if tuple(mine) == own and seconds > 0
    }
    return Job(
        id=str(given["id"]), submit=span(str(given["arrival"]), "arrival", SECOND), gpus=gpus,
        work=Millis(round(near * SECOND)), model=model_name(kind, size), coloc=beside, beside=close,
        sensitivity={"node": near / apart} if apart > 0 else {},
        facts={"utility": number(str(given["minimal_utility"]), "minimal_utility"),
               "memory": number(str(given.get("mem", 0)), "mem")},
    )  # fmt: skip


def _read(source: TraceFile) -> Rows:
    beside = next((file for name in _PROFILES if (file := source.sibling(name)) is not None), None)
    if beside is None:
        raise TraceError(
            "lists what runs, but the profile with the durations is missing", where=source.name,
            hint=i18n.text('put {file} into the same folder', file=_PROFILES[0]),
        )  # fmt: skip
    jobs, known = parsed(source), topology(beside)
    for line, (key, given) in zip(_lines(source.text()), jobs.items(), strict=False):
        try:
            yield line, _job(given, known)
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
    """Where each job of the object begins: they are the only objects in it."""
    return (number for number, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith(": {") or ":{" in line)


def _tells(head: FileHead) -> bool:
    return head.start.lstrip().startswith("{") and '"minimal_utility"' in head.start


SC17 = Format(
    "sc17", "SC'17 topology-aware scheduler", "s", "JSON {id: {arrival, gpus, type, size, minimal_utility}}; "
    "prof_from_experiments.json beside it", "HiEST/gpu-topo-aware, Apache-2.0", _tells, _read,
)  # fmt: skip
