"""Shockwave's program (NSDI'23): how many of the next rounds each job gets, for progress that is shared fairly.

Upstream uses a binary variable for each job and round. The objective depends only on the number of rounds of a job, and
for single-device jobs any numbers whose sum fits the cluster can be laid out as rounds. So one integer a job is enough,
which is solved in a tenth of a second. (With larger jobs a round may leave a few devices idle, which others then fill.)
The logarithm is concave, so its pieces need no binaries either.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final

from paictl.frozen import frozen
from paictl.sim.programs.linear import Program, Solution

_POINTS: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_VALUES: Final = tuple(log(point or 1e-6) for point in _POINTS)
"""The logarithm is interpolated between these points; log(0) is replaced by that of a millionth."""
_NODES: Final = 20
_GAP: Final = 1e-3
"""Limits of one program, in branch-and-bound nodes rather than seconds: the answer is the same on every machine."""


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
    """How much slower than alone the job would be on its fair share of the cluster, at least 1."""
    target: float
    """Time from now by which the job should end to be treated fairly."""


def rounds_for(
    jobs: Sequence[Prospect], devices: int, horizon: int, length: float, pressure: float
) -> list[int] | None:
    """Number of the next `horizon` rounds for each job so that all can meet their targets; None if they cannot.

    `length` is a round in seconds, `pressure` the cost of a second of the longest remaining time.
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
    rounds = _solve(jobs, devices, horizon, length, pressure, weights, [0.0] * len(jobs))
    return [0] * len(jobs) if rounds is None else rounds


def _solve(
    jobs: Sequence[Prospect],
    devices: int,
    horizon: int,
    length: float,
    pressure: float,
    weights: Sequence[float],
    least: Sequence[float],
) -> list[int] | None:
    program = Program()
    longest = program.variable(gain=-pressure)
    rounds = []
    scale = 1.0 / (len(jobs) * horizon)
    for job, weight, first in zip(jobs, weights, least, strict=True):
        column = program.variable(0, horizon, integer=True)
        epochs = program.variable(first, max(first, job.epochs - job.progress))
        utility = program.variable(_VALUES[0], 0.0, weight * scale)
        program.row([(epochs, job.epoch_seconds), (column, -length)], at_most=0.0)
        program.row([(longest, 1.0), (epochs, job.epoch_seconds)], at_least=job.remaining)
        for (low, under), (high, over) in zip(
            zip(_POINTS, _VALUES, strict=True), zip(_POINTS[1:], _VALUES[1:], strict=False), strict=False
        ):
            slope = (over - under) / (high - low)
            program.row(
                [(utility, 1.0), (epochs, -slope / job.epochs)],
                at_most=under + slope * (job.progress / job.epochs - low),
            )
        rounds.append(column)
    program.row(
        [(column, float(job.devices)) for column, job in zip(rounds, jobs, strict=True)],
        at_most=float(devices * horizon),
    )
    solution: Solution | None = program.solve(nodes=_NODES, gap=_GAP)
    return None if solution is None else [round(solution.values[column]) for column in rounds]


def laid_out(
    rounds: Sequence[int], sizes: Sequence[int], weights: Sequence[float], devices: int, horizon: int
) -> list[list[int]]:
    """The jobs (by index) of each round, so that each job gets its number of rounds and larger weights come earlier.

    Round by round: first the jobs that need every remaining round, then by the cost of a round's delay. (Upstream a
    third program minimises the mean index of a job's rounds times its weight; this is its greedy solution.)
    """
    remaining = list(rounds)
    plan: list[list[int]] = []
    cost = [
        weight / (count * size) if count else 0.0 for weight, count, size in zip(weights, rounds, sizes, strict=True)
    ]
    for place in range(horizon):
        order = sorted(
            (job for job, count in enumerate(remaining) if count),
            key=lambda job: (remaining[job] < horizon - place, -cost[job], -sizes[job], job),
        )
        free, chosen = devices, []
        for job in order:
            if sizes[job] <= free:
                free -= sizes[job]
                remaining[job] -= 1
                chosen.append(job)
        plan.append(chosen)
    return plan
