"""Whether moves that were planned would still go as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.i18n import Text, text
from paictl.scheduler.defrag.planner import is_whole
from paictl.scheduler.defrag.targets import room_views
from paictl.scheduler.defrag.trial import Trials, Tried

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from paictl.scheduler.defrag.model import RoomPlan, RunningGang
    from paictl.scheduler.engine import Engine


def why_outrun(
    engine: Engine, plan: RoomPlan, gangs: Iterable[RunningGang], closed: Collection[str] = (), *,
    exactly: bool = True,
) -> Text | None:  # fmt: skip
    """What has changed so that the moves of a plan would go otherwise; None if they would go as planned.

    Not `exactly`: gangs may go to other places than planned, as long as there are some.
    """
    known = {gang.key: gang for gang in gangs}
    owners = {request.group: gang.key for gang in known.values() for request in gang.requests}
    trials = Trials(engine, known)
    for move in plan.moves:
        gang = known.get(move.key)
        if gang is None or not is_whole(engine, gang):
            return text("{gang} is not running any more", gang=move.key)
        if gang.fixed:
            return text("{gang} must not move: {reason}", gang=move.key, reason=gang.fixed)
        if sorted(trials.places(gang)) != sorted(move.before):
            return text("{gang} has moved since the plan was made", gang=move.key)
    view = next(
        (view for view in room_views(engine.state, plan.room, owners, closed) if view.chain == plan.chain), None
    )
    going = {move.key for move in plan.moves}
    cells = [] if view is None else [cell for cell in view.cells if cell.address in plan.cells]
    if view is None or len(cells) < len(plan.cells):
        return text("the cells of the configuration have changed since the plan was made")
    for cell in cells:
        if not cell.usable:
            return text("{cell} cannot be used any more", cell=cell.address)
        for key in sorted(cell.blockers - going):
            return text("{gang} has started in {cell}", gang=key, cell=cell.address)
    tried = trials.run(plan.room, view, cells, frozenset(plan.nodes), [move.key for move in plan.moves])
    if not isinstance(tried, Tried):
        return text("there is no place for {gang} any more", gang=tried.key)
    for planned, now in zip(plan.moves, tried.moves, strict=True):
        if exactly and planned.after != now.after:
            return text("{gang} would not go where the plan says", gang=now.key)
    return None
