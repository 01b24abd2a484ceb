"""What waits in the queue of the embedded cluster: buckets of equal requests, and what a release means to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from paictl.frozen import frozen

if TYPE_CHECKING:
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State


@frozen
class EverythingChanged:
    """All may have changed, for instance the hardware."""


@frozen
class OfVc:
    """Cells that a group of a virtual cluster held with a guarantee are free."""

    vc: str


@frozen
class WithoutGuarantee:
    """Cells that an opportunistic or demoted group held are free."""


Release: TypeAlias = EverythingChanged | OfVc | WithoutGuarantee
"""What was released, as far as it matters to those who wait."""
ANYTHING: Final = EverythingChanged()

Signature: TypeAlias = tuple[object, ...]
"""Everything of a request that its group's placement depends on."""


@dataclass(slots=True)
class Bucket:
    """Waiting groups that ask for the same, in the order in which they are tried."""

    order: list[tuple[int, int, str]] = field(default_factory=list)
    """(-priority, number of the job, group)."""
    refused: bool = False


def signature(request: PodRequest) -> Signature:
    """What two requests have in common if they must get the same answer; the VC is None where no quota is used."""
    return (
        request.vc if request.guaranteed else None, request.priority, request.members, request.leaf_type,
        request.pinned_id, request.lazy_preemption, request.ignore_suggested,
    )  # fmt: skip


def shown_as_bad(state: State) -> dict[int, int]:
    """Leaf cells that are bad, and the virtual cell that each of them is shown as, which a start may change."""
    tree, health = state.physical, state.health
    leaves = {leaf for name in health.bad_nodes for cell in tree.nodes[name] for leaf in tree.leaves(cell)}
    return {leaf: state.binding.virtual[leaf] for leaf in leaves.union(health.bad_leaves)}
