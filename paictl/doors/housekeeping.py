"""What is due besides answering: evictions, places that were never taken, pods to be scheduled again.

Functions on the core, under its lock; they return values and never block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Final, TypeVar

from paictl.doors import claims, pod_events, reclaim, windows
from paictl.doors.core import DoorCore
from paictl.doors.deciding import is_current
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import UNVERSIONED, CachedDecision, PodEntry, PodRef
from paictl.frozen import frozen
from paictl.scheduler.book import Preemption
from paictl.scheduler.decision import Bind, Preempt, Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.groups import Group, GroupState
from paictl.units import Millis

Row = TypeVar("Row")

SETTLE: Final = 2.0
"""Seconds that kube-scheduler has for asking about a pod by itself; doubled each time the pod is requeued."""
LONGEST: Final = 300.0
BUSY: Final = (1.0, 60.0)
"""Seconds after a question for which kube-scheduler counts as working on its queue, and a new pod as queued."""
FREED: Final = 0.2
"""The same for a pod that waits for devices about to be freed: kube-scheduler does not learn when they are."""
HUNG: Final = 120.0
"""Seconds after its grace period in which a pod should be gone: kubelets clean up, and clocks differ."""
MOST: Final = 64
"""Pods that are requeued in one round; ten times as many are considered."""


def overdue(core: DoorCore) -> list[PodRef]:
    """Pods that have held devices for too long without a binding."""
    with core.guarded():
        before = core.clock() - core.options.deadline
        assumed = map(core.table.by_uid.get, core.book.assumed())
        return [
            pod.ref
            for pod in assumed
            if pod is not None and not pod.binding and 0 < pod.assumed < before and pod.unanswered_until <= core.clock()
        ]


def release(core: DoorCore, ref: PodRef) -> None:
    """Free the devices of a pod for which no binding came, and none will."""
    with core.guarded():
        entry, booked = core.table.by_uid.get(ref.uid), core.book.pods.get(ref.uid)
        if entry is None or entry.binding or booked is None or not booked.assumed:
            return
        if entry.unanswered_until > core.clock():
            return
        if entry.unoffered and booked.info is not None:
            reclaim.decline(core, entry, {booked.info.node})
        core.usage.remove(ref.uid)
        entry.assumed, entry.attempts, entry.cached = 0.0, 0, None
        core.record_outcomes(core.book.cancel(ref.uid, core.wall()))
        core.record(pod_events.released(ref, booked.info.node if booked.info else "", core.options.deadline))
        core.work.set()


def unlisted(core: DoorCore) -> list[PodRef]:
    """Pods that were fetched, but never listed, and about which there was no question for a while: most likely gone.

    No event would report that, and they would be kept for ever.
    """
    with core.guarded():
        before = core.clock() - core.options.deadline
        pods = (pod.ref for pod in core.table if not pod.listed and pod.asked_at < before and _waits(core, pod))
        return list(islice(pods, MOST))


def note_hung(core: DoorCore) -> None:
    """Count devices as bad while a pod has them that should have ended: nobody with a right to others waits for it.

    Its containers may hang, or a volume: then it is there until somebody restarts the node.
    """
    with core.guarded():
        if not core.is_open:
            return
        before, hung = core.wall() - HUNG, dict[tuple[str, int], str]()
        for uid, pod in core.book.pods.items():
            entry = core.table.by_uid.get(uid)
            if entry is not None and entry.deleting and entry.leaves_by < before and pod.info is not None:
                why = f"its pod should have ended at least {HUNG:g} s ago"
                hung |= {(pod.info.node, index): why for index in pod.info.devices}
        for node in sorted(core.health.hang(hung)):
            core.devices_changed(node)


def starts(core: DoorCore) -> list[PodEvent]:
    """Renew promised starts; returns events for the pods concerned."""
    with core.guarded():
        core.starts.turn()
        return core.starts.news() if core.is_open else []


def unnoted_starts(core: DoorCore) -> list[tuple[PodRef, Millis | None]]:
    """Pods whose object has to be given another promised start, with that start; None: no longer a promise."""
    with core.guarded():
        return core.starts.unnoted() if core.is_open else []


def preemptions(core: DoorCore, seen: Mapping[str, float] | None = None) -> list[Preemption]:
    """The preemptions whose victims have to be evicted here, one of each virtual cluster first.

    Within one, those that were never looked at come first by priority, then those `seen` (by group) longest ago.
    """
    with core.guarded():
        groups = core.book.engine.state.groups.by_name
        known = core.book.preemptions() if core.options.own_preemption and core.is_open else []
        known.sort(key=lambda row: ((seen or {}).get(row.group, -math.inf), -groups[row.group].priority))
        return in_turn(known, lambda preemption: groups[preemption.group].vc)


def gangs(core: DoorCore, preemption: Preemption) -> list[tuple[str, ...]]:
    """The victims by group, the group that was created first goes first.

    Victims are created again in that order, so it decides which of them get the free devices elsewhere. The uids by
    which the core orders pods are random: with them, the same cluster would decide differently each time.
    """
    with core.guarded():
        by_group: dict[str, list[str]] = {}
        for uid in (uid for _, uids in preemption.victims for uid in uids):
            slot = core.book.engine.state.groups.slots.get(uid)
            if slot is not None:
                by_group.setdefault(slot[0], []).append(uid)
        ordered = [sorted(uids, key=lambda uid: _age(core, uid)) for uids in by_group.values()]
        return [tuple(uids) for uids in sorted(ordered, key=lambda uids: _age(core, uids[0]))]


def _age(core: DoorCore, uid: str) -> tuple[str, str]:
    """Creation time and name, as the placer orders gangs; of a pod that is no longer known, its uid."""
    entry = core.table.by_uid.get(uid)
    return ("", uid) if entry is None else (entry.created, entry.ref.key)


@frozen
class Victim:
    """A pod that has to go for a group."""

    pod: PodRef
    group: Group
    """The group that needs its devices."""
    node: str
    grace: int | None
    """Its grace period in seconds; None: its own."""


def victim(core: DoorCore, group: str, uid: str) -> Victim | None:
    """A pod that still has to be evicted for a group's preemption; None if it need not be.

    A pod being deleted goes by itself, unless its own grace period is longer than the limit.
    """
    with core.guarded():
        groups = core.book.engine.state.groups
        preemptor, slot, entry = groups.by_name.get(group), groups.slots.get(uid), core.table.by_uid.get(uid)
        if preemptor is None or preemptor.state is not GroupState.PREEMPTING or slot is None or entry is None:
            return None
        return None if core.leaves(entry) else Victim(entry.ref, preemptor, slot[2], core.grace_of(entry))


def places(core: DoorCore, preemption: Preemption) -> list[tuple[PodRef, str]]:
    """Pods that wait for a preemption, each with a node of their group's place."""
    with core.guarded():
        state = core.book.engine.state
        group = state.groups.by_name.get(preemption.group)
        if group is None or group.state is not GroupState.PREEMPTING:
            return []
        free: dict[int, list[str]] = {}
        for slot, leaves, _ in group.placements():
            size = group.members[slot.member][0]
            if not group.pods[slot.member][slot.pod]:
                free.setdefault(size, []).append(state.physical.node_name(leaves[0]))
        placed = []
        for uid in preemption.waiting:
            entry = core.table.by_uid.get(uid)
            if entry is not None and entry.reading is not None:
                nodes = free.get(entry.reading.request.leaf_number)
                if nodes:
                    placed.append((entry.ref, nodes.pop(0)))
        return placed


