"""Affinity groups and their states.

A group is frozen: every change puts a new one into the table, and only along an arrow of `TRANSITIONS`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.scheduler.decision import NO_LEAF, BindInfo, Placed, Slot
from paictl.scheduler.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.scheduler.journal import Journal
    from paictl.scheduler.request import Member, PodRequest


class GroupState(StrEnum):
    """What a group is doing."""

    ALLOCATED = "Allocated"
    PREEMPTING = "Preempting"
    BEING_PREEMPTED = "BeingPreempted"


class Hold(StrEnum):
    """By what right a group holds its leaves."""

    NONE = ""
    """No group holds them."""
    GUARANTEED = "guaranteed"
    OPPORTUNISTIC = "opportunistic"
    LAZY = "lazily preempted"
    """It had a guarantee, lost it to another group, and keeps running until its devices are needed."""
    PREEMPTING = "preempting"
    """It does not run yet: it has reserved leaves and waits for their users to go."""


TRANSITIONS: Final = frozenset(
    {
        (None, GroupState.ALLOCATED),  # a bind, or a recovery
        (None, GroupState.PREEMPTING),  # a preemption starts
        (GroupState.PREEMPTING, GroupState.ALLOCATED),  # its victims are gone
        (GroupState.PREEMPTING, None),  # it is cancelled
        (GroupState.ALLOCATED, GroupState.BEING_PREEMPTED),  # it becomes a victim
        (GroupState.BEING_PREEMPTED, GroupState.ALLOCATED),  # it is no longer being preempted
        (GroupState.ALLOCATED, None),  # its last pod is gone
        (GroupState.BEING_PREEMPTED, None),
    }
)


@frozen
class Group:
    """An affinity group. `physical`, `virtual` and `pods` are per member (ascending leaf cells) and pod."""

    name: str
    vc: str
    priority: int
    lazy_preemption: bool
    ignore_suggested: bool
    members: tuple[Member, ...]
    state: GroupState
    physical: Placed[PhysicalCell]
    virtual: Placed[VirtualCell] | None
    pods: tuple[tuple[str, ...], ...]
    """Uid per slot, empty for a slot without pod."""
    preempting: frozenset[str] = frozenset()
    """Uids of the pods that wait for the preemption."""
    info: BindInfo | None = None
    """The annotation that it was recovered from, if the configuration no longer has some of its leaves."""
    preemptor: str | None = None
    """The group that took its virtual leaves, if it was lazily preempted."""
    preempted_at: float | None = None
    """When, in seconds, by the caller's clock."""
    levels: Placed[int] | None = None
    """If it was lazily preempted: the level of the preassigned cell that each leaf had."""
    pinned_id: str = ""

    def placements(self) -> Iterator[tuple[Slot, tuple[PhysicalCell, ...], tuple[VirtualCell, ...] | None]]:
        """Every pod's slot with its physical and virtual leaves."""
        for member, pods in enumerate(self.physical):
            for pod, leaves in enumerate(pods):
                yield Slot(member, pod), leaves, self.virtual[member][pod] if self.virtual else None

    def leaves(self) -> Iterator[PhysicalCell]:
        """Every physical leaf that still exists."""
        for pods in self.physical:
            for leaves in pods:
                for leaf in leaves:
                    if leaf != NO_LEAF:
                        yield leaf

    def free_slot(self, leaf_number: int) -> Slot | None:
        """First slot without a pod among those of this number of leaf cells, None if all are taken."""
        for member, (leaves, _) in enumerate(self.members):
            if leaves == leaf_number and "" in self.pods[member]:
                return Slot(member, self.pods[member].index(""))
        return None


def hold_of(group: Group | None) -> Hold:
    """By what right a group holds its leaves."""
    if group is None:
        return Hold.NONE
    if group.state is GroupState.PREEMPTING:
        return Hold.PREEMPTING
    if group.virtual is not None:
        return Hold.GUARANTEED
    return Hold.OPPORTUNISTIC if group.priority < 0 else Hold.LAZY


def new_group(
    request: PodRequest, state: GroupState, physical: Placed[PhysicalCell], virtual: Placed[VirtualCell] | None
) -> Group:
    """A group without pods, as its first pod describes it."""
    return Group(
        request.group,
        request.vc,
        request.priority,
        request.lazy_preemption,
        request.ignore_suggested,
        request.members,
        state,
        physical,
        virtual,
        tuple(("",) * pods for _, pods in request.members),
        pinned_id=request.pinned_id,
    )


