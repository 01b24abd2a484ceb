"""Jobs of Shockwave (NSDI'23), whose batch size changes while they train; a table beside them has their speeds.

Upstream checks the batch size at the end of each round of 120 s, whatever else runs on the cluster: the progress of a
job therefore depends only on its own rounds, and is simulated here once. `work` is the result, with a constant rate;
what a policy needs to know about batch sizes and epochs is in `facts` (`policies.training`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.job import Job
from paictl.sim.traces.base import Format, Rows, has
from paictl.sim.traces.lines import SECOND, Line, RowError, number, table, whole
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis

TABLE: Final = "throughputs_v100.csv"
ROUND: Final = 120
"""Seconds after which a job may take another batch size."""
_LARGEST: Final = {"LM": 80, "ResNet-18": 256, "ResNet-50": 128, "Recommendation": 8192}
"""The batch size of an accordion job outside its critical epochs; models that are not listed never change."""
_MODES: Final = ("static", "accordion", "gns")

Speeds = Mapping[tuple[str, int, int], float]
"""Steps a second of a whole job by (model, batch size, devices)."""


class Switch(NamedTuple):
    """From `at` seconds of work on, the job has this batch size and counts as having done `epoch` epochs."""

    at: float
    batch: int
    epoch: float


@frozen
class _Course:
    """A job before it is played."""

    model: str
    batch: int
    steps: int
    gpus: int
    mode: str
    samples: int
    epochs: int
    profile: tuple[tuple[int, int], ...]
    """(batch size, epochs) in sequence: what its mode is expected to do."""

    def next_batch(self, batch: int, epoch: int) -> int:
        """The batch size after a round that ended in an epoch with a batch size."""
        if self.mode == "gns":
            return 2 * batch if self.at(epoch) > batch else batch
        if self.mode == "accordion" and self.model in _LARGEST:
            return self.batch if _critical(self.model, self.batch, epoch) else max(self.batch, _LARGEST[self.model])
        return batch

    def at(self, epoch: int) -> int:
        """The batch size of an epoch in the profile, or of its last epoch beyond the end."""
        for batch, epochs in self.profile:
            if epoch < epochs:
                return batch
            epoch -= epochs
        return self.profile[-1][0]


def _critical(model: str, batch: int, epoch: int) -> bool:
    """Whether an epoch needs the job's original batch size."""
    if model == "ResNet-50":
        return epoch % 30 < 10
    if model == "ResNet-18":
        return epoch < (20 if batch >= 256 else 10) or 150 <= epoch < 160 or 250 <= epoch < 260
    if model == "Recommendation":
        return epoch < (30 if batch <= 1024 else 40 if batch <= 2048 else 10)
    return epoch < 10


def _play(course: _Course, speeds: Speeds) -> tuple[float, list[Switch]]:
    """Seconds until it is done alone, and its batch sizes."""
    batch, left, epoch, now = course.batch, course.steps, 0.0, 0.0
    switches = [Switch(0.0, batch, 0.0)]
    total = course.steps / math.ceil(course.samples / batch)
    while True:
        speed, epoch_steps = speeds[course.model, batch, course.gpus], math.ceil(course.samples / batch)
        steps = min(max(1, int(speed * ROUND)), left)
        now, left, epoch = now + steps / speed, left - steps, epoch + steps / epoch_steps
        if left <= 0:
            return now, switches
        next_batch = course.next_batch(batch, int(epoch))
        if next_batch != batch and speeds.get((course.model, next_batch, course.gpus), 0.0) > 0:
            batch, epoch = next_batch, float(math.ceil(epoch))
            left = round((total - epoch) * math.ceil(course.samples / batch))
            if left <= 0:
                return now, switches
            switches.append(Switch(now, batch, epoch))


def _row(line: Line, speeds: Speeds) -> Job:
    mode = line.text("mode")
    if mode not in _MODES:
        raise RowError(text("mode {mode!r} is not one of {names}", mode=mode, names=", ".join(_MODES)))
    profile = tuple(_runs(line.text("batch_by_epoch")))
    course = _Course(
        line.text("model"),
        line.whole("batch_size", 1),
        line.whole("steps", 1),
        line.whole("gpus", 1),
        mode,
        line.whole("samples_per_epoch", 1),
        line.whole("epochs", 1),
        profile,
    )
    for batch in (course.batch, *(batch for batch, _ in profile)):
        if speeds.get((course.model, batch, course.gpus), 0.0) <= 0:
            raise RowError(
                text(
                    "{name} with batch size {batch} on {replicas} devices was not measured",
                    name=course.model,
                    batch=batch,
                    replicas=course.gpus,
                )
            )
    seconds, switches = _play(course, speeds)
    return Job(
        id=line.text("job"),
        submit=line.span("submit", SECOND),
        gpus=course.gpus,
        model=course.model,
        work=Millis(max(1, round(seconds * SECOND))),
        iterations=course.steps,
        facts={"weight": line.number_or("weight", 1.0), "alone": line.number_or("alone_seconds", seconds)}
        | _facts(course, switches, speeds),
    )


def _facts(course: _Course, switches: list[Switch], speeds: Speeds) -> dict[str, float]:
    facts: dict[str, float] = {"epochs": course.epochs}
    for place, (batch, epochs) in enumerate(course.profile):
        facts |= {f"profile.{place}.batch": batch, f"profile.{place}.epochs": epochs}
    for place, switch in enumerate(switches):
        facts |= {f"switch.{place}.{field}": value for field, value in switch._asdict().items()}
    for batch in sorted({batch for batch, _ in course.profile} | {switch.batch for switch in switches}):
        speed = speeds[course.model, batch, course.gpus]
        facts |= {
            f"batch.{batch}.steps_per_second": speed,
            f"batch.{batch}.epoch_seconds": math.ceil(course.samples / batch) / speed,
        }
    return facts


def _runs(words: str) -> list[tuple[int, int]]:
    """``10x11 20x10``: eleven epochs with a batch size of 10, then ten with 20."""
    runs = []
    for word in words.split():
        batch, times, epochs = word.partition("x")
        if not times:
            raise RowError(text("batch_by_epoch has {word!r}; write BATCHxEPOCHS", word=word))
        runs.append((whole(batch, "batch_by_epoch", 1), whole(epochs, "batch_by_epoch", 1)))
    return runs


def _read(source: TraceFile) -> Rows:
    speed_file = source.sibling(TABLE)
    if speed_file is None:
        raise TraceError(
            text("counts work in steps, but {table} with the time of a step is missing", table=TABLE),
            where=source.name,
            hint=text("put {table} of Shockwave's trace into the same folder", table=TABLE),
        )
    speeds: dict[tuple[str, int, int], float] = {}
    for line, row in enumerate(csv.DictReader(speed_file.text().splitlines()), 2):
        try:
            if row["batch_size"]:
                speeds[row["model"], int(row["batch_size"]), int(row["gpus"])] = number(
                    row["steps_per_second"], "steps_per_second"
                )
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(
                text("is not a row of model, batch_size, gpus, steps_per_second: {reason}", reason=error),
                where=f"{speed_file.name}:{line}",
                hint="compare it with the published file",
            ) from None
    return table(source, partial(_row, speeds=speeds))


SHOCKWAVE = Format(
    "shockwave",
    "Shockwave's simulator",
    "s, steps",
    f"job, submit, model, batch_size, steps, gpus, mode, samples_per_epoch, epochs, batch_by_epoch; {TABLE} beside it",
    "uw-mad-dash/shockwave, MIT",
    has("job", "submit", "steps", "gpus", "mode", "samples_per_epoch", "batch_by_epoch"),
    _read,
)
