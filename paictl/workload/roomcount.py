"""Whether a gang would have a place in the cells promised to its virtual cluster: counted, not asked of the core.

The core alone decides what fits, but asking it about the future means to end groups in its state one by one and to
take all of that back. Where nothing but the virtual cluster's own groups matters (healthy hardware, no nodes closed),
the answer follows from how many leaves of each node are free, which is cheap to keep. Where that is not certain,
`RoomCount.of` gives None, and the core has to be asked. Both always agree: tests/unit/workload/test_room_count.py.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from paictl.cells.ids import NO_VIRTUAL
from paictl.scheduler.decision import Bind, Phase, Preempt
from paictl.scheduler.errors import RequestError
from paictl.scheduler.groups import GroupState
from paictl.scheduler.placement.pack import pack
from paictl.scheduler.placement.search import candidate_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paictl.cells.ids import ChainIndex, VirtualCell
    from paictl.scheduler.decision import Decision, Placed
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.views import VirtualIndex

NOWHERE: Final[tuple[VirtualIndex, ...]] = ()
"""The views of a request that the core would refuse."""
KINDS: Final = 10_000
"""Kinds of requests whose views are remembered; anybody may make up device types."""
NOT_THERE: Final = None, 0
"""In the place of a view and a slot."""


def is_calm(engine: Engine, vc: str) -> bool:
    """Whether a virtual cluster gets its cells whatever others do, and nothing is imagined at the moment."""
    return not (engine.state.journal.depth or has_returning(engine) or is_struck(engine, vc))


def has_returning(engine: Engine) -> bool:
    """Whether groups that lost their guarantee get it back when others end, as the configuration says."""
    return bool(engine.state.groups.demoted) and engine.spec.lazy_preemption_recovery


def is_struck(engine: Engine, vc: str) -> bool:
    """Whether hardware is bad in a chain in which a virtual cluster has cells: any of them may be mapped onto it."""
    health, tree = engine.state.health, engine.state.physical
    if not (health.bad_nodes or health.bad_leaves):
        return False
    chains = {tree.chain[leaf] for leaf in health.bad_leaves}
    return bool(chains & _chains_of(engine, vc)) or has_cells_on(engine, vc, health.bad_nodes)


def struck_nodes(engine: Engine) -> Counter[ChainIndex]:
    """Nodes by chain that are bad, or have a bad device."""
    health, tree = engine.state.health, engine.state.physical
    names = {*health.bad_nodes, *(tree.node_name(leaf) for leaf in health.bad_leaves)}
    return Counter(tree.chain[tree.nodes[name][0]] for name in names)


def has_cells_on(engine: Engine, vc: str, nodes: Iterable[str]) -> bool:
    """Whether cells of a virtual cluster may be mapped onto any of some nodes: it has cells in their chains."""
    tree, own = engine.state.physical, _chains_of(engine, vc)
    return any(tree.chain[cell] in own for node in nodes for cell in tree.nodes.get(node, ()))


def _chains_of(engine: Engine, vc: str) -> set[ChainIndex]:
    tree = engine.state.virtual
    return {tree.chain[root] for root, top in tree.preassigned.items() if top.vc == vc}


def is_plain(engine: Engine, request: PodRequest) -> bool:
    """Whether only the groups of its own virtual cluster decide if there is a place for a new gang."""
    groups = engine.state.groups
    return (
        request.guaranteed
        and not request.repair
        and is_calm(engine, request.vc)
        and request.uid not in groups.slots
        and request.uid not in groups.waiting
        and request.group not in groups.by_name
    )


def views_of(engine: Engine, request: PodRequest) -> tuple[VirtualIndex, ...]:
    """Where the core would look for a place, in order; nowhere if it would refuse the request."""
    asked, known = (request.vc, request.leaf_type, request.pinned_id), engine.places.by_request
    indexes = known.get(asked)
    if indexes is None:
        try:
            indexes = tuple(view for _, view in candidate_views(engine.state, request))  # type: ignore[misc]
        except RequestError:
            indexes = NOWHERE
        if len(known) < KINDS:
            known[asked] = indexes
    return indexes


def has_room(engine: Engine, request: PodRequest) -> bool | None:
    """Whether a new gang has a place as things are, whoever has to go for it; None: only the core knows."""
    if len(request.members) != 1 or not is_plain(engine, request):
        return None
    (size, pods), priority = request.members[0], request.priority
    views = views_of(engine, request)
    weaker = any(held < priority for view in views for held in view.by_priority)
    if weaker and engine.sparing is not None:
        return None  # a shield may forbid what there is room for
    for view in views:
        room = 0
        for row in view.rows:
            for free, slots in row.items():
                if free >= size:
                    room += slots.bit_count() * (free // size)
                    if room >= pods:
                        return True
    return None if weaker else False


class RoomCount:
    """The leaves of one virtual cluster as one gang sees them, at an instant that `end` and `take` choose.

    A pod needs all of its leaves on one node. The core fills nodes in an order of its own, but with pods of one size
    it finds places for all of them whenever there are enough; with several sizes the order matters, and its own
    `pack` is asked.
    """

    __slots__ = ("_below", "_free", "_left", "_places", "_room", "_used", "_views", "changes", "request")

    def __init__(self, engine: Engine, request: PodRequest) -> None:
        state, views = engine.state, views_of(engine, request)
        self.request = request
        self.changes = engine.by_vc.changes(request.vc)
        """Of the groups of the virtual cluster (`GroupsByVc`) when they were counted."""
        self._places = engine.places
        self._views = {id(view): view for view in views}
        self._used: dict[int, list[int]] = {}
        """By view and slot: leaves in use."""
        self._free: dict[int, list[int]] = {}
        """Leaves that are not in use."""
        self._left: dict[int, list[int]] = {}
        """Leaves that are free or in use at a lower priority."""
        self._below: dict[int, int] = {}
        """By view: leaves in use at a lower priority."""
        self._room: dict[int, int] = {}
        """By view: pods for which there are leaves, if all are of one size."""
        size, tree, used = request.members[0][0], state.virtual, state.counts.used
        for key, view in self._views.items():
            self._used[key] = [used[cell] for cell in view.cells]
            self._free[key] = [len(tree.shape(cell).leaves) - used[cell] for cell in view.cells]
            self._below[key] = sum(leaves for held, leaves in view.by_priority.items() if held < request.priority)
            self._left[key] = self._free[key]
            if self._below[key]:
                self._left[key] = state.views.weaker(view, request.priority, state.occupancy.virtual_priority).free
            self._left[key] = self._left[key][:]
            self._room[key] = sum(left // size for left in self._left[key])

    @classmethod
    def of(cls, engine: Engine, request: PodRequest) -> RoomCount | None:
        """The leaves as they are now; None where counting them does not say what the core would."""
        if not is_plain(engine, request):
            return None
        groups = engine.by_vc.of(request.vc).values()
        if any(group.state is not GroupState.ALLOCATED or group.info is not None for group in groups):
            return None  # cells change hands, or the configuration no longer has all of them
        count = cls(engine, request)
        if engine.sparing is not None and any(count._below.values()):
            return None  # a shield may forbid what there is room for
        return count

    @property
    def is_uniform(self) -> bool:
        """Whether all pods of the gang are of one size: more free leaves are then never worse."""
        return len(self.request.members) == 1

    def copy(self) -> RoomCount:
        """The same leaves, to be changed by themselves."""
        made = RoomCount.__new__(RoomCount)
        made.request, made.changes, made._places, made._views = self.request, self.changes, self._places, self._views
        made._used = {key: row[:] for key, row in self._used.items()}
        made._free = {key: row[:] for key, row in self._free.items()}
        made._left = {key: row[:] for key, row in self._left.items()}
        made._below, made._room = dict(self._below), dict(self._room)
        return made

    def end(self, group: Group) -> None:
        """A group with a guarantee is gone."""
        if group.virtual is not None:
            self._change(group.virtual, group.priority, 1)

    def take(self, placed: Placed[VirtualCell], priority: int) -> None:
        """Another gang has these leaves, which were free."""
        self._change(placed, priority, -1)

    def _change(self, placed: Placed[VirtualCell], priority: int, sign: int) -> None:
        size, weaker, of_leaf = self.request.members[0][0], priority < self.request.priority, self._places.of_leaf
        for pods in placed:
            for leaves in pods:
                for leaf in leaves:
                    view, slot = of_leaf(leaf) if leaf != NO_VIRTUAL else NOT_THERE  # a member that is lost has none
                    key = id(view)
                    if key not in self._views:
                        continue
                    self._used[key][slot] -= sign
                    self._free[key][slot] += sign
                    if weaker:
                        self._below[key] -= sign
                        continue
                    row = self._left[key]
                    before = row[slot]
                    row[slot] = before + sign
                    self._room[key] += row[slot] // size - before // size

    def fits(self) -> bool:
        """Whether the core would find a place now, whoever has to go for it."""
        if len(self.request.members) == 1:
            return any(room >= self.request.members[0][1] for room in self._room.values())
        sizes = [leaves for leaves, pods in self.request.members for _ in range(pods)]
        return any(self._packs(key, view, sizes) for key, view in self._views.items())

    def _packs(self, key: int, view: VirtualIndex, sizes: list[int]) -> bool:
        """As `SearchAttempt.guaranteed`: among free leaves, then also among those of weaker groups."""
        free, needed, below = sum(self._free[key]), sum(sizes), self._below[key]
        if free >= needed and pack(self._steps(key, view, self._free), sizes, view.cells, None) is not None:
            return True
        if not below or below + free < needed:
            return False
        return pack(self._steps(key, view, self._left), sizes, view.cells, None) is not None

    def _steps(self, key: int, view: VirtualIndex, leaves: dict[int, list[int]]) -> Iterator[dict[int, int]]:
        """The nodes as the core walks them, most used first."""
        rows: list[dict[int, int]] = [{} for _ in range(view.leaves + 1)]
        for slot, (used, left) in enumerate(zip(self._used[key], leaves[key], strict=True)):
            rows[used][left] = rows[used].get(left, 0) | 1 << slot
        return reversed(rows)


def place_of(engine: Engine, request: PodRequest) -> Placed[VirtualCell] | Literal[False] | None:
    """The virtual leaves that a new gang would get now if nobody else of its virtual cluster loses any for it.

    False: it would wait or be refused. None: others would lose theirs, or only an imagined start tells.
    """
    try:
        decision: Decision = engine.plan(request)
        if isinstance(decision, Preempt):
            decision = engine.plan(request, None, Phase.PREEMPTING)
    except RequestError:
        return False
    if isinstance(decision, Bind):
        plain = not (decision.joins or decision.lazy or decision.cancel or decision.repairs)
        return decision.placement.virtual if plain else None
    if isinstance(decision, Preempt):
        groups = engine.state.groups
        names = {groups.slots[uid][0] for _, uids in decision.victims for uid in uids}
        plain = not (decision.joins or decision.lazy or decision.cancel or decision.repairs)
        plain = plain and all(groups.by_name[name].virtual is None for name in names)
        return decision.placement.virtual if plain and decision.placement is not None else None
    return False
