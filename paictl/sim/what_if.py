"""A trace under the old and the new configuration: which tenants and jobs wait less, and which more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from paictl.frozen import frozen
from paictl.sim.checkpoints import KeptRuns, RunRequest
from paictl.sim.cluster import Cluster, ClusterShape
from paictl.sim.failures import failures_of
from paictl.sim.job import Trace
from paictl.sim.metrics import Figures, figures, percentile
from paictl.sim.parallel import play
from paictl.sim.policies.hived import Hived
from paictl.sim.report import run_data
from paictl.sim.run import JobOutcome, RunResult
from paictl.sim.simulate import check_failures
from paictl.sim.sweep import check_fits

MOST = 5
"""Jobs that are named for each tenant, in each direction."""


@frozen
class JobChange:
    """The change for one job; spans in milliseconds, None: it did not complete."""

    id: str
    vc: str
    gpus: int
    before: int | None
    """Time without devices under the old configuration."""
    after: int | None

    @property
    def change(self) -> int:
        """Negative: it waits less. A job that completes under only one of them has changed by more than all others."""
        if self.before is None or self.after is None:
            return 0 if self.before == self.after else _NEVER if self.after is None else -_NEVER
        return self.after - self.before


_NEVER = 1 << 62


@frozen
class TenantChange:
    """What changes for one VC; times are seconds, None if none of its jobs completes."""

    vc: str
    jobs: int
    promised_before: int
    """Devices."""
    promised_after: int
    wait_before: float | None
    """Mean time without devices."""
    wait_after: float | None
    p95_before: float | None
    p95_after: float | None
    less: int
    """Jobs that wait less."""
    more: int
    same: int
    unfinished_before: int
    unfinished_after: int
    gained: tuple[JobChange, ...]
    """The jobs that gain most, largest gain first."""
    lost: tuple[JobChange, ...]


@frozen
class WhatIf:
    """Both runs and their differences."""

    trace: Trace
    old: RunResult
    new: RunResult
    old_figures: Figures
    new_figures: Figures
    tenants: tuple[TenantChange, ...]
    """By name."""


def requests(configurations: Sequence[ClusterShape], failures: str, seed: int) -> list[RunRequest]:
    """A run under each configuration, with failures as written after `--failures`.

    Raises `FailureError` for invalid failures, or if they name what one of the configurations does not have.
    """
    model = failures_of(failures)
    if model is not None:
        for shape in configurations:
            check_failures(model, Cluster(shape), Hived)
    return [RunRequest(Hived.id, shape, seed, failures=model) for shape in configurations]


def play_both(
    trace: Trace, runs: Sequence[RunRequest], part: Callable[[float], None], kept: KeptRuns | None = None
) -> WhatIf:
    """Play a trace under both configurations, see `requests`, and compare; `part` and `kept` as for `play`.

    Raises `TraceError` if no job of the trace fits.
    """
    check_fits(trace, runs)
    old, new = play(trace.jobs, runs, part=part, kept=kept)
    before, after = (dict(request.cluster.quotas) for request in runs)
    return what_if(trace, old, new, (before, after))


def what_if(trace: Trace, old: RunResult, new: RunResult, promised: tuple[dict[str, int], dict[str, int]]) -> WhatIf:
    """What changes from the old to the new run of the same trace; `promised` are devices by VC under each."""
    after = {outcome.id: outcome for outcome in new.outcomes}
    changes: dict[str, list[JobChange]] = {vc: [] for part in promised for vc in part}
    for outcome in old.outcomes:
        change = JobChange(outcome.id, outcome.vc, outcome.gpus, _waited(outcome), _waited(after[outcome.id]))
        changes.setdefault(outcome.vc, []).append(change)
    return WhatIf(
        trace,
        old,
        new,
        figures(old),
        figures(new),
        tuple(_tenant(vc, changes[vc], promised[0].get(vc, 0), promised[1].get(vc, 0)) for vc in sorted(changes)),
    )


def _waited(outcome: JobOutcome) -> int | None:
    return outcome.waiting if outcome.jct is not None else None


def _tenant(vc: str, jobs: Sequence[JobChange], promised_before: int, promised_after: int) -> TenantChange:
    ranked = sorted(jobs, key=lambda job: job.change)
    before = sorted(job.before for job in jobs if job.before is not None)
    after = sorted(job.after for job in jobs if job.after is not None)
    return TenantChange(
        vc,
        len(jobs),
        promised_before,
        promised_after,
        _mean(before),
        _mean(after),
        _late(before),
        _late(after),
        sum(job.change < 0 for job in jobs),
        sum(job.change > 0 for job in jobs),
        sum(job.change == 0 for job in jobs),
        len(jobs) - len(before),
        len(jobs) - len(after),
        tuple(job for job in ranked[:MOST] if job.change < 0),
        tuple(job for job in ranked[: -MOST - 1 : -1] if job.change > 0),
    )


def _mean(millis: Sequence[int]) -> float | None:
    return sum(millis) / len(millis) / 1000 if millis else None


def _late(millis: Sequence[int]) -> float | None:
    value = percentile(millis, 0.95)
    return None if value is None else value / 1000


def what_if_data(result: WhatIf, *, reproducible: bool = False) -> dict[str, Any]:
    """As plain data; times are seconds."""
    return {
        "old": run_data(result.old, result.trace, result.old_figures, reproducible=reproducible),
        "new": run_data(result.new, result.trace, result.new_figures, reproducible=reproducible),
        "tenants": [_tenant_data(row) for row in result.tenants],
    }


def _tenant_data(row: TenantChange) -> dict[str, Any]:
    return {
        "vc": row.vc,
        "jobs": row.jobs,
        "promised_before": row.promised_before,
        "promised_after": row.promised_after,
        "mean_waiting_before": row.wait_before,
        "mean_waiting_after": row.wait_after,
        "p95_waiting_before": row.p95_before,
        "p95_waiting_after": row.p95_after,
        "less": row.less,
        "more": row.more,
        "same": row.same,
        "unfinished_before": row.unfinished_before,
        "unfinished_after": row.unfinished_after,
        "gained": [_job_change_data(job) for job in row.gained],
        "lost": [_job_change_data(job) for job in row.lost],
    }


def _job_change_data(job: JobChange) -> dict[str, Any]:
    before, after = (None if span is None else span / 1000 for span in (job.before, job.after))
    return {"id": job.id, "gpus": job.gpus, "waiting_before": before, "waiting_after": after}
