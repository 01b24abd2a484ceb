"""The model of a training step that Pollux fits to a job's measurements, and the best batch size by that model.

A step takes `(compute^g + network^g)^(1/g)`: computing is linear in the batch size of a replica, the network linear in
the replicas, with different constants between nodes and within one (Qiao et al., OSDI'21, §3.2). A cost that was never
measured counts as 0, so that the job tries it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.optimize import minimize

_FLOOR: Final = 1e-8
_KNOWN: Final = 1e-6
"""Parameters above this were fitted; those below were fixed at the floor."""
_MOST_OVERLAP: Final = 10.0
_START: Final = (0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001)
_SAMPLES: Final = 50
"""Batch sizes to compare, in geometric steps."""
_DIGITS: Final = 7
"""Significant digits of a fit: further ones depend on the order in which a processor adds."""


class Measurement(NamedTuple):
    """One step: number of nodes and replicas, batch size of a replica, seconds of the step and of its network part."""

    nodes: int
    replicas: int
    local: int
    step: float
    sync: float


class StepModel(NamedTuple):
    """Seconds of computing (constant, and per sample) and of the network between nodes and within one (constant, and
    per replica above 2); `overlap` is the exponent g (1: computing and network do not overlap)."""

    compute: float
    per_sample: float
    between: float
    per_between: float
    within: float
    per_within: float
    overlap: float


class BestSizes(NamedTuple):
    """By (nodes, replicas): samples a second at the efficiency of the initial batch size, and the batch size of a
    replica and the passes with which it is reached."""

    goodput: Any
    local: Any
    passes: Any


def fitted(rows: Sequence[Measurement], last: StepModel | None = None, *, tolerance: float | None = None) -> StepModel:
    """The parameters with the least squared error of the logarithm; costs without a measurement stay at their floor.

    `last`: an earlier fit of the same job, from which the search starts. `tolerance`: where it ends (None: near the
    precision of a processor).
    """
    nodes, replicas, local, step, sync = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    start = [old if old > _KNOWN else new for old, new in zip(last or _START, _START, strict=True)]
    lower, upper = [_FLOOR] * 6 + [1.0], [np.inf] * 6 + [_MOST_OVERLAP]
    start[6] = min(start[6], _MOST_OVERLAP)

    def fix(place: int, value: float) -> None:
        start[place] = lower[place] = upper[place] = value

    if len(set(local.tolist())) == 1:
        fix(0, float(np.mean(step - sync)) / 2)
    several = nodes > 1
    within = ~several & (replicas > 1)
    if not several.any():
        fix(2, _FLOOR)
        fix(3, _FLOOR)
    if not within.any():
        fix(4, _FLOOR)
        fix(5, _FLOOR)
    if not (replicas > 2).any():
        fix(3, _FLOOR)
        fix(5, _FLOOR)
    goal = _Misfit(several, within, np.maximum(replicas - 2, _FLOOR), local, np.log(step - sync), np.log(step))
    bounds = list(zip(lower, upper, strict=True))
    solution = minimize(goal, start, jac=True, method="L-BFGS-B", bounds=bounds, tol=tolerance).x
    values = [
        float(f"{min(max(value, low), high):.{_DIGITS}g}")
        for value, low, high in zip(solution.tolist(), lower, upper, strict=True)
    ]
    if not several.any():  # the network between nodes is never faster than within one
        values[2], values[3] = max(values[2], values[4] * 1.1), max(values[3], values[5] * 1.1)
    return StepModel(*values)


class _Misfit:
    """The error of a model against measurements, with its gradient."""

    def __init__(self, several: Any, within: Any, more: Any, local: Any, log_compute: Any, log_step: Any) -> None:
        self.several, self.within, self.more, self.local = several, within, more, local
        self.log_compute, self.log_step = log_compute, log_step

    def __call__(self, values: Any) -> tuple[float, Any]:
        alpha, beta, far, per_far, near, per_near, gamma = values
        compute = alpha + beta * self.local
        network = np.where(
            self.several, far + per_far * self.more, np.where(self.within, near + per_near * self.more, _FLOOR)
        )
        log_a, log_n = np.log(compute), np.log(network)
        # compute^g + network^g, scaled by the larger one so that no power overflows
        top = np.maximum(log_a, log_n)
        part_a, part_n = np.exp(gamma * (log_a - top)), np.exp(gamma * (log_n - top))
        total = part_a + part_n
        log_step = top + np.log(total) / gamma
        off_a, off_s = log_a - self.log_compute, log_step - self.log_step
        miss_a, miss_s = (np.sqrt(np.mean(off**2)) + 1e-12 for off in (off_a, off_s))
        by_log_a = off_a / (len(off_a) * miss_a) + off_s / (len(off_s) * miss_s) * part_a / total
        by_log_n = off_s / (len(off_s) * miss_s) * part_n / total
        by_a, by_n = by_log_a / compute, by_log_n / network
        mean_log = (part_a * (log_a - top) + part_n * (log_n - top)) / total
        by_gamma = np.sum(off_s / (len(off_s) * miss_s) * (mean_log / gamma - np.log(total) / gamma**2))
        ratio_far, ratio_near = per_far / far, per_near / near
        value = miss_a + miss_s + 1e-3 * (gamma - 1) ** 2 + 1e-2 * (ratio_far**2 + ratio_near**2)
        slopes = np.array(
            [
                np.sum(by_a),
                np.sum(by_a * self.local),
                np.sum(by_n[self.several]) - 2e-2 * ratio_far**2 / far,
                np.sum((by_n * self.more)[self.several]) + 2e-2 * ratio_far / far,
                np.sum(by_n[self.within]) - 2e-2 * ratio_near**2 / near,
                np.sum((by_n * self.more)[self.within]) + 2e-2 * ratio_near / near,
                by_gamma + 2e-3 * (gamma - 1),
            ]
        )
        return float(value), slopes


def best_sizes(
    model: StepModel,
    noise: tuple[float, float],
    batches: tuple[int, int],
    local: tuple[int, int],
    nodes: Sequence[int],
    replicas: Sequence[int],
) -> BestSizes:
    """For each (nodes, replicas) the batch size with the best goodput, of 50 sizes in geometric steps.

    `noise`: squared norm and variance of gradients; `batches`: the initial and the largest batch size; `local`: the
    smallest and largest of a replica. Larger batches are split into passes; a single replica takes at least two passes
    for more than the initial batch, since one pass says nothing of the variance of gradients. Goodput 0: no size fits.
    """
    sqr, var = noise
    initial, most = batches
    least, largest = local
    count, spread = np.array(replicas, dtype=float), np.array(nodes, dtype=float)
    batch = np.geomspace(np.maximum(initial, least * count), most, _SAMPLES)
    each = batch / count
    passes = np.ceil(each / largest - 1e-8)
    passes = np.maximum(np.where((count == 1) & (each > initial + 1e-8), np.maximum(passes, 2), passes), 1)
    size = np.ceil(each / passes - 1e-8)
    compute = model.compute + model.per_sample * size
    more = np.maximum(count - 2, _FLOOR)
    network = np.where(
        spread > 1,
        model.between + model.per_between * more,
        np.where(count > 1, model.within + model.per_within * more, _FLOOR),
    )
    log_a, log_n = np.log(compute), np.log(np.broadcast_to(network, compute.shape))
    top = np.maximum(log_a, log_n)
    gamma = model.overlap
    step = np.exp(top + np.log(np.exp(gamma * (log_a - top)) + np.exp(gamma * (log_n - top))) / gamma)
    total = count * size * passes
    scale = total / initial
    below = var / scale + sqr
    gain = np.where(below > 0, (var + sqr) / np.where(below > 0, below, 1.0), 1.0)
    goodput = total / (step + (passes - 1) * compute) * gain / scale
    goodput = np.where((size >= least) & (size <= largest), goodput, 0.0)
    best = np.argmax(goodput, axis=0), np.arange(len(count))
    return BestSizes(goodput[best], size[best].astype(int), passes[best].astype(int))
