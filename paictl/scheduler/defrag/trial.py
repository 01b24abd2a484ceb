"""Moves as the scheduler would make them: each gang goes and comes back before the next, on the engine, undone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paictl.cells.ids import PhysicalCell, VirtualCell
from paictl.frozen import frozen
from paictl.scheduler.decision import NO_LEAF, Bind, Phase, Preempt
from paictl.scheduler.defrag.model import GangMove
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import PodGone
from paictl.scheduler.explain.scratch import imagined
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.request import PodRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from paictl.scheduler.decision import Placed
    from paictl.scheduler.defrag.model import Places, RoomRequest, RunningGang
    from paictl.scheduler.defrag.targets import RoomCell, RoomView
    from paictl.scheduler.engine import Engine

PROBE: Final = "paictl-defrag/room"
"""Group and uid of the gang that is imagined to fill the room."""


@frozen
class Filled:
    """What becomes of a gang that fills the room; `yields` are groups that would have to go for it."""

    starts: bool
    yields: tuple[str, ...] = ()


@frozen
class Tried:
    """Moves that work, and what becomes of a gang that fills the room after them."""

    moves: tuple[GangMove, ...]
    filled: Filled
    cells: tuple[RoomCell, ...]
    """The cells that are free then."""
    hold: frozenset[str] = frozenset()
    """The nodes that gangs stayed away from."""


@frozen
class Stuck:
    """A gang for which there is no other place when its turn comes."""

    key: str
    homeless: bool = True
    """False if all gangs found a place, and there is no room all the same."""


class Trials:
    """One engine on which moves are imagined."""

    def __init__(self, engine: Engine, gangs: Mapping[str, RunningGang]) -> None:
        self.engine = engine
        self.gangs = gangs
        self.nodes = frozenset(engine.state.physical.nodes)
        self._offered: dict[frozenset[str], frozenset[str]] = {}

    def run(
        self, room: RoomRequest, view: RoomView, cells: Sequence[RoomCell], hold: frozenset[str], order: Sequence[str]
    ) -> Tried | Stuck:
        """Move gangs in an order, away from the nodes in `hold`, so that `cells` are free; who is stuck first, if any.

        Without gangs nobody can be stuck in a room that is free.
        """
        moves: list[GangMove] = []
        with imagined(self.engine):
            for key in order:
                move = self.move(self.gangs[key], hold)
                if move is None:
                    return Stuck(key)
                moves.append(move)
            free = self._free(room, view, cells)
            if len(free) < room.number:
                return Stuck(order[-1] if order else "", homeless=False)
            return Tried(tuple(moves), self.fill(room, view), tuple(free[: room.number]), hold)

    def move(self, gang: RunningGang, hold: frozenset[str]) -> GangMove | None:
        """Move a gang away from some nodes, in what is imagined already; None if there is no other place."""
        before = self.places(gang)
        self._end(gang)
        if not all(self._place(request, hold | gang.closed) for request in gang.requests):
            return None
        return GangMove(gang.key, gang.weight, before, self.places(gang))

    def can_move(self, gang: RunningGang, hold: frozenset[str]) -> bool:
        """Whether a gang could move away from some nodes if all others stayed."""
        with imagined(self.engine):
            return self.move(gang, hold) is not None

    def fill(self, room: RoomRequest, view: RoomView) -> Filled:
        """What would become of a gang that fills the room now."""
        ((leaves, pods),) = view.members
        vc = room.vc or min(self.engine.state.vcs)
        request = PodRequest(
            PROBE, PROBE, vc, 0 if room.vc else OPPORTUNISTIC, leaves, PROBE, ((leaves, pods * room.number),),
            view.leaf_type,
        )  # fmt: skip
        try:
            decision = self.engine.plan(request)
            if isinstance(decision, Preempt):
                decision = self.engine.plan(request, None, Phase.PREEMPTING)
        except RequestError:
            return Filled(starts=False)
        match decision:
            case Bind():
                return Filled(starts=True)
            case Preempt(victims=victims):
                slots = self.engine.state.groups.slots
                names = dict.fromkeys(slots[uid][0] for _, uids in victims for uid in uids)
                return Filled(starts=True, yields=tuple(sorted(names)))
        return Filled(starts=False)

    def places(self, gang: RunningGang) -> Places:
        """Where the pods of a gang are."""
        by_name = self.engine.state.groups.by_name
        return tuple(
            place for request in gang.requests if request.group in by_name
            for place in self._of(by_name[request.group].physical)
        )  # fmt: skip

    def _of(self, physical: Placed[PhysicalCell]) -> Iterable[tuple[str, tuple[int, ...]]]:
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
        """Start a group again, if it fits as things are: nobody else may lose anything for it."""
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
        """The cells in which nobody is, first those that were chosen.

        One is as good as another: a gang that is held off the nodes of one may come back to it on others, as virtual
        cells are bound anew, or leave a part of its new node free.
        """
        state, chosen = self.engine.state, {cell.cell for cell in cells}
        order = [*cells, *(cell for cell in view.cells if cell.usable and cell.cell not in chosen)]
        if room.vc:
            held, virtual = state.occupancy.virtual_priority.keys(), state.virtual.leaves
            return [cell for cell in order if held.isdisjoint(virtual(VirtualCell(cell.cell)))]
        users, physical = state.occupancy.user.keys(), state.physical.leaves
        return [cell for cell in order if users.isdisjoint(physical(PhysicalCell(cell.cell)))]
