"""The request, the gangs that may move and what that costs, and the result: data only."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen

if TYPE_CHECKING:
    from paictl.scheduler.request import PodRequest


Places = tuple[tuple[str, tuple[int, ...]], ...]
"""Node and device indices of each pod of a gang, in order."""


@frozen
class RoomRequest:
    """`number` whole cells of a type, free of every gang, in one chain.

    With `vc`, cells of that virtual cluster's promise, for a gang with a guarantee; without it, physical cells.
    """

    number: int
    cell_type: str
    vc: str = ""


@frozen
class RunningGang:
    """Groups that restart together: those of a gang, or of a job that restarts as a whole."""

    key: str
    """A job or a group; unique among all gangs."""
    requests: tuple[PodRequest, ...]
    """A request of each of its groups."""
    weight: int
    """What is lost if it moves, in device-seconds (`weight_of`)."""
    fixed: str = ""
    """Why it must not move; empty if it may."""
    closed: frozenset[str] = frozenset()
    """Nodes that maintenance windows close to it."""


@frozen
class GangMove:
    """A gang that is evicted, and the places that the scheduler gives it when it restarts."""

    key: str
    weight: int
    before: Places
    after: Places


@frozen
class RoomPlan:
    """The moves in the order in which they have to be made; empty if there is room already."""

    room: RoomRequest
    chain: str
    cells: tuple[str, ...]
    """Addresses of the cells that the moves free: physical ones, or virtual ones of the promise."""
    nodes: tuple[str, ...]
    """Nodes that gangs must stay away from while the moves are made."""
    moves: tuple[GangMove, ...]
    starts: bool
    """Whether the scheduler would then start a gang that fills the room."""
    yields: tuple[str, ...] = ()
    """Opportunistic gangs that would have to give way when a guaranteed gang fills the room."""
    exact: bool = True
    """Whether every cheaper set of moves was ruled out; False if the search was cut short."""

    @property
    def weight(self) -> int:
        """What all moves lose together."""
        return sum(move.weight for move in self.moves)


class Obstacle(StrEnum):
    """Why there can be no room."""

    TOO_FEW = "too few cells"
    """The cluster, or the promise, does not have enough cells in one chain, used or not."""
    UNUSABLE = "unusable cells"
    """There are enough, but too many are bad, reserved, in maintenance, or held by gangs that must not move."""
    NO_PLACE = "no place for moved gangs"
    """Gangs would have to move, and the scheduler has no other place for them."""


@frozen
class NoRoom:
    """There is no room, and none of the moves that the search tried make room."""

    room: RoomRequest
    obstacle: Obstacle
    most: int
    """Cells of the type in the chain that has most of them: all, or those that could be freed."""
    fixed: tuple[str, ...] = ()
    """Gangs in the way that must not move."""
    exact: bool = True


RESTART: Final = 300
"""Seconds that a restart costs each device on top of the lost work: moving a gang that has just begun is not free."""
SHARE: Final = 100
"""The factors below are hundredths."""
GUARANTEED: Final = 200
"""A gang with a guarantee counts double, plus its priority: 310 for OpenPAI's class `test` up to 320 for `crit`."""
NEAR_BUDGET: Final = 150
"""A tenant near the end of its budget pays for lost work from the little that remains."""


def weight_of(
    devices: int, lost: int, *, priority: int, guaranteed: bool, near_budget: bool = False, restart: int = RESTART
) -> int:
    """The weight of a move in seconds of a device, at least 1.

    `lost` is how many seconds of work are lost: since the gang started, or since its last checkpoint. `restart` is how
    many seconds a restart takes.
    """
    factor = GUARANTEED + max(0, priority) if guaranteed else SHARE
    weight = devices * (restart + max(0, lost)) * factor
    if near_budget:
        weight = weight * NEAR_BUDGET // SHARE
    return max(1, weight // SHARE)
