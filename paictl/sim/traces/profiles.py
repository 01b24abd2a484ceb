"""How fast models run, from the files that were published with the simulators of the papers.

A profile answers with rates and times as the file has them; what a policy may know of it is not decided here. Missing
entries are None, never a guess.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from paictl import i18n
from paictl.frozen import frozen
from paictl.sim.goodput import StepTimes
from paictl.sim.job import BadRow
from paictl.sim.traces.lines import SECOND, table
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis

JobType = tuple[str, int]
"""Gavel's kind of job: model with batch size, number of workers."""


def parsed(source: TraceFile) -> Any:
    """The JSON in a file; raises `TraceError` with its line otherwise."""
    try:
        return json.loads(source.text())
    except json.JSONDecodeError as error:
        raise TraceError(
            i18n.text("is not JSON: {msg}", msg=error.msg),
            where=f"{source.name}:{error.lineno}",
            hint="copy the file again",
        ) from None


# --- Gavel (OSDI'20): steps a second by type of device


@frozen
class Throughputs:
    """Steps a second of Gavel's job types, alone and in pairs on one device, by worker type (``v100``, ``p100``...)."""

    workers: tuple[str, ...]
    """Types of devices, ``_unconsolidated`` ones last."""
    alone: Mapping[tuple[str, JobType], float]
    """By (worker type, job type)."""
    pairs: Mapping[tuple[str, JobType, JobType], tuple[float, float]]
    """By (worker type, first, second): what each of them gets; 0 and 0 where both do not fit into memory."""


def throughputs(source: TraceFile) -> Throughputs:
    """Gavel's ``*_throughputs.json``; raises `TraceError` if it has another shape."""
    alone: dict[tuple[str, JobType], float] = {}
    pairs: dict[tuple[str, JobType, JobType], tuple[float, float]] = {}
    try:
        for worker, jobs in parsed(source).items():
            for name, others in jobs.items():
                job = _job_type(name)
                for other, found in others.items():
                    if other == "null":
                        alone[worker, job] = float(found)
                    else:
                        pairs[worker, job, _job_type(other)] = (float(found[0]), float(found[1]))
    except (AttributeError, IndexError, TypeError, ValueError, SyntaxError) as error:
        raise _misshapen(source, "throughputs of Gavel", error) from None
    workers = sorted({worker for worker, _ in alone}, key=lambda name: (name.endswith("_unconsolidated"), name))
    return Throughputs(tuple(workers), alone, pairs)


def _job_type(text: str) -> JobType:
    model, workers = ast.literal_eval(text)
    return str(model), int(workers)


# --- Pollux (OSDI'21): time of a step by placement and batch size, progress by epoch


EPOCHS: Final = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs after which Pollux' simulator takes a model for trained (its ``applications.py``, petuum/adaptdl @c793c70)."""

_BATCHES: Final = (
    12, 16, 20, 24, 32, 40, 48, 64, 8, 80, 96, 128, 160, 192, 200, 256, 320, 384, 400, 512, 640, 800, 1024, 1600, 2048,
    3200, 4096, 6400, 8192, 12800, 16384, 32768,
)  # fmt: skip
"""Batch sizes of which some application has a file."""

_GRADIENTS: Final = ("progress", "grad_sqr", "grad_var")


def step_times(near: TraceFile, folder: str, kind: str = "") -> StepTimes | None:
    """Times of steps in a folder beside a file, on a type of device where there are several; None if not there.

    Raises `TraceError` with the file and line at fault.
    """
    end = f"-{kind}.csv" if kind else ".csv"
    placements = near.sibling(f"{folder}/placements{end}")
    scalability = near.sibling(f"{folder}/scalability{end}")
    if placements is None or scalability is None:
        return None
    found: dict[tuple[int, ...], list[tuple[int, float, float]]] = {}
    for placement, size, step, sync in _numbers(placements, "placement", "local_bsz", "step_time", "sync_time"):
        key = tuple(int(digit) for digit in str(int(placement)))
        found.setdefault(key, []).append((int(size), step, sync))
    spread = tuple(
        (int(nodes), int(replicas), int(size), step, sync)
        for nodes, replicas, size, step, sync in _numbers(
            scalability, "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"
        )
    )
    return StepTimes({key: tuple(sorted(rows)) for key, rows in found.items()}, spread)


def validation(near: TraceFile, folder: str) -> dict[int, tuple[tuple[float, float, float], ...]]:
    """Batch size -> of each epoch progress at its end and gradients (squared norm, variance), from a folder."""
    return {
        batch: tuple((progress, sqr, var) for progress, sqr, var in _numbers(file, *_GRADIENTS))
        for batch, file in _validations(near, folder)
    }


