"""Maintenance windows behind the doors: nodes that a pod may not get, and gangs that have to leave.

What is closed and due follows from the windows and the clock at every look: nothing is remembered that a restart could
lose but who was told. All functions need the core's lock, or take it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paictl.cluster.maintenance import UNIX
from paictl.doors.pod_events import PodEvent
from paictl.frozen import frozen
from paictl.i18n import listed
from paictl.units import Millis, instant, rfc3339, span_text
from paictl.workload.windows import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paictl.doors.core import DoorCore
    from paictl.doors.table import CachedDecision, GangKey, PodEntry, PodRef
    from paictl.scheduler.request import PodRequest

_ALL: Final[frozenset[str]] = frozenset()


def now_of(core: DoorCore) -> Millis:
    """The present in milliseconds since 1970."""
    return Millis(int(1000 * core.wall()))


def closed(core: DoorCore, entry: PodEntry) -> frozenset[str]:
    """The nodes that a pod may not get now; the same empty set while there are no windows."""
    if not core.windows:
        return _ALL
    return core.windows.closed_to(now_of(core), core.table.limit_of(entry), entry.reservation, core.nodes)


def within(
    core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None
) -> tuple[PodRequest, frozenset[str] | None]:
    """A request as the engine is asked while there are windows, and the nodes that count for it; both as they are else.

    Suggestions count for it then, even if it ignores those of kube-scheduler: a preemption that was begun is given up
    if a window closes its place meanwhile.
    """
    if not core.windows:
        return request, offered
    nodes = core.nodes if request.ignore_suggested or offered is None else offered
    return replace(request, ignore_suggested=False), core.windows.left(nodes, closed(core, entry))


def noted(core: DoorCore, entry: PodEntry, found: CachedDecision) -> CachedDecision:
    """A decision with the nodes that were closed, and who waits says so."""
    shut = closed(core, entry)
    if not shut:
        return found
    reason = f"{found.reason}; {_closing(core, entry, shut)}" if found.kind == "wait" else found.reason
    return replace(found, shut=shut, reason=reason)


def _closing(core: DoorCore, entry: PodEntry, shut: frozenset[str]) -> str:
    """What closes nodes to a pod that waits."""
    known = core.windows.reservations.get(entry.reservation) if entry.reservation else None
    if known is not None and known.nodes:
        within = f"reservation {known.name} gives it only {listed(sorted(known.nodes), 3)}"
        shut = shut & core.windows.closed(now_of(core), core.table.limit_of(entry)) & frozenset(known.nodes)
        return f"{within}, and maintenance windows close {listed(sorted(shut), 3)}" if shut else within
    what = "maintenance windows" if core.windows.found else "reservations"
    return f"{what} close {listed(sorted(shut), 3)} to it ({_span(core, entry)})"


def _span(core: DoorCore, entry: PodEntry) -> str:
    limit = core.table.limit_of(entry)
    return "it does not say how long it runs" if limit is None else f"it runs up to {span_text(limit)}"


@frozen
class MovedGang:
    """A gang that has to leave a node whose window has begun."""

    gang: GangKey
    pods: tuple[PodRef, ...]
    """All of its pods that hold devices and are not on their way out."""
    why: str

    def event(self, pod: PodRef) -> PodEvent:
        """What a pod of it is told once it is evicted."""
        return PodEvent(
            pod, "MaintenanceEvicted", f"evicted, so that its gang starts elsewhere: {self.why}", warning=True
        )


def due(core: DoorCore) -> list[MovedGang]:
    """Gangs with a pod on a node that is in maintenance."""
    if not core.windows.known:
        return []
    with core.guarded():
        core.windows.prune(now_of(core))
        active = core.windows.found.active(now_of(core))
        why: dict[GangKey, str] = {}
        for uid, pod in core.book.pods.items() if active else ():
            entry = core.table.by_uid.get(uid)
            if pod.info is not None and pod.info.node in active and entry is not None:
                said = f"node {pod.info.node} is in maintenance ({active[pod.info.node].name})"
                why.setdefault(core.table.gang(entry.ref, pod.request.group), said)
        return [MovedGang(gang, pods, why[gang]) for gang, pods in _pods_of(core, why).items() if pods]


def _pods_of(core: DoorCore, gangs: Mapping[GangKey, object]) -> dict[GangKey, tuple[PodRef, ...]]:
    found: dict[GangKey, list[PodRef]] = {gang: [] for gang in gangs}
    for uid, pod in core.book.pods.items():
        entry = core.table.by_uid.get(uid)
        if pod.info is None or entry is None or entry.deleting:
            continue
        if (gang := core.table.gang(entry.ref, pod.request.group)) in found:
            found[gang].append(entry.ref)
    return {gang: tuple(pods) for gang, pods in found.items()}


def warned(core: DoorCore) -> list[PodEvent]:
    """Events for pods that have to leave a node by a window whose notice has come; each is told once by a leader."""
    if not core.windows.found:
        return []
    with core.guarded():
        now, events = now_of(core), list[PodEvent]()
        noticed = [
            window
            for window in core.windows.found
            if window.start - window.notice <= now < window.start and not window.hold
        ]
        core.windows.told &= {
            place for place in core.windows.told if place[0] in {window.name for window in core.windows.found}
        }
        for window in noticed:
            for uid, pod in core.book.pods.items():
                entry = core.table.by_uid.get(uid)
                there = pod.info is not None and pod.info.node in window.nodes and entry is not None
                if there and entry is not None and (window.name, uid) not in core.windows.told:
                    core.windows.told.add((window.name, uid))
                    if not _ends_before(entry, window):
                        assert pod.info is not None  # noqa: S101 - asked above
                        events.append(PodEvent(entry.ref, "MaintenancePlanned", _words(window, pod.info.node)))
        return events


def _ends_before(entry: PodEntry, window: Window) -> bool:
    """Whether a pod that runs ends before a window; without a word about its start it may not."""
    return entry.limit is not None and entry.began is not None and entry.began + entry.limit <= window.start


def _words(window: Window, node: str) -> str:
    start, end = (rfc3339(instant(UNIX, at)) for at in (window.start, window.end))
    reason = f" ({window.reason})" if window.reason else ""
    return f"node {node} is in maintenance from {start} to {end}{reason}: the pod is evicted then, if it still runs"


def counts(core: DoorCore) -> dict[str, int]:
    """Windows by state, for the metrics."""
    now = now_of(core)
    current = [window for window in core.windows.found if now < window.end]
    active = sum(window.is_active(now) for window in current)
    return {"planned": len(current) - active, "active": active}
