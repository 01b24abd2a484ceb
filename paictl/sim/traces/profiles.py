"""How fast models run, from the files published with the papers' simulators.

A profile has the rates and times of its file; what a policy may know of them is decided elsewhere. Missing entries are
None, never a guess.
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
    """By (worker type, first, second): the rate of each; 0 and 0 if both do not fit into memory."""


def throughputs(source: TraceFile) -> Throughputs:
    """Gavel's ``*_throughputs.json``; raises `TraceError` if it has another shape."""
    alone: dict[tuple[str, JobType], float] = {}
    pairs: dict[tuple[str, JobType, JobType], tuple[float, float]] = {}
    try:
        for worker, jobs in parsed(source).items():
            for name, others in jobs.items():
                job = _job_type(name)
                for other, rate in others.items():
                    if other == "null":
                        alone[worker, job] = float(rate)
                    else:
                        pairs[worker, job, _job_type(other)] = (float(rate[0]), float(rate[1]))
    except (AttributeError, IndexError, TypeError, ValueError, SyntaxError) as error:
        raise _misshapen(source, "throughputs of Gavel", error) from None
    workers = sorted({worker for worker, _ in alone}, key=lambda name: (name.endswith("_unconsolidated"), name))
    return Throughputs(tuple(workers), alone, pairs)


def _job_type(text: str) -> JobType:
    model, workers = ast.literal_eval(text)
    return str(model), int(workers)


# --- Pollux (OSDI'21): time of a step by placement and batch size, progress by epoch


EPOCHS: Final = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs after which Pollux' simulator considers a model trained (its ``applications.py``, petuum/adaptdl @c793c70)."""

_BATCHES: Final = (
    12,
    16,
    20,
    24,
    32,
    40,
    48,
    64,
    8,
    80,
    96,
    128,
    160,
    192,
    200,
    256,
    320,
    384,
    400,
    512,
    640,
    800,
    1024,
    1600,
    2048,
    3200,
    4096,
    6400,
    8192,
    12800,
    16384,
    32768,
)
"""Batch sizes for which some application has a file."""

_GRADIENTS: Final = ("progress", "grad_sqr", "grad_var")


def step_times(trace: TraceFile, folder: str, kind: str = "") -> StepTimes | None:
    """Step times in a folder beside a trace, on a type of device if there are several; None if there are none.

    Raises `TraceError` with the file and line at fault.
    """
    end = f"-{kind}.csv" if kind else ".csv"
    placements = trace.sibling(f"{folder}/placements{end}")
    scalability = trace.sibling(f"{folder}/scalability{end}")
    if placements is None or scalability is None:
        return None
    by_placement: dict[tuple[int, ...], list[tuple[int, float, float]]] = {}
    for placement, size, step, sync in _numbers(placements, "placement", "local_bsz", "step_time", "sync_time"):
        key = tuple(int(digit) for digit in str(int(placement)))
        by_placement.setdefault(key, []).append((int(size), step, sync))
    spread = tuple(
        (int(nodes), int(replicas), int(size), step, sync)
        for nodes, replicas, size, step, sync in _numbers(
            scalability, "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"
        )
    )
    return StepTimes({key: tuple(sorted(rows)) for key, rows in by_placement.items()}, spread)


def validation(trace: TraceFile, folder: str) -> dict[int, tuple[tuple[float, float, float], ...]]:
    """Batch size -> for each epoch, progress at its end and gradients (squared norm, variance), from a folder."""
    return {
        batch: tuple((progress, sqr, var) for progress, sqr, var in _numbers(file, *_GRADIENTS))
        for batch, file in _validations(trace, folder)
    }


def _validations(trace: TraceFile, folder: str) -> Iterator[tuple[int, TraceFile]]:
    for batch in _BATCHES:
        if (file := trace.sibling(f"{folder}/validation-{batch}.csv")) is not None:
            yield batch, file


