"""The search: sets of gangs in order of what their moves lose, the first that the scheduler can really move."""

from __future__ import annotations

from heapq import heappop, heappush, nsmallest
from itertools import chain, combinations, islice, permutations
from typing import TYPE_CHECKING, Any, Final

from paictl.frozen import frozen
from paictl.scheduler.defrag.model import NoRoom, Obstacle, RoomPlan
from paictl.scheduler.defrag.targets import free_devices, room_views
from paictl.scheduler.defrag.trial import StuckGang, Trials, TrialSuccess
from paictl.scheduler.groups import GroupState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from paictl.scheduler.defrag.model import RoomRequest, RunningGang
    from paictl.scheduler.defrag.targets import RoomCell, RoomView
    from paictl.scheduler.engine import Engine

MOST_CLASSES: Final = 96
"""Classes of cells that are considered, cheapest first; no small cluster has more."""
MOST_LOOKS: Final = 3000
"""Sets of gangs that are considered."""
MOST_TRIALS: Final = 6000
"""Trials on the engine, on a cluster of at most `TINY` nodes; a trial costs more on a larger one."""
TINY: Final = 64
MOST_SINGLES: Final = 128
"""Gangs that are tried on a large cluster for whether they could move alone."""
SMALL: Final = 256
CHOICES: Final = 12
"""Choices of cells that are tried for one gang if more become free than are needed."""
FEW_CHOICES: Final = 4
"""The same for several gangs, each tried in several orders: trials are better spent on other sets."""
MOST_HOLDS: Final = 64
"""Sets of the room's nodes that a gang moving alone may also use on a small cluster, for each choice of cells."""
FEW_HOLDS: Final = 8
"""The same for several gangs, and only if the room is of physical cells on at most `FEW_NODES` nodes."""
FEW_NODES: Final = 6
ALL_ORDERS: Final = 3
"""Up to this many gangs are tried in every order."""
HELPERS: Final = 48
"""Gangs outside the room, cheapest first, that may move so that others find a place."""
MOST_HELPERS: Final = 2
"""How many of them may move in one plan."""

Gangs = frozenset[str]


def find_room(
    engine: Engine,
    room: RoomRequest,
    gangs: Iterable[RunningGang],
    closed: Collection[str] = (),
    *,
    most_trials: int = MOST_TRIALS,
) -> RoomPlan | NoRoom:
    """The moves that make room at the least loss, in the cheapest chain; the engine is unchanged.

    `gangs` are all running gangs; a group that is in none of them does not move. `closed` are the nodes that a window
    closes. `most_trials` bounds the work if a quick answer will do.
    """
    state = engine.state
    by_key = {gang.key: gang for gang in gangs}
    owners = {request.group: gang.key for gang in by_key.values() for request in gang.requests}
    movable = {key: gang for key, gang in by_key.items() if not gang.fixed and is_whole(engine, gang)}
    views = room_views(state, room, owners, closed)
    best: RoomPlan | None = None
    refusals: list[NoRoom] = []
    for view in views:
        result = _RoomSearch(engine, room, view, movable, most_trials).find()
        if isinstance(result, NoRoom):
            refusals.append(result)
        elif best is None or result.weight < best.weight:
            best = result
    if best is not None:
        return best
    order = list(Obstacle)
    return max(
        refusals,
        key=lambda refusal: (order.index(refusal.obstacle), refusal.most),
        default=NoRoom(room, Obstacle.TOO_FEW, 0),
    )


def is_whole(engine: Engine, gang: RunningGang) -> bool:
    """Whether all pods of a gang run and it is not being preempted: half a gang would not come back as it was."""
    groups = [engine.state.groups.by_name.get(request.group) for request in gang.requests]
    return bool(groups) and all(
        group is not None
        and group.state is GroupState.ALLOCATED
        and group.info is None
        and all(all(pods) for pods in group.pods)
        for group in groups
    )


@frozen
class _CellClass:
    """Cells with the same gangs in them."""

    blockers: Gangs
    cells: tuple[RoomCell, ...]


