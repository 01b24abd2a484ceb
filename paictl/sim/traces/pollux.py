"""Workloads of Pollux (OSDI'21): which model and batch size on how many devices; profiles tell how long they take.

`work` is the time that a job takes with the devices and the batch size that its user requests, by the progress of its
epochs. The time with others is in its `training`, for policies that choose both.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final, NamedTuple

from paictl.i18n import text
from paictl.sim.goodput import TrainingProfile
from paictl.sim.job import Job
from paictl.sim.traces.base import Format, Rows, has
from paictl.sim.traces.lines import SECOND, Line, RowError, table
from paictl.sim.traces.profiles import EPOCHS, step_times, validation
from paictl.sim.traces.source import TraceFile
from paictl.units import Millis

NODE: Final = 4
"""Devices of a node in their testbed, onto which replicas are packed."""
_COUNTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_LARGEST_LOCAL: Final = {"yolov3": 8}
"""Batch sizes of a replica that do not fit into memory although they were measured (their ``applications.py``)."""


_FIXED: Final = {"ncf": 32768}
"""Batch sizes that their simulator never tunes; such a job runs on one device."""


class _Measured(NamedTuple):
    steps: float
    seconds: dict[int, float]
    """Time of a step by number of replicas, packed."""
    spread: dict[int, float]
    """Rate by number of nodes with the requested replicas."""


def packed(replicas: int) -> tuple[int, ...]:
    """The placement of replicas on as few nodes as possible."""
    full, rest = divmod(replicas, NODE)
    return (NODE,) * full + ((rest,) if rest else ())


def step_seconds(training: TrainingProfile, placement: tuple[int, ...], batch: int) -> float | None:
    """Time of a step of the whole batch; gradients are accumulated if it does not fit. None if not measured."""
    size = training.asked(batch, sum(placement), "", placement)
    times = training.types[""].step(placement, size.local)
    return None if times is None else times[0] + (size.passes - 1) * (times[0] - times[1])


class _Profiles:
    def __init__(self, source: TraceFile) -> None:
        self.source = source
        self._measured: dict[tuple[str, int, int], _Measured] = {}
        self._trainings: dict[str, TrainingProfile | None] = {}

    def training(self, name: str) -> TrainingProfile:
        if name not in self._trainings:
            self._trainings[name] = self._read(name)
        profile = self._trainings[name]
        if profile is None:
            raise RowError(
                text(
                    "no profile of {name!r}; put traces/{name}/ of the artifact beside the workloads",
                    name=name,
                )
            )
        return profile

    def _read(self, name: str) -> TrainingProfile | None:
        for folder in (f"../traces/{name}", f"traces/{name}", name):
            if (times := step_times(self.source, folder)) is not None:
                largest = {"": _LARGEST_LOCAL[name]} if name in _LARGEST_LOCAL else {}
                gradients = validation(self.source, folder)
                return TrainingProfile(name, EPOCHS[name], {"": times}, gradients, largest, fixed=_FIXED.get(name, 0))
        return None

    def of(self, name: str, batch: int, replicas: int) -> _Measured:
        key = (name, batch, replicas)
        if key not in self._measured:
            self._measured[key] = self._make(*key)
        return self._measured[key]

    def _make(self, name: str, batch: int, replicas: int) -> _Measured:
        training = self.training(name)
        steps = training.steps(batch)
        seconds = {
            count: measured
            for count in sorted({*_COUNTS, replicas})
            if (measured := step_seconds(training, packed(count), batch)) is not None
        }
        if steps is None or replicas not in seconds:
            raise RowError(
                text(
                    "{name} with batch size {batch} on {replicas} devices was not measured",
                    name=name,
                    batch=batch,
                    replicas=replicas,
                )
            )
        spread = {}
        for nodes in range(len(packed(replicas)) + 1, min(replicas, 16) + 1):
            placement = tuple(replicas // nodes + (number < replicas % nodes) for number in range(nodes))
            if (measured := step_seconds(training, placement, batch)) is not None:
                spread[nodes] = seconds[replicas] / measured
        return _Measured(steps, seconds, spread)


def _row(line: Line, profiles: _Profiles) -> Job:
    name, batch = line.text("application"), line.whole("batch_size", 1)
    if name not in EPOCHS:
        raise RowError(text("application {name!r} is not one of {names}", name=name, names=", ".join(EPOCHS)))
    gpus = line.whole("num_replicas", 1)
    measured = profiles.of(name, batch, gpus)
    base = measured.seconds[gpus]
    return Job(
        id=line.text("name"),
        submit=line.span("time", SECOND),
        gpus=gpus,
        model=name,
        work=Millis(round(measured.steps * base * SECOND)),
        iterations=math.ceil(measured.steps),
        elastic=(min(measured.seconds), max(measured.seconds)),
        scaling={count: base / seconds for count, seconds in measured.seconds.items()},
        spread=measured.spread,
        facts={"batch_size": batch, "epochs": EPOCHS[name]},
        training=profiles.training(name),
    )


def _read(source: TraceFile) -> Rows:
    return table(source, partial(_row, profiles=_Profiles(source)))


POLLUX = Format(
    "pollux",
    "Pollux' simulator",
    "s",
    "name, time, application, num_replicas, batch_size; traces/APPLICATION/ beside it",
    "petuum/adaptdl osdi21-artifact, Apache-2.0",
    has("name", "time", "application", "num_replicas", "batch_size"),
    _read,
)