def _numbers(source: TraceFile, *columns: str) -> Iterator[tuple[float, ...]]:
    for line, row in enumerate(_rows(source), 2):
        try:
            yield tuple(float(row[column]) for column in columns)
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(
                i18n.text(
                    "is not a {what}: {kind} {reason}",
                    what="profile of Pollux",
                    kind=type(error).__name__,
                    reason=error,
                ),
                where=f"{source.name}:{line}",
                hint="compare it with the published file",
            ) from None


def _rows(source: TraceFile) -> Iterator[dict[str, str]]:
    try:
        yield from csv.DictReader(source.text().splitlines())
    except (KeyError, ValueError) as error:
        raise _misshapen(source, "profile of Pollux", error) from None


# --- SC'17 topology: seconds of a run alone and beside another


@frozen
class TopologyProfile:
    """Seconds of a Caffe job by (model, batch size, devices), its placement, and the job that shares its machine."""

    alone: Mapping[tuple[str, str, int], tuple[float, float]]
    """-> (on one socket, across sockets); 0 if not measured."""
    beside: Mapping[tuple[str, str, int, str, str, int], float]
    """(own model, batch size, devices, the other's model, batch size, devices) -> seconds."""


def topology(source: TraceFile) -> TopologyProfile:
    """``prof_from_experiments*.json`` of HiEST/gpu-topo-aware; raises `TraceError` if it has another shape."""
    alone: dict[tuple[str, str, int], tuple[float, float]] = {}
    beside: dict[tuple[str, str, int, str, str, int], float] = {}
    try:
        data = parsed(source)
        for own_key, times in _deep(data["solo"]):
            alone[own_key] = (float(times["intra-socket"]), float(times["inter-socket"]))
        for own_key, others in _deep(data["collocation"]):
            for other_key, seconds in _deep(others):
                beside[(*own_key, *other_key)] = float(seconds)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _misshapen(source, "profile of SC'17", error) from None
    return TopologyProfile(alone, beside)


def _deep(data: Any) -> Iterator[tuple[tuple[str, str, int], Any]]:
    """((model, batch size, devices), what is there)."""
    for model, sizes in data.items():
        for size, counts in sizes.items():
            for devices, value in counts["num_gpus"].items():
                yield (model, size, int(devices)), value


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


# --- Tiresias (NSDI'19): how unevenly a model's parameters are distributed over its tensors

SKEW: Final[Mapping[str, float]] = {
    "vgg11": 0.773,
    "vgg16": 0.743,
    "vgg19": 0.715,
    "alexnet": 0.61,
    "googlenet": 0.146,
    "resnet50": 0.092,
    "inception3": 0.086,
    "resnet101": 0.053,
    "resnet152": 0.039,
    "inception4": 0.036,
}
"""Size of the largest tensor by size of the model (Tiresias §4.2): skewed models suffer when they are spread."""


def skew(model: str) -> float:
    """The skew of a model, 0 if it was not measured; ``inception_v3`` and ``Inception3`` are the same."""
    return SKEW.get(model.lower().replace("_v", "").replace("-", "").replace("_", ""), 0.0)


def samples(source: TraceFile) -> tuple[Millis, ...]:
    """Tiresias' ``yarn-gput*.csv``: GPU times for a Gittins index, ascending; one column, in seconds.

    Raises `TraceError` at the first line that is not a number.
    """
    spans = []
    for row in table(source, lambda line: line.span("duration", SECOND)):
        if isinstance(row, BadRow):
            raise TraceError(row.message, where=f"{source.name}:{row.line}", hint="one number per line, in seconds")
        spans.append(row[1])
    return tuple(sorted(spans))


def _misshapen(source: TraceFile, expected: str, error: Exception) -> TraceError:
    return TraceError(
        i18n.text("is not a {what}: {kind} {reason}", what=expected, kind=type(error).__name__, reason=error),
        where=source.name,
        hint="compare it with the published file",
    )
