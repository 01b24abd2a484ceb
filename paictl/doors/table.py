"""The pods that the API server has reported.

What a caller of filter, bind or preempt says about a pod is compared with its entry and never becomes one: otherwise
any client that reaches the port could invent a virtual cluster and a priority for a pod.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from paictl.cluster.kubernetes.names import run_limit, user_of
from paictl.cluster.pods.feasibility import PodDemand
from paictl.cluster.pods.labels import Reading, Rules
from paictl.cluster.pods.reading import is_too_large, read_pod, source_of
from paictl.cluster.pods.times import began_at, checkpoint_every, created_at, promised_at, reservation_of
from paictl.doors.podgroups import PodGroups
from paictl.frozen import frozen
from paictl.scheduler.errors import RequestError
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group


@frozen
class PodRef:
    """Namespace, name and uid of a pod."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class NamelessPodError(ValueError):
    """A pod object lacks a name or a uid."""


class UnknownPodError(Exception):
    """A caller's pod differs from the API server's; the message says how.

    An honest kube-scheduler may hear of a change a moment earlier or later than this process: it has to ask again.
    """

    def __init__(self, pod: Mapping[str, Any], message: str) -> None:
        super().__init__(message)
        self.pod = pod
        """What the caller sent."""


LATE: Final = 60.0
"""Seconds for which a request without an answer may still be carried out; the API server stops after 34."""
UNVERSIONED: Final = -1
"""The version of an answer that depends on more than the engine: it is valid for one question only."""


@frozen
class CachedDecision:
    """The answer about a pod, valid as long as the engine has this version."""

    version: int
    kind: str
    """``bind``, ``insist``, ``preempt``, ``wait``, ``refused``."""
    reason: str = ""
    node: str = ""
    offered: frozenset[str] | None = None
    """The nodes that were offered, if they counted."""
    usage: int | None = None
    """The version of the node usage that it depends on; None if it does not."""
    closed: frozenset[str] = frozenset()
    """The nodes that maintenance windows closed to the pod."""
    limit: Millis | None = None
    """For how long its gang ran at most, as far as its pods were known."""


@dataclass(slots=True)
class PodEntry:
    """One pod. Seconds are those of a monotonic clock."""

    ref: PodRef
    source: tuple[object, ...] = ()
    too_large: bool = False
    """Whether it could not be evicted from a place; kube-scheduler's copy of a pod is smaller than the API server's."""
    reading: Reading | None = None
    problem: RequestError | None = None
    """Why it cannot be read."""
    cached: CachedDecision | None = None
    asked_at: float = 0.0
    """When kube-scheduler last asked about it; until then, when the pod was first seen."""
    first_seen: float = 0.0
    """When it was first seen."""
    missing: str = ""
    """The text of its last event about missing pods of its gang."""
    was_asked: bool = False
    """Whether kube-scheduler has asked this process about it."""
    demand: PodDemand | None = None
    """What it demands of a node, while it waits; None until the API server has reported it."""
    user: str = ""
    """Its owner: the user of a job of paictl, else its namespace."""
    lacks_room: bool = False
    """Whether kube-scheduler last reported that no node has enough left for it."""
    examined: tuple[int, int] = (-1, -1)
    """Versions of the engine and of the node usage when it was last decided without a question."""
    declined: frozenset[str] = frozenset()
    """Nodes of places that it lost at the deadline because kube-scheduler did not offer them."""
    declined_until: float = 0.0
    """When they are tried again even if they are not offered: a node that others fill never is."""
    unoffered: bool = False
    """Whether kube-scheduler did not offer the node of its place when it last asked."""
    assumed: float = 0.0
    """Since when it holds devices without a confirmed binding; 0 if it does not."""
    attempts: int = 0
    """How often the same node was answered without a binding."""
    binding: bool = False
    """Whether a binding is under way."""
    unanswered_until: float = 0.0
    """Until when, by the core's clock, a binding or pin that got no answer may still be made; its place is kept."""
    pod_group: str = ""
    """The PodGroup that it names: kube-scheduler decides about all of its pods in one cycle."""
    listed: bool = False
    """Whether the informer has reported it; a pod that was only fetched may go without any news."""
    deleting: bool = False
    grace: float = 0.0
    """The grace period in its specification, in seconds."""
    leaves_by: float = 0.0
    """When it must have ended at the latest, as Unix time, once it is being deleted."""
    gated: bool = False
    """Whether it has scheduling gates, and must not be scheduled yet."""
    runs: bool = False
    """Whether it is bound, by any scheduler, or pinned by a placer."""
    bound: bool = False
    """Whether it is bound: from then on its owner can change nothing about its request."""
    requeued: float = 0.0
    """When kube-scheduler was last made to ask again."""
    requeues: int = 0
    """How often since it last asked."""
    confirmed: str = ""
    """The bind annotation under which it is known to run."""
    limit: Millis | None = None
    """How long it runs at most; None if it does not say."""
    began: Millis | None = None
    """When it began to run, in milliseconds since 1970."""
    checkpoint: Millis | None = None
    """The interval between its checkpoints; None if it does not say."""
    reservation: str = ""
    """The reservation that it names."""
    promised: Millis | None = None
    """The promised start of its gang recorded in its object, in milliseconds since 1970."""
    created: str = ""
    """When it was created, as the API server writes it."""


