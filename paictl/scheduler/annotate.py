"""The bind annotation of a decision: where the pod and the rest of its group run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paictl.cells.ids import NO_VIRTUAL
from paictl.scheduler.decision import NO_LEAF, Bind, BindInfo, PodPlacement, Slot

if TYPE_CHECKING:
    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.scheduler.decision import Placed, Placement
    from paictl.scheduler.state import State


UNKNOWN: Final = "?"
"""A preassigned cell type that no chain has."""


class Annotator:
    """Makes the annotations of pods; the rows of their group are the same for all of them and made once.

    A gang of 512 pods has 512 annotations of 512 rows.
    """

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._rows: tuple[tuple[PodPlacement, ...], ...] = ()

    def bind_info(self, state: State, decision: Bind, *, promised: bool = False) -> BindInfo:
        """The annotation of the pod that `decision` binds.

        Leaves that the configuration no longer has are filled in from the annotation that the group was recovered
        from: a running pod stays where it is. A lazily preempted group has no preassigned cells; with `promised` its
        annotation names those that it was bound with, so that it asks for its guarantee again after a restart.
        """
        group = state.groups.by_name.get(decision.request.group)
        old = group.info if group else None
        levels = group.levels if group and promised else None
        placement, tree = decision.placement, state.physical
        # all that the rows depend on besides the configuration; immutable, so the same objects give the same rows
        basis = state, placement.physical, placement.virtual, levels, old
        if len(basis) != len(self._basis) or any(
            part is not cached for part, cached in zip(basis, self._basis, strict=True)
        ):
            self._basis, self._rows = basis, _rows(state, placement, levels, old)
        place = self._rows[decision.slot.member][decision.slot.pod]
        first = placement.physical[decision.slot.member][decision.slot.pod][0]
        chain = tree.chains[tree.chain[first]].name if first != NO_LEAF else old.chain if old else ""
        return BindInfo(place.node, place.devices, chain, self._rows)


def _rows(
    state: State, placement: Placement, levels: Placed[int] | None, old: BindInfo | None
) -> tuple[tuple[PodPlacement, ...], ...]:
    """Where each pod of a group runs."""
    members = []
    for member, pods in enumerate(placement.physical):
        row = []
        for pod, leaves in enumerate(pods):
            virtual = placement.virtual[member][pod] if placement.virtual else None
            kinds = _preassigned(state, leaves, virtual, levels[member][pod] if levels else None)
            place = _old_place(old, len(leaves), Slot(member, pod))
            row.append(_pod(state, leaves, kinds, place, promised=placement.virtual is not None))
        members.append(tuple(row))
    return tuple(members)


def _old_place(old: BindInfo | None, leaf_number: int, slot: Slot) -> PodPlacement | None:
    for pods in old.members if old else ():
        if pods and len(pods[0].devices) == leaf_number and slot.pod < len(pods):
            return pods[slot.pod]
    return None


def _preassigned(
    state: State,
    leaves: tuple[PhysicalCell, ...],
    virtual: tuple[VirtualCell, ...] | None,
    levels: tuple[int, ...] | None,
) -> tuple[str, ...]:
    """Preassigned cell type of each existing leaf, empty without a guarantee; what `NO_LEAF` gets is not used."""
    cells, tree = state.virtual, state.physical
    if virtual:
        return tuple(cells.type_of(cells.root[twin]) if twin != NO_VIRTUAL else "" for twin in virtual)
    if not levels:
        return ("",) * len(leaves)
    return tuple(
        tree.chains[tree.chain[leaf]].types[level] if leaf != NO_LEAF and level > 0 else UNKNOWN
        for leaf, level in zip(leaves, levels, strict=True)
    )


def _pod(
    state: State,
    leaves: tuple[PhysicalCell, ...],
    kinds: tuple[str, ...],
    old: PodPlacement | None,
    *,
    promised: bool,
) -> PodPlacement:
    tree = state.physical
    if NO_LEAF not in leaves:
        return PodPlacement(tree.node_name(leaves[0]), tuple(map(tree.device, leaves)), kinds)
    devices, types = [], []
    absent = UNKNOWN if old is None and promised else ""  # "" would mean that its group has no guarantee
    for i, leaf in enumerate(leaves):
        if leaf == NO_LEAF:
            devices.append(old.devices[i] if old else NO_LEAF)
            types.append(old.preassigned[i] if old and old.preassigned else absent)
        else:
            devices.append(tree.device(leaf))
            types.append(kinds[i])
    return PodPlacement(old.node if old else "", tuple(devices), tuple(types))