def _validations(near: TraceFile, folder: str) -> Iterator[tuple[int, TraceFile]]:
    for batch in _BATCHES:
        if (file := near.sibling(f"{folder}/validation-{batch}.csv")) is not None:
            yield batch, file


def _numbers(source: TraceFile, *columns: str) -> Iterator[tuple[float, ...]]:
    for line, row in enumerate(_rows(source), 2):
        try:
            yield tuple(float(row[column]) for column in columns)
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(
                i18n.text("is not a {what}: {kind} {reason}", what="profile of Pollux", kind=type(error).__name__,
                          reason=error),
                where=f"{source.name}:{line}",
                hint="compare it with the published file",
            ) from None  # fmt: skip


def _rows(source: TraceFile) -> Iterator[dict[str, str]]:
    try:
        yield from csv.DictReader(source.text().splitlines())
    except (KeyError, ValueError) as error:
        raise _misshapen(source, "profile of Pollux", error) from None


# --- SC'17 topology: seconds of a run alone and beside another


@frozen
class TopologyProfile:
    """Seconds of a Caffe job by (model, batch size, devices), where its devices are, and who shares its machine."""

    alone: Mapping[tuple[str, str, int], tuple[float, float]]
    """-> (on one socket, across sockets); 0 where it was not measured."""
    beside: Mapping[tuple[str, str, int, str, str, int], float]
    """(own model, batch size, devices, the other's model, batch size, devices) -> seconds."""


def topology(source: TraceFile) -> TopologyProfile:
    """``prof_from_experiments*.json`` of HiEST/gpu-topo-aware; raises `TraceError` if it has another shape."""
    alone: dict[tuple[str, str, int], tuple[float, float]] = {}
    beside: dict[tuple[str, str, int, str, str, int], float] = {}
    try:
        data = parsed(source)
        for own, found in _deep(data["solo"]):
            alone[own] = (float(found["intra-socket"]), float(found["inter-socket"]))
        for own, others in _deep(data["collocation"]):
            for other, seconds in _deep(others):
                beside[(*own, *other)] = float(seconds)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _misshapen(source, "profile of SC'17", error) from None
    return TopologyProfile(alone, beside)


def _deep(data: Any) -> Iterator[tuple[tuple[str, str, int], Any]]:
    """((model, batch size, devices), what is there)."""
    for model, sizes in data.items():
        for size, counts in sizes.items():
            for devices, found in counts["num_gpus"].items():
                yield (model, size, int(devices)), found


# --- Chronus (SoCC'21): rate by number of nodes


def spread_rates(source: TraceFile) -> dict[tuple[str, int], dict[int, float]]:
    """``model_info.json``: (model, devices) -> nodes -> rate, 1.0 on one node; raises `TraceError` otherwise."""
    try:
        return {
            (model, int(devices)): {int(nodes): float(rate) for nodes, rate in rates.items()}
            for model, sizes in parsed(source).items()
            for devices, rates in sizes.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise _misshapen(source, "table of models of Chronus", error) from None


# --- Tiresias (NSDI'19): how unevenly a model's parameters lie in its tensors

SKEW: Final[Mapping[str, float]] = {
    "vgg11": 0.773, "vgg16": 0.743, "vgg19": 0.715, "alexnet": 0.61, "googlenet": 0.146, "resnet50": 0.092,
    "inception3": 0.086, "resnet101": 0.053, "resnet152": 0.039, "inception4": 0.036,
}  # fmt: skip
"""Size of the largest tensor by size of the model (Tiresias §4.2): what is skewed suffers when it is spread."""


def skew(model: str) -> float:
    """Of a model, 0 where nobody measured it; ``inception_v3`` and ``Inception3`` are the same."""
    return SKEW.get(model.lower().replace("_v", "").replace("-", "").replace("_", ""), 0.0)


def samples(source: TraceFile) -> tuple[Millis, ...]:
    """Tiresias' ``yarn-gput*.csv``: GPU times that a Gittins index is made from, rising; one column, seconds.

    Raises `TraceError` at the first line that is no number.
    """
    found = []
    for row in table(source, lambda line: line.span("duration", SECOND)):
        if isinstance(row, BadRow):
            raise TraceError(row.message, where=f"{source.name}:{row.line}", hint="one number per line, in seconds")
        found.append(row[1])
    return tuple(sorted(found))


def _misshapen(source: TraceFile, what: str, error: Exception) -> TraceError:
    return TraceError(
        i18n.text("is not a {what}: {kind} {reason}", what=what, kind=type(error).__name__, reason=error),
        where=source.name,
        hint="compare it with the published file",
    )
