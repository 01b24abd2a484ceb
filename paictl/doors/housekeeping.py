"""What has to be carried out beside answering: evictions, places that nobody came for, pods to be asked about again.

Functions on the core, under its lock; they hand out values and wait for nothing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

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

SETTLE: Final = 2.0
"""Seconds that kube-scheduler has for asking about a pod by itself; doubled each time it does not."""
LONGEST: Final = 300.0
BUSY: Final = (1.0, 60.0)
"""Seconds after a question in which kube-scheduler works on its queue, and how long new pods stand in it at most."""
FREED: Final = 0.2
"""The same for a pod that waits for devices which are about to be freed: kube-scheduler is not told when they are."""
MOST: Final = 64
"""Pods that are requeued in one round, and ten times as many that are looked at."""


def overdue(core: DoorCore) -> list[PodRef]:
    """Pods that have held devices for too long without a binding."""
    with core.guarded():
        before = core.clock() - core.options.deadline
        found = map(core.table.by_uid.get, core.book.assumed())
        return [pod.ref for pod in found if pod is not None and not pod.binding and 0 < pod.assumed < before]


def release(core: DoorCore, ref: PodRef) -> None:
    """No binding came, and none will: the devices of a pod are free again."""
    with core.guarded():
        entry, known = core.table.by_uid.get(ref.uid), core.book.pods.get(ref.uid)
        if entry is None or entry.binding or known is None or not known.assumed:
            return
        if entry.unoffered and known.info is not None:
            reclaim.decline(core, entry, {known.info.node})
        core.usage.remove(ref.uid)
        entry.assumed, entry.attempts, entry.cached = 0.0, 0, None
        core.record_outcomes(core.book.cancel(ref.uid, core.wall()))
        core.record(pod_events.released(ref, known.info.node if known.info else "", core.options.deadline))
        core.work.set()


def strangers(core: DoorCore) -> list[PodRef]:
    """Pods that were fetched and of which no news came, nor a question for a while: gone, most likely.

    Nobody would say so, and they would be kept for ever.
    """
    with core.guarded():
        before = core.clock() - core.options.deadline
        found = (pod.ref for pod in core.table if not pod.listed and pod.asked < before and _waits(core, pod))
        return list(islice(found, MOST))


def starts(core: DoorCore) -> list[PodEvent]:
    """Promises of starts made anew, and events for the pods that are to know."""
    with core.guarded():
        core.starts.turn()
        return core.starts.news() if core.is_open else []


def unnoted_starts(core: DoorCore) -> list[tuple[PodRef, Millis | None]]:
    """Pods whose object is to say another promised start, with that one; None: none is promised any more."""
    with core.guarded():
        return core.starts.unnoted() if core.is_open else []


def preemptions(core: DoorCore) -> list[Preemption]:
    """Whom to evict, for whom."""
    with core.guarded():
        return core.book.preemptions() if core.options.own_preemption and core.is_open else []


def gangs(core: DoorCore, preemption: Preemption) -> list[tuple[str, ...]]:
    """The pods that have to go, those of one group together: the group that was created first goes first.

    Victims that are created again come back in that order, so it decides which of them gets what is free elsewhere. The
    uids by which the core orders pods are random: with them, the same cluster would decide otherwise each time.
    """
    with core.guarded():
        found: dict[str, list[str]] = {}
        for uid in (uid for _, uids in preemption.victims for uid in uids):
            slot = core.book.engine.state.groups.slots.get(uid)
            if slot is not None:
                found.setdefault(slot[0], []).append(uid)
        ordered = [sorted(uids, key=lambda uid: _age(core, uid)) for uids in found.values()]
        return [tuple(uids) for uids in sorted(ordered, key=lambda uids: _age(core, uids[0]))]


def _age(core: DoorCore, uid: str) -> tuple[str, str]:
    """Creation time and name, as the placer orders gangs; of a pod that is not known any more, its uid."""
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
    """Seconds that it gets for its end; None: those that it asks for."""


def victim(core: DoorCore, group: str, uid: str) -> Victim | None:
    """A pod that a group's preemption still needs to be told to go; None if there is no need.

    One that is being deleted goes by itself, unless its own grace period keeps it for longer than anyone may wait.
    """
    with core.guarded():
        groups = core.book.engine.state.groups
        preemptor, slot, entry = groups.by_name.get(group), groups.slots.get(uid), core.table.by_uid.get(uid)
        if preemptor is None or preemptor.state is not GroupState.PREEMPTING or slot is None or entry is None:
            return None
        longest = core.options.longest_grace
        if entry.deleting and entry.leaves_by <= core.wall() + longest:
            return None
        grace = int(longest) if entry.deleting or entry.grace > longest else None
        return Victim(entry.ref, preemptor, slot[2], grace)


def places(core: DoorCore, preemption: Preemption) -> list[tuple[PodRef, str]]:
    """Pods that wait for a preemption, and a node of their group's place for each."""
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
        found = []
        for uid in preemption.waiting:
            entry = core.table.by_uid.get(uid)
            if entry is not None and entry.reading is not None:
                nodes = free.get(entry.reading.request.leaf_number)
                if nodes:
                    found.append((entry.ref, nodes.pop(0)))
        return found


