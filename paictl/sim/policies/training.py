"""The progress of a job's training: epochs, and batch sizes that change, from the facts of the trace.

Facts: `epochs`; `profile.K.batch` and `.epochs`, the expected sequence of batch sizes; `switch.K.at` (seconds of work),
`.batch` and `.epoch`, the actual one; `batch.B.epoch_seconds` and `.steps_per_second`. A job without these facts trains
in at most a hundred equal epochs of at least a second, with one batch size.
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
"""The most epochs of a job without facts."""


@frozen
class Training:
    """The training of one job; times are seconds of work at the reference rate, whatever the batch size."""

    epochs: int
    profile: tuple[tuple[int, int], ...]
    """The expected sequence: (batch size, epochs)."""
    switches: tuple[tuple[float, int, float], ...]
    """The actual sequence: (start in seconds of work, batch size, epochs done by then)."""
    epoch_seconds: Mapping[int, float]
    """By batch size."""
    steps_per_second: Mapping[int, float]
    """By batch size."""
    work: float
    """Seconds of work in all."""

    def progress(self, done: float) -> tuple[int, float]:
        """(Batch size, epochs done) after `done` seconds of work."""
        at = bisect_right(self.switches, (done, 1 << 62, 0.0)) - 1
        since, batch, epoch = self.switches[at]
        return batch, min(float(self.epochs), epoch + (done - since) / self.epoch_seconds[batch])

    def expected(self, epoch: int) -> float:
        """Seconds of the first `epoch` epochs by the profile."""
        parts = []
        for batch, epochs in self.profile:
            parts.append(min(epoch, epochs) * self.epoch_seconds[batch])
            epoch = max(0, epoch - epochs)
        return fsum(parts)

    def seen(self, epoch: int) -> dict[int, int]:
        """By batch size, its number of epochs among the first `epoch` epochs of the profile."""
        counts: dict[int, int] = dict.fromkeys((batch for batch, _ in self.profile), 0)
        for batch, epochs in self.profile:
            counts[batch] += min(epoch, epochs)
            epoch = max(0, epoch - epochs)
        return counts

    def remaining(self, epoch: int) -> float:
        """Expected remaining seconds after `epoch` whole epochs (Shockwave's forecast).

        A priori, all batch sizes of the profile are equally likely; each observed epoch, including the present one,
        counts for its own batch size. Epochs that are done are subtracted.
        """
        counts, kinds = self.seen(min(epoch + 1, self.epochs)), len({batch for batch, _ in self.profile})
        scale = self.epochs / (self.epochs + sum(counts.values()))
        expected = {batch: max(0.0, (self.epochs / kinds + count) * scale - count) for batch, count in counts.items()}
        to_go = self.epochs - epoch
        seconds = fsum(count * self.epoch_seconds[batch] for batch, count in expected.items())
        return seconds * to_go / max(to_go, int(fsum(expected.values())) + 1)


def training(job: JobView) -> Training:
    """The training of a job; its view must know `facts` and `work`."""
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
        tuple(
            (facts[f"switch.{k}.at"], int(facts[f"switch.{k}.batch"]), facts[f"switch.{k}.epoch"])
            for k in _places(facts, "switch")
        ),
        {batch: facts[f"batch.{batch}.epoch_seconds"] for batch in batches},
        {batch: facts[f"batch.{batch}.steps_per_second"] for batch in batches},
        work,
    )


def _places(facts: Mapping[str, float], group: str) -> range:
    return range(sum(name.startswith(f"{group}.") and name.endswith(".batch") for name in facts))


def seconds_done(job: JobView, now: Millis) -> float:
    """Seconds of work that a job has done."""
    return job.work / 1000 - job.remaining(now) / ONE / 1000
