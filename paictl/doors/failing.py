"""Gangs on devices that stay bad: the pods to evict once the deadline has passed."""

from __future__ import annotations

from paictl.doors import pod_events
from paictl.doors.core import DoorCore
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import GangKey, PodRef
from paictl.frozen import frozen


@frozen
class FailingGang:
    """A gang with a bad device."""

    gang: GangKey
    pods: tuple[PodRef, ...]
    """All of its pods that hold devices and do not leave in time; with `members`, only the pods to replace."""
    why: str
    members: bool = False
    """Whether these pods are replaced while the others of the gang keep running."""

    def event(self, pod: PodRef) -> PodEvent:
        """The event of one of its pods, once evicted."""
        return pod_events.left_bad_device(pod, self.why)


def due(core: DoorCore) -> list[FailingGang]:
    """Gangs with a device that has been bad for longer than the deadline; none without a deadline."""
    deadline = core.options.bad_device_deadline
    if deadline is None:
        return []
    with core.guarded():
        before = core.clock() - deadline
        bad = {place for place, since in core.health.bad_since.items() if since <= before}
        if not bad:
            return []
        why: dict[GangKey, str] = {}
        for uid, pod in core.book.pods.items():
            entry = core.table.by_uid.get(uid)
            for index in pod.info.devices if pod.info is not None else ():
                if pod.info is not None and entry is not None and (pod.info.node, index) in bad:
                    reason = core.health.bad_devices.get(pod.info.node, {}).get(index, "")
                    message = f"device {index} of node {pod.info.node} has been bad for {deadline:g} s: {reason}"
                    why.setdefault(core.table.gang(entry.ref, pod.request.group), message)
        gangs: dict[GangKey, list[PodRef]] = {gang: [] for gang in why}
        repaired: set[GangKey] = set()
        for uid, pod in core.book.pods.items():
            entry = core.table.by_uid.get(uid)
            if pod.info is None or entry is None or core.leaves(entry):
                continue
            if (gang := core.table.gang(entry.ref, pod.request.group)) not in gangs:
                continue
            if pod.request.repair:
                repaired.add(gang)
            if not pod.request.repair or any((pod.info.node, index) in bad for index in pod.info.devices):
                gangs[gang].append(entry.ref)
        return [FailingGang(gang, tuple(pods), why[gang], gang in repaired) for gang, pods in gangs.items() if pods]
