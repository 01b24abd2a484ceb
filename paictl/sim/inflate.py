"""A workload of another size from the jobs of a trace: drawn at random until it asks for a given part of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paictl.sim.dice import Dice
from paictl.sim.job import Job
from paictl.sim.traces.source import TraceError
from paictl.units import Millis

MOST: Final = 100.0
"""The largest ratio."""


def inflated(jobs: Sequence[Job], capacity: int, ratio: float, seed: int) -> list[Job]:
    """The jobs in random order, one a millisecond, until they ask for `ratio` of `capacity` (thousandths of devices).

    Those of a trace that asks for more are left out at random; to one that asks for less, copies of random jobs are
    appended. As in FGD's artifact: the copies end with the first one of which a *single* device would be too many, so
    that jobs of several devices overshoot. Raises `TraceError` if no job asks for a device.
    """
    dice = Dice(seed, "inflate")
    ordered = sorted(jobs, key=lambda job: job.id)
    for last in range(len(ordered) - 1, 0, -1):
        other = dice.below(last + 1)
        ordered[last], ordered[other] = ordered[other], ordered[last]
    asked, goal = sum(job.milli for job in ordered), capacity * ratio
    if not asked:
        raise TraceError("no job asks for a device", hint="--inflate needs jobs with devices")
    made = list(ordered)
    while asked > goal:
        asked -= made.pop(dice.below(len(made))).milli
    if len(made) == len(ordered):
        drawn = dice.pick(ordered)
        while asked + min(drawn.milli, drawn.gpu_milli) <= goal:
            asked += drawn.milli
            made.append(replace(drawn, id=f"{drawn.id}~{len(made) - len(ordered) + 1}"))
            drawn = dice.pick(ordered)
    return [replace(job, submit=Millis(place)) for place, job in enumerate(made)]
