"""What is in a trace: jobs, span, demand, sizes, durations, tenants, and the load on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from paictl.frozen import frozen
from paictl.sim.cluster import ClusterShape
from paictl.sim.job import BadRow, DeadlineKind, Job, Share, Trace
from paictl.sim.metrics import percentile


@frozen
class Size:
    """Jobs that request this many devices; demand in device-seconds."""

    gpus: int
    jobs: int
    demand: float


@frozen
class TenantDemand:
    """Jobs of one tenant; demand in device-seconds."""

    name: str
    jobs: int
    demand: float


@frozen
class TraceSurvey:
    """The survey of a trace; times are seconds."""

    path: str
    sha256: str
    format: str
    jobs: int
    span: float
    """From the first submission to the last."""
    demand: float
    """Devices times duration of all jobs."""
    mean: float
    durations: tuple[tuple[str, float], ...]
    """(which, seconds)."""
    sizes: tuple[Size, ...]
    tenants: tuple[TenantDemand, ...]
    models: int
    deadlines: int
    opportunistic: int
    cluster: str | None
    devices: int | None
    load: float | None
    """Demand relative to the capacity of a cluster until the last submission; None without a cluster, or a span."""
    bad: tuple[BadRow, ...]


def survey(trace: Trace, cluster: ClusterShape | None = None) -> TraceSurvey:
    """What is in a trace, and what load it is on a cluster."""
    jobs = trace.jobs
    spans = sorted(job.true_work for job in jobs)
    first, last = min(job.submit for job in jobs), max(job.submit for job in jobs)
    demand = sum(job.gpus * job.true_work for job in jobs)
    devices = sum(node.devices for node in cluster.nodes) if cluster else None
    return TraceSurvey(
        trace.path,
        trace.sha256,
        trace.format,
        len(jobs),
        (last - first) / 1000,
        demand / 1000,
        sum(spans) / len(spans) / 1000,
        tuple((label, (percentile(spans, part) or 0) / 1000) for label, part in _PARTS),
        tuple(Size(*row) for row in _grouped(jobs, lambda job: job.gpus)),
        tuple(TenantDemand(*row) for row in _grouped(jobs, lambda job: job.vc)),
        len({job.model for job in jobs if job.model}),
        sum(job.urge is not DeadlineKind.BEST_EFFORT for job in jobs),
        sum(job.share is Share.OPPORTUNISTIC for job in jobs),
        cluster.text if cluster else None,
        devices,
        demand / (devices * (last - first)) if devices and last > first else None,
        trace.bad,
    )


_PARTS = (("shortest", 0.0), ("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("longest", 1.0))


def _grouped(jobs: tuple[Job, ...], key: Callable[[Job], Any]) -> list[tuple[Any, int, float]]:
    """(key, jobs, device seconds), by key."""
    totals: dict[Any, tuple[int, int]] = {}
    for job in jobs:
        number, demand = totals.get(key(job), (0, 0))
        totals[key(job)] = (number + 1, demand + job.gpus * job.true_work)
    return [(name, totals[name][0], totals[name][1] / 1000) for name in sorted(totals)]


def survey_data(result: TraceSurvey) -> dict[str, Any]:
    """As plain data."""
    return {**asdict(result), "durations": dict(result.durations)}
