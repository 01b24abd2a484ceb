"""Conservative backfill: a promised start for each gang in line that holds wherever the core puts gangs.

A promise needs places, but only the core chooses places, and by what is free when a gang really starts. So nothing here
says where a gang will be. What is counted instead is whether a gang has a place whatever is chosen until then: for pods
of `size` leaves a node has `free // size` places, and a pod of `other` leaves takes at most `ceil(other / size)` of
them, on whichever node it is put. A gang of `n` pods can start at an instant if `n` places are left for its pods then,
after those of all groups that may still run and of all gangs promised to run. No choice of the core makes that wrong
(docs/backfill.md): a gang that starts as promised takes at most what was set aside for it.

With pods of several sizes all count as the largest: the core places them smallest first and never goes back, so that
each takes at most one place of the largest size.

Bad hardware: the core finds a place among the healthy nodes of a virtual cluster, but which of its nodes the bad ones
count against depends on what other virtual clusters hold. So each node with bad hardware counts as if it were one of
its own and empty: as many places fewer as a whole node has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from paictl.cells.ids import NO_VIRTUAL
from paictl.frozen import frozen
from paictl.scheduler.groups import GroupState
from paictl.units import Millis
from paictl.workload.roomcount import has_returning, struck_nodes, views_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from paictl.cells.ids import VirtualCell
    from paictl.scheduler.decision import Placed
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.views import VirtualIndex

MOST: Final = 64
"""Gangs in a line that get a promised start; those behind them wait for theirs."""
NEVER: Final = Millis(1 << 62)
"""The end of what may run for ever."""
NodePlace: TypeAlias = tuple[int, int]
"""A node of a virtual cluster: the identity of a view, and a slot in it."""
Footprint: TypeAlias = "tuple[Placed[VirtualCell], Counter[NodePlace]]"
"""A placement, and how many leaves of each node it has."""


class GangInLine(Protocol):
    """A gang that waits: one of its pods, and how long it runs at most (None: for ever)."""

    @property
    def request(self) -> PodRequest:
        """One of its pods."""

    @property
    def limit(self) -> Millis | None:
        """Milliseconds."""


def is_countable(engine: Engine, vc: str) -> bool:
    """Whether starts can be promised to all gangs in a line: no group gets cells back, all leaves are configured."""
    known = not (engine.state.journal.depth or has_returning(engine))
    return known and all(group.info is None for group in engine.by_vc.of(vc).values())


@frozen
class PlannedStart:
    """A gang that is promised to start `at` an instant, and ends by `end`."""

    request: PodRequest
    at: Millis
    end: Millis
    views: tuple[int, ...]
    """The views in which the core may put it: all of its pods in one of them."""
    size: int
    """Leaves of its largest pod."""
    pods: int

    @property
    def group(self) -> str:
        """Its name."""
        return self.request.group

    def runs_at(self, at: Millis) -> bool:
        """Whether it may run at an instant if it starts as promised."""
        return self.at <= at < self.end


def places_taken(request: PodRequest, size: int) -> int:
    """Places for pods of `size` leaves that a gang takes at most, wherever its pods are put."""
    return sum(pods * -(-leaves // size) for leaves, pods in request.members)


class LeafTimes:
    """Until when the leaves of one virtual cluster are in use, by node, as the groups that run end at the latest."""

    def __init__(
        self, engine: Engine, vc: str, end_of: Callable[[str], Millis], footprints: dict[str, Footprint] | None = None
    ) -> None:
        """`end_of` says when a group that holds leaves ends at the latest; `footprints` are kept from call to call."""
        self._engine = engine
        self.bad = struck_nodes(engine)
        """Nodes by chain with bad hardware."""
        self._views: dict[int, VirtualIndex] = {}
        self._seen: dict[tuple[str, str], tuple[int, ...]] = {}
        self.held: dict[NodePlace, list[tuple[Millis, int]]] = {}
        """By node: ends and numbers of leaves."""
        self._rooms: dict[tuple[int, int], tuple[list[Millis], list[int]]] = {}
        state, known = engine.state, {} if footprints is None else footprints
        groups = state.groups.by_name if state.journal.depth else engine.by_vc.of(vc)
        seen = dict[str, Footprint]()
        for name, group in groups.items():
            # of one that is preempted the leaves are its preemptor's already, which runs longer
            if group.vc == vc and group.virtual is not None and group.state is not GroupState.BEING_PREEMPTED:
                end, footprint = end_of(name), known.get(name)
                if footprint is None or footprint[0] is not group.virtual:
                    footprint = group.virtual, self.leaves_of(group.virtual)
                seen[name] = footprint
                for place, leaves in footprint[1].items():
                    self.held.setdefault(place, []).append((end, leaves))
        if footprints is not None:
            footprints.clear()
            footprints.update(seen)

    def views(self, request: PodRequest) -> tuple[int, ...]:
        """The views in which the core looks for a place; the request must be of this virtual cluster."""
        kind = request.leaf_type, request.pinned_id
        known = self._seen.get(kind)
        if known is None:
            views = {id(view): view for view in views_of(self._engine, request)}
            self._views |= views
            known = self._seen[kind] = tuple(views)
        return known

    def leaves_of(self, placed: Placed[VirtualCell]) -> Counter[NodePlace]:
        """How many leaves a placement has on each node."""
        counts, of_leaf = Counter[NodePlace](), self._engine.places.of_leaf
        for pods in placed:
            for leaves in pods:
                for leaf in leaves:
                    if leaf != NO_VIRTUAL:
                        view, slot = of_leaf(leaf)
                        counts[id(view), slot] += 1
        return counts

    def free(self, view: int, slot: int, at: Millis) -> int:
        """Leaves of a node that no group that runs now may use at an instant."""
        whole = len(self._engine.state.virtual.shape(self._views[view].cells[slot]).leaves)
        return max(0, whole - sum(leaves for end, leaves in self.held.get((view, slot), ()) if end > at))

    def rooms(self, view: int, size: int) -> tuple[list[Millis], list[int]]:
        """Places for pods of `size` leaves: instants, the first of them before all others, and places from each on."""
        known = self._rooms.get((view, size))
        if known is None:
            known = self._rooms[view, size] = self._count(view, size)
        return known

    def _count(self, view: int, size: int) -> tuple[list[Millis], list[int]]:
        gains, room = Counter[Millis](), -self._struck(view, size)
        shape = self._engine.state.virtual.shape
        for slot, cell in enumerate(self._views[view].cells):
            whole, held = len(shape(cell).leaves), self.held.get((view, slot))
            if held is None:
                room += whole // size
                continue
            free = whole - sum(leaves for _, leaves in held)
            room += max(0, free) // size
            for end, leaves in sorted(held):
                before, free = max(0, free) // size, free + leaves
                if end < NEVER and max(0, free) // size > before:
                    gains[end] += max(0, free) // size - before
        times, rooms = [Millis(-1)], [room]
        for at in sorted(gains):
            room += gains[at]
            times.append(at)
            rooms.append(room)
        return times, rooms

    def _struck(self, view: int, size: int) -> int:
        """Places that bad hardware takes away at most."""
        tree, cells = self._engine.state.virtual, self._views[view].cells
        if not cells or not self.bad:
            return 0
        index = tree.chain[cells[0]]
        return self.bad[index] * (tree.chains[index].leaves[tree.chains[index].node_level] // size)

    def room(self, view: int, size: int, at: Millis) -> int:
        """Places for pods of `size` leaves at an instant."""
        times, rooms = self.rooms(view, size)
        return rooms[max(0, bisect_right(times, at) - 1)]


class LinePlan:
    """Planned starts of the gangs of one virtual cluster, each of which holds wherever the core puts the others.

    Invariant: for each planned start as many places as its gang has pods are left in one of its views at its instant.
    """

    def __init__(self, leaves: LeafTimes, now: Millis) -> None:
        self.leaves = leaves
        self.now = now
        self.starts: dict[str, PlannedStart] = {}
        """By group, in the order of the line."""
        self._spare: dict[str, dict[int, int]] = {}
        """By group and view: places that are left over at its start; negative where there are too few."""

    @classmethod
    def of(
        cls,
        leaves: LeafTimes,
        now: Millis,
        line: Iterable[GangInLine],
        known: Mapping[str, Millis],
        most: int = MOST,
        *,
        unbroken: bool = False,
    ) -> LinePlan:
        """The plan for a line, in which nobody starts later than `known` before unless that cannot be held.

        It ends with the `most`-th gang that has a start; `unbroken` before the first that has none.
        """
        plan, held, hopeless = cls(leaves, now), set[str](), set[tuple[object, ...]]()
        gangs = list(line)
        for gang in gangs:
            if len(plan.starts) == most:
                break
            before, kind = known.get(gang.request.group), _kind(gang)
            if before is None and kind in hopeless:  # less is free than when a gang like it found no start
                continue
            start = None if before is None else plan._at(gang, max(before, now))
            if start is not None:
                held.add(start.group)
            else:
                start = plan._earliest(gang)
            if start is not None:
                plan._add(start)
            elif unbroken:
                break
            else:
                hopeless.add(kind)
        moved = False
        for gang in gangs:  # others may have ended early, or be gone
            start = plan.starts.get(gang.request.group)
            if start is not None and start.at > now and (moved or start.group in held):
                plan._remove(start)
                sooner = plan._earliest(gang, start.at) or start
                plan._add(sooner)
                moved |= sooner.at < start.at
        plan.starts = {name: plan.starts[name] for gang in gangs if (name := gang.request.group) in plan.starts}
        return plan

    # --- finding a start

    def _at(self, gang: GangInLine, at: Millis) -> PlannedStart | None:
        """The start of a gang at an instant; None if there is no place for it or it would be at others' cost."""
        size, pods, end = _needs(gang, at)
        start = PlannedStart(gang.request, at, end, self.leaves.views(gang.request), size, pods)
        fits = any(left >= 0 for left in self._left_at(start).values())
        return start if fits and self._blocked(start) is None else None

    def _earliest(self, gang: GangInLine, latest: Millis = NEVER) -> PlannedStart | None:
        """The first start of a gang until `latest` at which it costs no planned start anything; None if none is."""
        views, (size, pods, _) = self.leaves.views(gang.request), _needs(gang, self.now)
        best: PlannedStart | None = None
        for view in views:
            times, rooms = self.leaves.rooms(view, size)
            costs = [(start.at, start.end, places_taken(start.request, size)) for start in self._rivals(view)]
            until = latest if best is None else best.at
            instants = {self.now, *(at for at in times if at > self.now), *(end for _, end, _ in costs)}
            after = Millis(-1)
            for at in sorted(at for at in instants if self.now <= at <= until and at < NEVER):
                if at <= after:  # it would still run at the planned start that it was in the way of
                    continue
                left = rooms[max(0, bisect_right(times, at) - 1)] - pods
                if left < 0 or left < sum(cost for begin, end, cost in costs if begin <= at < end):
                    continue
                start = PlannedStart(gang.request, at, _needs(gang, at)[2], views, size, pods)
                blocked = self._blocked(start)
                if blocked is None:
                    best = start
                    break
                after = blocked
        return best

    def _rivals(self, view: int) -> list[PlannedStart]:
        """Planned starts of gangs that the core may put into a view."""
        return [start for start in self.starts.values() if view in start.views]

    def _left_at(self, start: PlannedStart) -> dict[int, int]:
        """By view: places that a start leaves over at its instant, beside those of all planned starts."""
        return {
            view: self.leaves.room(view, start.size, start.at)
            - start.pods
            - sum(places_taken(rival.request, start.size) for rival in self._rivals(view) if rival.runs_at(start.at))
            for view in start.views
        }

    def _blocked(self, start: PlannedStart) -> Millis | None:
        """The last planned start that lacks places beside another, wherever that is put; None if none does.

        A gang runs as long whenever it starts. So it is in the way of that one from each instant until then.
        """
        last: Millis | None = None
        for name, other in self.starts.items():
            if start.runs_at(other.at) and (last is None or other.at > last):
                cost, spare = places_taken(start.request, other.size), self._spare[name]
                if all(left < (cost if view in start.views else 0) for view, left in spare.items()):
                    last = other.at
        return last

    def _add(self, start: PlannedStart) -> None:
        self._spare[start.group] = self._left_at(start)
        self._charge(start, -1)
        self.starts[start.group] = start

    def _remove(self, start: PlannedStart) -> None:
        del self.starts[start.group], self._spare[start.group]
        self._charge(start, 1)

    def _charge(self, start: PlannedStart, sign: int) -> None:
        for name, other in self.starts.items():
            if start.runs_at(other.at):
                cost, spare = places_taken(start.request, other.size), self._spare[name]
                for view in start.views:
                    if view in spare:
                        spare[view] += sign * cost

    # --- who may start now

    def broken_by(self, gang: GangInLine, placed: Placed[VirtualCell], end: Millis) -> PlannedStart | None:
        """The first planned start that would lack places if a gang got free leaves now and kept them until `end`."""
        used = self.leaves.leaves_of(placed)

        def lost(start: PlannedStart, view: int) -> int:
            return sum(self._lost(start, place, number) for place, number in used.items() if place[0] == view)

        return self._first_broken(gang, end, lost)

    def broken_in(self, gang: GangInLine, end: Millis, imagined: LeafTimes) -> PlannedStart | None:
        """The same for a gang that has started in an imagined state, in place of others of its virtual cluster."""
        for start in self.starts.values():
            imagined.views(start.request)

        def lost(start: PlannedStart, view: int) -> int:
            return self.leaves.room(view, start.size, start.at) - imagined.room(view, start.size, start.at)

        return self._first_broken(gang, end, lost)

    def _first_broken(
        self, gang: GangInLine, end: Millis, lost: Callable[[PlannedStart, int], int]
    ) -> PlannedStart | None:
        for start in self._kept(gang, end):
            losses = {view: lost(start, view) for view in start.views}
            spare = self._spare_beside(gang, start)
            if max(losses.values()) > 0 and all(spare[view] < number for view, number in losses.items()):
                return start
        return None

    def _spare_beside(self, gang: GangInLine, start: PlannedStart) -> dict[int, int]:
        """By view: places left over at a planned start if nothing is set aside for a gang."""
        own, spare = self.starts.get(gang.request.group), self._spare[start.group]
        if own is None or not own.runs_at(start.at):
            return spare
        cost = places_taken(own.request, start.size)
        return {view: left + (cost if view in own.views else 0) for view, left in spare.items()}

    def _lost(self, start: PlannedStart, place: NodePlace, number: int) -> int:
        free = self.leaves.free(*place, start.at)
        return free // start.size - max(0, free - number) // start.size

    def _kept(self, gang: GangInLine, end: Millis) -> Iterator[PlannedStart]:
        """The planned starts that a gang must keep and that come before its end, by time."""
        for start in sorted(self.starts.values(), key=lambda start: start.at):
            keeps = start.group != gang.request.group and start.request.priority >= gang.request.priority
            if keeps and start.at < end:
                yield start

    def harms_nobody(self, gang: GangInLine, end: Millis) -> bool:
        """Whether a gang that starts now and runs until `end` harms no planned start, wherever it is put."""
        return not any(True for _ in self._kept(gang, end))


def _kind(gang: GangInLine) -> tuple[object, ...]:
    """What two gangs have in common that can start at the same instants."""
    request = gang.request
    return request.leaf_type, request.pinned_id, request.members, gang.limit


def _needs(gang: GangInLine, at: Millis) -> tuple[int, int, Millis]:
    """Leaves of the largest pod of a gang, its pods, and when it ends at the latest if it starts at an instant."""
    members = gang.request.members
    end = NEVER if gang.limit is None else Millis(at + gang.limit)
    return max(leaves for leaves, _ in members), sum(pods for _, pods in members), end
