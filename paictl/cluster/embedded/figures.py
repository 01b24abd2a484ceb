"""The figures of the scheduler of the embedded cluster, as the doors have them of theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paictl.cluster.figures import (
    AheadFigures,
    CellCounts,
    HardwareFigures,
    SchedulerFigures,
    cells_at_risk,
    count_cells,
)
from paictl.cluster.movetotals import planned_weights
from paictl.cluster.reservations import state_of
from paictl.scheduler.freecells import free_cells
from paictl.units import Millis
from paictl.workload.lifecycle import RunState

if TYPE_CHECKING:
    from paictl.cluster.embedded.world import World
    from paictl.scheduler.engine import Engine

HELD = "held back by a budget or a limit"


def scheduler_figures(world: World, engine: Engine) -> tuple[SchedulerFigures, CellCounts]:
    """What the scheduler of a world knows now."""
    state = engine.state
    bound = sum(1 for job in world.jobs.values() for _ in job.running())
    bad_devices = sum(len(node.bad_devices) for node in world.machines if node.machine.name in state.physical.nodes)
    hardware = HardwareFigures(len(world.machines), len(state.health.bad_nodes), bad_devices, cells_at_risk(state))
    seen = SchedulerFigures(
        _waiting(world), {"assumed": 0, "bound": bound}, world.sharing.figures(), _ahead(world), hardware
    )
    return seen, CellCounts(count_cells(state), free_cells(state))


def day_of(world: World) -> Millis:
    """The last midnight UTC on the world's clock, at the earliest its beginning."""
    now = datetime.fromtimestamp((world.epoch + world.now) / 1000, UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return Millis(max(0, round(midnight.timestamp() * 1000) - world.epoch))


def _waiting(world: World) -> Counter[str]:
    """Pods that wait; the scheduler keeps no reason for those that have no room."""
    by_reason: Counter[str] = Counter()
    for job in world.jobs.values():
        for task in job.status.tasks:
            if task.state is RunState.WAITING:
                held = world.sharing.obstacle(job.request(task.ref), job.plan.user)
                by_reason[HELD if held else "insufficient devices"] += 1
    return by_reason


def _ahead(world: World) -> AheadFigures:
    now, dispatcher = world.now, world.dispatcher
    windows, reservations = [w for w in world.windows if now < w.end], world.reservations.current(now)
    starts = dispatcher.starts(now, world.windows)
    foresight, kept = dispatcher.foresight(now, world.windows), dispatcher.reserved
    short = {} if foresight is None or kept is None else state_of(kept, foresight)
    heads = {vc: line.head for vc, line in starts.items()}
    return AheadFigures(
        _by_state(len(windows), sum(window.is_active(now) for window in windows)),
        _by_state(len(reservations.all), sum(reservation.is_active(now) for reservation in reservations)),
        {name: missing for name, (_, missing) in short.items()},
        {vc: (world.epoch + head.at) / 1000 for vc, head in heads.items() if head is not None and head.at is not None},
        {vc: len(line.times()) for vc, line in starts.items()},
        world.moves, planned_weights(world.moves, now),
    )  # fmt: skip


def _by_state(number: int, active: int) -> Mapping[str, int]:
    return {"planned": number - active, "active": active}
