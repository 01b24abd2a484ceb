"""Optimus' estimates of remaining work and speed: exact, or from its two fitted curves.

A trace has a job's work but not its loss. So each job gets a loss curve, whose owner stops at the epoch in which the
loss falls too little, and this epoch is the job's end in the trace: facts `loss.b0`, `loss.b1`, `loss.b2` and `epochs`,
or, in a trace without them, a default shape and a random number of epochs for each job.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from paictl.sim.dice import Dice
from paictl.sim.programs.curves import LossCurve, Speed, fit_loss, fit_speed
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis

_THETA: Final = (1.02, 2.78, 4.92, 0.0, 0.02)
"""Seconds of a step of synchronous training in the paper's example: per sample, constant, per w/p, per w, per p."""
_BATCH: Final = 16.0
_EXAMPLE: Final = Speed(_THETA, _BATCH)
_SHAPE: Final = (0.2, 1.0, 0.1)
"""Parameters b0, b1, b2 of a loss curve that the trace does not give."""
_EPOCHS: Final = (30, 300)
"""Range of the epochs of such a curve, drawn log-uniformly; the median is 95."""
_USUAL: Final = 95
_FEWEST: Final = 5
"""Epochs before the first fit of a curve."""
_POINTS: Final = 24
"""Most points of a fit."""
_FRESH: Final = 1.3
"""A curve is fitted again after this multiple of the epochs of the last fit."""
_SAMPLES: Final = 5
"""Most sizes to measure before the speed is fitted."""
_STILL: Final = 1e-6


def speed_of(facts: Mapping[str, float]) -> Speed:
    """The speed curve of a job: facts `speed.0` to `speed.4` and `batch`, or the paper's example."""
    if not facts:
        return _EXAMPLE
    theta = tuple(facts.get(f"speed.{place}", value) for place, value in enumerate(_THETA))
    return Speed(theta, facts.get("batch", _BATCH))


def slowed(job: JobView, servers: int, workers: int) -> float:
    """Factor of the rate with `servers` servers against as many servers as workers, at most 1."""
    return 1.0 if servers >= workers else _slowed(speed_of(job.facts), servers, workers)


@lru_cache(maxsize=4096)
def _slowed(speed: Speed, servers: int, workers: int) -> float:
    return min(1.0, speed.at(servers, workers) / speed.at(workers, workers))


def pace(job: JobView, workers: int) -> float:
    """Rate with `workers` devices and as many servers, 1 at the requested size."""
    return 1.0 if workers == job.gpus else job.scaling.get(workers, workers / job.gpus)


def exact_pace(job: JobView, servers: int, workers: int) -> float:
    """The actual rate, 1 at the requested size."""
    return pace(job, workers) * slowed(job, servers, workers)


class Exact:
    """Estimates from the trace, as if both curves fitted exactly."""

    def left(self, job: JobView, now: Millis) -> float:
        """Remaining work, in milliseconds at the reference."""
        return job.remaining(now) / ONE

    def pace(self, job: JobView, servers: int, workers: int) -> float:
        """The actual rate, 1 at the requested size."""
        return exact_pace(job, servers, workers)

    def forget(self, job: JobView) -> None:
        """Nothing is stored."""


class _Loss(NamedTuple):
    """The true loss of a job: its curve, the last epoch, and by how much the loss falls after it."""

    curve: LossCurve
    epochs: int
    fall: float


class Fitted:
    """Estimates from measured losses and short runs, each with a relative error up to `noise` (uniform, seeded)."""

    def __init__(self, seed: int, noise: float) -> None:
        self._seed = seed
        self._noise = noise
        self._losses: dict[int, _Loss] = {}
        self._measured: dict[int, list[float]] = {}
        """By job: the loss after each epoch so far."""
        self._ends: dict[int, tuple[int, float]] = {}
        """By job: (epochs of the last fit, the epoch in which the fitted curve ends)."""
        self._speeds: dict[int, Speed] = {}
        self._paces: dict[int, dict[tuple[int, int], float]] = {}
        self.errors: list[tuple[float, float]] = []
        """(done part of the job, relative error of the predicted epochs) at each fit."""

    def left(self, job: JobView, now: Millis) -> float:
        """Remaining work by the last fitted curve, in milliseconds at the reference."""
        loss = self._loss(job)
        done = loss.epochs * (1 - job.remaining(now) / ONE / job.work) if job.work else loss.epochs
        fitted_at, end = self._ends.get(job.number, (0, float(_USUAL)))
        if done >= max(_FEWEST, fitted_at * _FRESH):
            end = self._fit(job, loss, int(done))
            self._ends[job.number] = int(done), end
            self.errors.append((done / loss.epochs, abs(end / loss.epochs - 1)))
        return max(1.0, end - done) * job.work / loss.epochs

    def pace(self, job: JobView, servers: int, workers: int) -> float:
        """The rate by the fitted speed, 1 at the requested size."""
        paces = self._paces.setdefault(job.number, {})
        if (servers, workers) not in paces:
            if job.number not in self._speeds:
                self._speeds[job.number] = self._profile(job)
            paces[servers, workers] = max(_STILL, self._speeds[job.number].at(servers, workers))
        return paces[servers, workers]

    def forget(self, job: JobView) -> None:
        """Drop its measurements."""
        for book in (self._losses, self._measured, self._ends, self._speeds, self._paces):
            book.pop(job.number, None)

    def _loss(self, job: JobView) -> _Loss:
        if job.number not in self._losses:
            facts = job.facts
            drawn = Dice(self._seed, f"epochs {job.number}").log_uniform(*_EPOCHS)
            epochs = max(1, round(facts.get("epochs", drawn)))
            b0, b1, b2 = (facts.get(f"loss.b{place}", value) for place, value in enumerate(_SHAPE))
            if "loss.b0" not in facts:
                b0 *= _USUAL / epochs  # the default shape, stretched to the epochs
            curve = LossCurve(b0, b1, b2)
            self._losses[job.number] = _Loss(curve, epochs, curve.at(epochs) - curve.at(epochs + 1))
        return self._losses[job.number]

    def _fit(self, job: JobView, loss: _Loss, done: int) -> float:
        """The epoch in which the fitted curve falls by no more than the owner's threshold."""
        rows = self._measured.setdefault(job.number, [])
        dice = Dice(self._seed, f"loss {job.number} {len(rows)}")
        while len(rows) <= done:
            rows.append(loss.curve.at(len(rows)) * (1 + self._off(dice)))
        step = max(1, len(rows) // _POINTS)
        epochs = range(0, len(rows), step)
        first = max(rows[epoch] for epoch in epochs)
        fitted = fit_loss(list(epochs), [rows[epoch] for epoch in epochs])
        return max(float(done), fitted.epochs_until(loss.fall / first))

    def _profile(self, job: JobView) -> Speed:
        least, most = job.elastic or (job.gpus, job.gpus)
        sizes = [number for number in sorted({*job.scaling, least, job.gpus, most}) if least <= number <= most]
        tried = sizes[:: max(1, -(-len(sizes) // _SAMPLES))]
        dice = Dice(self._seed, f"speed {job.number}")
        samples = []
        for workers in tried:
            for servers in sorted({1, workers}):
                true = pace(job, workers) * slowed(job, servers, workers)
                samples.append((servers, workers, true * (1 + self._off(dice))))
        return fit_speed(samples, job.facts.get("batch", _BATCH))

    def _off(self, dice: Dice) -> float:
        return self._noise * (2 * float(dice.fraction()) - 1)
