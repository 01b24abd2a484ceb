"""Maintenance windows in a Kubernetes cluster: one ConfigMap, replaced only over the version that was read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from paictl.cluster.kubernetes.names import NAMESPACE, labels
from paictl.cluster.maintenance import (
    KEY,
    NAME,
    UNIX,
    WindowRequest,
    refuse_other_holds,
    shown,
    windows_of,
    windows_text,
)
from paictl.cluster.movetotals import KEY as MOVES
from paictl.cluster.movetotals import MoveTotal, totals_of, totals_text
from paictl.cluster.reservations import KEY as RESERVATIONS
from paictl.cluster.reservations import reservations_of, reservations_text
from paictl.cluster.values import ClusterError, ConflictError, MaintenanceWindow
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, create, find, path_of, replace
from paictl.units import Millis, millis_between
from paictl.workload.reservations import Reservations
from paictl.workload.windows import Windows

_TRIES: Final = 5
_KEPT: Final = 86_400_000
"""Milliseconds for which windows and reservations stay in the object once they are over.

Others count by other clocks, and one that is ahead, the API server's included, may be set back.
"""


class WindowStore:
    """The windows of one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def read(self, now: datetime) -> Windows:
        """The windows that have not ended; instants count from 1970. Raises `ClusterError` for a damaged object."""
        windows, _ = self._found()
        return windows.current(_millis(now))

    def shown(self, now: datetime) -> tuple[MaintenanceWindow, ...]:
        """The same with dates."""
        return shown(self.read(now), _millis(now), UNIX)

    def add(self, request: WindowRequest, now: datetime, nodes: Collection[str]) -> MaintenanceWindow:
        """Add a window; raises `WindowError` for what is wrong with it."""
        at = _millis(now)

        def change(windows: Windows) -> Windows:
            if request.hold:
                refuse_other_holds(shown(windows, at, UNIX), request.beside)
            return windows.added(request.window(windows, at, UNIX), at, nodes)

        return shown(self._changed(change, at).all[-1:], at, UNIX)[0]

    # --- reservations

    def reservations(self, now: datetime) -> Reservations:
        """The reservations that are not over; raises `ClusterError` for a damaged object."""
        return reservations_of(self._object()).current(_millis(now))

    def change_reservations(self, change: Callable[[Reservations], Reservations]) -> Reservations:
        """Reservations after a change, written over the version that it was made from.

        The change gets them with those that are over, and is made anew from what others have written meanwhile: what
        it reads besides has to be read in it.
        """
        for _ in range(_TRIES):
            known = self._object()
            before = reservations_of(known)
            after = change(before)
            now = _millis(self._client.date or datetime.now(UTC))
            names = {reservation.name for reservation in after}
            ended = (
                reservation
                for reservation in before
                if reservation.occurrence(now) is None and reservation.end > now - _KEPT
            )
            written = Reservations(
                (*(reservation for reservation in ended if reservation.name not in names), *after.all)
            )
            if self._replace({RESERVATIONS: reservations_text(written)}, known):
                return after
        raise ConflictError("others keep changing the reservations", hint="run the same command again")

    def remove_reservation(self, name: str, now: datetime) -> None:
        """Remove a reservation; raises `PaictlError` if there is none of that name."""
        self.change_reservations(lambda known: known.current(_millis(now)).without(name))

    def change_moves(self, change: Callable[[dict[str, MoveTotal]], dict[str, MoveTotal]]) -> None:
        """Write what moves have cost after a change; raises `ConflictError` if others write all the time."""
        for _ in range(_TRIES):
            known = self._object()
            if self._replace({MOVES: totals_text(change(totals_of(known)))}, known):
                return
        raise ConflictError("others keep changing the maintenance windows", hint="run the same command again")

    def _object(self) -> Json | None:
        return find(self._client, path_of(NAMESPACE, "configmaps", NAME))

    def remove(self, name: str, now: datetime) -> None:
        """Remove a window; raises `PaictlError` if there is none of that name."""
        self._changed(lambda windows: windows.without(name), _millis(now))

    def _changed(self, change: Callable[[Windows], Windows], now: Millis) -> Windows:
        """Windows after a change, written over the version that it was made from."""
        for _ in range(_TRIES):
            windows, known = self._found()
            after = change(windows.current(now))
            names = {window.name for window in after}
            ended = (window for window in windows if now - _KEPT < window.end <= now and window.name not in names)
            if self._write(Windows((*ended, *after.all)), known):
                return after
        raise ConflictError("others keep changing the maintenance windows", hint="run the same command again")

    def _found(self) -> tuple[Windows, Json | None]:
        known = self._object()
        return windows_of(known), known

    def _write(self, windows: Windows, known: Json | None) -> bool:
        """Write windows over what was read; False if others were faster."""
        return self._replace({KEY: windows_text(windows)}, known)

    def _replace(self, data: Mapping[str, str], known: Json | None) -> bool:
        """Write keys over those of the object that was read; the others stay."""
        about: Json = {"name": NAME, "namespace": NAMESPACE, "labels": labels("maintenance")}
        if known is not None:
            about["resourceVersion"] = known["metadata"]["resourceVersion"]
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": about,
            "data": {**((known or {}).get("data") or {}), **data},
        }
        if known is not None:
            return replace(self._client, path_of(NAMESPACE, "configmaps", NAME), body) is not None
        try:
            return create(self._client, path_of(NAMESPACE, "configmaps"), body) is not None
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            raise ClusterError(
                text("there is no namespace {name}", name=NAMESPACE),
                hint="push a configuration first: paictl config push -p DIR",
            ) from None


def _millis(now: datetime) -> Millis:
    return millis_between(UNIX, now)
