"""How fast models run, from the files that were published with the simulators of the papers.

A profile answers with rates and times as the file has them; what a policy may know of it is not decided here. Missing
entries are None, never a guess.
"""

from __future__ import annotations

import ast
import csv
import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cached_property
from math import fsum
from typing import Any, Final

from paictl import i18n
from paictl.frozen import frozen, frozen_caching
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


# --- Pollux (OSDI'21): time of a step by placement and batch size, steps until a model is trained


@frozen_caching
class Application:
    """One model of Pollux' workloads. Times are seconds."""

    name: str
    placements: Mapping[tuple[int, ...], tuple[tuple[int, float, float], ...]]
    """Replicas on each node, smallest rotation -> (batch size of a replica, time of a step, of its synchronisation)."""
    scalability: tuple[tuple[int, int, int, float, float], ...]
    """(nodes, replicas, batch size of a replica, time of a step, of its synchronisation), one replica a node."""
    iterations: Mapping[int, tuple[int, ...]]
    """Batch size -> steps done when each epoch ends."""

    @cached_property
    def _spread(self) -> Any:
        from scipy.interpolate import LinearNDInterpolator

        points: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
        for placement, rows in self.placements.items():
            for batch, step, sync in rows:
                points.setdefault((len(placement), sum(placement), batch), []).append((step, sync))
        for nodes, replicas, batch, step, sync in self.scalability:
            points.setdefault((nodes, replicas, batch), []).append((step, sync))
        keys = sorted(points)
        means = [[fsum(one[i] for one in points[key]) / len(points[key]) for i in (0, 1)] for key in keys]
        return LinearNDInterpolator(keys, means)

    def step(self, placement: tuple[int, ...], batch: float) -> tuple[float, float] | None:
        """(Time of a step, part of it for synchronisation) with so many replicas on each node, and a batch each.

        Linear between measured batch sizes of the same placement; of one that was not measured, linear between
        (nodes, replicas, batch size). None outside of what was measured.
        """
        used = tuple(replicas for replicas in placement if replicas)
        key = min((used[i:] + used[:i] for i in range(len(used))), default=())
        rows = self.placements.get(key)
        if rows is None:
            step, sync = (float(value) for value in self._spread([min(len(used), 16), sum(used), batch])[0])
            return None if step != step else (step, sync)
        if not rows[0][0] <= batch <= rows[-1][0]:
            return None
        after = max(1, bisect_left(rows, batch, key=lambda row: row[0]))
        (low, *first), (high, *second) = rows[after - 1], rows[after]
        part = (batch - low) / (high - low)
        step, sync = (a + (b - a) * part for a, b in zip(first, second, strict=True))
        return step, sync

    def steps(self, batch: int, epochs: int) -> float | None:
        """Steps with a (whole) batch size until so many epochs of progress; linear between measured batch sizes."""
        known = sorted(self.iterations)
        if not known or not known[0] <= batch <= known[-1]:
            return None
        after = bisect_left(known, batch)
        high = self.iterations[known[after]][epochs - 1]
        if known[after] == batch:
            return float(high)
        low = self.iterations[known[after - 1]][epochs - 1]
        part = (batch - known[after - 1]) / (known[after] - known[after - 1])
        return low + (high - low) * part


EPOCHS: Final = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs after which Pollux' simulator takes a model for trained (its ``applications.py``, petuum/adaptdl @c793c70)."""

_BATCHES: Final = (
    12, 16, 20, 24, 32, 40, 48, 64, 8, 80, 96, 128, 160, 192, 200, 256, 320, 384, 400, 512, 640, 800, 1024, 1600, 2048,
    3200, 4096, 6400, 8192, 12800, 16384, 32768,
)  # fmt: skip
"""Batch sizes of which some application has a file."""


def application(near: TraceFile, folder: str) -> Application | None:
    """The profile in a folder (``../traces/cifar10``) beside a file; None if it is not there."""
    placements = near.sibling(f"{folder}/placements.csv")
    scalability = near.sibling(f"{folder}/scalability.csv")
    if placements is None or scalability is None:
        return None
    found: dict[tuple[int, ...], list[tuple[int, float, float]]] = {}
    for row in _rows(placements):
        key = tuple(int(digit) for digit in row["placement"])
        found.setdefault(key, []).append((int(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])))
    spread = tuple(
        (int(row["num_nodes"]), int(row["num_replicas"]), int(row["local_bsz"]), float(row["step_time"]),
         float(row["sync_time"]))
        for row in _rows(scalability)
    )  # fmt: skip
    return Application(
        folder.rsplit("/", 1)[-1],
        {key: tuple(sorted(rows)) for key, rows in found.items()},
        spread,
        {batch: tuple(int(float(row["iteration"])) for row in _rows(file))
         for batch in _BATCHES if (file := near.sibling(f"{folder}/validation-{batch}.csv")) is not None},
    )  # fmt: skip


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
            raise TraceError(row.message, where=f"{source.name}:{row.line}", hint="one number a line, in seconds")
        found.append(row[1])
    return tuple(sorted(found))


def _misshapen(source: TraceFile, what: str, error: Exception) -> TraceError:
    return TraceError(
        i18n.text("is not a {what}: {kind} {reason}", what=what, kind=type(error).__name__, reason=error),
        where=source.name,
        hint="compare it with the published file",
    )
