"""The bind annotation of a decision: where the pod and the rest of its group run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.scheduler.decision import NO_LEAF, Bind, BindInfo, PodPlacement, Slot

if TYPE_CHECKING:
    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.scheduler.state import State


def bind_info(state: State, decision: Bind) -> BindInfo:
    """The annotation of the pod that `decision` binds.

    Leaves that the configuration no longer has are filled in from the annotation that the group was recovered
    from: a running pod stays where it is.
    """
    group = state.groups.by_name.get(decision.request.group)
    old = group.info if group else None
    placement, tree = decision.placement, state.physical
    members = []
    for member, pods in enumerate(placement.physical):
        row = []
        for pod, leaves in enumerate(pods):
            virtual = placement.virtual[member][pod] if placement.virtual else None
            row.append(_pod(state, leaves, virtual, _old_place(old, len(leaves), Slot(member, pod))))
        members.append(tuple(row))
    mine = members[decision.slot.member][decision.slot.pod]
    first = placement.physical[decision.slot.member][decision.slot.pod][0]
    chain = tree.chains[tree.chain[first]].name if first != NO_LEAF else old.chain if old else ""
    return BindInfo(mine.node, mine.devices, chain, tuple(members))


def _old_place(old: BindInfo | None, leaf_number: int, slot: Slot) -> PodPlacement | None:
    for pods in old.members if old else ():
        if pods and len(pods[0].devices) == leaf_number and slot.pod < len(pods):
            return pods[slot.pod]
    return None


def _pod(
    state: State, leaves: tuple[PhysicalCell, ...], virtual: tuple[VirtualCell, ...] | None, old: PodPlacement | None
) -> PodPlacement:
    tree, cells = state.physical, state.virtual
    if NO_LEAF not in leaves:
        types = tuple(cells.type_of(cells.root[twin]) for twin in virtual) if virtual else ("",) * len(leaves)
        return PodPlacement(tree.node_name(leaves[0]), tuple(map(tree.device, leaves)), types)
    node, devices, kinds = (old.node if old else ""), [], []
    for i, leaf in enumerate(leaves):
        if leaf == NO_LEAF:
            devices.append(old.devices[i] if old else NO_LEAF)
            kinds.append((old.preassigned[i] if old.preassigned else "") if old else "")
        else:
            devices.append(tree.device(leaf))
            kinds.append(cells.type_of(cells.root[virtual[i]]) if virtual else "")
    return PodPlacement(node, tuple(devices), tuple(kinds))
