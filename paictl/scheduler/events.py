"""Events that the engine is told about, and the changes that it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.frozen import frozen

if TYPE_CHECKING:
    from paictl.scheduler.decision import BindInfo
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest


@frozen
class NodeHealth:
    """A node is ready and schedulable, or it is not (or gone)."""

    name: str
    healthy: bool


@frozen
class LeafHealth:
    """A device of a node is usable or not, independently of the node's own health."""

    node: str
    device: int
    healthy: bool


@frozen
class PodGone:
    """A pod was deleted or ended, whether it ran or waited."""

    uid: str


@frozen
class PodWaits:
    """A pod of a preempting group was seen: the preemption lasts as long as the pod."""

    uid: str
    group: str


@frozen
class PodRecovered:
    """After a restart: a running pod, with the annotations it carries."""

    request: PodRequest
    info: BindInfo


Event = NodeHealth | LeafHealth | PodGone | PodWaits | PodRecovered


@frozen
class GroupChange:
    """A group before and after an operation; None where it did not exist."""

    name: str
    before: Group | None
    after: Group | None


@frozen
class Ignored:
    """An event about something that the engine does not know; a warning, not an error."""

    event: Event
    reason: str


Outcome = GroupChange | Ignored


@frozen
class RunningPod:
    """A running pod as Kubernetes knows it after a restart."""

    request: PodRequest
    info: BindInfo
