"""The state of a door: the book and the pod table behind one lock, kept up to date from the API server.

No network call is made while holding the lock. Work outside (bind, evict, requeue, record) is handed out as values and
carried out by other modules, which report back here.
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
from paictl.cluster.pods.podgroups import PodGroup
from paictl.cluster.pods.reading import asks, bound_node, ending, is_launcher, pinned_node, read_info
from paictl.cluster.pods.recovering import promised
from paictl.doors import pod_events
from paictl.doors.grants import Grants, told_apart
from paictl.doors.health import DoorHealth, DoorWindows
from paictl.doors.pod_events import PodEvent
from paictl.doors.sharing import DoorSharing
from paictl.doors.starts import DoorStarts
from paictl.doors.table import LATE, GangKey, PodEntry, PodRef, PodTable
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
"""Seconds for which long-running work keeps the lock at a time."""


class NotServingError(Exception):
    """No answer is possible now; the message says why, and kube-scheduler asks again."""


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
    """Seconds after which a gang with a bad device is evicted; None: its pods only get an event."""
    heal_after: float = 0.0
    """Seconds for which a bad node or device has to be healthy before it is used again."""
    no_claims: str = ""
    """Why claims cannot be allocated although they should be: pods with claims wait."""
    pod_groups: str = ""
    """The path below which PodGroups are listed; empty where there are none."""
    claims: ClaimOptions | None = None
    """Which ResourceClaims get the devices of cells; None: the environment alone says which devices a pod has."""
    sharing: Sharing = field(default_factory=Sharing)
    """Budgets and limits for users."""
    longest_grace: float = 300.0
    """The longest grace period of a victim, in seconds: the pod's own may be years."""


@frozen
class Binding:
    """A binding to be made."""

    ref: PodRef
    node: str
    annotations: Mapping[str, str]
    devices: tuple[int, ...] = ()
    """Indexes of the leaf cells, within the node."""


