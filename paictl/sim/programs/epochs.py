"""Shockwave's program (NSDI'23): how many of the next rounds each job gets, for progress that is shared fairly.

Upstream a binary variable says for each job and round whether it runs. Only the number of rounds of a job matters to
the objective, and numbers of single devices that fit the cluster in sum can be laid out as rounds, so one whole number
a job is enough, and is found in a tenth of a second. (Beside jobs of several devices a round may stay short by a few:
then others fill it.) The logarithm is concave, so no binaries choose its piece, either.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final

from paictl.frozen import frozen
from paictl.sim.programs.linear import Program, Solution

_POINTS: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_VALUES: Final = tuple(log(point or 1e-6) for point in _POINTS)
"""The logarithm is read off between these points; that of nothing stands for a millionth."""
_NODES: Final = 20
_GAP: Final = 1e-3
"""Effort for one program, in branch-and-bound nodes, not in seconds: the same answer on every machine."""


@frozen
class Prospect:
    """A job as the program sees it; times are seconds."""

    devices: int
    epochs: int
    progress: int
    """Whole epochs done."""
    epoch_seconds: float
    """Mean so far."""
    remaining: float
    """Expected."""
    slowdown: float
    """How much slower than alone it would be with its part of the cluster for itself, at least 1."""
    target: float
    """By when, from now, it should end to be treated fairly."""


def rounds_for(
    jobs: Sequence[Prospect], devices: int, horizon: int, length: float, pressure: float
) -> list[int] | None:
    """Rounds of the next `horizon` for each job so that all can meet their targets; None if they cannot.

    `length` is a round in seconds, `pressure` what a second of the job that is left longest costs.
    """
    least = []
    for job in jobs:
        slack = (job.target - horizon * length) / job.slowdown
        needed = max(0.0, job.remaining - max(0.0, slack))
        if slack < 0 or needed > min((job.epochs - job.progress) * job.epoch_seconds, horizon * length):
            return None
        least.append(needed / job.epoch_seconds)
    return _solve(jobs, devices, horizon, length, pressure, [1.0] * len(jobs), least)


def weighted_rounds(
    jobs: Sequence[Prospect], devices: int, horizon: int, length: float, pressure: float, weights: Sequence[float]
) -> list[int]:
    """The same without targets: the progress of each job counts by its weight."""
    found = _solve(jobs, devices, horizon, length, pressure, weights, [0.0] * len(jobs))
    return [0] * len(jobs) if found is None else found


def _solve(
    jobs: Sequence[Prospect], devices: int, horizon: int, length: float, pressure: float, weights: Sequence[float],
    least: Sequence[float],
) -> list[int] | None:  # fmt: skip
    program = Program()
    longest = program.variable(gain=-pressure)
    rounds = []
    scale = 1.0 / (len(jobs) * horizon)
    for job, weight, first in zip(jobs, weights, least, strict=True):
        given = program.variable(0, horizon, integer=True)
        epochs = program.variable(first, max(first, job.epochs - job.progress))
        utility = program.variable(_VALUES[0], 0.0, weight * scale)
        program.row([(epochs, job.epoch_seconds), (given, -length)], at_most=0.0)
        program.row([(longest, 1.0), (epochs, job.epoch_seconds)], at_least=job.remaining)
        for (low, under), (high, over) in zip(
            zip(_POINTS, _VALUES, strict=True), zip(_POINTS[1:], _VALUES[1:], strict=False), strict=False
        ):
            slope = (over - under) / (high - low)
            program.row(
                [(utility, 1.0), (epochs, -slope / job.epochs)],
                at_most=under + slope * (job.progress / job.epochs - low),
            )
        rounds.append(given)
    program.row([(given, float(job.devices)) for given, job in zip(rounds, jobs, strict=True)],
                at_most=float(devices * horizon))  # fmt: skip
    solution: Solution | None = program.solve(nodes=_NODES, gap=_GAP)
    return None if solution is None else [round(solution.values[given]) for given in rounds]


def laid_out(
    rounds: Sequence[int], sizes: Sequence[int], weights: Sequence[float], devices: int, horizon: int
) -> list[list[int]]:
    """Which jobs run in each round, so that what weighs more comes earlier and everybody gets its number.

    Round by round: first those that need every round that is left, then by what a round later would cost. (Upstream a
    third program minimises the mean place of a job's rounds times its weight; this is its greedy solution.)
    """
    left = list(rounds)
    plan: list[list[int]] = []
    cost = [
        weight / (count * size) if count else 0.0 for weight, count, size in zip(weights, rounds, sizes, strict=True)
    ]
    for place in range(horizon):
        order = sorted(
            (job for job, count in enumerate(left) if count),
            key=lambda job: (left[job] < horizon - place, -cost[job], -sizes[job], job),
        )
        free, chosen = devices, []
        for job in order:
            if sizes[job] <= free:
                free -= sizes[job]
                left[job] -= 1
                chosen.append(job)
        plan.append(chosen)
    return plan