class Groups:
    """All groups by name, and their pods."""

    __slots__ = ("by_name", "demoted", "journal", "slots", "touched", "waiting")

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.by_name: dict[str, Group] = journal.table("groups.by_name", {})
        self.slots: dict[str, tuple[str, Slot, str]] = journal.table("groups.slots", {})
        """Group, slot and node of each allocated pod, by uid."""
        self.waiting: dict[str, str] = journal.table("groups.waiting", {})
        """Preempting group of each pod that waits for its victims, by uid."""
        self.demoted: dict[str, bool] = journal.table("groups.demoted", {})
        """Names of the groups that were lazily preempted."""
        self.touched: dict[str, Group | None] = {}
        """Groups that the current operation has changed, as they were before it."""

    def put(self, group: Group) -> Group:
        """Enter or change a group."""
        old = self._check(group.name, group.state)
        self.touched.setdefault(group.name, old)
        self.journal.put(self.by_name, group.name, group)
        self._note_demoted(group.name, demoted=group.preemptor is not None)
        return group

    def remove(self, group: Group) -> None:
        """Remove a group."""
        old = self._check(group.name, None)
        self.touched.setdefault(group.name, old)
        self.journal.drop(self.by_name, group.name)
        self._note_demoted(group.name, demoted=False)

    def _note_demoted(self, name: str, *, demoted: bool) -> None:
        if demoted and name not in self.demoted:
            self.journal.put(self.demoted, name, True)
        elif not demoted and name in self.demoted:
            self.journal.drop(self.demoted, name)

    def attach(self, uid: str, group: Group, slot: Slot, node: str) -> None:
        """A pod runs in a slot."""
        self.journal.put(self.slots, uid, (group.name, slot, node))
        self.put(replace(group, pods=_with(group.pods, slot, uid)))

    def detach(self, uid: str) -> Group:
        """A pod is gone; returns its group without it (which may have no pod left)."""
        name, slot, _ = self.slots[uid]
        self.journal.drop(self.slots, uid)
        group = self.by_name[name]
        return self.put(replace(group, pods=_with(group.pods, slot, "")))

    def wait(self, uid: str, group: Group) -> None:
        """A pod waits for the preemption of its group."""
        if uid not in group.preempting:
            self.journal.put(self.waiting, uid, group.name)
            self.put(replace(group, preempting=group.preempting | {uid}))

    def leave(self, uid: str) -> Group:
        """A pod no longer waits; returns its group, which may have no waiting pod left."""
        group = self.by_name[self.waiting[uid]]
        self.journal.drop(self.waiting, uid)
        return self.put(replace(group, preempting=group.preempting - {uid}))

    def stop_waiting(self, group: Group) -> None:
        """No pod waits for this group any more."""
        for uid in group.preempting:
            self.journal.drop(self.waiting, uid)

    def _check(self, name: str, state: GroupState | None) -> Group | None:
        old = self.by_name.get(name)
        before = old.state if old else None
        if before != state and (before, state) not in TRANSITIONS:
            raise InvariantError(f"group {name} cannot go from {before} to {state}")
        return old


class GroupsByVc:
    """The groups of each virtual cluster, and a count of their changes, which tells callers when a cache is stale.

    Derived from the state, not a part of it; imagined changes are not counted.
    """

    __slots__ = ("_changes", "_groups", "_source")

    def __init__(self, source: dict[str, Group]) -> None:
        self._source = source
        self._groups: dict[str, dict[str, Group]] = {}
        self._changes: dict[str, int] = {}
        for name, group in source.items():
            self._groups.setdefault(group.vc, {})[name] = group

    def of(self, vc: str) -> dict[str, Group]:
        """The groups of a virtual cluster by name; must not be changed."""
        return self._groups.get(vc, {})

    def changes(self, vc: str) -> int:
        """How often they have changed: while the number stays the same, so do the groups."""
        return self._changes.get(vc, 0)

    def note(self, name: str, before: Group | None) -> None:
        """A group has changed; `before` is what it was."""
        after = self._source.get(name)
        if before is not None and (after is None or after.vc != before.vc):
            self._drop(name, before.vc)
        if after is not None:
            self._groups.setdefault(after.vc, {})[name] = after
            self._changes[after.vc] = self._changes.get(after.vc, 0) + 1

    def _drop(self, name: str, vc: str) -> None:
        self._groups[vc].pop(name, None)
        self._changes[vc] = self._changes.get(vc, 0) + 1


def _with(pods: tuple[tuple[str, ...], ...], slot: Slot, uid: str) -> tuple[tuple[str, ...], ...]:
    """`pods` with one slot changed."""
    row = pods[slot.member]
    row = (*row[: slot.pod], uid, *row[slot.pod + 1 :])
    return (*pods[: slot.member], row, *pods[slot.member + 1 :])