class DoorCore:
    """Answers while this process leads; each term of leadership has a new one."""

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
        """Pods with a place that any user may have written, by uid; they hold nothing."""
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
        """Why the engine stopped; no more questions are answered."""
        self.rival = ""
        """Another process that seems to decide as well, which only an election makes safe; empty if there is none."""
        self.decisions: Counter[str] = Counter()
        self.members = Counter(lost=0, repaired=0, joint=0)
        """Counts of pods given up to be replaced while their gangs run, replaced pods, and joint moves."""
        self.asked_at = -math.inf
        """When kube-scheduler last asked about any pod."""
        self.work = threading.Event()
        """Set when something has to be carried out."""
        self.force: Callable[[Binding], None] = lambda _binding: None
        self.reclassed: Callable[[str, bool], None] = lambda _group, _guaranteed: None
        """Called for each running group that has lost its guarantee or got it back."""
        self._before: dict[str, tuple[PodEntry, BindInfo]] = {}
        """Running pods that were seen before the core was opened."""
        self.promised = promised(self.book.engine.state)
        self.nodes = frozenset(self.promised)
        """The nodes of the configuration."""
        self.health = DoorHealth(self.promised, clock, options.heal_after)
        self.windows = DoorWindows()
        self.starts = DoorStarts(options.sharing.backfill, self.book.engine, self.table, self.windows, wall)
        self.starts.lines.in_line, self.starts.renewed = self.in_line, self._ask_again
        self.starts.turns.standing = self.allowances.turns
        self.claims: PodClaims | None = None
        """The known claims, if claims are used."""
        self.claiming: dict[str, Mapping[str, Any]] = {}
        """Pods that name claims, by uid; only the part that names them is kept."""

    # --- opening

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Hold the lock; after an inconsistency of the engine no question is answered again."""
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
        """Hold the lock, for questions that need all pods to be known. Raises `NotServingError`."""
        with self.guarded():
            if not self.is_open:
                raise NotServingError("the scheduler is starting: it does not know all pods yet")
            yield

    @contextmanager
    def sharing(self) -> Iterator[Callable[[], None]]:
        """Hold the lock for long-running work, which calls the yielded function between its parts to give the lock up.

        That function waits, without the lock, for as long as the lock was held, so that scheduling has at least half
        of the time. The state may have changed after each call. The caller must not already hold the lock.
        """
        with self.guarded():
            began = time.perf_counter()

            def give_way() -> None:
                nonlocal began
                elapsed = time.perf_counter() - began
                if elapsed < SLICE:
                    return
                self.lock.release()
                try:
                    time.sleep(elapsed)
                finally:
                    self.lock.acquire()
                if self.broken:
                    raise NotServingError(self.broken)
                began = time.perf_counter()

            yield give_way

    def open(self) -> None:
        """Start answering: all nodes and pods are known. Nodes are reported in the order of the configuration."""
        with self.guarded():
            self._read_again(self.table.pod_groups.overfull())
            for name in self.promised:  # devices first, so that what a VC sees as bad has the same virtual cells
                self._judge_devices(name)
            for name in self.promised:
                self._judge(name)
            grants = self.grants if self.options.require_grants else None
            running, apart = told_apart(self._before.values(), grants)
            outcomes = self.book.recover(running, self.wall())
            for entry, info in self._before.values():
                self.check_claims(entry.ref, info)
                self.health.check_overlap(entry.ref.key, entry.ref.uid, info, self.book.engine.state)
            self._before.clear()
            self.allowances.start(self.book.engine.state.groups.by_name)
            self.starts.recall()
            self.is_open = True
            self.heal()
            for event in (*apart, *pod_events.of_recovery(outcomes, self.table, self.book)):
                self.record(event)
            self.work.set()

    # --- news from the API server

    def node_changed(self, node: NodeStatus) -> None:
        """A node was added or changed."""
        with self.guarded():
            # before it is open they wait: `open` reports them in the order of the configuration
            if self.health.note(node, self.options.longest_grace) and self.is_open:
                self._judge(node.name)

    def node_gone(self, name: str) -> None:
        """A node was removed."""
        with self.guarded():
            self.health.remove(name)
            if self.is_open:
                self._judge(name)

    def _judge(self, name: str) -> None:
        """Report the node to the engine if it has turned healthy or bad."""
        if name not in self.promised:
            return
        reason = self.health.judge(name, was_bad=self.book.health.get(name) is False)
        if self.book.health.get(name) is not (not reason):
            self.record_outcomes(self.book.report(name, not reason, self.wall()))
            self.work.set()

    def devices_changed(self, name: str) -> None:
        """What is known about a node's devices has changed: a driver's report, or a pod that should have ended."""
        with self.guarded():
            if self.is_open:
                self._judge_devices(name)
                self.work.set()

    def _judge_devices(self, name: str) -> None:
        """Report devices that have turned healthy or bad to the engine, and bad ones to the pods that have them."""
        if name not in self.promised:
            return
        reported = {} if self.claims is None else self.claims.bad_on(name, self._has_request)
        changed = self.health.judge_devices(name, reported)
        bad = self.health.bad_devices.get(name, {})
        for index in changed:
            self.record_outcomes(self.book.report_device(name, index, index not in bad, self.wall()))
        for index in filter(bad.__contains__, changed):
            for event in pod_events.on_bad_device(self.book, self.table, name, index, bad[index]):
                self.record(event)

    def heal(self) -> None:
        """Use nodes and devices again that have been healthy for long enough."""
        with self.guarded():
            nodes, with_devices = self.health.healed()
            for name in nodes:
                self._judge(name)
            for name in with_devices:
                self._judge_devices(name)

    def _has_request(self, uid: str) -> bool:
        """Whether a pod is, or was until a moment ago, one that we place."""
        entry = self.table.by_uid.get(uid)
        return self.table.has_gone(uid) or (entry is not None and entry.reading is not None)

    def namespace_changed(self, namespace: Mapping[str, Any]) -> None:
        """A namespace was added or changed."""
        with self.guarded():
            name, labels = str(namespace["metadata"]["name"]), namespace["metadata"].get("labels") or {}
            (self.namespaces.add if labels.get(GATE) == "enabled" else self.namespaces.discard)(name)
            self.starts.lines.renew()
            for pod in [doubted_pod for doubted_pod in self.doubted.values() if self.is_guarded(doubted_pod)]:
                self.pod_changed(pod)
            if self.grants.change(namespace):
                self._regrant(name)

    def namespace_gone(self, name: str) -> None:
        """A namespace was removed."""
        with self.guarded():
            self.namespaces.discard(name)
            self.starts.lines.renew()
            if self.grants.remove(name):
                self._regrant(name)

    def _regrant(self, namespace: str) -> None:
        """Forget the answers about a namespace's pods, which may no longer be right; running pods are left alone."""
        self.starts.renew()
        for entry in self.table:
            if entry.ref.namespace == namespace:
                entry.cached = None
                self._release_changed(entry)
        self.work.set()

    def refusal(self, entry: PodEntry) -> RequestError | None:
        """Why a pod may not have what it asks for, from what the API server knows; None if it may."""
        if entry.reading is None:
            return entry.problem
        if not self.options.require_grants:
            return None
        request, about = entry.reading.request, (entry.ref.key, entry.ref.namespace)
        holder = self.table.holder(self.book.engine.state.groups.by_name.get(request.group))
        return self.grants.refusal(*about, request.vc) or self.grants.foreign_group(*about, request.group, holder)

    def held_back(self, request: PodRequest) -> str:
        """Why a budget, a limit or another gang's promise keeps a pod's gang from a place; empty if none does."""
        return self.over_limit(request) or self.starts.obstacle(request)

    def over_limit(self, request: PodRequest) -> str:
        """Why a budget or a limit for users keeps a pod's gang from a place; empty if none does, or it has one."""
        if not self.options.sharing or request.group in self.book.engine.state.groups.by_name:
            return ""
        return self.allowances.obstacle(request, self.wall())

    def in_line(self, entry: PodEntry) -> bool:
        """Whether only missing devices keep a pod from a place, so that a start can be promised to its gang."""
        if entry.reading is None or entry.gated or self.refusal(entry) is not None:
            return False
        return not self.over_limit(entry.reading.request)

    def _ask_again(self) -> None:
        """Waiting pods may get another answer now: forget the old ones."""
        for entry in self.starts.lines.entries() if self.starts else self.table:
            if entry.cached is not None and not entry.cached.node:
                entry.cached = None
        self.work.set()

    def month_used(self, used: Used) -> None:
        """Update the device time used in this month, which may hold back other pods than before."""
        with self.guarded():
            if self.allowances.renew(used):
                self.starts.renew()
                self._ask_again()

    def pod_changed(self, pod: Mapping[str, Any]) -> None:
        """A pod was added or changed."""
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
            missed_event = pod_events.evicted_before(entry.ref, pod) if entry.deleting and not self.is_open else None
            if missed_event is not None:
                self.record(missed_event)
            if node := self.place_of(pod):
                entry.runs, entry.bound, entry.demand = True, bool(bound_node(pod)), None
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
        """A pod now names these claims; if it waited for them, it may be placed."""
        if self.claiming.get(entry.ref.uid) != claiming:
            self.claiming[entry.ref.uid] = claiming
            entry.cached = None
            self.work.set()

    def place_of(self, pod: Mapping[str, Any]) -> str:
        """The node whose devices a pod holds according to the API server; empty if it holds none.

        A pod that a placer has pinned holds them before it is bound, whichever door leads then, provided that only a
        placer can have pinned it.
        """
        return bound_node(pod) or (pinned_node(pod) if self.is_guarded(pod) else "")

    def leaves(self, entry: PodEntry) -> bool:
        """Whether a pod is being deleted and gone in time: its own grace period may be longer than the limit."""
        return entry.deleting and entry.leaves_by <= self.wall() + self.options.longest_grace

    def grace_of(self, entry: PodEntry) -> int | None:
        """Seconds for the eviction of a pod; None: its own. With 0 its devices would be free before it has ended."""
        own, longest = None if entry.grace >= 1 else 1, self.options.longest_grace
        return int(longest) if entry.deleting or entry.grace > longest else own

    def is_guarded(self, pod: Mapping[str, Any]) -> bool:
        """Whether admission policies guard a pod's namespace, so that only the scheduler can write its annotations."""
        return str(pod["metadata"].get("namespace")) in self.namespaces

    def doubts(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod claims to be pinned in a namespace where any user may have written that."""
        return not self.is_guarded(pod) and not bound_node(pod) and bool(pinned_node(pod))

    def asks_for(self, entry: PodEntry, request: PodRequest) -> bool:
        """Whether a pod still asks for what was decided; the door itself chooses whether suggested nodes count."""
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
        if known is None or entry.binding or not (known.assumed or waits) or entry.unanswered_until > self.clock():
            return
        if not self.asks_for(entry, known.request) or (waits and (entry.deleting or self.refusal(entry) is not None)):
            entry.assumed, entry.attempts, entry.cached, entry.examined = 0.0, 0, None, (-1, -1)
            self.usage.remove(uid)
            leave = self.book.cancel if known.assumed else self.book.gone
            self.record_outcomes(leave(uid, self.wall()))
            self.work.set()

    def unanswered(self, ref: PodRef) -> None:
        """A binding or pin got no answer: it may have been made, or may still be."""
        with self.guarded():
            if (entry := self.table.by_uid.get(ref.uid)) is not None:
                entry.unanswered_until = self.clock() + LATE

    def _runs(self, entry: PodEntry, pod: Mapping[str, Any], node: str) -> None:
        """A pod is bound; enter it where its annotation says."""
        annotations = pod["metadata"].get("annotations") or {}
        text = str(annotations.get(BIND_INFO, ""))
        if text and text == entry.confirmed:
            return
        if entry.confirmed and (self.book.holds(entry.ref.uid) or entry.ref.uid in self._before):
            self.record(pod_events.place_rewritten(entry.ref))  # a pod's owner can change its annotations
            return
        entry.assumed, entry.attempts, entry.confirmed = 0.0, 0, text
        try:
            info = read_info(pod, entry.ref.key)
            if entry.problem is not None and (self.is_open or info is None):
                raise entry.problem
            if info is None:
                raise RequestError(entry.ref.key, BIND_INFO, "the pod was bound without it, by another scheduler")
            if info.node != node:
                raise RequestError(entry.ref.key, BIND_INFO, f"it names node {info.node}, but the pod runs on {node}")
            if self.is_open and not self.book.holds(entry.ref.uid) and (refusal := self.refusal(entry)) is not None:
                raise refusal  # a user can create a pod with any node and annotation
        except RequestError as error:
            if is_launcher(pod, error):
                return
            self.record(pod_events.unaccounted(entry.ref, error))
            return
        if problem := self.health.check_division(entry.ref.uid, info, annotations, self.spec, self.book.engine.state):
            self.record(pod_events.disagreeing(entry.ref, problem))
            self._judge(node)
        if not self.is_open:
            self._before[entry.ref.uid] = entry, info
            return
        assert entry.reading is not None  # noqa: S101 - no problem was found
        entry.cached = None
        if not self.book.holds(entry.ref.uid):
            self.rival = self.rival or (
                f"pod {entry.ref.key} was bound by another than this one, and both may give the same devices away: "
                "run one extender per cluster, or each with --leader-elect"
            )
        self.record_outcomes(
            self.book.observe_bound(RunningPod(entry.reading.request, info), self.wall()), recovered=True
        )
        self.health.check_overlap(entry.ref.key, entry.ref.uid, info, self.book.engine.state)
        self.heal()

    def check_claims(self, ref: PodRef, info: BindInfo) -> None:
        """Send an event to a placed pod whose claims hold other devices than its annotation names."""
        if self.claims is not None and (why := self.claims.disagreement(ref.uid, info.node, info.devices)):
            self.record(pod_events.disagreeing(ref, why))

    def claims_changed(self, pod: str = "", nodes: Iterable[str] = ()) -> None:
        """Claims of a pod (by uid; empty: no pod) that hold devices of these nodes have changed."""
        with self.guarded():
            if (entry := self.table.by_uid.get(pod)) is not None:
                entry.cached = None
            for node in nodes if self.is_open else ():
                if node in self.health.bad_devices or not self._has_request(pod):
                    self._judge_devices(node)
        self.work.set()

    def waits_for_devices(self, entry: PodEntry) -> bool:
        """Whether the devices of a pod's claims are still unused, so that they may be taken back."""
        return not entry.runs

    def claim_obstacle(self, entry: PodEntry) -> str:
        """Why a pod's claims could not be allocated even on free devices; empty if they could, or it has none."""
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
            entry, booked = self.table.forget(uid), self.book.pods.get(uid)
            if entry is not None and entry.bound and booked is not None and booked.info is not None:
                self.health.vanish(booked.info.node, min(entry.grace, self.options.longest_grace))
            if entry is not None and entry.pod_group:
                self._read_again(self.table.pod_groups.forget(entry.pod_group, uid))
            if entry is not None and entry.reading is not None:
                self.departed.add(self.table.gang(entry.ref, entry.reading.request.group))
            if self.is_open and (entry is not None or uid in self.book.pods):
                self.record_outcomes(self.book.gone(uid, self.wall()))
                self.work.set()

    def windows_changed(self, config_map: Mapping[str, Any] | None) -> None:
        """The ConfigMap of the maintenance windows has changed; None: it is gone."""
        with self.guarded():
            before = self.windows.reservations
            self.windows.change(config_map)
            if before or self.windows.reservations:
                self.starts.reserve()
        self.work.set()

    # --- PodGroups

    def pod_group_changed(self, group: PodGroup) -> None:
        """A PodGroup was added or changed; its pods may now belong to another gang."""
        with self.guarded():
            self._read_again(self.table.pod_groups.change(group))

    def pod_group_gone(self, key: str) -> None:
        """A PodGroup was removed; its waiting pods no longer belong to a gang."""
        with self.guarded():
            self._read_again(self.table.pod_groups.remove(key))

    def _read_again(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Read pods of a PodGroup again, except running pods, which keep their place."""
        for pod in pods:
            entry = self.table.by_uid.get(str(pod["metadata"]["uid"]))
            if entry is not None and not entry.runs:
                self.pod_changed(pod)
        self.work.set()

    # --- events

    def record_outcomes(self, outcomes: Sequence[object], *, recovered: bool = False) -> None:
        """Record the events of the pods whose group has changed."""
        self.allowances.note(outcomes)
        for group, guaranteed in reclassed(outcomes):
            self.reclassed(group, guaranteed)
        for event in pod_events.of_outcomes(outcomes, self.table, self.book, recovered=recovered):
            self.record(event)
