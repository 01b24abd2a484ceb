"""What reservations mean for gangs: who waits for them, and what would be short of cells (`docs/reservations.md`).

A reservation of a virtual cluster's promise is a gang whose start is given: whenever another gang of the virtual
cluster starts, the core must still have a place for what is left of the reservation, at each instant at which it has
to be there, if all groups end at their limits. Only the core says what fits (`Foresight`); nothing is written into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from paictl.frozen import frozen
from paictl.scheduler.groups import GroupState
from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.backfill import LineGang
from paictl.workload.reservations import HOLDS, Reservation, Reservations
from paictl.workload.roomcount import has_cells_on
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.scratch import Scratch
    from paictl.workload.backfill import Foresight

PRIORITY: Final = 0
"""Of the gang that stands for a reservation: nobody with a guarantee goes for it, and opportunistic jobs do."""


@frozen
class Clash:
    """A reservation would have `kept` of its cells at an instant, in use by its jobs or free for them."""

    reservation: Reservation
    at: Millis
    kept: int


_Row: TypeAlias = "tuple[Reservation, int]"
"""A reservation, and how many of its cells are in use by its jobs or free for them."""
Moment: TypeAlias = "tuple[Millis, tuple[Reservation, ...]]"
"""An instant, and the reservations that last then."""


class ReservedCells:
    """The reservations of one cluster, beside an engine that knows nothing of them."""

    def __init__(self, reservations: Reservations, of: Callable[[str], str]) -> None:
        """`of` says which reservation a group that holds devices is for; empty: for none."""
        self.reservations = reservations
        self._of = of

    def ends(self, vc: str, now: Millis) -> Iterator[Millis]:
        """Instants from now on at which cells of a promise are kept no more that were."""
        for known in self.reservations.of(vc):
            current = known.occurrence(now)
            if current is not None:
                yield current[1]

    def concerns(self, engine: Engine, vc: str) -> bool:
        """Whether any cells are kept onto which those of a virtual cluster may be mapped, or of its promise."""
        return any(known.vc == vc or has_cells_on(engine, vc, known.nodes) for known in self.reservations)

    # --- the free pool

    def windows(self, windows: Windows, now: Millis, name: str = "") -> Windows:
        """Windows and those of reserved nodes, as they count for a gang that is for reservation `name`."""
        held = self.reservations.holds(now, name)
        others = tuple(window for window in windows if not window.name.startswith(HOLDS))
        return Windows((*others, *held)) if held or len(others) < len(windows.all) else windows

    def within(self, nodes: frozenset[str], name: str) -> frozenset[str]:
        """Of some nodes those that a gang for reservation `name` may use."""
        known = self.reservations.get(name) if name else None
        return nodes.intersection(known.nodes) if known is not None and known.nodes else nodes

    # --- who may start

    def waits(self, foresight: Foresight, request: PodRequest, name: str) -> Unready | None:
        """Why a gang for a reservation may not start now, as far as that does not depend on others' cells."""
        known, now = self.reservations.get(name), foresight.now
        if known is None or (known.vc and not (known.vc == request.vc and request.guaranteed)):
            return Unready(name)  # pods are not checked by `refuse_job`: an annotation must bring nothing to others
        current = known.occurrence(now)
        if current is None or now < current[0]:
            return Unready(name, None if current is None else current[0])
        if known.vc:
            used, needed = self._used(foresight, known), known.uses(request.members)
            if used + needed > known.cells:
                return Unready(name, current[0], used, needed, known)
        return None

    def obstruction(self, foresight: Foresight, gang: LineGang, name: str) -> Unready | Clash | None:
        """What keeps a gang from a start now for the sake of reservations, None if nothing does; `name` is its own."""
        unready = self.waits(foresight, gang.request, name) if name else None
        return unready or self.clash(foresight, gang, foresight.now, name)

    def clash(self, foresight: Foresight, gang: LineGang, at: Millis, name: str = "") -> Clash | None:
        """What would be short of cells if a gang started at an instant; None: nothing, or it cannot start then.

        `name` is the reservation that the gang is for. What is short already, as hardware fails, forbids nothing.
        """
        request = gang.request
        moments = self.reservations.moments(request.vc, at) if request.guaranteed else []
        if not moments:
            return None
        by_moment: list[list[_Row]] = []
        with foresight.imagine(gang) as scratch:
            if not foresight.start(gang, at):
                return None
            ends = {request.group: (None if gang.limit is None else Millis(at + gang.limit))}
            by_moment = list(self._kept(foresight, scratch, request.vc, moments, {request.group: name}, ends))
        if all(kept >= known.cells for rows in by_moment for known, kept in rows):
            return None
        with foresight.imagine(gang) as scratch:
            before = list(self._kept(foresight, scratch, request.vc, moments, {}, {}))
        for (instant, _), with_it, without in zip(moments, by_moment, before, strict=True):
            for (known, kept), (_, could) in zip(with_it, without, strict=True):
                if kept < min(known.cells, could):
                    return Clash(known, instant, kept)
        return None

    def longest(self, foresight: Foresight, gang: LineGang, clash: Clash, name: str = "") -> Millis | None:
        """The longest run time with which a gang would start now and leave all cells; None if none is."""
        if clash.at <= foresight.now:
            return None
        shorter = LineGang(gang.request, Millis(clash.at - foresight.now))
        return shorter.limit if self.clash(foresight, shorter, foresight.now, name) is None else None

    def short(self, foresight: Foresight, vc: str, moments: Sequence[Moment] | None = None) -> Iterator[Clash]:
        """Reservations of a promise for which there would not be all cells, as things are now.

        `moments` are those that are looked at; None: all of `Reservations.moments`.
        """
        if moments is None:
            moments = self.reservations.moments(vc, foresight.now)
        if not moments:
            return
        with foresight.imagine(LineGang(_request(moments[0][1][0], 1), None)) as scratch:
            by_moment = list(self._kept(foresight, scratch, vc, moments, {}, {}))
        for (instant, _), rows in zip(moments, by_moment, strict=True):
            for known, kept in rows:
                if kept < known.cells:
                    yield Clash(known, instant, kept)

    def blocking(self, foresight: Foresight, vc: str, at: Millis) -> list[str]:
        """Groups that hold cells of a promise with a guarantee and may do so at an instant."""
        ends, unlimited = foresight.planned(vc)
        return sorted({*unlimited, *(name for end, name in ends if name and end > at)})

    def usage(self, foresight: Foresight, known: Reservation) -> int:
        """How many cells of a reservation of a promise are in use."""
        return self._used(foresight, known)

    # --- the imagined state

    def _kept(
        self,
        foresight: Foresight,
        scratch: Scratch,
        vc: str,
        moments: Sequence[Moment],
        names: dict[str, str],
        ends: dict[str, Millis | None],
    ) -> Iterator[list[_Row]]:
        """For each moment the reservations with what is kept for them, as groups end by then.

        `names` and `ends` are those of a gang that is only imagined.
        """
        planned, _ = foresight.planned(vc)
        planned = [row for row in planned if row[1] not in ends]
        planned += [(end, name) for name, end in ends.items() if end is not None]
        groups = foresight.engine.state.groups.by_name
        scratch.end(sorted(name for name, group in groups.items() if group.state is GroupState.BEING_PREEMPTED))
        for at, active in moments:
            scratch.end(sorted(name for end, name in planned if name and end <= at))
            with scratch.imagine():
                # Large cells first: all fit.
                yield [
                    (known, used + self._place(foresight, known, known.cells - used, at))
                    for known in sorted(active, key=lambda known: (-known.leaves, known.name))
                    for used in [self._used(foresight, known, names)]
                ]

    def _place(self, foresight: Foresight, known: Reservation, needed: int, at: Millis) -> int:
        """Keep cells in the imagined state, as many as there are; how many."""
        current = known.occurrence(at)
        span = None if current is None else Millis(current[1] - at)
        for cells in range(needed, 0, -1):
            if foresight.start(LineGang(_request(known, cells), span), at):
                return cells
        return 0

    def _used(self, foresight: Foresight, known: Reservation, names: dict[str, str] | None = None) -> int:
        groups = foresight.engine.state.groups.by_name
        imagined = names or {}
        return sum(
            known.uses(group.members)
            for name, group in groups.items()
            if group.vc == known.vc
            and (group.virtual is not None or group.state is GroupState.PREEMPTING)
            and (imagined[name] if name in imagined else self._of(name)) == known.name
        )


@frozen
class Unready:
    """Why a gang for a reservation waits: there is none of that name, it begins `at`, or it has too few free cells."""

    name: str
    at: Millis | None = None
    used: int = 0
    needed: int = 0
    full: Reservation | None = None


def _request(known: Reservation, cells: int) -> PodRequest:
    """The gang that stands for cells of a reservation."""
    group = f"reservation/{known.name}"
    return PodRequest(
        group, group, known.vc, PRIORITY, known.leaves, group, ((known.leaves, cells),), leaf_type=known.leaf_type
    )
