"""Why a job is where it is: services first, then the scheduler's own explanation."""

from __future__ import annotations

from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.services import CONTROLLER, SCHEDULER
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import Answer
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain import explain, render, to_data
from paictl.workload.lifecycle import State


def explain_job(world: World, job: LiveJob) -> Answer:
    """What a job does, or why it waits and what would let it run."""
    state = job.status.state
    waiting = [task for task in job.status.tasks if task.state is State.WAITING]
    if state.final or not waiting:
        return _plain(f"job {job.key} does not wait: it is {job.view().state.value}", job)
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
        explanation = explain(engine, job.request(waiting[0].ref))
    except RequestError as error:
        return _plain(f"job {job.key} waits because it asks for what the configuration no longer has: {error}", job)
    others = len(waiting) - 1
    head = [f"job {job.key}: {len(waiting)} of {len(job.status.tasks)} tasks wait"] if others else []
    return Answer((*head, *render(explanation)), {"job": job.key, **to_data(explanation)})


def _plain(text: str, job: LiveJob, *, hint: str = "") -> Answer:
    lines = (text, f"hint: {hint}") if hint else (text,)
    return Answer(lines, {"job": job.key, "state": job.view().state.value, "text": text, "hint": hint})