def to_requeue(core: DoorCore, settle: float = SETTLE) -> list[PodRef]:
    """Waiting pods that would get devices now, but about which kube-scheduler does not ask by itself.

    It asks again when a bound pod is deleted or a node changes, but not for minutes when, say, a preemption was called
    off; and it may have asked just before this process heard of a deletion.
    """
    with core.sharing() as give_way:
        if not core.is_open:
            return []
        now, refs = core.clock(), list[PodRef]()
        for entry in _in_turn(core, _stale(core, now, settle))[: 10 * MOST]:
            if core.table.by_uid.get(entry.ref.uid) is entry and _waits(core, entry) and _would_fit(core, entry):
                entry.requeued, entry.requeues = now, entry.requeues + 1
                refs.append(entry.ref)
            if len(refs) >= MOST:
                break
            give_way()
        return refs


def unasked(core: DoorCore) -> list[PodRef]:
    """Waiting pods for which kube-scheduler's own filters leave no node, and for which others might have to go.

    Those filters run before the extender's verbs. If victims hold the devices or the CPU that a pod needs, only this
    process knows that they could go, and the extender would never be asked.
    """
    with core.guarded():
        if not (core.is_open and core.options.own_preemption):
            return []
        versions, now = (core.book.engine.version, core.usage.version), core.clock()
        pods = [
            entry
            for entry in core.table
            if entry.lacks_room
            and entry.reading is not None
            and entry.reading.request.priority >= 0
            and entry.examined != versions
            and _waits(core, entry)
            and entry.ref.uid not in core.book.engine.state.groups.waiting
            and entry.asked_at < now - BUSY[0]
        ]
        return [entry.ref for entry in _in_turn(core, pods)[:MOST]]


