"""Why a job is where it is: services first, then the scheduler's own explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.jobviews import STATES
from paictl.cluster.embedded.services import CONTROLLER, SCHEDULER
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import Answer
from paictl.i18n import Text, text
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain import Explanation, explain, render, to_data
from paictl.scheduler.explain.data import Change
from paictl.workload.job import PRIORITIES
from paictl.workload.lifecycle import State


def explain_job(world: World, job: LiveJob) -> Answer:
    """What a job does, or why it waits and what would let it run."""
    state = job.status.state
    waiting = [task for task in job.status.tasks if task.state is State.WAITING]
    if state.final or not waiting:
        said = text("job {job} does not wait: it is {state}", job=job.key, state=STATES[job.status.state].value)
        return _plain(said, job)
    for service, consequence in (
        (CONTROLLER, text("no pods are made for it")),
        (SCHEDULER, text("nothing new is placed")),
    ):
        if not world.services.runs(service):
            return _plain(
                text("job {job} waits because {service} is stopped: {consequence}", job=job.key, service=service,
                     consequence=consequence),
                job, hint=text("start it: paictl service start -n {service}", service=service),
            )  # fmt: skip
    engine = world.dispatcher.engine
    if engine is None:
        return _plain(text("job {job} waits because the cluster has no scheduler", job=job.key), job)
    try:
        explanation = explain(engine, job.request(waiting[0].ref))
    except RequestError as error:
        return _plain(
            text("job {job} waits because it asks for what the scheduler's configuration does not have: {reason}",
                 job=job.key, reason=str(error)),
            job, hint=text("stop it and submit it again for what there is: paictl job stop {job}", job=job.key),
        )  # fmt: skip
    explanation = replace(explanation, changes=tuple(_with_classes(engine, explanation)))
    others = len(waiting) - 1
    head = text("job {job}: {waiting} of {tasks} tasks wait", job=job.key, waiting=len(waiting),
                tasks=len(job.status.tasks))  # fmt: skip
    lines = render(explanation, {priority: name for name, priority in PRIORITIES.items()})
    return Answer((*([head] if others else []), *lines), {"job": job.key, **to_data(explanation)})


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


def _plain(said: Text, job: LiveJob, *, hint: Text | None = None) -> Answer:
    lines = (said, text("hint: {hint}", hint=hint)) if hint else (said,)
    state = STATES[job.status.state].value
    return Answer(lines, {"job": job.key, "state": state, "text": str(said), "hint": str(hint or "")})
