"""What has to be carried out beside answering: evictions, places that nobody came for, pods to be asked about again.

Functions on the desk, under its lock; they hand out values and wait for nothing.
"""

from __future__ import annotations

from typing import Final

from paictl.extender import tidings
from paictl.extender.desk import Desk
from paictl.extender.table import Entry, Verdict
from paictl.extender.wire import PodRef
from paictl.scheduler.book import Preemption
from paictl.scheduler.decision import Bind, Preempt
from paictl.scheduler.errors import RequestError
from paictl.scheduler.groups import Group, GroupState

SETTLE: Final = 2.0
"""Seconds that kube-scheduler has for asking about a pod by itself; doubled each time it does not."""
LONGEST: Final = 300.0
MOST: Final = 64
"""Pods that are touched in one round, and ten times as many that are looked at."""


def overdue(desk: Desk) -> list[PodRef]:
    """Pods that have held devices for too long without a binding."""
    with desk.guarded():
        before = desk.clock() - desk.options.deadline
        found = map(desk.table.by_uid.get, desk.book.assumed())
        return [one.ref for one in found if one is not None and not one.binding and 0 < one.assumed < before]


def release(desk: Desk, ref: PodRef) -> None:
    """No binding came, and none will: the devices of a pod are free again."""
    with desk.guarded():
        entry, known = desk.table.by_uid.get(ref.uid), desk.book.pods.get(ref.uid)
        if entry is None or entry.binding or known is None or not known.assumed:
            return
        entry.assumed, entry.attempts, entry.verdict = 0.0, 0, None
        desk.announce(desk.book.cancel(ref.uid, desk.wall()))
        desk.tell(tidings.released(ref, known.info.node if known.info else "", desk.options.deadline))
        desk.work.set()


def preemptions(desk: Desk) -> list[Preemption]:
    """Whom to evict, for whom."""
    with desk.guarded():
        return desk.book.preemptions() if desk.options.own_preemption and desk.is_open else []


def victim(desk: Desk, group: str, uid: str) -> tuple[PodRef, Group, str] | None:
    """A pod that a group's preemption still needs to go: the pod, the group, the pod's node; None if it need not."""
    with desk.guarded():
        groups = desk.book.engine.state.groups
        preemptor, slot, entry = groups.by_name.get(group), groups.slots.get(uid), desk.table.by_uid.get(uid)
        if preemptor is None or preemptor.state is not GroupState.PREEMPTING or slot is None or entry is None:
            return None
        return None if entry.deleting else (entry.ref, preemptor, slot[2])


def places(desk: Desk, preemption: Preemption) -> list[tuple[PodRef, str]]:
    """Pods that wait for a preemption, and a node of their group's place for each."""
    with desk.guarded():
        state = desk.book.engine.state
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
            entry = desk.table.by_uid.get(uid)
            if entry is not None and entry.reading is not None:
                nodes = free.get(entry.reading.request.leaf_number)
                if nodes:
                    found.append((entry.ref, nodes.pop(0)))
        return found


def to_touch(desk: Desk, settle: float = SETTLE) -> list[PodRef]:
    """Waiting pods that would get devices now, and about which kube-scheduler does not ask by itself.

    It asks again when a bound pod is deleted or a node changes, and for minutes not at all when, say, a preemption was
    called off; and it may have asked just before this process heard of a deletion.
    """
    with desk.guarded():
        if not desk.is_open:
            return []
        engine, now = desk.book.engine, desk.clock()
        found: list[PodRef] = []
        for entry in sorted(_stale(desk, now, settle), key=_urgency)[: 10 * MOST]:
            assert entry.reading is not None  # noqa: S101 - see _stale
            try:
                decision = engine.plan(entry.reading.request, entry.verdict.offered if entry.verdict else None)
            except RequestError:
                better = False
            else:
                waits_for_victims = entry.verdict is not None and entry.verdict.kind == "preempt"
                better = isinstance(decision, Bind if waits_for_victims else Bind | Preempt)
            if better:
                entry.touched, entry.touches = now, entry.touches + 1
                found.append(entry.ref)
            elif entry.verdict is not None:
                known = entry.verdict
                entry.verdict = Verdict(engine.version, known.kind, known.reason, offered=known.offered)
            if len(found) >= MOST:
                break
        return found


def _stale(desk: Desk, now: float, settle: float) -> list[Entry]:
    """Pods that wait, by an answer that may no longer be right or by none."""
    version, pods = desk.book.engine.version, desk.book.pods
    return [
        entry
        for entry in desk.table
        if entry.reading is not None
        and not (entry.runs or entry.deleting or entry.gated or entry.binding)
        and (entry.verdict is None or entry.verdict.version != version)
        and max(entry.asked, entry.touched) < now - min(settle * 2**entry.touches, LONGEST)
        and not ((known := pods.get(entry.ref.uid)) and known.info)
    ]


def _urgency(entry: Entry) -> tuple[int, float]:
    assert entry.reading is not None  # noqa: S101 - see _stale
    return -entry.reading.request.priority, entry.asked