class _RoomSearch:
    """One search in one chain."""

    def __init__(
        self, engine: Engine, room: RoomRequest, view: RoomView, movable: Mapping[str, RunningGang], most_trials: int
    ) -> None:
        self.room = room
        self.view = view
        self.movable = movable
        self.trials = Trials(engine, movable)
        nodes = len(engine.state.physical.nodes)
        self.tiny = nodes <= TINY
        self.left = most_trials if self.tiny else max(24, most_trials * TINY // (4 * nodes))
        self.looks = min(MOST_LOOKS, 8 * most_trials)
        self.stuck: dict[tuple[frozenset[str], tuple[str, ...]], StuckGang] = {}
        """Failed trials, by the nodes to stay away from and the moves up to the one that failed."""
        self.free = [cell for cell in view.cells if cell.usable and not cell.blockers]
        self.need = room.number - len(self.free)
        self.shared = len({cell.nodes for cell in view.cells}) < len(view.cells)
        """Whether several cells lie on one node."""
        kinds: dict[Gangs, list[RoomCell]] = {}
        self.touched: dict[str, int] = {}
        """How many of the cells that could be freed each gang is in."""
        for cell in view.cells:
            if cell.usable and cell.blockers and cell.blockers <= movable.keys():
                kinds.setdefault(cell.blockers, []).append(cell)
                for key in cell.blockers:
                    self.touched[key] = self.touched.get(key, 0) + 1
        classes = [_CellClass(blockers, tuple(cells)) for blockers, cells in kinds.items()]
        self.within = sum(len(kind.cells) for kind in classes)
        classes.sort(key=lambda kind: (self._share(kind.blockers), kind.cells[0].cell))
        self.classes = classes[:MOST_CLASSES] if nodes <= SMALL else self._promising(classes)
        self.cut = len(classes) > len(self.classes)

    def find(self) -> RoomPlan | NoRoom:
        """The plan, or why there is none."""
        if self.room.number > len(self.view.cells):
            return NoRoom(self.room, Obstacle.TOO_FEW, len(self.view.cells))
        if self.need <= 0:
            cells = tuple(next(self._choices(self.free, frozenset())))
            return self._plan(cells, TrialSuccess((), self.trials.fill(self.room, self.view), cells))
        if self.within < self.need:
            usable = {key for cell in self.view.cells if cell.usable for key in cell.blockers}
            fixed = tuple(sorted(usable - self.movable.keys()))
            return NoRoom(self.room, Obstacle.UNUSABLE, len(self.free) + self.within, fixed)
        ((leaves, pods),) = self.view.members
        if free_devices(self.trials.engine.state, self.room) < self.room.number * leaves * pods:
            return NoRoom(self.room, Obstacle.NO_PLACE, len(self.free) + self.within)
        plan = self._search() or self._greedy()
        return plan or NoRoom(self.room, Obstacle.NO_PLACE, len(self.free) + self.within, exact=not self.cut)

    def _promising(self, classes: Sequence[_CellClass]) -> Sequence[_CellClass]:
        """On a large cluster: the cheapest classes whose gangs could each move if all others stayed.

        Otherwise, sets of gangs that cannot move anyway would use up all trials.
        """
        off_limits = (
            frozenset(node for cell in self.free for node in cell.nodes) if not self.shared else frozenset[str]()
        )
        moves: dict[str, bool] = {}
        promising: list[_CellClass] = []
        for kind in classes:
            if len(promising) == MOST_CLASSES or len(moves) >= MOST_SINGLES:
                break
            for key in sorted(kind.blockers - moves.keys()):
                moves[key] = self.trials.can_move(self.movable[key], off_limits.union(kind.cells[0].nodes))
                if not moves[key]:
                    break
            if all(moves.get(key) for key in kind.blockers):
                promising.append(kind)
        return promising or classes[:MOST_CLASSES]

    # --- the search

    def _search(self) -> RoomPlan | None:
        """A* with a bound that never overestimates: complete sets come out cheapest first."""
        start: Gangs = frozenset()
        heap: list[tuple[float, int, int, tuple[str, ...], int, bool]] = [(0.0, 0, 0, (), 0, False)]
        seen = {start}
        looks = 0
        while heap:
            cost, lacking, _, names, helpers, bounded = heappop(heap)
            gangs = frozenset(names)
            looks += 1
            if looks > self.looks or self.left <= 0:
                self.cut = True
                return None
            lacking = self.need - self._freed(gangs)
            if lacking > 0 and not bounded:  # the bound is costly: compute it only when the set's turn comes
                bound = max(cost, self._weight(gangs) + self._bound(gangs, lacking))
                heappush(heap, (bound, lacking, len(names), names, helpers, True))
                continue
            if lacking <= 0:
                plan = self._try(gangs)
                if plan is not None:
                    return plan
                if helpers == MOST_HELPERS:
                    self.cut = True
                    continue
                further: Iterable[Gangs] = self._helpers(gangs)
                helpers += 1
            else:
                further = (kind.blockers for kind in self.classes)
            for added in further:
                child = gangs | added
                if child not in seen:
                    seen.add(child)
                    weight = float(self._weight(child))
                    row = tuple(sorted(child))
                    heappush(heap, (max(cost, weight), lacking, len(row), row, helpers, False))
        return None

    def _weight(self, gangs: Iterable[str]) -> int:
        return sum(self.movable[key].weight for key in gangs)

    def _share(self, gangs: Iterable[str]) -> float:
        """The least cost of freeing a cell, where a gang's weight is divided among all cells that it is in."""
        return sum(self.movable[key].weight / self.touched[key] for key in sorted(gangs))

    def _freed(self, gangs: Gangs) -> int:
        return sum(len(kind.cells) for kind in self.classes if kind.blockers <= gangs)

    def _bound(self, gangs: Gangs, lacking: int) -> float:
        """The least cost still to come: no choice of cells costs less than the sum of the smallest shares."""
        shares = [
            share
            for kind in self.classes
            if not kind.blockers <= gangs
            for share in [self._share(kind.blockers - gangs)] * min(len(kind.cells), lacking)
        ]
        return sum(nsmallest(lacking, shares)) if len(shares) >= lacking else float("inf")

    def _helpers(self, gangs: Gangs) -> Iterator[Gangs]:
        """Single gangs that are not in the way, but whose move may give others a place."""
        rest = sorted((gang.weight, key) for key, gang in self.movable.items() if key not in gangs)
        yield from (frozenset((key,)) for _, key in rest[:HELPERS])
        self.cut = self.cut or len(rest) > HELPERS

    def _greedy(self) -> RoomPlan | None:
        """After the search was cut short: repeatedly add the gangs that cost least per cell freed."""
        if not self.cut:
            return None
        self.left = max(self.left, 24)
        gangs: Gangs = frozenset()
        while (freed := self._freed(gangs)) < self.need:
            gain = [
                ((self._weight(kind.blockers - gangs)) / max(1, self._freed(gangs | kind.blockers) - freed), place)
                for place, kind in enumerate(self.classes)
                if not kind.blockers <= gangs
            ]
            if not gain:
                return None
            gangs |= self.classes[min(gain)[1]].blockers
        return self._try(gangs)

    # --- trials

    def _try(self, gangs: Gangs) -> RoomPlan | None:
        """The moves of a set of gangs, if there is an order in which all of them find a place."""
        freed = [*self.free, *(cell for kind in self.classes if kind.blockers <= gangs for cell in kind.cells)]
        choices = self._choices(freed, gangs)
        for cells in islice(choices, CHOICES if len(gangs) == 1 else FEW_CHOICES):
            tried = self._in_some_order(cells, gangs)
            if tried is not None:
                return self._plan(cells, tried)
        holds_left = self.shared and (len(gangs) > 1 or not self.tiny)
        if holds_left or len(gangs) > ALL_ORDERS or next(choices, None) is not None:
            self.cut = True  # it might work with other cells, in another order, or kept off other nodes
        return None

    def _in_some_order(self, cells: Sequence[RoomCell], gangs: Gangs) -> TrialSuccess | None:
        largest = sorted(gangs, key=lambda key: (-_devices(self.movable[key]), key))
        if len(largest) <= ALL_ORDERS:
            orders: Iterable[Sequence[str]] = permutations(largest)
        else:
            orders = (largest, largest[::-1])
        result: TrialSuccess | StuckGang | None = None
        last: Sequence[str] = largest
        for last in orders:
            result = self._run(cells, last)
            if isinstance(result, TrialSuccess):
                return result
        for _ in range(len(largest) if len(largest) > ALL_ORDERS else 0):  # the stuck gang goes first the next time
            if not isinstance(result, StuckGang) or last[0] == result.key:
                return None
            key = result.key
            last = [key, *(other for other in last if other != key)]
            result = self._run(cells, last)
            if isinstance(result, TrialSuccess):
                return result
        return None

    def _run(self, cells: Sequence[RoomCell], order: Sequence[str]) -> TrialSuccess | StuckGang | None:
        result: TrialSuccess | StuckGang | None = None
        for hold in self._holds(cells, order):
            result = self._known_failure(hold, order)
            if result is not None:
                continue
            if self.left <= 0:
                return None
            self.left -= 1
            result = self.trials.run(self.room, self.view, cells, hold, order)
            if isinstance(result, TrialSuccess):
                return result
            moved = order.index(result.key) + 1 if order else 0
            self.stuck[hold, tuple(order[:moved])] = result
        return result

    def _known_failure(self, hold: frozenset[str], order: Sequence[str]) -> StuckGang | None:
        """The stuck gang, if these moves or the first of them were tried before: sets have gangs in common."""
        for moved in range(1, len(order) + 1):
            stuck = self.stuck.get((hold, tuple(order[:moved])))
            if stuck is not None and (stuck.homeless or moved == len(order)):
                return stuck
        return None

    def _holds(self, cells: Sequence[RoomCell], gangs: Sequence[str]) -> Iterator[frozenset[str]]:
        """The nodes that gangs have to stay away from: those of the room.

        Where cells are parts of nodes, it may be enough that gangs do not come back to the cells that they leave. One
        gang that moves alone, or several that leave a small room, may also go to other parts of the room's nodes, at
        most to one node for each pod.
        """
        every = frozenset(node for cell in cells for node in cell.nodes)
        yield every
        if not self.shared:
            return
        left = frozenset(node for cell in cells if not cell.blockers.isdisjoint(gangs) for node in cell.nodes)
        if left != every:
            yield left
        few = len(every) <= FEW_NODES and not self.room.vc
        most = MOST_HOLDS if len(gangs) == 1 else FEW_HOLDS if few else 0
        if self.tiny and most:
            beside = self._beside(cells, gangs)
            requests = (request for key in gangs for request in self.movable[key].requests)
            pods = sum(number for request in requests for _, number in request.members)
            # of a promise all may be open: its cells need no node, and a gang that goes back may need fewer of them
            most_open = min(pods, len(beside), len(every) if self.room.vc else len(every) - 1)
            open_ones = chain.from_iterable(combinations(beside, size) for size in range(1, most_open + 1))
            yield from islice((nodes for opened in open_ones if (nodes := every.difference(opened)) != left), most)

    def _beside(self, cells: Sequence[RoomCell], gangs: Sequence[str]) -> list[str]:
        """Nodes of the room with free devices outside it once gangs have left; for a promise all nodes of the room."""
        room, every = {cell.cell for cell in cells}, {node for cell in cells for node in cell.nodes}
        if self.room.vc:
            return sorted(every)
        size = self.view.members[0][0]
        return sorted(
            {
                node
                for cell in self.view.cells
                if cell.cell not in room and sum(leaves for key, leaves in cell.held if key not in gangs) < size
                for node in cell.nodes
                if node in every
            }
        )

    def _choices(self, freed: Sequence[RoomCell], gangs: Gangs) -> Iterator[Sequence[RoomCell]]:
        """The choices of freed cells that make up the room, each once, promising ones first.

        Gangs stay off all nodes of the room, so nodes with the least other space are the best; whether it is better
        to leave the gangs whole nodes or parts of nodes depends on the gangs.
        """
        if len(freed) == self.room.number:
            yield list(freed)
            return
        by_node: dict[tuple[str, ...], list[RoomCell]] = {}
        for cell in freed:
            by_node.setdefault(cell.nodes, []).append(cell)
        together = {nodes: len(cells) for nodes, cells in by_node.items()}
        spoilt = self._spoilt(by_node, gangs) if self.shared else dict.fromkeys(by_node, 0)
        ranks: tuple[Callable[[RoomCell], tuple[int, ...]], ...] = (
            lambda cell: (spoilt[cell.nodes], -together[cell.nodes], cell.cell),
            lambda cell: (-together[cell.nodes], spoilt[cell.nodes], cell.cell),
            lambda cell: (spoilt[cell.nodes], together[cell.nodes], cell.cell),
            lambda cell: (bool(cell.held), cell.cell),
            lambda cell: (not cell.held, cell.cell),
        )
        seen = set()
        orders = (sorted(freed, key=rank)[: self.room.number] for rank in ranks)
        for cells in chain(orders, combinations(sorted(freed, key=lambda cell: cell.cell), self.room.number)):
            choice = tuple(sorted(cell.cell for cell in cells))
            if choice not in seen:
                seen.add(choice)
                yield list(cells)

    def _spoilt(self, by_node: Mapping[tuple[str, ...], Sequence[RoomCell]], gangs: Gangs) -> dict[Any, int]:
        """By node, free leaves in cells that do not become free: no gang gets them while the node is kept free."""
        spoilt = dict.fromkeys(by_node, 0)
        for cell in self.view.cells:
            if cell.nodes in spoilt:
                held = sum(leaves for key, leaves in cell.held if key not in gangs)
                spoilt[cell.nodes] += self.view.members[0][0] - held if held else 0
        return spoilt

    def _plan(self, cells: Sequence[RoomCell], tried: TrialSuccess) -> RoomPlan:
        every = dict.fromkeys(node for cell in cells for node in cell.nodes)
        nodes = tuple(node for node in every if node in tried.hold) if tried.moves else tuple(every)
        free = sorted(tried.cells, key=lambda cell: cell.cell)
        return RoomPlan(
            self.room,
            self.view.chain,
            tuple(cell.address for cell in free),
            nodes,
            tried.moves,
            tried.filled.starts,
            tried.filled.yields,
            exact=not self.cut,
        )


def _devices(gang: RunningGang) -> int:
    return sum(leaves * pods for request in gang.requests for leaves, pods in request.members)
