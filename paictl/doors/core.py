"""What a door knows: the book and the pod table behind one lock, kept up to date by what the API server says.

Nobody waits for a network while holding the lock. What has to be done outside (bind, evict, requeue, record) is handed
out as values and carried out by others, who report back here.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from paictl.cells.spec import ClusterSpec
from paictl.cluster.devices.claims import claiming_part
from paictl.cluster.devices.pod_claims import ClaimOptions, ClaimPendingError, PodClaims
from paictl.cluster.pods.feasibility import lacks_room, pod_demand, requests_of
from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.nodes import NodeStatus, NodeUsage
from paictl.cluster.pods.placed import bound_node, pinned_node
from paictl.cluster.pods.podgroups import PodGroup
from paictl.cluster.pods.reading import asks, ending, is_launcher, read_info
from paictl.cluster.pods.recovering import promised
from paictl.doors import pod_events
from paictl.doors.grants import Grants
from paictl.doors.health import DoorHealth
from paictl.doors.pod_events import PodEvent
from paictl.doors.sharing import DoorSharing
from paictl.doors.starts import DoorStarts
from paictl.doors.table import GangKey, PodEntry, PodRef, PodTable
from paictl.doors.window_state import DoorWindows
from paictl.frozen import frozen
from paictl.scheduler.book import reclassed
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.record import RecordedBook
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import BIND_INFO, GATE, BindInfoTexts
from paictl.units import Millis
from paictl.workload.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paictl.workload.budgets import Used


SLICE: Final = 0.002
"""Seconds for which work that can wait keeps the lock."""


class NotServingError(Exception):
    """Nothing can be answered now; the message says why, and kube-scheduler asks again."""


@frozen
class DoorOptions:
    """How a door behaves."""

    own_preemption: bool = True
    """Whether it evicts victims itself; otherwise kube-scheduler does by the preempt verb (1.38 and newer)."""
    deadline: float = 60.0
    """Seconds after which devices that were assumed for a pod and never bound are given back."""
    rules: Rules = field(default_factory=Rules)
    require_grants: bool = False
    """Whether a namespace has to have been granted the virtual clusters that its pods use."""
    gang_deadline: float | None = None
    """Seconds after the last new pod of a gang after which it gives its place back if others have not come."""
    bad_device_deadline: float | None = None
    """Seconds after which a gang is evicted of which a pod has a bad device; None: its pods are only told."""
    heal_after: float = 0.0
    """Seconds for which a bad node or device has to be good before it is used again."""
    no_claims: str = ""
    """Why claims cannot be allocated although they should: pods that have some wait."""
    pod_groups: str = ""
    """The path below which PodGroups are listed; empty where there are none."""
    claims: ClaimOptions | None = None
    """Which ResourceClaims get the devices of cells; None: the environment alone says which devices a pod has."""
    sharing: Sharing = field(default_factory=Sharing)
    """Budgets and limits for users."""
    longest_grace: float = 300.0
    """Seconds that a victim has for its end at most: its own grace period may be years."""


@frozen
class Binding:
    """A binding to be made."""

    ref: PodRef
    node: str
    annotations: Mapping[str, str]
    devices: tuple[int, ...] = ()
    """Indexes of the leaf cells, within the node."""


class DoorCore:
    """Answers for as long as this process leads; made anew whenever it begins to."""

    def __init__(
        self,
        spec: ClusterSpec,
        options: DoorOptions,
        record: Callable[[PodEvent], None],
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lock = threading.RLock()
        self.spec = spec
        self.options = options
        self.record = record
        self.wall = wall
        self.clock = clock
        self.table = PodTable(options.rules, options.longest_grace, apart=options.require_grants)
        self.grants = Grants()
        self.namespaces: set[str] = set()
        """Namespaces that the admission policies guard, as far as namespaces are followed."""
        self.doubted: dict[str, Mapping[str, Any]] = {}
        """Pods with a place that anybody may have written, by uid; they hold nothing."""
        self.usage = NodeUsage()
        """What all pods request, by node, those of other schedulers too."""
        self.departed: set[GangKey] = set()
        """Groups of which a pod has come and gone: those that are left need not wait for it."""
        self.book = RecordedBook(Engine(spec))
        self.texts = BindInfoTexts()
        """Writes bind annotations, under the lock."""
        self.allowances = DoorSharing(
            options.sharing, self.table, lambda: self.book.engine.state, lambda: Millis(int(1000 * wall()))
        )
        if options.sharing.chooses_victims:
            self.book.spare(self.allowances.sparing)
        self.is_open = False
        self.broken = ""
        """What made the engine stop; nothing is answered any more."""
        self.rival = ""
        """Who seems to decide beside this process, which only an election makes safe; empty if nobody."""
        self.decisions: Counter[str] = Counter()
        self.members = Counter(lost=0, repaired=0, joint=0)
        """Pods given up to be replaced while their gangs run, pods with another place, moves of several together."""
        self.asked = -math.inf
        """When kube-scheduler last asked about any pod."""
        self.work = threading.Event()
        """Set when something has to be carried out."""
        self.force: Callable[[Binding], None] = lambda _binding: None
        self.reclassed: Callable[[str, bool], None] = lambda _group, _guaranteed: None
        """Told of each group that has lost its guarantee and runs on, or has got it back."""
        self._before: dict[str, tuple[PodEntry, BindInfo]] = {}
        """Pods that run, seen before the core was opened."""
        self.promised = promised(self.book.engine.state)
        self.nodes = frozenset(self.promised)
        """The nodes of the configuration."""
        self.health = DoorHealth(self.promised, clock, options.heal_after)
        self.windows = DoorWindows()
        self.starts = DoorStarts(options.sharing.backfill, self.book.engine, self.table, self.windows, wall)
        self.starts.lines.in_line, self.starts.renewed = self.in_line, self._ask_again
        self.starts.turns.standing = self.allowances.turns
        self.claims: PodClaims | None = None
        """What is known of claims, where they are written."""
        self.claiming: dict[str, Mapping[str, Any]] = {}
        """Pods that name claims, by uid; what names the claims is all that is kept of them."""

    # --- opening

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """The lock; an engine that contradicts itself never answers again."""
        with self.lock:
            if self.broken:
                raise NotServingError(self.broken)
            try:
                yield
            except InvariantError as error:
                self.broken = f"the scheduler has stopped: {error}"
                self.work.set()
                raise NotServingError(self.broken) from error

    @contextmanager
    def serving(self) -> Iterator[None]:
        """The lock, for questions that can be answered once everything is known. Raises `NotServingError`."""
        with self.guarded():
            if not self.is_open:
                raise NotServingError("the scheduler is starting: it does not know all pods yet")
            yield

    @contextmanager
    def sharing(self) -> Iterator[Callable[[], None]]:
        """The lock for work that takes long; what is yielded is called between its parts and lets others have the lock.

        It then waits, without the lock, as long as the lock was held: scheduling has at least half of the time. The
        state may have changed after each call. Must not be used by who has the lock already.
        """
        with self.guarded():
            began = time.perf_counter()

            def give_way() -> None:
                nonlocal began
                held = time.perf_counter() - began
                if held < SLICE:
                    return
                self.lock.release()
                try:
                    time.sleep(held)
                finally:
                    self.lock.acquire()
                if self.broken:
                    raise NotServingError(self.broken)
                began = time.perf_counter()

            yield give_way

    def open(self) -> None:
        """Begin to answer: all nodes and pods have been told, and nodes come in the order of the configuration."""
        with self.guarded():
            self._read_again(self.table.pod_groups.overfull())
            for name in self.promised:  # devices first: what is shown to a VC as bad then has the same virtual cell
                self._judge_devices(name)
            for name in self.promised:
                self._judge(name)
            running = [RunningPod(pod.reading.request, info) for pod, info in self._before.values() if pod.reading]
            outcomes = self.book.recover(running, self.wall())
            for entry, info in self._before.values():
                self.check_claims(entry.ref, info)
            self._before.clear()
            self.allowances.start(self.book.engine.state.groups.by_name)
            self.starts.recall()
            self.is_open = True
            for event in pod_events.of_recovery(outcomes, self.table, self.book):
                self.record(event)
            self.work.set()

    # --- what the API server says

    def node_changed(self, node: NodeStatus) -> None:
        """A node is like this now."""
        with self.guarded():
            if self.health.nodes.get(node.name) != node:
                self.health.nodes[node.name] = node
                if self.is_open:  # before, they wait to be told in the order of the configuration
                    self._judge(node.name)

    def node_gone(self, name: str) -> None:
        """A node is no longer there."""
        with self.guarded():
            self.health.nodes.pop(name, None)
            if self.is_open:
                self._judge(name)

    def _judge(self, name: str) -> None:
        """Tell the engine if the node has turned good or bad."""
        if name not in self.promised:
            return
        reason = self.health.judge(name, was_bad=self.book.health.get(name) is False)
        if self.book.health.get(name) is not (not reason):
            self.record_outcomes(self.book.report(name, not reason, self.wall()))
            self.work.set()

    def devices_changed(self, name: str) -> None:
        """What a driver says about a node's devices has changed."""
        with self.guarded():
            if self.is_open:
                self._judge_devices(name)
                self.work.set()

    def _judge_devices(self, name: str) -> None:
        """Tell the engine which devices of a node have turned good or bad, and the pods that have them."""
        if self.claims is None or name not in self.promised:
            return
        changed = self.health.judge_devices(name, self.claims.bad_on(name, self._has_request))
        bad = self.health.bad_devices.get(name, {})
        for index in changed:
            self.record_outcomes(self.book.report_device(name, index, index not in bad, self.wall()))
        for index in filter(bad.__contains__, changed):
            for event in pod_events.on_bad_device(self.book, self.table, name, index, bad[index]):
                self.record(event)

    def heal(self) -> None:
        """Use again what has been good for long enough."""
        with self.guarded():
            nodes, with_devices = self.health.healed()
            for name in nodes:
                self._judge(name)
            for name in with_devices:
                self._judge_devices(name)

    def _has_request(self, uid: str) -> bool:
        """Whether a pod is one of those that we place, or was until a moment ago."""
        entry = self.table.by_uid.get(uid)
        return self.table.has_gone(uid) or (entry is not None and entry.reading is not None)

    def namespace_changed(self, namespace: Mapping[str, Any]) -> None:
        """A namespace is like this now."""
        with self.guarded():
            name, labels = str(namespace["metadata"]["name"]), namespace["metadata"].get("labels") or {}
            (self.namespaces.add if labels.get(GATE) == "enabled" else self.namespaces.discard)(name)
            self.starts.lines.renew()
            for pod in [one for one in self.doubted.values() if self.is_guarded(one)]:
                self.pod_changed(pod)
            if self.grants.change(namespace):
                self._regrant(name)

    def namespace_gone(self, name: str) -> None:
        """A namespace is no longer there."""
        with self.guarded():
            self.namespaces.discard(name)
            self.starts.lines.renew()
            if self.grants.remove(name):
                self._regrant(name)

    def _regrant(self, namespace: str) -> None:
        """What was answered about a namespace's pods may no longer be right; those that run are left alone."""
        self.starts.renew()
        for entry in self.table:
            if entry.ref.namespace == namespace:
                entry.cached = None
                self._release_changed(entry)
        self.work.set()

    def refusal(self, entry: PodEntry) -> RequestError | None:
        """Why a pod may not have what it asks for, as far as the API server says; None if it may."""
        if entry.reading is None:
            return entry.problem
        if not self.options.require_grants:
            return None
        request, about = entry.reading.request, (entry.ref.key, entry.ref.namespace)
        holder = self.table.holder(self.book.engine.state.groups.by_name.get(request.group))
        return self.grants.refusal(*about, request.vc) or self.grants.foreign_group(*about, request.group, holder)

    def held_back(self, request: PodRequest) -> str:
        """Why a budget, a limit or another's promised start keeps a pod's gang from a place; empty if none does."""
        return self.over_limit(request) or self.starts.obstacle(request)

    def over_limit(self, request: PodRequest) -> str:
        """Why a budget or a limit for users keeps a pod's gang from a place; empty if none does, or it has one."""
        if not self.options.sharing or request.group in self.book.engine.state.groups.by_name:
            return ""
        return self.allowances.obstacle(request, self.wall())

    def in_line(self, entry: PodEntry) -> bool:
        """Whether nothing but devices keeps a pod from a place, so that a start can be promised to its gang."""
        if entry.reading is None or entry.gated or self.refusal(entry) is not None:
            return False
        return not self.over_limit(entry.reading.request)

    def _ask_again(self) -> None:
        """Who waits may get another answer now."""
        for entry in self.starts.lines.entries() if self.starts else self.table:
            if entry.cached is not None and not entry.cached.node:
                entry.cached = None
        self.work.set()

    def month_used(self, used: Used) -> None:
        """So much device time was used in this month; who was held back may be so no more, or the other way round."""
        with self.guarded():
            if self.allowances.renew(used):
                self.starts.renew()
                self._ask_again()

    def pod_changed(self, pod: Mapping[str, Any]) -> None:
        """A pod is like this now."""
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self.pod_gone(str(pod["metadata"].get("uid")))
            return
        with self.guarded():
            uid = str(pod["metadata"].get("uid"))
            if not self.table.has_gone(uid) and (node := self.place_of(pod)):
                self.usage.place(uid, node, requests_of(pod))
            if self.table.has_gone(uid) or (uid not in self.table.by_uid and not asks(pod)):
                return
            entry = self.table.meet(pod, self.clock())
            self.starts.changes += 1
            entry.listed = True
            if self.doubts(pod):
                self.doubted[uid] = pod
            else:
                self.doubted.pop(uid, None)
            entry.deleting = bool(pod["metadata"].get("deletionTimestamp"))
            entry.grace, entry.leaves_by = ending(pod)
            entry.gated = bool((pod.get("spec") or {}).get("schedulingGates"))
            if self._may_claim(pod):
                self._note_claims(entry, claiming_part(pod))
            untold = pod_events.evicted_before(entry.ref, pod) if entry.deleting and not self.is_open else None
            if untold is not None:
                self.record(untold)
            if node := self.place_of(pod):
                entry.runs, entry.demand = True, None
                self._runs(entry, pod, node)
                return
            entry.demand, entry.lacks_room = pod_demand(pod), lacks_room(pod)
            self._release_changed(entry)
            if entry.problem is not None and not entry.deleting and not is_launcher(pod, entry.problem):
                self.record(pod_events.unreadable(entry.ref, entry.problem))

    def _may_claim(self, pod: Mapping[str, Any]) -> bool:
        if self.claims is not None:
            return self.claims.options.may_claim(pod)
        return bool(self.options.no_claims and (pod.get("spec") or {}).get("resourceClaims"))

    def _note_claims(self, entry: PodEntry, claiming: Mapping[str, Any]) -> None:
        """A pod names these claims now: one that waited for them may be placed."""
        if self.claiming.get(entry.ref.uid) != claiming:
            self.claiming[entry.ref.uid] = claiming
            entry.cached = None
            self.work.set()

    def place_of(self, pod: Mapping[str, Any]) -> str:
        """The node whose devices a pod holds by what the API server says; empty if it holds none.

        A pod that a placer has pinned holds them before it is bound, whichever door leads by then, if nobody else can
        have pinned it.
        """
        return bound_node(pod) or (pinned_node(pod) if self.is_guarded(pod) else "")

    def is_guarded(self, pod: Mapping[str, Any]) -> bool:
        """Whether admission policies hold in a pod's namespace, so that only the scheduler writes its annotations."""
        return str(pod["metadata"].get("namespace")) in self.namespaces

    def doubts(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod says that it was pinned where anybody may have written that."""
        return not self.is_guarded(pod) and not bound_node(pod) and bool(pinned_node(pod))

    def asks_for(self, entry: PodEntry, request: PodRequest) -> bool:
        """Whether a pod still asks for what was decided; which nodes count is the door's own choice."""
        if entry.reading is None:
            return False
        return replace(entry.reading.request, ignore_suggested=request.ignore_suggested) == request

    def _release_changed(self, entry: PodEntry) -> None:
        """Give back, unless a binding is sent, a place that was decided for something else than the pod asks for now.

        Nobody goes any more for a pod that waits for that and may not have the place now, or is deleted: a finalizer
        may keep it for ever.
        """
        uid, known = entry.ref.uid, self.book.pods.get(entry.ref.uid)
        waits = uid in self.book.engine.state.groups.waiting
        if known is None or entry.binding or not (known.assumed or waits):
            return
        if not self.asks_for(entry, known.request) or (waits and (entry.deleting or self.refusal(entry) is not None)):
            entry.assumed, entry.attempts, entry.cached, entry.examined = 0.0, 0, None, (-1, -1)
            self.usage.remove(uid)
            leave = self.book.cancel if known.assumed else self.book.gone
            self.record_outcomes(leave(uid, self.wall()))
            self.work.set()

    def _runs(self, entry: PodEntry, pod: Mapping[str, Any], node: str) -> None:
        """A pod is bound; enter it where its annotation says."""
        noted = pod["metadata"].get("annotations") or {}
        text = str(noted.get(BIND_INFO, ""))
        if text and text == entry.confirmed:
            return
        if entry.confirmed and (self.book.holds(entry.ref.uid) or entry.ref.uid in self._before):
            self.record(pod_events.place_rewritten(entry.ref))  # whoever owns a pod can write to its annotations
            return
        entry.assumed, entry.attempts, entry.confirmed = 0.0, 0, text
        try:
            info = read_info(pod, entry.ref.key)
            if entry.problem is not None:
                raise entry.problem
            if info is None:
                raise RequestError(entry.ref.key, BIND_INFO, "the pod was bound without it, by another scheduler")
            if info.node != node:
                raise RequestError(entry.ref.key, BIND_INFO, f"it says node {info.node}, but the pod runs on {node}")
            if self.is_open and not self.book.holds(entry.ref.uid) and (refusal := self.refusal(entry)) is not None:
                raise refusal  # a pod can be made with a node and an annotation of anybody's choice
        except RequestError as error:
            if is_launcher(pod, error):
                return
            self.record(pod_events.unaccounted(entry.ref, error))
            return
        assert entry.reading is not None  # noqa: S101 - no problem was found
        if why := self.health.check_division(entry.ref.uid, info, noted, self.spec, self.book.engine.state):
            self.record(pod_events.disagreeing(entry.ref, why))
            self._judge(node)
        if not self.is_open:
            self._before[entry.ref.uid] = entry, info
            return
        entry.cached = None
        if not self.book.holds(entry.ref.uid):
            self.rival = self.rival or (
                f"pod {entry.ref.key} was bound by another than this one, and both may give the same devices away: "
                "run one extender a cluster, or each with --leader-elect"
            )
        self.record_outcomes(
            self.book.observe_bound(RunningPod(entry.reading.request, info), self.wall()), recovered=True
        )

    def check_claims(self, ref: PodRef, info: BindInfo) -> None:
        """Tell a placed pod whose claims hold other devices than its annotation names."""
        if self.claims is not None and (why := self.claims.disagreement(ref.uid, info.node, info.devices)):
            self.record(pod_events.disagreeing(ref, why))

    def claims_changed(self, pod: str = "", nodes: Iterable[str] = ()) -> None:
        """Something is new about the claims of a pod (uid; empty: of nobody's) that hold devices of these nodes."""
        with self.guarded():
            entry = self.table.by_uid.get(pod)
            if entry is not None:
                entry.cached = None
            for node in nodes if self.is_open else ():
                if node in self.health.bad_devices or not self._has_request(pod):
                    self._judge_devices(node)
        self.work.set()

    def waits_for_devices(self, entry: PodEntry) -> bool:
        """Whether nothing runs yet on the devices of a pod's claims, so that they may be taken back."""
        return not entry.runs

    def claim_obstacle(self, entry: PodEntry) -> str:
        """Why a pod's claims could not be allocated whatever is free; empty if they could, or it has none."""
        pod = self.claiming.get(entry.ref.uid, {"metadata": {"uid": entry.ref.uid}})
        if self.claims is None or entry.reading is None:
            return self.options.no_claims if entry.ref.uid in self.claiming else ""
        try:
            return self.claims.obstacle(pod, entry.reading.request.leaf_number)
        except ClaimPendingError as error:
            return error.message

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted, or ended."""
        with self.guarded():
            self._before.pop(uid, None)
            self.doubted.pop(uid, None)
            self.usage.remove(uid)
            self.claiming.pop(uid, None)
            self.starts.changes += 1
            if self.claims is not None:
                self.claims.ledger.pod_gone(uid, self.clock())
            if (node := self.health.release(uid)) and self.is_open:
                self._judge(node)
            entry = self.table.forget(uid)
            if entry is not None and entry.pod_group:
                self._read_again(self.table.pod_groups.forget(entry.pod_group, uid))
            if entry is not None and entry.reading is not None:
                self.departed.add(self.table.gang(entry.ref, entry.reading.request.group))
            if self.is_open and (entry is not None or uid in self.book.pods):
                self.record_outcomes(self.book.gone(uid, self.wall()))
                self.work.set()

    def windows_changed(self, found: Mapping[str, Any] | None) -> None:
        """The maintenance windows are like this now; None: there are none."""
        with self.guarded():
            before = self.windows.reservations
            self.windows.change(found)
            if before or self.windows.reservations:
                self.starts.reserve()
        self.work.set()

    # --- PodGroups

    def pod_group_changed(self, group: PodGroup) -> None:
        """A PodGroup is like this now; its pods may ask for another gang."""
        with self.guarded():
            self._read_again(self.table.pod_groups.change(group))

    def pod_group_gone(self, key: str) -> None:
        """A PodGroup is no longer there; pods that wait have no gang to belong to."""
        with self.guarded():
            self._read_again(self.table.pod_groups.remove(key))

    def _read_again(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Read pods of a PodGroup again; those that run have their place by what it was then."""
        for pod in pods:
            entry = self.table.by_uid.get(str(pod["metadata"]["uid"]))
            if entry is not None and not entry.runs:
                self.pod_changed(pod)
        self.work.set()

    # --- events

    def record_outcomes(self, outcomes: Sequence[object], *, recovered: bool = False) -> None:
        """Events for the pods whose group has changed."""
        self.allowances.note(outcomes)
        for group, guaranteed in reclassed(outcomes):
            self.reclassed(group, guaranteed)
        for event in pod_events.of_outcomes(outcomes, self.table, self.book, recovered=recovered):
            self.record(event)
