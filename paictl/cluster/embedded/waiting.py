"""What waits in the queue of the embedded cluster: buckets of equal requests, and what a release means to them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from paictl.frozen import frozen

if TYPE_CHECKING:
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.units import Millis
    from paictl.workload.startpromises import LineRow


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

    order: list[LineRow] = field(default_factory=list)
    """(-priority, number of the job, group)."""
    refused: bool = False
    """Whether the answer was no, and nothing that matters was released since."""


def signature(request: PodRequest) -> Signature:
    """What two requests have in common if they must get the same answer; the VC is None where no quota is used."""
    return (
        request.vc if request.guaranteed else None,
        request.priority,
        request.members,
        request.leaf_type,
        request.pinned_id,
        request.lazy_preemption,
        request.ignore_suggested,
    )


class WaitingGangs:
    """The waiting pods by group, and the groups by what they ask for: equal requests get the same answer."""

    def __init__(self) -> None:
        self._pods: dict[str, PodRequest] = {}
        """By uid, in the order in which they came."""
        self.groups: dict[str, dict[str, None]] = {}
        """Uids of the waiting pods of a group, in order."""
        self.buckets: dict[Signature, Bucket] = {}
        self._numbers: dict[str, int] = {}
        self.limits: dict[str, Millis | None] = {}
        """How long the jobs of groups run at most."""
        self.reservations: dict[str, str] = {}
        """The reservations that groups are for, where they name one."""
        self.owner: Callable[[PodRequest], str] | None = None
        """The user of a pod, where answers depend on it; set by `count_by`."""

    def __contains__(self, group: object) -> bool:
        return group in self.groups

    def add(self, request: PodRequest, number: int, limit: Millis | None, reservation: str) -> None:
        """A pod waits; see `Dispatcher.add`."""
        self._pods[request.uid] = request
        pods = self.groups.setdefault(request.group, {})
        if not pods:
            self._numbers[request.group], self.limits[request.group] = number, limit
            if reservation:
                self.reservations[request.group] = reservation
            self._sort_in(request)
        pods[request.uid] = None

    def remove(self, uid: str) -> PodRequest | None:
        """A pod waits no longer; None if it did not."""
        request = self._pods.pop(uid, None)
        if request is None:
            return None
        pods, group = self.groups[request.group], request.group
        del pods[uid]
        if not pods:
            key = self.kind(request)
            bucket = self.buckets[key]
            bucket.order.remove(self._place(request))
            if not bucket.order:
                del self.buckets[key]
            del self.groups[group], self.limits[group], self._numbers[group]
            self.reservations.pop(group, None)
        return request

    def kind(self, request: PodRequest) -> Signature:
        """What two waiting requests have in common if they get the same answer, and are held back by the same.

        That is what they ask for, how long they run, and, where users count, whose they are.
        """
        known: Signature = (*signature(request), self.limits[request.group])
        if request.group in self.reservations:
            known = (*known, f"reservation {self.reservations[request.group]}")
        if request.repair:  # a member of a gang that runs may get another answer than one of a new gang
            known = (*known, request.group)
        return known if self.owner is None else (*known, request.vc, self.owner(request))

    def _place(self, request: PodRequest) -> LineRow:
        return -request.priority, self._numbers[request.group], request.group

    def _sort_in(self, request: PodRequest) -> None:
        insort(self.buckets.setdefault(self.kind(request), Bucket()).order, self._place(request))

    def first_pod(self, group: str) -> PodRequest:
        """The request of a waiting group."""
        return self._pods[next(iter(self.groups[group]))]

    def pods_of(self, group: str) -> list[PodRequest]:
        """The waiting pods of a group, in order."""
        return [self._pods[uid] for uid in self.groups[group]]

    def head(self, bucket: Bucket) -> PodRequest:
        """The request of the first group of a bucket."""
        return self.first_pod(bucket.order[0][2])

    def bucket(self, group: str) -> Bucket:
        """The bucket that a waiting group is in."""
        return self.buckets[self.kind(self.first_pod(group))]

    def row(self, group: str) -> tuple[Signature, LineRow]:
        """The kind of a waiting group, and its place in the queue."""
        request = self.first_pod(group)
        return self.kind(request), self._place(request)

    def strongest(self) -> dict[str, int]:
        """The highest priority of the guaranteed pods that wait, by virtual cluster."""
        highest: dict[str, int] = {}
        for bucket in self.buckets.values():
            request = self.head(bucket)
            if request.guaranteed:
                highest[request.vc] = max(request.priority, highest.get(request.vc, 0))
        return highest

    def count_by(self, owner: Callable[[PodRequest], str] | None) -> None:
        """From now on the answer depends on the user, too, or no longer, with None; every group may be tried again."""
        self.owner = owner
        self.buckets.clear()
        for group in self.groups:
            self._sort_in(self.first_pod(group))

    def refuse(self, group: str) -> None:
        """A group was refused, and with it all of its kind, until something is released that matters to them."""
        self.bucket(group).refused = True

    def reconsider(self, release: Release = ANYTHING) -> None:
        """Give those refused requests another chance to which a release can matter.

        With healthy hardware a guaranteed request waits for the quota of its own VC and for nothing else (HiveD paper,
        VC safety), so a release elsewhere cannot help it; opportunistic ones may use whatever is free.
        """
        for (vc, *_), bucket in self.buckets.items():
            match release:
                case EverythingChanged():
                    bucket.refused = False
                case OfVc(name) if vc in (None, name):
                    bucket.refused = False
                case WithoutGuarantee() if vc is None:
                    bucket.refused = False

    def dump(self) -> dict[str, list[str]]:
        """Uids of the pods in the order in which they came, and the first group of each refused kind."""
        refused = [bucket.order[0][2] for bucket in self.buckets.values() if bucket.refused]
        return {"pods": list(self._pods), "refused": sorted(refused)}


def shown_as_bad(state: State) -> dict[int, int]:
    """Leaf cells that are bad, and the virtual cell that each of them is shown as, which a start may change."""
    tree, health = state.physical, state.health
    leaves = {leaf for name in health.bad_nodes for cell in tree.nodes[name] for leaf in tree.leaves(cell)}
    return {leaf: state.binding.virtual[leaf] for leaf in leaves.union(health.bad_leaves)}
