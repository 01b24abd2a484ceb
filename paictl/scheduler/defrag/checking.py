"""Whether planned moves would still go as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.i18n import Text, text
from paictl.scheduler.defrag.planner import is_whole
from paictl.scheduler.defrag.targets import room_views
from paictl.scheduler.defrag.trial import Trials, TrialSuccess

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from paictl.scheduler.defrag.model import RoomPlan, RunningGang
    from paictl.scheduler.engine import Engine


def why_outrun(
    engine: Engine,
    plan: RoomPlan,
    gangs: Iterable[RunningGang],
    closed: Collection[str] = (),
    *,
    exactly: bool = True,
) -> Text | None:
    """What has changed so that the moves would no longer go as planned; None if they would.

    Without `exactly`, gangs may go to other places than planned, as long as there are some.
    """
    by_key = {gang.key: gang for gang in gangs}
    owners = {request.group: gang.key for gang in by_key.values() for request in gang.requests}
    trials = Trials(engine, by_key)
    for move in plan.moves:
        gang = by_key.get(move.key)
        if gang is None or not is_whole(engine, gang):
            return text("{gang} is not running any more", gang=move.key)
        if gang.fixed:
            return text("{gang} must not move: {reason}", gang=move.key, reason=gang.fixed)
        if sorted(trials.places(gang)) != sorted(move.before):
            return text("{gang} has moved since the plan was made", gang=move.key)
    view = next(
        (view for view in room_views(engine.state, plan.room, owners, closed) if view.chain == plan.chain), None
    )
    moving = {move.key for move in plan.moves}
    cells = [] if view is None else [cell for cell in view.cells if cell.address in plan.cells]
    if view is None or len(cells) < len(plan.cells):
        return text("the cells of the configuration have changed since the plan was made")
    for cell in cells:
        if not cell.usable:
            return text("{cell} cannot be used any more", cell=cell.address)
        for key in sorted(cell.blockers - moving):
            return text("{gang} has started in {cell}", gang=key, cell=cell.address)
    trial = trials.run(plan.room, view, cells, frozenset(plan.nodes), [move.key for move in plan.moves])
    if not isinstance(trial, TrialSuccess):
        return text("there is no place for {gang} any more", gang=trial.key)
    for planned, current in zip(plan.moves, trial.moves, strict=True):
        if exactly and planned.after != current.after:
            return text("{gang} would not go where the plan says", gang=current.key)
    return None
