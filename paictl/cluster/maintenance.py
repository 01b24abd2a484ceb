"""Maintenance windows as they cross the port, and the ConfigMap in which Kubernetes keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cluster.values import ClusterError, ConflictError, MaintenanceWindow
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis, instant, millis_between, rfc3339
from paictl.workload.windows import NOTICE, Window, Windows

UNIX: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The epoch of windows that are written down with dates."""
_FIRST: Final = millis_between(UNIX, datetime.min.replace(tzinfo=UTC))
_LAST: Final = millis_between(UNIX, datetime.max.replace(tzinfo=UTC))


@frozen
class WindowRequest:
    """A window to be added; `start` None: now, `name` empty: the next that is free. Spans are milliseconds."""

    nodes: tuple[str, ...]
    span: Millis
    start: datetime | None = None
    name: str = ""
    notice: Millis = NOTICE
    reason: str = ""
    hold: bool = False
    beside: tuple[MaintenanceWindow, ...] = ()
    """Of a hold: the other holds that there may be. With any else it is refused: only one may move gangs at a time."""

    def window(self, windows: Windows, now: Millis, epoch: datetime) -> Window:
        """The window on a clock that counts from an epoch."""
        start = now if self.start is None else millis_between(epoch, self.start)
        nodes = tuple(dict.fromkeys(self.nodes))
        name = self.name or windows.free_name(hold=self.hold)
        return Window(name, nodes, start, Millis(start + self.span), self.notice, self.reason, self.hold)


def refuse_other_holds(windows: Iterable[MaintenanceWindow], own: Iterable[MaintenanceWindow] = ()) -> None:
    """Raise `ConflictError` for the first window, but one's own, that keeps nodes free of new pods."""
    # By name and start: when one's own have ended, another may have taken their names.
    known = {(window.name, window.start) for window in own}
    for window in windows:
        if window.hold and (window.name, window.start) not in known:
            raise ConflictError(
                text(
                    "nodes are already kept free by {name}: another apply is running, or was killed", name=window.name
                ),
                hint=text("if none is running: paictl maintenance remove {name}", name=window.name),
            )


def shown(windows: Iterable[Window], now: Millis, epoch: datetime) -> tuple[MaintenanceWindow, ...]:
    """Windows with dates, those that begin first in front."""
    return tuple(
        MaintenanceWindow(
            window.name,
            window.nodes,
            instant(epoch, window.start),
            instant(epoch, window.end),
            window.notice,
            window.reason,
            window.is_active(now),
            window.hold,
        )
        for window in sorted(windows, key=lambda window: (window.start, window.name))
    )


@frozen
class LeavingJob:
    """A job that runs on nodes of a window and may not end in time; `ends_by` None: it has no limit."""

    key: str
    vc: str
    nodes: tuple[str, ...]
    ends_by: datetime | None = None


@frozen
class Outlook:
    """What a window means: who has to leave, and preassigned cells at risk by virtual cluster."""

    window: MaintenanceWindow
    leaving: tuple[LeavingJob, ...]
    at_risk: Mapping[str, int]


# --- windows as a text, with dates


def windows_text(windows: Windows) -> str:
    """Windows on a clock that counts from 1970 as JSON."""
    rows = [
        {
            "name": window.name,
            "nodes": list(window.nodes),
            "start": rfc3339(instant(UNIX, window.start)),
            "end": rfc3339(instant(UNIX, window.end)),
            "noticeSeconds": window.notice / 1000,
            "reason": window.reason,
            **({"hold": True} if window.hold else {}),
        }
        for window in windows
    ]
    return json.dumps(rows, indent=1)


def windows_from(content: str) -> Windows:
    """The inverse of `windows_text`; raises `ClusterError` for a text that somebody has damaged."""
    try:
        return Windows(tuple(map(_window_from, json.loads(content or "[]"))))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ClusterError(
            text("the maintenance windows are corrupt: {error}", error=str(error)),
            hint="repair them, or delete the ConfigMap to have none",
        ) from None


def date_from(written: str) -> Millis:
    """The instant of a date, at most the end of the year 9999 in UTC: a later one cannot be shown or written again.

    ``9999-12-31T23:59:59-08:00`` is later. Raises `ValueError` or `TypeError` for what is no date with a time zone.
    """
    return min(max(millis_between(UNIX, datetime.fromisoformat(written)), _FIRST), _LAST)


def _window_from(row: Mapping[str, Any]) -> Window:
    start, end = (date_from(row[key]) for key in ("start", "end"))
    notice = Millis(round(1000 * row.get("noticeSeconds", NOTICE / 1000)))
    return Window(
        str(row["name"]),
        tuple(map(str, row["nodes"])),
        start,
        end,
        notice,
        str(row.get("reason", "")),
        row.get("hold") is True,
    )


NAME: Final = "paictl-maintenance"
KEY: Final = "windows.json"


def windows_of(body: Mapping[str, Any] | None) -> Windows:
    """The windows of the object as the API server gives it; raises `ClusterError` for one that is damaged."""
    known = body or {}
    try:
        return windows_from(str((known.get("data") or {}).get(KEY, "")))
    except ClusterError as error:
        error.where = f"configmap {(known.get('metadata') or {}).get('namespace', '')}/{NAME}"
        raise
