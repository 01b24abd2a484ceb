"""How far a job's training is: epochs, and batch sizes that change, from the facts of its trace.

Facts: `epochs`; `profile.K.batch` and `.epochs`, which batch sizes are expected one after the other; `switch.K.at`
(seconds of work), `.batch` and `.epoch`, which it really takes; `batch.B.epoch_seconds` and `.steps_per_second`. A job
without them trains in equal epochs of at least a second, at most a hundred, with one batch size.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from math import fsum
from typing import Final

from paictl.frozen import frozen
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis

_EPOCHS: Final = 100
"""Of a job of which nothing is known."""


@frozen
class Training:
    """The course of one job; times are seconds of work, which has the same pace in all of them."""

    epochs: int
    profile: tuple[tuple[int, int], ...]
    """(batch size, epochs) one after the other."""
    switches: tuple[tuple[float, int, float], ...]
    """(from which second of work on, batch size, epochs done by then)."""
    epoch_seconds: Mapping[int, float]
    """By batch size."""
    steps_per_second: Mapping[int, float]
    """By batch size."""
    work: float
    """Seconds of work in all."""

    def progress(self, done: float) -> tuple[int, float]:
        """(Batch size, epochs done) after so many seconds of work."""
        at = bisect_right(self.switches, (done, 1 << 62, 0.0)) - 1
        since, batch, epoch = self.switches[at]
        return batch, min(float(self.epochs), epoch + (done - since) / self.epoch_seconds[batch])

    def expected(self, epoch: int) -> float:
        """Seconds that the profile gives to the first so many epochs."""
        parts = []
        for batch, epochs in self.profile:
            parts.append(min(epoch, epochs) * self.epoch_seconds[batch])
            epoch = max(0, epoch - epochs)
        return fsum(parts)

    def seen(self, epoch: int) -> dict[int, int]:
        """Epochs by batch size among the first so many of the profile."""
        found: dict[int, int] = dict.fromkeys((batch for batch, _ in self.profile), 0)
        for batch, epochs in self.profile:
            found[batch] += min(epoch, epochs)
            epoch = max(0, epoch - epochs)
        return found

    def remaining(self, epoch: int) -> float:
        """Seconds that are still to be expected after so many whole epochs (Shockwave's forecast).

        Each batch size of the profile is equally likely at first; every epoch seen, the present one too, speaks for its
        own. Epochs that were done are taken off.
        """
        seen, kinds = self.seen(min(epoch + 1, self.epochs)), len({batch for batch, _ in self.profile})
        scale = self.epochs / (self.epochs + sum(seen.values()))
        expected = {batch: max(0.0, (self.epochs / kinds + count) * scale - count) for batch, count in seen.items()}
        left = self.epochs - epoch
        seconds = fsum(count * self.epoch_seconds[batch] for batch, count in expected.items())
        return seconds * left / max(left, int(fsum(expected.values())) + 1)


def training(job: JobView) -> Training:
    """Of a job whose view may read `facts` and `work`."""
    facts, work = job.facts, job.work / 1000
    if "epochs" not in facts or "profile.0.batch" not in facts:
        epochs = max(1, min(_EPOCHS, int(work)))
        speed = job.iterations / work if job.iterations and work else 1.0
        return Training(epochs, ((1, epochs),), ((0.0, 1, 0.0),), {1: max(work, 1e-3) / epochs}, {1: speed}, work)
    batches = [
        int(name.split(".")[1]) for name in facts if name.startswith("batch.") and name.endswith(".epoch_seconds")
    ]
    return Training(
        int(facts["epochs"]),
        tuple((int(facts[f"profile.{k}.batch"]), int(facts[f"profile.{k}.epochs"])) for k in _places(facts, "profile")),
        tuple((facts[f"switch.{k}.at"], int(facts[f"switch.{k}.batch"]), facts[f"switch.{k}.epoch"])
              for k in _places(facts, "switch")),
        {batch: facts[f"batch.{batch}.epoch_seconds"] for batch in batches},
        {batch: facts[f"batch.{batch}.steps_per_second"] for batch in batches},
        work,
    )  # fmt: skip


def _places(facts: Mapping[str, float], what: str) -> range:
    return range(sum(name.startswith(f"{what}.") and name.endswith(".batch") for name in facts))


def seconds_done(job: JobView, now: Millis) -> float:
    """Seconds of work that it has done."""
    return job.work / 1000 - job.remaining(now) / ONE / 1000
