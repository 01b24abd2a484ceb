"""Why a job is where it is: services first, then the scheduler's own explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.jobviews import STATES
from paictl.cluster.embedded.services import CONTROLLER, SCHEDULER
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import Answer
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain import Explanation, explain, render, to_data
from paictl.scheduler.explain.data import Change
from paictl.workload.job import PRIORITIES
from paictl.workload.lifecycle import State

OPPORTUNISTIC = next(name for name, priority in PRIORITIES.items() if priority < 0)


def explain_job(world: World, job: LiveJob) -> Answer:
    """What a job does, or why it waits and what would let it run."""
    state = job.status.state
    waiting = [task for task in job.status.tasks if task.state is State.WAITING]
    if state.final or not waiting:
        return _plain(f"job {job.key} does not wait: it is {STATES[job.status.state].value}", job)
    for service, consequence in (
        (CONTROLLER, "no pods are made for it"),
        (SCHEDULER, "nothing new is placed"),
    ):
        if not world.services.runs(service):
            return _plain(
                f"job {job.key} waits because {service} is stopped: {consequence}", job,
                hint=f"start it: paictl service start -n {service}",
            )  # fmt: skip
    engine = world.dispatcher.engine
    if engine is None:
        return _plain(f"job {job.key} waits because the cluster has no scheduler", job)
    try:
        explanation = explain(engine, job.request(waiting[0].ref), siblings=job.plan.groups.keys())
    except RequestError as error:
        return _plain(
            f"job {job.key} waits because it asks for what the scheduler's configuration does not have: {error}", job,
            hint=f"stop it and submit it again for what there is: paictl job stop {job.key}",
        )  # fmt: skip
    explanation = replace(explanation, changes=tuple(_with_classes(engine, explanation)))
    others = len(waiting) - 1
    head = [f"job {job.key}: {len(waiting)} of {len(job.status.tasks)} tasks wait"] if others else []
    return Answer((*head, *map(_class_words, render(explanation))), {"job": job.key, **to_data(explanation)})


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


def _class_words(line: str) -> str:
    """A line of an explanation with the names that jobs have for priorities."""
    for name, priority in PRIORITIES.items():
        line = line.replace(f"- give it priority {priority}:", f"- give it the class {name} (priority {priority}):")
    return line.replace("- run it as opportunistic (", f"- give it the class {OPPORTUNISTIC} (opportunistic, ")


def _plain(text: str, job: LiveJob, *, hint: str = "") -> Answer:
    lines = (text, f"hint: {hint}") if hint else (text,)
    return Answer(lines, {"job": job.key, "state": STATES[job.status.state].value, "text": text, "hint": hint})
