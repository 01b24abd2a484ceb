"""Why a job is where it is, and what another configuration would do to the jobs that run and wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.dispatch import Dispatcher
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.services import CONTROLLER, SCHEDULER
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import JobRequest
from paictl.cluster.jobwords import STATES, harm_of_running
from paictl.cluster.scheduling import Impact, JobExplanation, JobImpact, JobSituation
from paictl.errors import PaictlError
from paictl.scheduler.engine import Engine
from paictl.workload.backfill import LineGang
from paictl.workload.lifecycle import RunState

if TYPE_CHECKING:
    from paictl.scheduler.request import PodRequest
    from paictl.units import Millis


NEEDED = (CONTROLLER, SCHEDULER)
"""The services between a job and its devices, in their order."""


def explain_job(world: World, job: LiveJob, epoch: datetime) -> JobExplanation:
    """What a job does, or why it waits and what would let it run."""
    waiting = [task for task in job.status.tasks if task.state is RunState.WAITING]
    known = JobExplanation(
        job.key, STATES[job.status.state], JobSituation.NOT_WAITING, waiting=len(waiting), tasks=len(job.status.tasks)
    )
    if job.status.state.final or not waiting:
        return known
    for service in NEEDED:
        if not world.services.runs(service):
            return replace(known, situation=JobSituation.SERVICE_STOPPED, service=service)
    engine = world.dispatcher.engine
    if engine is None:
        return replace(known, situation=JobSituation.NO_SCHEDULER)
    request = job.request(waiting[0].ref)
    if why := world.sharing.obstacle(request, job.plan.user):
        return replace(known, situation=JobSituation.HELD_BACK, reason=why)
    from paictl.cluster.whywaits import (
        explained,  # late: most commands load this module and explain nothing
        waits_for_shield,
        waits_for_windows,
    )

    if world.dispatcher.sparing is not None and world.sharing.sparing is not None:
        shielded = waits_for_shield(known, engine, request, world.sharing.sparing, epoch)
        if shielded is not None:
            return shielded

    reserved, name, ahead = world.dispatcher.reserved, job.job.reservation, world.windows
    foresight = world.dispatcher.foresight(world.now, ahead)
    if foresight is not None and (name or reserved is not None):
        from paictl.cluster.reservations import waits_for_reservation

        gang = LineGang(request, job.job.max_run_time)
        kept = waits_for_reservation(known, reserved, foresight, gang, name, epoch)
        if kept is not None:
            return kept
        ahead = ahead if reserved is None else reserved.windows(ahead, world.now, name)
    closed = waits_for_windows(known, engine, request, job.job.max_run_time, ahead, world.now, epoch)
    if closed is not None:
        return closed
    from paictl.cluster.defrag import with_moves
    from paictl.cluster.embedded.defrag import scene_of

    known = with_moves(explained(known, engine, request, job.plan.groups.keys()), lambda: scene_of(world), request)
    known = replace(known, ahead=world.sharing.line_ahead(request, job.plan.user))
    if world.sharing.rules.backfill:
        return _with_start(world, known, request, job.job.max_run_time, epoch)
    return known


def _with_start(
    world: World, known: JobExplanation, request: PodRequest, limit: Millis | None, epoch: datetime
) -> JobExplanation:
    """When a job starts at the latest, or whom it would delay, where its virtual cluster has backfill."""
    from paictl.cluster.startwaits import with_start

    dispatcher = world.dispatcher
    starts = dispatcher.starts(world.now, world.windows).get(request.vc)
    if starts is None or dispatcher.backfill is None or dispatcher.engine is None:
        return known
    if not dispatcher.backfill.rules.covers(request):
        return known
    foresight = dispatcher.backfill.foresight(dispatcher.engine, world.now, world.windows)
    owners = {group: job.key for job in world.jobs.values() for group in job.plan.groups}
    gang = LineGang(request, limit)
    return with_start(known, foresight, gang, starts, epoch, lambda group: owners.get(group, group))


def foresee_job(world: World, request: JobRequest, epoch: datetime) -> JobExplanation:
    """What would become of a job that was submitted now; raises as `World.admitted` does for one that never is."""
    (job,) = world.admitted([request])
    return explain_job(world, job, epoch)


def impact_of(world: World, files: Mapping[str, str]) -> Iterator[Impact]:
    """The jobs that would be worse off, in order of submission.

    A scheduler is started by the files beside the one that runs, and finds the pods as that would after a restart.
    Files that no scheduler could start with harm nobody: it goes on with what it has.
    """
    configuration, then = ConfigSnapshot(0, files), Dispatcher()
    try:
        then.start(configuration.spec, world.survivors())
    except PaictlError:
        return
    assert then.engine is not None  # noqa: S101 - started above
    for job in world.jobs.values():
        harm = _harm(job, configuration, world.dispatcher.engine, then.engine)
        if harm is not None:
            yield Impact(job.key, job.job.vc, harm)


def _harm(job: LiveJob, configuration: ConfigSnapshot, now: Engine | None, then: Engine) -> JobImpact | None:
    if any(True for _ in job.running()):
        return harm_of_running(job.plan.groups, now, then)
    if job.job.vc not in configuration.supply.vcs:
        return JobImpact.NO_VC
    return JobImpact.NEVER if configuration.judge.refusal(job.plan) is not None else None
