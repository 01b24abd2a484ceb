"""What the engine decides, as data: `Bind`, `Preempt` or `Wait`. Text is made at the edge."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from paictl.cells.ids import NO_PHYSICAL
from paictl.frozen import frozen

if TYPE_CHECKING:
    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.scheduler.request import PodRequest

T = TypeVar("T")

Placed = tuple[tuple[tuple[T, ...], ...], ...]
"""A value (the cell itself, or its level) for each leaf cell of a group, by member, pod of that member and leaf."""

NO_LEAF: Final = NO_PHYSICAL
"""In the place of a physical leaf cell that the configuration no longer has."""


class Phase(StrEnum):
    """Which extender call asks: filtering may bind, only preempting may start a preemption."""

    FILTERING = "Filtering"
    PREEMPTING = "Preempting"


@frozen
class PodPlacement:
    """Where one pod of a group goes, as written to the bind annotation."""

    node: str
    devices: tuple[int, ...]
    preassigned: tuple[str, ...] | None
    """Preassigned cell type per device, empty texts without a guarantee; None in annotations of old versions."""


@frozen
class BindInfo:
    """The bind annotation: enough to rebuild the group from any one of its pods."""

    node: str
    devices: tuple[int, ...]
    chain: str
    members: tuple[tuple[PodPlacement, ...], ...]
    """In ascending order of leaf cells per pod."""
    repairs: int = 0
    """Grows with each repair of the group: of several annotations, the one with the most says where all members are."""

    def place_at(self, slot: Slot) -> tuple[str, tuple[int, ...]] | None:
        """Node and devices of a slot of the group; None if the annotation does not have it."""
        if slot.member >= len(self.members) or slot.pod >= len(self.members[slot.member]):
            return None
        place = self.members[slot.member][slot.pod]
        return place.node, place.devices

    def has_places_of(self, other: BindInfo) -> bool:
        """Whether both annotations have all members in the same places."""
        if self.members is other.members:
            return True
        ours, theirs = (
            [[(place.node, place.devices) for place in pods] for pods in info.members] for info in (self, other)
        )
        return ours == theirs


@frozen
class Placement:
    """A whole group on physical and, for a guaranteed group, virtual leaves."""

    physical: Placed[PhysicalCell]
    virtual: Placed[VirtualCell] | None


class Slot(NamedTuple):
    """Position of a pod in its group."""

    member: int
    pod: int


class Failure(StrEnum):
    """Why a view has no place for a group."""

    CAPACITY = "insufficient capacity"
    BAD_NODE = "needs a bad node"
    NOT_SUGGESTED = "needs a node that is not suggested"
    MAPPING = "its virtual cells would need a bad or non-suggested node"
    SHIELDED = "weaker jobs have not run for their minimum run time yet"


@frozen
class RejectedView:
    """A view that has no place for a group. `view` is ``chain NAME`` or ``pinned cell ID``."""

    view: str
    vc: str
    """Empty for the physical view of an opportunistic group."""
    failure: Failure
    free: int
    """Unused leaves of the view's healthy nodes, suggested or not; leaves that could be preempted do not count."""
    needed: int
    """Leaves that the group asks for."""


@frozen
class Bind:
    """Run the pod in `slot` of its group, whose whole placement is `placement`.

    If the group is new, `lazy` are the groups that lose their virtual leaves to it, and `cancel` those whose
    preemption it overrules. `engine.bind_info` makes the annotation.
    """

    request: PodRequest
    version: int
    slot: Slot
    placement: Placement
    lazy: tuple[str, ...] = ()
    cancel: tuple[str, ...] = ()
    joins: bool = False
    """Whether the group was preempting until now, and the pod one of those that waited for it."""
    repairs: bool = False
    """Whether the group is running and `slot` moves to its place in `placement`; other empty slots may move as well."""


@frozen
class Preempt:
    """`victims` must go first: node name and the uids of the pods there, both in order.

    With a `placement`, a new preemption starts there when the decision is applied; without one, the group is already
    preempting (`joins`) or the phase does not allow it. With `repairs`, the place is for these slots of a running
    group, and `request` stands in for their members (`repair.member_request`).
    """

    request: PodRequest
    version: int
    victims: tuple[tuple[str, tuple[str, ...]], ...]
    placement: Placement | None = None
    lazy: tuple[str, ...] = ()
    cancel: tuple[str, ...] = ()
    joins: bool = False
    repairs: tuple[str, tuple[Slot, ...]] | None = None


@frozen
class Wait:
    """Nothing fits now: one `RejectedView` per view, in the order tried."""

    request: PodRequest
    version: int
    attempts: tuple[RejectedView, ...] = ()
    cancel: tuple[str, ...] = field(default=())

    @property
    def reason(self) -> str:
        """One line: why the last view failed."""
        if not self.attempts:
            return "no view to look at"
        last = self.attempts[-1]
        where = f"VC {last.vc}, {last.view}" if last.vc else last.view
        enough = last.failure is Failure.CAPACITY and last.free >= last.needed
        scattered = ", but no node has room left for one of its pods" if enough else ""
        return f"{last.failure} in {where}: {last.needed} leaf cells needed, {last.free} free{scattered}"


Decision = Bind | Preempt | Wait
