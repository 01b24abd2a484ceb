"""Moves as the scheduler would make them, imagined on the engine: each gang goes and restarts before the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paictl.cells.ids import PhysicalCell, VirtualCell
from paictl.frozen import frozen
from paictl.scheduler.decision import NO_LEAF, Bind, Phase, Preempt
from paictl.scheduler.defrag.model import GangMove
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import PodGone
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.request import PodRequest
from paictl.scheduler.scratch import imagined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from paictl.scheduler.decision import Placed
    from paictl.scheduler.defrag.model import Places, RoomRequest, RunningGang
    from paictl.scheduler.defrag.targets import RoomCell, RoomView
    from paictl.scheduler.engine import Engine

PROBE: Final = "paictl-defrag/room"
"""Group and uid of the imagined gang that fills the room."""


@frozen
class RoomFill:
    """Whether a gang that fills the room would start; `yields` are the groups that would have to go for it."""

    starts: bool
    yields: tuple[str, ...] = ()


@frozen
class TrialSuccess:
    """Moves that work, and whether a gang would then start in the room."""

    moves: tuple[GangMove, ...]
    filled: RoomFill
    cells: tuple[RoomCell, ...]
    """The cells that are free after the moves."""
    hold: frozenset[str] = frozenset()
    """The nodes that gangs stayed away from."""


@frozen
class StuckGang:
    """A gang for which there is no other place when its turn comes."""

    key: str
    homeless: bool = True
    """False if all gangs found a place, but there is still no room."""


class Trials:
    """One engine on which moves are imagined."""

    def __init__(self, engine: Engine, gangs: Mapping[str, RunningGang]) -> None:
        self.engine = engine
        self.gangs = gangs
        self.nodes = frozenset(engine.state.physical.nodes)
        self._offered: dict[frozenset[str], frozenset[str]] = {}

    def run(
        self, room: RoomRequest, view: RoomView, cells: Sequence[RoomCell], hold: frozenset[str], order: Sequence[str]
    ) -> TrialSuccess | StuckGang:
        """Move gangs in an order, away from the nodes in `hold`, so that `cells` are free; or the first stuck gang.

        Without gangs, none can be stuck in a room that is free.
        """
        moves: list[GangMove] = []
        with imagined(self.engine):
            for key in order:
                move = self.move(self.gangs[key], hold)
                if move is None:
                    return StuckGang(key)
                moves.append(move)
            free = self._free(room, view, cells)
            if len(free) < room.number:
                return StuckGang(order[-1] if order else "", homeless=False)
            return TrialSuccess(tuple(moves), self.fill(room, view), tuple(free[: room.number]), hold)

    def move(self, gang: RunningGang, hold: frozenset[str]) -> GangMove | None:
        """Move a gang away from some nodes, within a running `imagined`; None if there is no other place."""
        before = self.places(gang)
        self._end(gang)
        if not all(self._place(request, hold | gang.closed) for request in gang.requests):
            return None
        return GangMove(gang.key, gang.weight, before, self.places(gang))

    def can_move(self, gang: RunningGang, hold: frozenset[str]) -> bool:
        """Whether a gang could move away from some nodes if all others stayed."""
        with imagined(self.engine):
            return self.move(gang, hold) is not None

    def fill(self, room: RoomRequest, view: RoomView) -> RoomFill:
        """Whether a gang that fills the room would start now."""
        ((leaves, pods),) = view.members
        vc = room.vc or min(self.engine.state.vcs)
        request = PodRequest(
            PROBE,
            PROBE,
            vc,
            0 if room.vc else OPPORTUNISTIC,
            leaves,
            PROBE,
            ((leaves, pods * room.number),),
            view.leaf_type,
        )
        try:
            decision = self.engine.plan(request)
            if isinstance(decision, Preempt):
                decision = self.engine.plan(request, None, Phase.PREEMPTING)
        except RequestError:
            return RoomFill(starts=False)
        match decision:
            case Bind():
                return RoomFill(starts=True)
            case Preempt(victims=victims):
                slots = self.engine.state.groups.slots
                names = dict.fromkeys(slots[uid][0] for _, uids in victims for uid in uids)
                return RoomFill(starts=True, yields=tuple(sorted(names)))
        return RoomFill(starts=False)

    def places(self, gang: RunningGang) -> Places:
        """Where the pods of a gang are."""
        by_name = self.engine.state.groups.by_name
        return tuple(
            place
            for request in gang.requests
            if request.group in by_name
            for place in self._places_of(by_name[request.group].physical)
        )

    def _places_of(self, physical: Placed[PhysicalCell]) -> Iterable[tuple[str, tuple[int, ...]]]:
        tree = self.engine.state.physical
        for pods in physical:
            for leaves in pods:
                if NO_LEAF not in leaves:
                    yield tree.node_name(leaves[0]), tuple(map(tree.device, leaves))

    def _end(self, gang: RunningGang) -> None:
        by_name = self.engine.state.groups.by_name
        for request in gang.requests:
            for uid in [uid for pods in by_name[request.group].pods for uid in pods if uid]:
                self.engine.observe(PodGone(uid))

    def _place(self, request: PodRequest, closed: frozenset[str]) -> bool:
        """Start a group again if it fits as things are, without taking anything from another group."""
        offered = None
        if closed:
            request = replace(request, ignore_suggested=False)
            offered = self._offered.setdefault(closed, self.nodes - closed)
        try:
            decision = self.engine.plan(request, offered)
        except RequestError:
            return False
        if not isinstance(decision, Bind) or decision.lazy or decision.cancel:
            return False
        self.engine.apply(decision)
        return True

    def _free(self, room: RoomRequest, view: RoomView, cells: Sequence[RoomCell]) -> list[RoomCell]:
        """The cells without a gang, the chosen ones first.

        Any of them will do: a gang that is kept off a cell's nodes may return to the cell on other nodes, as virtual
        cells are bound again, or leave part of its new node free.
        """
        state, chosen = self.engine.state, {cell.cell for cell in cells}
        order = [*cells, *(cell for cell in view.cells if cell.usable and cell.cell not in chosen)]
        if room.vc:
            used, virtual = state.occupancy.virtual_priority.keys(), state.virtual.leaves
            return [cell for cell in order if used.isdisjoint(virtual(VirtualCell(cell.cell)))]
        users, physical = state.occupancy.user.keys(), state.physical.leaves
        return [cell for cell in order if users.isdisjoint(physical(PhysicalCell(cell.cell)))]
