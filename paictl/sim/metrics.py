"""From the log of a run to figures. Times are seconds, whatever the unit of the trace; None: not applicable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import fsum

from paictl.frozen import frozen
from paictl.sim.job import DeadlineKind
from paictl.sim.run import FINISHED, JobOutcome, RunResult


@frozen
class Figures:
    """What `paictl sim run` reports about a run."""

    jobs: int
    """Completed jobs."""
    unfinished: int
    """All others."""
    mean_jct: float | None
    p50_jct: float | None
    p95_jct: float | None
    p99_jct: float | None
    mean_queueing: float | None
    """To the first start."""
    mean_waiting: float | None
    """All time without devices."""
    makespan: float | None
    """Last end minus first submission."""
    preemptions: int
    migrations: int
    resizes: int
    utilization: float
    """Fraction of the devices' time, from the first submission to the last end, in which a job held them."""
    fragmentation: float | None
    """Free devices on partly used nodes, by all devices, over the same time; None if placement does not matter."""
    deadline_misses: int | None
    """Completed jobs with a deadline that met none of theirs, and jobs that did not complete."""
    weighted_miss: float | None
    """1 minus what the jobs with deadlines were worth, as a fraction of what they could have been worth."""
    slo_jct: float | None
    """Mean over jobs with a deadline."""
    best_effort_jct: float | None
    """Mean over jobs without a deadline, if some have one."""
    admitted: int | None
    """Jobs that the policy promised their deadline."""
    admitted_misses: int | None
    """Those of them that missed it."""
    interruptions: int | None = None
    """How often jobs lost their devices to failures; None, like the fields below, if nothing fails."""
    wasted: float | None = None
    """Fraction of the devices' time in which jobs held them for work that a failure undid."""
    down: float | None = None
    """Fraction of the devices' time, until the last event, in which they were down."""


@frozen
class GroupFigures:
    """The jobs of one tenant (or size, or share): how many and how long, in seconds."""

    name: str
    jobs: int
    mean_jct: float | None
    p95_jct: float | None
    mean_waiting: float | None
    service: float
    """Device-seconds."""


def percentile(values: Sequence[int | float], share: float) -> float | None:
    """Linear between the two nearest ranks, as numpy does by default; `values` ascending."""
    if not values:
        return None
    place = (len(values) - 1) * share
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def figures(result: RunResult) -> Figures:
    """All figures of a run."""
    completed = [outcome for outcome in result.outcomes if outcome.ending in FINISHED]
    jcts = sorted(outcome.jct or 0 for outcome in completed)
    ends = [outcome.end for outcome in result.outcomes if outcome.end is not None]
    span = max(ends) - min(outcome.submit for outcome in result.outcomes) if ends else None
    slo = [outcome for outcome in result.outcomes if outcome.deadlines and outcome.urge is not DeadlineKind.BEST_EFFORT]
    admitted = [outcome for outcome in slo if outcome.notes.get("admitted")]
    has_admission = any("admitted" in outcome.notes for outcome in slo)
    area = result.devices * span if span else 0
    return Figures(
        jobs=len(completed),
        unfinished=len(result.outcomes) - len(completed),
        mean_jct=_mean(jcts),
        p50_jct=_seconds(percentile(jcts, 0.5)),
        p95_jct=_seconds(percentile(jcts, 0.95)),
        p99_jct=_seconds(percentile(jcts, 0.99)),
        mean_queueing=_mean([outcome.queueing for outcome in completed if outcome.queueing is not None]),
        mean_waiting=_mean([outcome.waiting for outcome in completed if outcome.waiting is not None]),
        makespan=_seconds(span),
        preemptions=sum(outcome.preemptions for outcome in result.outcomes),
        migrations=sum(outcome.migrations for outcome in result.outcomes),
        resizes=sum(outcome.resizes for outcome in result.outcomes),
        utilization=sum(row.used for row in result.intervals) / area if area else 0.0,
        fragmentation=sum(row.stray for row in result.intervals) / area if area and result.located else None,
        deadline_misses=sum(_worth(outcome) <= 0 for outcome in slo) if slo else None,
        weighted_miss=_weighted_miss(slo),
        slo_jct=_mean([outcome.jct for outcome in slo if outcome.jct is not None]),
        best_effort_jct=_mean(
            [
                outcome.jct
                for outcome in completed
                if outcome.urge is DeadlineKind.BEST_EFFORT and outcome.jct is not None
            ]
        )
        if slo
        else None,
        admitted=len(admitted) if has_admission else None,
        admitted_misses=sum(_worth(outcome) <= 0 for outcome in admitted) if has_admission else None,
        interruptions=sum(outcome.interruptions for outcome in result.outcomes) if result.failures else None,
        wasted=sum(outcome.wasted for outcome in result.outcomes) / area if area and result.failures else None,
        down=_down(result) if result.failures else None,
    )


def _down(result: RunResult) -> float:
    played = result.intervals[-1].end - result.intervals[0].start if result.intervals else 0
    return result.counters.get("down", 0) / (played * result.devices) if played else 0.0


def by_tenant(result: RunResult) -> list[GroupFigures]:
    """A row for each VC, by name."""
    return grouped(result.outcomes, lambda outcome: outcome.vc)


def grouped(outcomes: Iterable[JobOutcome], name: Callable[[JobOutcome], str]) -> list[GroupFigures]:
    """A row for each name, sorted."""
    groups: dict[str, list[JobOutcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[name(outcome)].append(outcome)
    return [_group(key, groups[key]) for key in sorted(groups)]


def _group(name: str, outcomes: list[JobOutcome]) -> GroupFigures:
    completed = [outcome for outcome in outcomes if outcome.ending in FINISHED]
    jcts = sorted(outcome.jct or 0 for outcome in completed)
    return GroupFigures(
        name,
        len(outcomes),
        _mean(jcts),
        _seconds(percentile(jcts, 0.95)),
        _mean([outcome.waiting for outcome in completed if outcome.waiting is not None]),
        sum(outcome.service for outcome in outcomes) / 1000,
    )


def _worth(outcome: JobOutcome) -> float:
    """Value of the first deadline that it met."""
    if outcome.end is None or outcome.ending not in FINISHED:
        return 0.0
    return next((deadline.value for deadline in outcome.deadlines if outcome.end <= deadline.time), 0.0)


def _weighted_miss(slo: Sequence[JobOutcome]) -> float | None:
    most = fsum(max(deadline.value for deadline in outcome.deadlines) for outcome in slo)
    return 1 - fsum(map(_worth, slo)) / most if most else None


def _mean(millis: Sequence[int]) -> float | None:
    return sum(millis) / len(millis) / 1000 if millis else None


def _seconds(millis: float | None) -> float | None:
    return None if millis is None else millis / 1000
