"""Why a job is where it is: services first, then the scheduler's own explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.services import CONTROLLER, SCHEDULER
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import JobRequest
from paictl.cluster.jobwords import STATES
from paictl.cluster.scheduling import JobExplanation, Situation
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.workload.job import PRIORITIES
from paictl.workload.lifecycle import RunState

if TYPE_CHECKING:
    from paictl.scheduler.explain import Explanation
    from paictl.scheduler.explain.data import Change

NEEDED = (CONTROLLER, SCHEDULER)
"""The services between a job and its devices, in their order."""


def explain_job(world: World, job: LiveJob) -> JobExplanation:
    """What a job does, or why it waits and what would let it run."""
    waiting = [task for task in job.status.tasks if task.state is RunState.WAITING]
    known = JobExplanation(
        job.key, STATES[job.status.state], Situation.NOT_WAITING, waiting=len(waiting), tasks=len(job.status.tasks)
    )
    if job.status.state.final or not waiting:
        return known
    for service in NEEDED:
        if not world.services.runs(service):
            return replace(known, situation=Situation.SERVICE_STOPPED, service=service)
    engine = world.dispatcher.engine
    if engine is None:
        return replace(known, situation=Situation.NO_SCHEDULER)
    from paictl.scheduler.explain import explain  # late: most commands load this module and explain nothing

    try:
        found = explain(engine, job.request(waiting[0].ref), siblings=job.plan.groups.keys())
    except RequestError as error:
        return replace(known, situation=Situation.UNKNOWN_TERMS, reason=error.message)
    found = replace(found, changes=tuple(_with_classes(engine, found)))
    return replace(known, situation=Situation.NO_ROOM, scheduler=found)


def foresee_job(world: World, request: JobRequest) -> JobExplanation:
    """What would become of a job that was submitted now; raises as `World.admitted` does for one that never is."""
    (job,) = world.admitted([request])
    return explain_job(world, job)


def _with_classes(engine: Engine, explanation: Explanation) -> Iterator[Change]:
    """The changes, but priorities are those of classes, because jobs can have no others.

    A class is higher than what was tried, so it is tried as well; one that no class reaches is left out.
    """
    from paictl.scheduler.explain import explain

    for change in explanation.changes:
        if change.priority is None:
            yield change
            continue
        priority = min((number for number in PRIORITIES.values() if number >= change.priority), default=None)
        if priority is not None:
            outcome = explain(engine, replace(explanation.request, priority=priority)).outcome
            if outcome is not None:
                yield replace(change, priority=priority, outcome=outcome)
