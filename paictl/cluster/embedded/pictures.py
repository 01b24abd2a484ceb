"""The picture of the embedded cluster: cells, virtual clusters, nodes and jobs at one instant, with their history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from paictl.cluster.embedded.dispatch import Dispatcher
from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.embedded.services import SCHEDULER
from paictl.cluster.embedded.views import reservation_views, view_of
from paictl.cluster.embedded.world import World
from paictl.cluster.maintenance import shown
from paictl.cluster.picture import Picture, chain_pictures, vc_pictures
from paictl.cluster.timeline import timeline
from paictl.cluster.values import Event, NodeView
from paictl.errors import PaictlError
from paictl.scheduler.freecells import free_cells
from paictl.scheduler.inspection import inspect
from paictl.scheduler.state import State
from paictl.units import instant
from paictl.workload.lifecycle import RunState


def picture(
    world: World,
    epoch: datetime,
    nodes: Sequence[NodeView],
    ended: Iterable[LiveJob] = (),
    events: Iterable[Event] | None = None,
) -> Picture:
    """The picture of a world; `events` are all of them, oldest first, or None for one without timeline."""
    state, note = _state(world)
    jobs = {group: key for key, job in world.jobs.items() for group in job.plan.groups}
    waiting = Counter(
        job.job.vc for job in world.jobs.values() if job.status.state is RunState.WAITING
    )  # fmt: skip
    seen = inspect(state, jobs) if state else None
    chosen = sorted([*world.jobs.values(), *ended], key=lambda job: job.number)
    return Picture(
        cluster=world.name,
        now=instant(epoch, world.now),
        epoch=epoch,
        chains=chain_pictures(seen) if seen else (),
        vcs=vc_pictures(seen, waiting) if seen else (),
        nodes=tuple(nodes),
        jobs=tuple(view_of(job, epoch, tasks=False) for job in chosen),
        note=note,
        timeline=None if events is None else timeline(events, instant(epoch, world.now)),
        windows=shown(world.windows, world.now, epoch),
        reservations=reservation_views(world, epoch),
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
    return recovered.engine.state, f"{SCHEDULER} is stopped: nothing new starts; the cells are as it would find them"
