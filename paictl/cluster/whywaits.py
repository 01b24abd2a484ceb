"""The scheduler's own explanation of a job that waits, in terms that jobs have."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from paictl.cluster.scheduling import JobExplanation, JobSituation
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain import explain
from paictl.scheduler.explain.data import Change, Explanation
from paictl.scheduler.request import PodRequest
from paictl.workload.job import PRIORITIES


def explained(known: JobExplanation, engine: Engine, request: PodRequest, siblings: Collection[str]) -> JobExplanation:
    """What is known of a job with why one of its pods waits; `siblings` are the groups of the job."""
    try:
        found = explain(engine, request, siblings=siblings)
    except RequestError as error:
        return replace(known, situation=JobSituation.UNKNOWN_TERMS, reason=error.message)
    found = replace(found, changes=tuple(_with_classes(engine, found)))
    return replace(known, situation=JobSituation.NO_ROOM, scheduler=found)


def _with_classes(engine: Engine, explanation: Explanation) -> Iterator[Change]:
    """The changes, but priorities are those of classes, because jobs can have no others.

    A class is higher than what was tried, so it is tried as well; one that no class reaches is left out.
    """
    for change in explanation.changes:
        if change.priority is None:
            yield change
            continue
        priority = min((number for number in PRIORITIES.values() if number >= change.priority), default=None)
        if priority is not None:
            outcome = explain(engine, replace(explanation.request, priority=priority)).outcome
            if outcome is not None:
                yield replace(change, priority=priority, outcome=outcome)
