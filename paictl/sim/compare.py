"""Paired differences between runs of one trace: the same job under both, better or worse, and by how much.

Means hide who pays. A pair covers the jobs that completed under both; the others are counted separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev
from typing import Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.metrics import Figures
from paictl.sim.run import Ending, JobOutcome, RunResult

BATCHES: Final = 20
"""Sections of a trace whose means count as independent."""
LEAST: Final = 5 * BATCHES
"""Jobs that an interval needs: means of fewer than five are not normal enough for Student's t."""
_T_BATCHES: Final = 2.093
"""97.5 % quantile of Student's t with 19 degrees of freedom."""
ALIKE = 0.001
"""The relative difference of mean completion times from which a workload distinguishes policies."""


@frozen
class JobDifference:
    """One job under two runs; milliseconds, negative: done earlier under the second."""

    id: str
    vc: str
    gpus: int
    change: int


@frozen
class Pair:
    """`second` against `first`; times are seconds."""

    first: int
    second: int
    """Places of the runs in their list."""
    better: int
    """Jobs done earlier under `second`."""
    worse: int
    same: int
    unpaired: int
    """Jobs that completed under one of them only, or under neither."""
    mean_gain: float
    """Mean time by which the better jobs were earlier, 0 if there are none."""
    mean_loss: float
    """Mean time by which the worse jobs were later."""
    mean_difference: float
    """Mean of second minus first over all pairs."""
    low: float | None
    """Bounds of its 95 % confidence interval, see `interval`; None if too few jobs are paired."""
    high: float | None
    largest_gain: float
    largest_loss: float

    @property
    def significant(self) -> bool | None:
        """Whether the interval of the mean difference excludes 0; None without an interval."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


def differences(first: RunResult, second: RunResult) -> list[JobDifference]:
    """Job by job in the order of arrival; jobs that did not complete under both are left out."""
    others = {outcome.id: outcome for outcome in second.outcomes}
    changes = []
    for before in first.outcomes:
        after = others.get(before.id)
        if after is not None and before.jct is not None and after.jct is not None:
            changes.append(JobDifference(before.id, before.vc, before.gpus, after.jct - before.jct))
    return changes


def pair(runs: Sequence[RunResult], first: int, second: int) -> Pair:
    """The second run against the first."""
    changes = [difference.change for difference in differences(runs[first], runs[second])]
    gains = [-change for change in changes if change < 0]
    losses = [change for change in changes if change > 0]
    low, high = interval(changes)
    ids = {outcome.id for run in (runs[first], runs[second]) for outcome in run.outcomes}
    return Pair(
        first,
        second,
        len(gains),
        len(losses),
        len(changes) - len(gains) - len(losses),
        len(ids) - len(changes),
        _mean(gains),
        _mean(losses),
        _mean(changes),
        low,
        high,
        max(gains, default=0) / 1000,
        max(losses, default=0) / 1000,
    )


def interval(changes: Sequence[int]) -> tuple[float, float] | tuple[None, None]:
    """The 95 % confidence interval of the mean of changes in the order of arrival, in seconds.

    Jobs that wait together change together. So the mean of each of `BATCHES` sections of the trace counts as one
    observation (batch means), with Student's t for their number.
    """
    if len(changes) < LEAST:
        return None, None
    bounds = [len(changes) * place // BATCHES for place in range(BATCHES + 1)]
    means = [_mean(changes[start:end]) for start, end in pairwise(bounds)]
    half = _T_BATCHES * stdev(means) / sqrt(BATCHES)
    middle = fmean(means)
    return middle - half, middle + half


def pairs(runs: Sequence[RunResult]) -> list[Pair]:
    """Every run against every one before it of the same seed that differs in one thing: policy, cluster or failures."""
    return [
        pair(runs, first, second)
        for second in range(len(runs))
        for first in range(second)
        if runs[first].seed == runs[second].seed
        and sum(a != b for a, b in zip(_where(runs[first]), _where(runs[second]), strict=True)) <= 1
    ]


def warnings(runs: Sequence[RunResult], figures: Sequence[Figures], *, discriminating: bool = True) -> list[str]:
    """What a reader of the comparison must know before believing it."""
    messages: list[str] = []
    for cluster in dict.fromkeys(run.cluster for run in runs):
        places = [place for place, run in enumerate(runs) if run.cluster == cluster]
        if discriminating:
            messages += _alike([runs[place] for place in places], [figures[place] for place in places])
        messages += _impossible(runs[places[0]])
    for run, run_figures in zip(runs, figures, strict=True):
        if "allocation_ratio" in run.counters:
            continue  # these figures are about jobs that never leave and jobs without room
        stuck = sum(outcome.ending in (Ending.UNFINISHED, Ending.STOPPED) for outcome in run.outcomes)
        if stuck:
            messages.append(
                text(
                    "under {policy} on {cluster} {stuck} of {jobs} jobs did not finish",
                    policy=run.policy,
                    cluster=run.cluster,
                    stuck=stuck,
                    jobs=run_figures.jobs + run_figures.unfinished,
                )
            )
    return list(dict.fromkeys(messages))


def _alike(runs: Sequence[RunResult], figures: Sequence[Figures]) -> list[str]:
    if len({_what(run) for run in runs}) < 2:
        return []
    means = [figure.mean_jct for figure in figures if figure.mean_jct is not None]
    if not means or max(means) - min(means) > ALIKE * max(means):
        return []
    waited = max(sum(1 for outcome in run.outcomes if _waits(outcome)) for run in runs)
    return [
        text(
            "this workload cannot distinguish policies on {cluster}: mean completion times differ by less than "
            "{alike:.1%}, and only {waited} of {jobs} jobs wait; use fewer devices or more jobs",
            cluster=runs[0].cluster,
            alike=ALIKE,
            waited=waited,
            jobs=len(runs[0].outcomes),
        )
    ]


def _waits(outcome: JobOutcome) -> bool:
    return bool(outcome.waiting)


def _impossible(run: RunResult) -> list[str]:
    lost = [outcome for outcome in run.outcomes if outcome.ending is Ending.IMPOSSIBLE]
    if not lost:
        return []
    largest = max(lost, key=lambda outcome: outcome.gpus)
    return [
        text(
            "{lost} of {jobs} jobs can never run on {cluster}: not enough devices, or not of their type (for instance "
            "job {id}, which asks for {gpus})",
            lost=len(lost),
            jobs=len(run.outcomes),
            cluster=run.cluster,
            id=largest.id,
            gpus=largest.gpus,
        )
    ]


def _where(run: RunResult) -> tuple[object, ...]:
    return _what(run), run.cluster, run.failures


def _what(run: RunResult) -> tuple[str, str]:
    return run.policy, repr(sorted(run.parameters.items()))


def _mean(millis: Sequence[int]) -> float:
    return sum(millis) / len(millis) / 1000 if millis else 0.0
