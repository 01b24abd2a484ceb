"""Gangs on devices that stay bad: the pods to evict once the deadline has passed."""

from __future__ import annotations

from paictl.doors import pod_events
from paictl.doors.core import DoorCore
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import PodRef
from paictl.frozen import frozen


@frozen
class FailingGang:
    """A gang with a bad device."""

    group: str
    pods: tuple[PodRef, ...]
    """All of its pods that hold devices and are not being deleted; with `members`, only the pods to replace."""
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
        reasons: dict[str, str] = {}
        for pod in core.book.pods.values():
            for index in pod.info.devices if pod.info is not None else ():
                if pod.info is not None and (pod.info.node, index) in bad:
                    reason = core.health.bad_devices.get(pod.info.node, {}).get(index, "")
                    message = f"device {index} of node {pod.info.node} has been bad for {deadline:g} s: {reason}"
                    reasons.setdefault(pod.request.group, message)
        gangs: dict[str, list[PodRef]] = {group: [] for group in reasons}
        repaired: set[str] = set()
        for uid, pod in core.book.pods.items():
            entry = core.table.by_uid.get(uid)
            if pod.request.group not in gangs or pod.info is None or entry is None or entry.deleting:
                continue
            if pod.request.repair:
                repaired.add(pod.request.group)
            if not pod.request.repair or any((pod.info.node, index) in bad for index in pod.info.devices):
                gangs[pod.request.group].append(entry.ref)
        return [
            FailingGang(group, tuple(pods), reasons[group], group in repaired) for group, pods in gangs.items() if pods
        ]
