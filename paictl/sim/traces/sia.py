"""Workloads of Sia (SOSP'23): Pollux' format, and profiles for each of several types of device.

`work` is the time that a job takes on the first type measured with the devices and the batch size that its user
requests. A real cluster is slower than the profiles; by how much, and how long a restart takes, is as in their
simulator.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final, NamedTuple

from paictl.i18n import text
from paictl.sim.goodput import BatchSize, StepTimes, TrainingProfile
from paictl.sim.job import Job
from paictl.sim.traces.base import FileHead, Format, Rows, has
from paictl.sim.traces.lines import SECOND, Line, RowError, table
from paictl.sim.traces.profiles import EPOCHS, step_times, validation
from paictl.sim.traces.source import TraceFile
from paictl.units import Millis

NODES: Final = {"aws": 4, "dgx-ext": 8, "rtx": 8}
"""Types of device with the devices of a node."""
_COUNTS: Final = (1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64)
_LARGEST_LOCAL: Final = {"deepspeech2": {"rtx": 57}}
_SLOWDOWN: Final = {"cifar10": 1.8, "ncf": 1.5}
_OTHERS_SLOWDOWN: Final = 1.2
_RESTART: Final = {"cifar10": 50, "deepspeech2": 25, "bert": 120, "yolov3": 80, "imagenet": 250, "ncf": 15}
_BELIEVED: Final = {"cifar10": 30, "deepspeech2": 25, "bert": 120, "yolov3": 45, "imagenet": 250}
_OTHERS_RESTART: Final = 30
_BOUND: Final = {"ncf": 32768}
_COLUMNS: Final = ("name", "time", "application", "num_replicas", "batch_size")


class _Measured(NamedTuple):
    """Measurements for one application, batch size and number of replicas; seconds of a step on the reference."""

    steps: float
    base: float
    throughput: dict[str, float]
    scaling: dict[int, float]


class _Profiles:
    def __init__(self, source: TraceFile) -> None:
        self.source = source
        self._trainings: dict[str, TrainingProfile | None] = {}
        self._measured: dict[tuple[str, int, int], _Measured] = {}

    def training(self, name: str) -> TrainingProfile:
        if name not in self._trainings:
            self._trainings[name] = self._read(name)
        profile = self._trainings[name]
        if profile is None:
            raise RowError(
                text("no profile of {name!r}; put profiles/{name}/ of the artifact beside the workloads", name=name)
            )
        return profile

    def _read(self, name: str) -> TrainingProfile | None:
        folder = f"../profiles/{name}"
        times_by_type = {kind: step_times(self.source, folder, kind) for kind in NODES}
        types: dict[str, StepTimes] = {kind: times for kind, times in times_by_type.items() if times is not None}
        if not types:
            return None
        return TrainingProfile(
            name,
            EPOCHS[name],
            types,
            validation(self.source, folder),
            _LARGEST_LOCAL.get(name, {}),
            slowdown=_SLOWDOWN.get(name, _OTHERS_SLOWDOWN),
            restart=_RESTART.get(name, _OTHERS_RESTART),
            believed=_BELIEVED.get(name, _OTHERS_RESTART),
            bound=_BOUND.get(name, 0),
        )

    def of(self, name: str, batch: int, replicas: int) -> _Measured:
        key = name, batch, replicas
        if key not in self._measured:
            self._measured[key] = self._make(*key)
        return self._measured[key]

    def _make(self, name: str, batch: int, replicas: int) -> _Measured:
        training = self.training(name)
        steps = training.steps(batch)
        by_type = {kind: self._seconds(training, kind, batch, replicas) for kind in training.types}
        measured = {kind: step_seconds for kind, step_seconds in by_type.items() if step_seconds is not None}
        if steps is None or not measured:
            raise RowError(
                text(
                    "{name} with batch size {batch} on {replicas} devices was not measured",
                    name=name,
                    batch=batch,
                    replicas=replicas,
                )
            )
        kind, base = next(iter(measured.items()))
        by_count = {count: self._seconds(training, kind, batch, count) for count in sorted({*_COUNTS, replicas})}
        return _Measured(
            steps,
            base,
            {other: base / step_seconds for other, step_seconds in measured.items()},
            {count: base / step_seconds for count, step_seconds in by_count.items() if step_seconds is not None},
        )

    @staticmethod
    def _seconds(training: TrainingProfile, kind: str, batch: int, replicas: int) -> float | None:
        """Seconds of a step on as few nodes as possible; None if not measured."""
        full, rest = divmod(replicas, NODES[kind])
        placement = (NODES[kind],) * full + ((rest,) if rest else ())
        size: BatchSize = training.asked(batch, replicas, kind, placement)
        times = training.types[kind].step(placement, size.local)
        if times is None:
            return None
        step, sync = times
        return (step + (size.passes - 1) * (step - sync)) * training.slowdown


def _row(line: Line, profiles: _Profiles) -> Job:
    name, batch = line.text("application"), line.whole("batch_size", 1)
    if name not in EPOCHS:
        raise RowError(text("application {name!r} is not one of {names}", name=name, names=", ".join(EPOCHS)))
    gpus, training = line.whole("num_replicas", 1), profiles.training(name)
    measured = profiles.of(name, batch, gpus)
    return Job(
        id=line.text("name"),
        submit=line.span("time", SECOND),
        gpus=gpus,
        model=name,
        work=Millis(round(measured.steps * measured.base * SECOND)),
        iterations=math.ceil(measured.steps),
        elastic=(min(measured.scaling), max(measured.scaling)),
        scaling=measured.scaling,
        throughput=measured.throughput,
        facts={"batch_size": batch, "epochs": EPOCHS[name]},
        training=training,
    )


def _read(source: TraceFile) -> Rows:
    return table(source, partial(_row, profiles=_Profiles(source)))


def _tells(head: FileHead) -> bool:
    """Pollux' columns; the difference is in the files beside it."""
    if not has(*_COLUMNS)(head):
        return False
    trace_file = TraceFile(head.name, b"")
    return any(
        trace_file.sibling(f"../profiles/{name}/placements-{kind}.csv") is not None for name in EPOCHS for kind in NODES
    )


SIA = Format(
    "sia",
    "Sia's simulator",
    "s",
    f"{', '.join(_COLUMNS)}; profiles/APPLICATION/ beside its folder",
    "siasosp23/artifacts, no licence stated",
    _tells,
    _read,
)
