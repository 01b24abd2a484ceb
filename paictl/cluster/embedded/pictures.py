"""The picture of the embedded cluster: cells, virtual clusters, nodes and jobs at one instant, with their history."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from paictl.cluster.embedded.dispatch import Dispatcher
from paictl.cluster.embedded.jobs import load_job
from paictl.cluster.embedded.services import SCHEDULER
from paictl.cluster.embedded.store import Store
from paictl.cluster.embedded.views import WorldViews, view_of
from paictl.cluster.embedded.world import World
from paictl.cluster.picture import Picture, chain_pictures, vc_pictures
from paictl.cluster.timeline import timeline
from paictl.errors import PaictlError
from paictl.scheduler.freecells import free_cells
from paictl.scheduler.inspection import inspect
from paictl.scheduler.state import State
from paictl.units import instant
from paictl.workload.lifecycle import RunState


def picture(views: WorldViews, store: Store, epoch: datetime, *, history: bool) -> Picture:
    """The picture of a world; with `history` also of the jobs that have ended, and the timeline."""
    world, now = views.world, instant(epoch, views.world.now)
    jobs, events = [*world.jobs.values()], None
    if history:
        jobs += [*(load_job(row.data) for row in store.ended_jobs()), *world.ended]
        events = [happened.event(epoch) for happened in (*store.events(), *world.events)]
    state, note = _state(world)
    owners = {group: key for key, job in world.jobs.items() for group in job.groups}
    waiting = Counter(job.job.vc for job in world.jobs.values() if job.status.state is RunState.WAITING)
    inspection = inspect(state, owners) if state else None
    return Picture(
        cluster=world.name,
        now=now,
        epoch=epoch,
        chains=chain_pictures(inspection) if inspection else (),
        vcs=vc_pictures(inspection, waiting) if inspection else (),
        nodes=tuple(views.nodes()),
        jobs=tuple(view_of(job, epoch, tasks=False) for job in sorted(jobs, key=lambda job: job.number)),
        note=note,
        timeline=None if events is None else timeline(events, now),
        windows=views.windows(),
        reservations=views.reservations(),
        free=free_cells(state) if state else (),
    )


def _state(world: World) -> tuple[State | None, str]:
    """What the scheduler knows; while it is stopped, what it would know if it started now, and a note that says so."""
    if world.dispatcher.engine is not None:
        return world.dispatcher.engine.state, ""
    if not world.configs.newest:
        return None, "no configuration has been pushed yet, so there are no cells"
    recovered = Dispatcher()
    try:
        recovered.start(world.configs.get(world.configs.newest).spec, world.survivors())
    except PaictlError as error:
        return None, f"{SCHEDULER} is stopped, and the newest configuration gives no cells: {error}"
    assert recovered.engine is not None  # noqa: S101 - started above
    return (
        recovered.engine.state,
        f"{SCHEDULER} is stopped: nothing new starts; the cells are shown as it would find them",
    )
