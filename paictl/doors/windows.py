"""Maintenance windows behind the doors: nodes that a pod may not get, and gangs that have to leave.

What is closed and due is computed from the windows and the clock each time: the only memory that a restart could lose
is which pods were warned. All functions need the core's lock, or take it.
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
    """The current time in milliseconds since 1970."""
    return Millis(int(1000 * core.wall()))


def closed(core: DoorCore, entry: PodEntry) -> frozenset[str]:
    """The nodes that a pod may not get now; the same empty set while there are no windows."""
    if not core.windows:
        return _ALL
    return core.windows.closed_to(now_of(core), core.table.limit_of(entry), entry.reservation, core.nodes)


def within(
    core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None
) -> tuple[PodRequest, frozenset[str] | None]:
    """The request for the engine while there are windows, and the nodes that count; both unchanged without windows.

    With windows, suggestions count even if the pod ignores those of kube-scheduler: a preemption is given up if a
    window closes its place in the meantime.
    """
    if not core.windows:
        return request, offered
    nodes = core.nodes if request.ignore_suggested or offered is None else offered
    return replace(request, ignore_suggested=False), core.windows.left(nodes, closed(core, entry))


def noted(core: DoorCore, entry: PodEntry, decision: CachedDecision) -> CachedDecision:
    """A decision with the closed nodes, which the reason of a waiting pod mentions."""
    closed_nodes = closed(core, entry)
    if not closed_nodes:
        return decision
    reason = f"{decision.reason}; {_closing(core, entry, closed_nodes)}" if decision.kind == "wait" else decision.reason
    return replace(decision, closed=closed_nodes, reason=reason)


def _closing(core: DoorCore, entry: PodEntry, shut: frozenset[str]) -> str:
    """What closes nodes to a pod that waits."""
    known = core.windows.reservations.get(entry.reservation) if entry.reservation else None
    if known is not None and known.nodes:
        within = f"reservation {known.name} gives it only {listed(sorted(known.nodes), 3)}"
        shut = shut & core.windows.closed(now_of(core), core.table.limit_of(entry)) & frozenset(known.nodes)
        return f"{within}, and maintenance windows close {listed(sorted(shut), 3)}" if shut else within
    what = "maintenance windows" if core.windows.current else "reservations"
    return f"{what} close {listed(sorted(shut), 3)} to it ({_span(core, entry)})"


def _span(core: DoorCore, entry: PodEntry) -> str:
    limit = core.table.limit_of(entry)
    return "it has no run-time limit" if limit is None else f"it runs up to {span_text(limit)}"


@frozen
class MovedGang:
    """A gang that has to leave a node whose window has begun."""

    gang: GangKey
    pods: tuple[PodRef, ...]
    """All of its pods that hold devices and are not being deleted."""
    why: str

    def event(self, pod: PodRef) -> PodEvent:
        """The event of one of its pods, once evicted."""
        return PodEvent(
            pod, "MaintenanceEvicted", f"evicted, so that its gang starts elsewhere: {self.why}", warning=True
        )


def due(core: DoorCore) -> list[MovedGang]:
    """Gangs with a pod on a node that is in maintenance."""
    if not core.windows.known:
        return []
    with core.guarded():
        core.windows.prune(now_of(core))
        active = core.windows.current.active(now_of(core))
        why: dict[GangKey, str] = {}
        for uid, pod in core.book.pods.items() if active else ():
            entry = core.table.by_uid.get(uid)
            if pod.info is not None and pod.info.node in active and entry is not None:
                message = f"node {pod.info.node} is in maintenance ({active[pod.info.node].name})"
                why.setdefault(core.table.gang(entry.ref, pod.request.group), message)
        return [MovedGang(gang, pods, why[gang]) for gang, pods in _pods_of(core, why).items() if pods]


def _pods_of(core: DoorCore, gangs: Mapping[GangKey, object]) -> dict[GangKey, tuple[PodRef, ...]]:
    refs: dict[GangKey, list[PodRef]] = {gang: [] for gang in gangs}
    for uid, pod in core.book.pods.items():
        entry = core.table.by_uid.get(uid)
        if pod.info is None or entry is None or core.leaves(entry):
            continue
        if (gang := core.table.gang(entry.ref, pod.request.group)) in refs:
            refs[gang].append(entry.ref)
    return {gang: tuple(pods) for gang, pods in refs.items()}


def warned(core: DoorCore) -> list[PodEvent]:
    """Events for pods that a window will evict and whose notice period has begun; each leader sends one per pod."""
    if not core.windows.current:
        return []
    with core.guarded():
        now, events = now_of(core), list[PodEvent]()
        noticed = [
            window
            for window in core.windows.current
            if window.start - window.notice <= now < window.start and not window.hold
        ]
        core.windows.warned_pods &= {
            place for place in core.windows.warned_pods if place[0] in {window.name for window in core.windows.current}
        }
        for window in noticed:
            for uid, pod in core.book.pods.items():
                entry = core.table.by_uid.get(uid)
                is_there = pod.info is not None and pod.info.node in window.nodes and entry is not None
                if is_there and entry is not None and (window.name, uid) not in core.windows.warned_pods:
                    core.windows.warned_pods.add((window.name, uid))
                    if not _ends_before(entry, window):
                        assert pod.info is not None  # noqa: S101 - asked above
                        events.append(PodEvent(entry.ref, "MaintenancePlanned", _words(window, pod.info.node)))
        return events


def _ends_before(entry: PodEntry, window: Window) -> bool:
    """Whether a running pod ends before a window; if its start is unknown, it may not."""
    return entry.limit is not None and entry.began is not None and entry.began + entry.limit <= window.start


def _words(window: Window, node: str) -> str:
    start, end = (rfc3339(instant(UNIX, at)) for at in (window.start, window.end))
    reason = f" ({window.reason})" if window.reason else ""
    return f"node {node} is in maintenance from {start} to {end}{reason}: the pod is evicted then, if it still runs"


def counts(core: DoorCore) -> dict[str, int]:
    """Windows by state, for the metrics."""
    now = now_of(core)
    current = [window for window in core.windows.current if now < window.end]
    active = sum(window.is_active(now) for window in current)
    return {"planned": len(current) - active, "active": active}
