"""What a door knows about maintenance windows."""

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
    """The windows from the ConfigMap, and what is wrong with it."""

    def __init__(self) -> None:
        self.known = Windows()
        """All windows of the ConfigMap: one that seems over may not be, if a clock that was ahead is set back."""
        self._known_reservations = Reservations()
        self.current = Windows()
        self.reservations = Reservations()
        self.moves: Mapping[str, MoveTotal] = {}
        """What defragmentation has moved since the ConfigMap was created, by virtual cluster."""
        self.problem = ""
        self.warned_pods: set[tuple[str, str]] = set()
        """(window name, pod uid) of the pods that were warned."""
        self._closed: dict[tuple[int, ...], frozenset[str]] = {}
        """Closed nodes by the numbers of the windows: decisions ask for the same few sets again and again."""
        self._left: tuple[frozenset[str], frozenset[str], frozenset[str]] | None = None

    def change(self, config_map: Mapping[str, Any] | None) -> None:
        """The ConfigMap has changed; None: it does not exist. A damaged one changes nothing."""
        self.moves = totals_of(config_map)
        try:
            self.known, self._known_reservations, self.problem = windows_of(config_map), reservations_of(config_map), ""
            self.current, self.reservations = self.known, self._known_reservations
            self._closed.clear()
        except ClusterError as error:
            self.problem = f"{error}"

    def prune(self, now: Millis) -> None:
        """Leave out windows and reservations that are over, so that they cost nothing."""
        if (reservations := self._known_reservations.current(now)) != self.reservations:
            self.reservations = reservations
        if (windows := self.known.current(now)) != self.current:
            self.current = windows
            self._closed.clear()

    def closed(self, now: Millis, limit: Millis | None) -> frozenset[str]:
        """The nodes that a pod with a run limit of `limit` may not get now (see `Windows.closed`)."""
        numbers = tuple(number for number, window in enumerate(self.current) if window.closes(now, limit))
        if numbers not in self._closed:
            self._closed[numbers] = self.current.closed(now, limit)
        return self._closed[numbers]

    def __bool__(self) -> bool:
        """Whether nodes may be closed to any pod."""
        return bool(self.current) or any(reservation.nodes for reservation in self.reservations)

    def closed_to(self, now: Millis, limit: Millis | None, reservation: str, nodes: frozenset[str]) -> frozenset[str]:
        """The nodes (of all `nodes`) that a pod may not get now, including those reserved for others."""
        closed = self.closed(now, limit) if self.current else frozenset()
        if not any(reservation.nodes for reservation in self.reservations):
            return closed
        closed |= Windows(self.reservations.holds(now, reservation)).closed(now, limit)
        named = self.reservations.get(reservation) if reservation else None
        return closed | (nodes - frozenset(named.nodes)) if named is not None and named.nodes else closed

    def left(self, nodes: frozenset[str], closed: frozenset[str]) -> frozenset[str]:
        """The nodes without those that are closed; made once for the same sets."""
        if self._left is None or self._left[0] is not nodes or self._left[1] is not closed:
            self._left = nodes, closed, nodes - closed
        return self._left[2]
