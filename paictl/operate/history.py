"""The jobs that a cluster has run, as a trace for the simulator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from paictl.cluster.interface import JobState, JobView
from paictl.sim.job import BadRow, Job, Share, Trace, TraceJobError, TraceStatus
from paictl.sim.traces.native import to_csv
from paictl.units import millis_between
from paictl.workload.job import PRIORITIES

_FATES = {JobState.FAILED: TraceStatus.FAILED, JobState.STOPPED: TraceStatus.KILLED}


def history(jobs: Sequence[JobView], cluster: str) -> Trace:
    """What ended, in the order of submission, from the first submission on.

    Work is the time of the last attempt, and what a job did before it was preempted is not in it: the simulator adds
    its own preemptions. Jobs that still wait or run, never ran, or have times that cannot be are in `Trace.bad` by
    their number. The hash is that of the jobs as a table (`native.to_csv`). Raises `TraceJobError` if no job ended.
    """
    first = min((job.submitted for job in jobs), default=None)
    usable: list[Job] = []
    bad: list[BadRow] = []
    for job in jobs:
        reason = _unusable(job)
        if reason or first is None or job.started is None or job.ended is None:
            bad.append(BadRow(job.number, f"job {job.key}: {reason}"))
            continue
        priority = PRIORITIES.get(job.priority, 0)
        usable.append(
            Job(
                id=job.key,
                submit=millis_between(first, job.submitted),
                gpus=job.devices,
                work=millis_between(job.started, job.ended),
                user=job.key.partition("~")[0],
                vc=job.vc,
                pod=job.pod if job.pod and job.devices % job.pod == 0 else 0,
                priority=max(priority, 0),
                share=Share.OPPORTUNISTIC if priority < 0 else Share.GUARANTEED,
                fate=_FATES.get(job.state, TraceStatus.PASSED),
            )
        )
    if not usable:
        raise TraceJobError(
            "none of its jobs has ended yet",
            where=f"cluster {cluster}",
            hint="waiting and running jobs are not included: paictl job list",
        )
    return Trace(
        tuple(usable), f"cluster:{cluster}", hashlib.sha256(to_csv(usable).encode()).hexdigest(), "cluster", tuple(bad)
    )


def _unusable(job: JobView) -> str:
    if not job.state.ended or job.ended is None:
        return f"is {job.state.value.lower()}, its duration is not known"
    if job.started is None:
        return "never ran"
    if job.devices < 1:
        return "asked for no device"
    if job.ended < job.started:
        return "ended before it started: the clocks of its machines differ"
    return ""
