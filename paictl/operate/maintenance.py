"""Maintenance windows: planned, with what they mean for jobs and guarantees, and added."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from paictl.cluster.interface import Configuration, Identity, Maintained, MaintenanceWindow, Nodes, Scheduling
from paictl.cluster.maintenance import Outlook, WindowRequest
from paictl.cluster.picture import Picture
from paictl.errors import PaictlError
from paictl.i18n import did_you_mean, text
from paictl.units import FOREVER, Millis, parse_duration
from paictl.workload.windows import check_nodes

_FARTHEST: Final = timedelta(days=10 * 366)
"""Beyond ten years a time is a mistake: dates would overflow, and what comes every day would be counted day by day."""


class MaintenancePorts(Identity, Nodes, Scheduling, Configuration, Maintained, Protocol):
    """What windows need of a cluster."""


def read_start(word: str | None, now: datetime) -> datetime | None:
    """When a window begins: ``2026-12-01T22:00`` (this machine's time zone where none is given) or ``+2h`` from now.

    None: now. Raises `PaictlError` for anything else.
    """
    if word is None or word == "now":
        return None
    if word.startswith("+"):
        return now + timedelta(milliseconds=read_span(word[1:]))
    hint = "write for instance 2026-12-01T22:00, 2026-12-01T22:00Z, +2h, or now"
    try:
        start = datetime.fromisoformat(word)
        start = start if start.tzinfo is not None else start.astimezone()
    except (ValueError, OverflowError):  # no time zone reaches back to the year 1
        raise PaictlError(text("{said!r} is not a time", said=word), hint=hint) from None
    if start - now > _FARTHEST:
        raise PaictlError(text("{said!r} is more than 10 years from now", said=word), hint=hint)
    return start


def read_span(word: str) -> Millis:
    """A span that is not empty and ends within ten years; raises `PaictlError` for anything else."""
    seconds = parse_duration(word)
    if seconds == FOREVER or seconds <= 0:
        raise PaictlError(text("{said!r} is not a finite span of time", said=word), hint="write for instance 4h")
    if seconds > _FARTHEST.total_seconds():
        raise PaictlError(text("{said!r} is longer than 10 years", said=word), hint="write for instance 4h")
    return Millis(round(seconds * 1000))


def nodes_of(picture: Picture, cells: Sequence[str]) -> tuple[str, ...]:
    """The nodes of physical cells by their address; raises `PaictlError` for one that is not there or in a node."""
    cells_by_address = {cell.address: cell for top in picture.top_cells() for cell in top.cells()}
    names: dict[str, None] = {}
    for address in cells:
        cell = cells_by_address.get(address)
        if cell is None:
            hint = did_you_mean(address, cells_by_address) or "addresses are in: paictl cluster view -o json"
            raise PaictlError(text("no physical cell {address!r}", address=address), hint=hint)
        nodes = [node.name for node in cell.nodes()]
        if not nodes:
            raise PaictlError(
                text("cell {address} is a part of a node", address=address), hint="windows close whole nodes"
            )
        names |= dict.fromkeys(nodes)
    return tuple(names)


def planned(cluster: MaintenancePorts, request: WindowRequest) -> Outlook:
    """What a window would mean; nothing is added. Raises `WindowError` for a node that is not there."""
    check_nodes(request.nodes, [node.machine.name for node in cluster.nodes()])
    start = request.start or cluster.now
    end = start + timedelta(milliseconds=request.span)
    window = MaintenanceWindow(request.name, request.nodes, start, end, request.notice, request.reason)
    return _outlook(cluster, window)


def expected(cluster: MaintenancePorts, name: str) -> Outlook:
    """What a window means as things are now; raises `PaictlError` if there is none of that name."""
    windows = {window.name: window for window in cluster.windows()}
    if name not in windows:
        hint = did_you_mean(name, windows) or "list them with: paictl maintenance list"
        raise PaictlError(text("no window {name!r}", name=name), hint=hint)
    return _outlook(cluster, windows[name])


def _outlook(cluster: MaintenancePorts, window: MaintenanceWindow) -> Outlook:
    from paictl.cluster.outlook import outlook  # late: most commands about nodes plan nothing

    try:
        version = cluster.configuration()
    except PaictlError:  # nothing is promised by a cluster without a configuration
        version = None
    return outlook(window, cluster.windows(), cluster.picture(), version)
