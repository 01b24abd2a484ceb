"""Members of gangs that allow repairs (`docs/repair.md`): who is lost with a node, and is to be replaced alone.

A pod on a node that no longer answers would be there for minutes, and its Job would make no other one. So it is taken
to have failed, as Kubernetes' garbage collector does with pods of a node that is gone, and deleted.
"""

from __future__ import annotations

from typing import Final

from paictl.doors import pod_events
from paictl.doors.core import DoorCore
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import PodRef
from paictl.frozen import frozen

AFTER: Final = 5.0
"""Seconds for which a node has to be away until members leave it: an API server that restarts is no reason."""


@frozen
class LostMember:
    """A pod that is to be replaced while the others of its gang keep running."""

    pod: PodRef
    why: str
    dead: bool
    """Whether its node is away, so that nothing there would end it."""

    def event(self) -> PodEvent:
        """What the pod is told."""
        return pod_events.member_lost(self.pod, self.why)


def due(core: DoorCore) -> list[LostMember]:
    """Members on nodes that have been away for long enough."""
    with core.guarded():
        before = core.clock() - AFTER
        away = {name for name, since in core.health.away_since.items() if since <= before}
        found = []
        for uid, pod in core.book.pods.items() if away else ():
            entry = core.table.by_uid.get(uid)
            if pod.request.repair and pod.info is not None and pod.info.node in away and entry is not None:
                reason = core.health.bad.get(pod.info.node, "")
                why = f"node {pod.info.node} is lost: {reason}"
                found.append(LostMember(entry.ref, why, dead=True))
        return found
