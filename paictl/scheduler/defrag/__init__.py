"""Room for a large gang: the fewest moves of running gangs that make whole cells free (`docs/defragmentation.md`).

The effect of a move is not deduced but tried on the engine itself, in a scratch that always rolls back. This
package knows neither clocks nor clusters: what a gang loses by a move is a number that the caller gives.
"""

from paictl.scheduler.defrag.checking import why_outrun
from paictl.scheduler.defrag.model import GangMove, NoRoom, Obstacle, RoomPlan, RoomRequest, RunningGang, weight_of
from paictl.scheduler.defrag.planner import find_room
from paictl.scheduler.defrag.targets import room_of
from paictl.scheduler.freecells import FreeCells, free_cells

__all__ = [
    "FreeCells",
    "GangMove",
    "NoRoom",
    "Obstacle",
    "RoomPlan",
    "RoomRequest",
    "RunningGang",
    "find_room",
    "free_cells",
    "room_of",
    "weight_of",
    "why_outrun",
]