def _would_fit(core: DoorCore, entry: PodEntry) -> bool:
    """Whether kube-scheduler would now get a better answer than its last one; if not, that one is renewed."""
    # the pod, its claims or a grant may have changed since the pod was selected
    if entry.reading is None or core.claim_obstacle(entry) or core.refusal(entry) is not None:
        return False
    cached, engine = entry.cached, core.book.engine
    request = entry.reading.request
    try:
        offered = None if cached is None or cached.offered is None else cached.offered | cached.closed
        restricted, offered = windows.within(core, entry, request, None if request.ignore_suggested else offered)
        obstacle = core.held_back(request)
        suggested = reclaim.suggested(core, entry, restricted, offered)
        if not obstacle and claims.unfreed(core, restricted, suggested):
            return False
        decision = None if obstacle else engine.plan(restricted, suggested)
    except RequestError:
        decision, better = None, False
    else:
        better = isinstance(decision, Bind if cached is not None and cached.kind == "preempt" else Bind | Preempt)
    if not better and cached is not None:
        usage = None if cached.usage is None else core.usage.version
        renewed = CachedDecision(
            engine.version, cached.kind, cached.reason, offered=cached.offered, usage=usage, limit=cached.limit
        )
        why = obstacle or (decision.reason if isinstance(decision, Wait) else "")
        if why and cached.kind == "wait":  # what it waits for may be something else by now
            entry.cached = windows.noted(core, entry, replace(renewed, reason=f"pod waits: {why}"))
        else:
            entry.cached = replace(renewed, closed=windows.closed(core, entry))
    return better


def _stale(core: DoorCore, now: float, settle: float) -> list[PodEntry]:
    """Waiting pods without an answer, or with one that may no longer be right."""
    queued = now - BUSY[1] if core.asked_at > now - BUSY[0] else now
    return [
        entry
        for entry in core.table
        if entry.reading is not None
        and _waits(core, entry)
        and (entry.cached is None or not is_current(core, entry, entry.cached))
        and (entry.was_asked or entry.asked_at < queued)
        and max(entry.asked_at, entry.requeued) < now - _pause(entry, settle)
    ]


def _pause(entry: PodEntry, settle: float) -> float:
    """Seconds that kube-scheduler has for asking about a pod by itself."""
    passing = entry.cached is not None and entry.cached.version == UNVERSIONED
    pause: float = (FREED if passing else settle) * 2**entry.requeues
    return min(pause, LONGEST)


def _waits(core: DoorCore, entry: PodEntry) -> bool:
    """Whether a pod can be scheduled, has no place, and nothing is under way for it."""
    if entry.runs or entry.deleting or entry.gated or entry.binding:
        return False
    booked = core.book.pods.get(entry.ref.uid)
    return booked is None or booked.info is None


def _in_turn(core: DoorCore, entries: list[PodEntry]) -> list[PodEntry]:
    return in_turn(sorted(entries, key=_urgency), lambda entry: vc_of(core, entry))


def in_turn(rows: Iterable[Row], vc: Callable[[Row], str]) -> list[Row]:
    """The first row of each virtual cluster, then the second of each, and so on.

    Priorities of two virtual clusters cannot be compared, and thousands of pods of one must not keep the others from
    their turn.
    """
    places, turns = Counter[str](), list[tuple[int, Row]]()
    for row in rows:
        turns.append((places[vc(row)], row))
        places[vc(row)] += 1
    return [row for _, row in sorted(turns, key=itemgetter(0))]


def vc_of(core: DoorCore, entry: PodEntry) -> str:
    """The virtual cluster whose turn a pod has; empty, the same for all, if there is none or the pod may not use it."""
    vc = entry.reading.request.vc if entry.reading is not None else ""
    if vc not in core.book.engine.state.vcs:
        return ""  # the whole `core.refusal` is too slow for thousands
    return vc if not core.options.require_grants or core.grants.allow(entry.ref.namespace, vc) else ""


def _urgency(entry: PodEntry) -> tuple[int, float]:
    assert entry.reading is not None  # noqa: S101 - see _stale
    return -entry.reading.request.priority, entry.asked_at