def pod_ref(pod: Mapping[str, Any]) -> PodRef:
    """The reference to a pod. Raises `NamelessPodError` if it lacks a name or a uid."""
    metadata = pod.get("metadata") or {}
    namespace, name, uid = (str(metadata.get(key) or "") for key in ("namespace", "name", "uid"))
    if not name or not uid:
        raise NamelessPodError("a pod has no name or no uid")
    return PodRef(namespace or "default", name, uid)


REMEMBERED: Final = 10_000
"""Pods that are remembered as gone: more than can go while one question is under way."""
GangKey: TypeAlias = tuple[str, str]
"""A namespace and the name of an affinity group; an empty namespace where all of them share the names."""


class PodTable:
    """Entries by uid and by name."""

    def __init__(self, rules: Rules, longest_grace: float, *, apart: bool = False) -> None:
        """`longest_grace`: how many seconds a victim gets at most. `apart`: whether namespaces are tenants, so that no
        gang has pods of two of them."""
        self.apart = apart
        self.rules = rules
        self._longest_grace = longest_grace
        self.by_uid: dict[str, PodEntry] = {}
        self._uid_by_key: dict[str, str] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._limits: dict[GangKey, Counter[Millis | None]] = {}
        """How many known pods of each gang have which limit."""
        self._counted: dict[str, tuple[GangKey, Millis | None]] = {}
        """By uid what a pod counts as there."""
        self.heard: Callable[[PodEntry], None] = lambda _: None
        """Called with each entry that is added, changed or gone."""
        self.pod_groups = PodGroups()

    def __iter__(self) -> Iterator[PodEntry]:
        return iter(self.by_uid.values())

    def meet(self, pod: Mapping[str, Any], now: float = 0.0) -> PodEntry:
        """The entry of a pod object, read again if its request has changed."""
        ref = pod_ref(pod)
        entry = self.by_uid.get(ref.uid)
        if entry is None:
            entry = self.by_uid[ref.uid] = PodEntry(ref, asked_at=now, first_seen=now)
            self._uid_by_key[ref.key] = ref.uid
        entry.user = user_of(pod)
        entry.limit, entry.began, entry.created = run_limit(pod), began_at(pod), created_at(pod)
        entry.promised = promised_at(pod)
        entry.checkpoint = checkpoint_every(pod, self._longest_grace)
        entry.reservation = reservation_of(pod)
        entry.pod_group = self.pod_groups.meet(pod)
        pod_group = self.pod_groups.of(pod)
        source, too_large = source_of(pod, pod_group), is_too_large(pod)
        if (entry.source, entry.too_large) != (source, too_large):
            entry.source, entry.too_large, entry.cached = source, too_large, None
            try:
                entry.reading, entry.problem = read_pod(pod, ref.uid, ref.key, self.rules, pod_group), None
            except RequestError as error:
                entry.reading, entry.problem = None, error
        self._uncount(ref.uid)
        if entry.reading is not None:
            counted = self._counted[ref.uid] = self.gang(ref, entry.reading.request.group), entry.limit
            self._limits.setdefault(counted[0], Counter())[entry.limit] += 1
        self.heard(entry)
        return entry

    def _uncount(self, uid: str) -> None:
        if (counted := self._counted.pop(uid, None)) is not None:
            gang, limit = counted
            limits = self._limits[gang]
            limits[limit] -= 1
            if not limits[limit]:
                del limits[limit]
            if not limits:
                del self._limits[gang]

    def limit_of(self, entry: PodEntry) -> Millis | None:
        """How long a pod's gang runs at most, as far as its pods are known: for as long as any of them; None: for ever.

        One pod with a short limit must not bring the others where they may not run for so long.
        """
        if entry.ref.uid not in self._counted:
            return entry.limit
        limits = [entry.limit, *self._limits[self._counted[entry.ref.uid][0]]]
        return None if None in limits else max(limit for limit in limits if limit is not None)

    def gang(self, pod: PodRef, group: str) -> GangKey:
        """What the pods of a gang have in common: anybody may name the group of another namespace in a pod."""
        return pod.namespace if self.apart else "", group

    def holder(self, group: Group | None) -> str:
        """The namespace whose pods have a group's place, or wait for it; empty if no such pod is known."""
        uids = () if group is None else chain(*group.pods, group.preempting)
        namespaces = (self.by_uid[uid].ref.namespace for uid in uids if uid in self.by_uid)
        return next(namespaces, "")

    def named_by(self, pod: Mapping[str, Any]) -> PodEntry:
        """The entry of the pod that a caller sent.

        Raises `UnknownPodError` if the API server has not reported it yet, if it has another name under this uid, or
        if its request differs from what the caller says.
        """
        ref = pod_ref(pod)
        entry = self.by_uid.get(ref.uid)
        if entry is None:
            raise UnknownPodError(
                pod, f"the API server has not reported pod {ref.key} with uid {ref.uid} yet: ask again"
            )
        if entry.ref != ref:
            raise UnknownPodError(pod, f"uid {ref.uid} is not the uid of pod {ref.key}")
        if entry.source != source_of(pod, self.pod_groups.of(pod)):
            raise UnknownPodError(
                pod,
                f"pod {ref.key} has other scheduling annotations or labels at the API server than in this request: "
                "ask again",
            )
        return entry

    def find(self, namespace: str, name: str) -> PodEntry | None:
        """The newest pod of that name."""
        return self.by_uid.get(self._uid_by_key.get(f"{namespace}/{name}", ""))

    def has_gone(self, uid: str) -> bool:
        """Whether a pod is known to be gone: a question about it that was under way must not bring it back."""
        return uid in self._gone

    def forget(self, uid: str) -> PodEntry | None:
        """A pod is gone for good: its uid is never used again."""
        self._gone[uid] = None
        while len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
        entry = self.by_uid.pop(uid, None)
        self._uncount(uid)
        if entry is not None and self._uid_by_key.get(entry.ref.key) == uid:
            del self._uid_by_key[entry.ref.key]
        if entry is not None:
            self.heard(entry)
        return entry

    def same_user(self, uid: str, other: str) -> bool:
        """Whether two pods are known to be of the same user of jobs of ours, or of the same namespace."""
        first, second = self.by_uid.get(uid), self.by_uid.get(other)
        return first is not None and second is not None and first.user == second.user

    def name(self, uid: str) -> str:
        """``namespace/name`` of a pod, its uid if the pod is not known."""
        entry = self.by_uid.get(uid)
        return entry.ref.key if entry else uid
