"""Optimus' two curves: how the loss falls with the epochs, how the speed grows with servers and workers (EuroSys '18).

Both are linear in their parameters once rewritten, and all parameters are at least 0, so they are fitted by
non-negative least squares (scipy).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from statistics import median
from typing import Final

import numpy as np
from scipy.optimize import nnls

from paictl.frozen import frozen

_FINEST: Final = 200
"""Candidates for the floor of a loss curve."""


@frozen
class LossCurve:
    """Normalised loss after k epochs: ``1 / (b0 * k + b1) + b2``."""

    b0: float
    b1: float
    b2: float

    def at(self, epoch: float) -> float:
        """The loss after `epoch` epochs."""
        return 1.0 / (self.b0 * epoch + self.b1) + self.b2

    def epochs_until(self, fall: float) -> float:
        """Epochs until one more epoch lowers the loss by no more than `fall` (relative to the first loss)."""
        low, high = 0.0, 1.0
        while self.at(high) - self.at(high + 1) > fall and high < 1e9:
            low, high = high, high * 2
        while high - low > 1e-3 * max(1.0, high):
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle) - self.at(middle + 1) > fall else (low, middle)
        return high


def fit_loss(epochs: Sequence[float], losses: Sequence[float]) -> LossCurve:
    """The curve through measured losses; a loss outside its neighbours' range is replaced by the median of the three.

    For a given floor b2 the rest is linear: ``1 / (l - b2) = b0 * k + b1``; the floor is searched on a grid.
    """
    cleaned = [
        median(losses[max(0, i - 1) : i + 2]) if 0 < i < len(losses) - 1 else value for i, value in enumerate(losses)
    ]
    first = max(cleaned)
    scaled, least = np.array(cleaned) / first, min(cleaned) / first
    k = np.array(epochs, dtype=float)
    best: tuple[float, LossCurve] | None = None
    for step in range(_FINEST):
        floor = least * step / _FINEST
        y = 1.0 / (scaled - floor)
        weights = (scaled - floor) ** 2  # an error of 1/l counts by what it means for l
        (b0, b1), _ = nnls(np.column_stack([k, np.ones_like(k)]) * weights[:, None], y * weights)
        if b0 * k[0] + b1 <= 0:
            continue
        curve = LossCurve(float(b0), float(b1), floor)
        error = float(fsum((curve.at(x) - value) ** 2 for x, value in zip(epochs, scaled, strict=True)))
        if best is None or error < best[0]:
            best = error, curve
    if best is None:
        return LossCurve(0.0, 1.0, 0.0)
    return best[1]


@frozen
class Speed:
    """Steps a second with p parameter servers and w workers; `batch` is the global batch size M of synchronous jobs."""

    theta: tuple[float, ...]
    batch: float | None = None

    def at(self, servers: int, workers: int) -> float:
        """Steps a second."""
        row = _row(servers, workers, self.batch)
        seconds = fsum(coefficient * term for coefficient, term in zip(self.theta, row, strict=True))
        if seconds <= 0:
            return 0.0
        return (workers if self.batch is None else 1.0) / seconds


def _row(p: int, w: int, batch: float | None) -> tuple[float, ...]:
    """The terms that the parameters multiply: async ``1, w/p, w, p``; sync ``M/w, 1, w/p, w, p``."""
    if batch is None:
        return 1.0, w / p, float(w), float(p)
    return batch / w, 1.0, w / p, float(w), float(p)


def fit_speed(samples: Sequence[tuple[int, int, float]], batch: float | None = None) -> Speed:
    """Fit the curve to (servers, workers, steps a second) of short runs; 5 to 10 runs are enough."""
    rows = np.array([_row(p, w, batch) for p, w, _ in samples])
    times = np.array([(w if batch is None else 1.0) / speed for _, w, speed in samples])
    theta, _ = nnls(rows / times[:, None], np.ones(len(samples)))  # relative errors: slow points do not drown fast ones
    return Speed(tuple(float(value) for value in theta), batch)
