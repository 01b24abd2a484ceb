"""What a door knows of maintenance windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paictl.cluster.maintenance import windows_of
from paictl.cluster.movetotals import MoveTotal, totals_of
from paictl.cluster.reservations import reservations_of
from paictl.cluster.values import ClusterError
from paictl.units import Millis
from paictl.workload.reservations import Reservations
from paictl.workload.windows import Windows


class DoorWindows:
    """The windows as the ConfigMap says, and what is wrong with it."""

    def __init__(self) -> None:
        self.known = Windows()
        """All that the ConfigMap says: what seems to be over may not be, because a clock that was ahead is set back."""
        self._known_reservations = Reservations()
        self.found = Windows()
        self.reservations = Reservations()
        self.moves: Mapping[str, MoveTotal] = {}
        """What defragmentation has moved since the ConfigMap was made, by virtual cluster."""
        self.problem = ""
        self.told: set[tuple[str, str]] = set()
        """(window, pod) of who was told to leave, by name and uid."""
        self._closed: dict[tuple[int, ...], frozenset[str]] = {}
        """Nodes of windows by their numbers: a decision asks for the same few again and again."""
        self._left: tuple[frozenset[str], frozenset[str], frozenset[str]] | None = None

    def change(self, found: Mapping[str, Any] | None) -> None:
        """The ConfigMap is like this now, None: it is not there. A damaged one changes nothing."""
        self.moves = totals_of(found)
        try:
            self.known, self._known_reservations, self.problem = windows_of(found), reservations_of(found), ""
            self.found, self.reservations = self.known, self._known_reservations
            self._closed.clear()
        except ClusterError as error:
            self.problem = f"{error}"

    def prune(self, now: Millis) -> None:
        """Leave out what is over: nothing is asked otherwise for it than without any."""
        if (reservations := self._known_reservations.current(now)) != self.reservations:
            self.reservations = reservations
        if (windows := self.known.current(now)) != self.found:
            self.found = windows
            self._closed.clear()

    def closed(self, now: Millis, limit: Millis | None) -> frozenset[str]:
        """The nodes that a pod may not get now which runs for `limit` at most, as `Windows.closed` says."""
        which = tuple(number for number, window in enumerate(self.found) if window.closes(now, limit))
        if which not in self._closed:
            self._closed[which] = self.found.closed(now, limit)
        return self._closed[which]

    def __bool__(self) -> bool:
        """Whether nodes may be closed to anybody."""
        return bool(self.found) or any(reservation.nodes for reservation in self.reservations)

    def closed_to(self, now: Millis, limit: Millis | None, reservation: str, nodes: frozenset[str]) -> frozenset[str]:
        """The nodes (of all `nodes`) that a pod may not get now, reserved ones that are not its own among them."""
        closed = self.closed(now, limit) if self.found else frozenset()
        if not any(reservation.nodes for reservation in self.reservations):
            return closed
        closed |= Windows(self.reservations.holds(now, reservation)).closed(now, limit)
        own = self.reservations.get(reservation) if reservation else None
        return closed | (nodes - frozenset(own.nodes)) if own is not None and own.nodes else closed

    def left(self, nodes: frozenset[str], closed: frozenset[str]) -> frozenset[str]:
        """The nodes without those that are closed; made once for the same sets."""
        if self._left is None or self._left[0] is not nodes or self._left[1] is not closed:
            self._left = nodes, closed, nodes - closed
        return self._left[2]