def to_requeue(core: DoorCore, settle: float = SETTLE) -> list[PodRef]:
    """Waiting pods that would get devices now, and about which kube-scheduler does not ask by itself.

    It asks again when a bound pod is deleted or a node changes, and for minutes not at all when, say, a preemption was
    called off; and it may have asked just before this process heard of a deletion.
    """
    with core.sharing() as give_way:
        if not core.is_open:
            return []
        now, refs = core.clock(), list[PodRef]()
        for entry in sorted(_stale(core, now, settle), key=_urgency)[: 10 * MOST]:
            if core.table.by_uid.get(entry.ref.uid) is entry and _waits(core, entry) and _would_fit(core, entry):
                entry.requeued, entry.requeues = now, entry.requeues + 1
                refs.append(entry.ref)
            if len(refs) >= MOST:
                break
            give_way()
        return refs


def unheard(core: DoorCore) -> list[PodRef]:
    """Waiting pods that kube-scheduler's own filters left no node, and for which others might have to go.

    Those filters come before the extender's verbs. Where victims hold the devices or the CPU that a pod needs, nobody
    else can know that they are to go, and the extender would never be asked.
    """
    with core.guarded():
        if not (core.is_open and core.options.own_preemption):
            return []
        versions, now = (core.book.engine.version, core.usage.version), core.clock()
        pods = [
            entry for entry in core.table
            if entry.lacks_room and entry.reading is not None and entry.reading.request.priority >= 0
            and entry.examined != versions and _waits(core, entry)
            and entry.ref.uid not in core.book.engine.state.groups.waiting
            and entry.asked < now - BUSY[0]
        ]  # fmt: skip
        return [entry.ref for entry in sorted(pods, key=_urgency)[:MOST]]


def _would_fit(core: DoorCore, entry: PodEntry) -> bool:
    """Whether kube-scheduler would hear something better than what it was told; if not, that stays good."""
    # it, its claims, or a grant, has changed since it was found
    if entry.reading is None or core.claim_obstacle(entry) or core.refusal(entry) is not None:
        return False
    known, engine = entry.cached, core.book.engine
    request = entry.reading.request
    try:
        offered = None if known is None or known.offered is None else known.offered | known.shut
        asked, offered = windows.within(core, entry, request, None if request.ignore_suggested else offered)
        held = core.held_back(request)
        suggested = reclaim.suggested(core, entry, asked, offered)
        if not held and claims.unfreed(core, asked, suggested):
            return False
        decision = None if held else engine.plan(asked, suggested)
    except RequestError:
        decision, better = None, False
    else:
        better = isinstance(decision, Bind if known is not None and known.kind == "preempt" else Bind | Preempt)
    if not better and known is not None:
        usage = None if known.usage is None else core.usage.version
        still = CachedDecision(
            engine.version, known.kind, known.reason, offered=known.offered, usage=usage, limit=known.limit
        )
        why = held or (decision.reason if isinstance(decision, Wait) else "")
        if why and known.kind == "wait":  # what it waits for may be something else by now
            entry.cached = windows.noted(core, entry, replace(still, reason=f"pod waits: {why}"))
        else:
            entry.cached = replace(still, shut=windows.closed(core, entry))
    return better


def _stale(core: DoorCore, now: float, settle: float) -> list[PodEntry]:
    """Pods that wait, by an answer that may no longer be right or by none."""
    queued = now - BUSY[1] if core.asked > now - BUSY[0] else now
    return [
        entry
        for entry in core.table
        if entry.reading is not None
        and _waits(core, entry)
        and (entry.cached is None or not is_current(core, entry, entry.cached))
        and (entry.was_asked or entry.asked < queued)
        and max(entry.asked, entry.requeued) < now - _pause(entry, settle)
    ]


def _pause(entry: PodEntry, settle: float) -> float:
    """Seconds that kube-scheduler has for asking about a pod by itself."""
    passing = entry.cached is not None and entry.cached.version == UNVERSIONED
    pause: float = (FREED if passing else settle) * 2**entry.requeues
    return min(pause, LONGEST)


def _waits(core: DoorCore, entry: PodEntry) -> bool:
    """Whether a pod could be scheduled, is not, and nothing is under way."""
    if entry.runs or entry.deleting or entry.gated or entry.binding:
        return False
    known = core.book.pods.get(entry.ref.uid)
    return known is None or known.info is None


def _urgency(entry: PodEntry) -> tuple[int, float]:
    assert entry.reading is not None  # noqa: S101 - see _stale
    return -entry.reading.request.priority, entry.asked
