"""Where kube-scheduler's questions are answered: the book and the pod table behind one lock.

Nobody waits for a network while holding the lock. What has to be done outside (bind, evict, touch, tell) is handed out
as values and carried out by others, who report back here.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from paictl.cells.spec import ClusterSpec
from paictl.extender import tidings
from paictl.extender.labels import Rules
from paictl.extender.nodes import SeenNode, why_bad
from paictl.extender.reading import asks, read_info
from paictl.extender.table import Entry, Table, Verdict
from paictl.extender.tidings import Tiding
from paictl.extender.wire import BindArgs, FilterArgs, FilterResult, PodRef, PreemptArgs, Victims, same_for_all
from paictl.scheduler.book import Allocation, Answer, Book, Insist, RunningPod
from paictl.scheduler.decision import Bind, BindInfo, Phase, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import BIND_INFO, ISOLATION, bind_info_text, isolation_text

if TYPE_CHECKING:
    from collections.abc import Iterator

FORCE_AFTER: Final = 3
"""Times that kube-scheduler is told a pod's node before the extender binds it (HiveD's forcePodBindThreshold)."""


class NotServingError(Exception):
    """Nothing can be answered now; the message says why, and kube-scheduler asks again."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the extender behaves."""

    own_preemption: bool = True
    """Whether it evicts victims itself; otherwise kube-scheduler does by the preempt verb (1.38 and newer)."""
    deadline: float = 60.0
    """Seconds after which devices that were assumed for a pod and never bound are given back."""
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A binding to be made."""

    ref: PodRef
    node: str
    annotations: Mapping[str, str]


class Desk:
    """Answers for as long as this process leads; made anew whenever it begins to."""

    def __init__(
        self,
        spec: ClusterSpec,
        options: Options,
        tell: Callable[[Tiding], None],
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lock = threading.RLock()
        self.spec = spec
        self.options = options
        self.tell = tell
        self.wall = wall
        self.clock = clock
        self.table = Table(options.rules)
        self.nodes: dict[str, SeenNode] = {}
        self.bad: dict[str, str] = {}
        """Bad nodes of the configuration, and why."""
        self.book = Book(Engine(spec))
        self.is_open = False
        self.broken = ""
        """What made the engine stop; nothing is answered any more."""
        self.decisions: Counter[str] = Counter()
        self.work = threading.Event()
        """Set when something has to be carried out."""
        self.force: Callable[[Ticket], None] = lambda _ticket: None
        self._before: dict[str, tuple[Entry, BindInfo]] = {}
        """Pods that run, seen before the desk was opened."""
        tree = self.book.engine.state.physical
        self._promised = {name: sum(len(tree.leaves(cell)) for cell in cells) for name, cells in tree.nodes.items()}

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

    def open(self) -> None:
        """Begin to answer: all nodes and pods have been told, and nodes come in the order of the configuration."""
        with self.guarded():
            for name in self._promised:
                self._judge(name)
            running = [
                RunningPod(entry.reading.request, info)
                for entry, info in self._before.values()
                if entry.reading is not None
            ]
            outcomes = self.book.recover(running, self.wall())
            self._before.clear()
            self.is_open = True
            for tiding in tidings.of_recovery(outcomes, self.table, self.book):
                self.tell(tiding)
            self.work.set()

    # --- what the API server says

    def node_changed(self, node: SeenNode) -> None:
        """A node is like this now."""
        with self.guarded():
            if self.nodes.get(node.name) != node:
                self.nodes[node.name] = node
                if self.is_open:  # before, they wait to be told in the order of the configuration
                    self._judge(node.name)

    def node_gone(self, name: str) -> None:
        """A node is no longer there."""
        with self.guarded():
            self.nodes.pop(name, None)
            if self.is_open:
                self._judge(name)

    def _judge(self, name: str) -> None:
        """Tell the engine if the node has turned good or bad."""
        if name not in self._promised:
            return
        reason = why_bad(self.nodes.get(name), self._promised[name])
        if reason:
            self.bad[name] = reason
        else:
            self.bad.pop(name, None)
        if self.book.health.get(name) is not (not reason):
            self.announce(self.book.report(name, not reason, self.wall()))
            self.work.set()

    def pod_changed(self, pod: Mapping[str, Any]) -> None:
        """A pod is like this now."""
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self.pod_gone(str(pod["metadata"].get("uid")))
            return
        with self.guarded():
            known = self.table.by_uid.get(str(pod["metadata"].get("uid")))
            if known is None and not asks(pod):
                return
            entry, spec = self.table.meet(pod, self.clock()), pod.get("spec") or {}
            entry.deleting = bool(pod["metadata"].get("deletionTimestamp"))
            entry.gated = bool(spec.get("schedulingGates"))
            if spec.get("nodeName"):
                entry.runs = True
                self._runs(entry, pod)
            elif entry.problem is not None and not entry.deleting:
                self.tell(tidings.unreadable(entry.ref, entry.problem))

    def _runs(self, entry: Entry, pod: Mapping[str, Any]) -> None:
        """A pod is bound; enter it where its annotation says."""
        noted = pod["metadata"].get("annotations") or {}
        text, node = str(noted.get(BIND_INFO, "")), str(pod["spec"]["nodeName"])
        if text and text == entry.confirmed:
            return
        entry.assumed, entry.attempts, entry.confirmed = 0.0, 0, text
        try:
            info = read_info(pod, entry.ref.key)
            if entry.problem is not None:
                raise entry.problem
            if info is None:
                raise RequestError(entry.ref.key, BIND_INFO, "the pod was bound without it, by somebody else")
            if info.node != node:
                raise RequestError(entry.ref.key, BIND_INFO, f"it says node {info.node}, but the pod runs on {node}")
        except RequestError as error:
            self.tell(tidings.unaccounted(entry.ref, error))
            return
        assert entry.reading is not None  # noqa: S101 - no problem was found
        if not self.is_open:
            self._before[entry.ref.uid] = entry, info
            return
        entry.verdict = None
        self.announce(self.book.observe_bound(RunningPod(entry.reading.request, info), self.wall()), recovered=True)

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted, or ended."""
        with self.guarded():
            self._before.pop(uid, None)
            if self.table.forget(uid) is None and uid not in self.book.pods:
                return
            if self.is_open:
                self.announce(self.book.gone(uid, self.wall()))
                self.work.set()

    # --- filter

    def filter(self, args: FilterArgs) -> FilterResult:
        """Answer which node a pod may run on. Raises `NotServingError`."""
        with self.guarded():
            if not self.is_open:
                raise NotServingError("the scheduler is starting: it does not know all pods yet")
            entry = self.table.meet(args.pod, self.clock())
            entry.asked, entry.touches = self.clock(), 0
            if entry.reading is None:
                assert entry.problem is not None  # noqa: S101 - one of the two
                self.decisions["unreadable"] += 1
                self.tell(tidings.unreadable(entry.ref, entry.problem))
                return FilterResult(hopeless=same_for_all(args.names, str(entry.problem.message)))
            verdict = self._verdict(entry, entry.reading.request, args.names)
            self.decisions[verdict.kind] += 1
            return self._answer(entry, verdict, args)

    def _verdict(self, entry: Entry, request: PodRequest, names: list[str]) -> Verdict:
        """The decision, from memory if nothing has changed since the same question."""
        offered = None if request.ignore_suggested else frozenset(names)
        known = entry.verdict
        if known is not None and known.version == self.book.engine.version and known.offered == offered:
            return known
        try:
            found = self._decide(request, offered)
        except RequestError as error:
            verdict = Verdict(self.book.engine.version, "refused", error.message, "", offered)
            self.tell(tidings.refused(entry.ref, error))
        else:
            verdict = self._taken(entry, request, found, offered)
        entry.verdict = verdict
        return verdict

    def _decide(self, request: PodRequest, offered: frozenset[str] | None) -> Answer | Allocation:
        if self.options.own_preemption:
            return self.book.place(request, offered, self.wall())
        found = self.book.schedule(request, offered, Phase.FILTERING, self.wall())
        return self.book.allocate(request.uid, self.wall()) if isinstance(found.decision, Bind) else found

    def _taken(
        self, entry: Entry, request: PodRequest, found: Answer | Allocation, offered: frozenset[str] | None
    ) -> Verdict:
        """A decision as a verdict, with what came of it told."""
        self.announce(found.outcomes)
        version = self.book.engine.version
        if isinstance(found, Allocation):
            entry.assumed, entry.attempts = self.clock(), 0
            self.work.set()
            return Verdict(version, "bind", node=found.info.node, offered=offered)
        match found.decision:
            case Insist(info=info):
                entry.assumed = entry.assumed or self.clock()
                return Verdict(version, "insist", node=info.node, offered=offered)
            case Preempt(victims=victims):
                reason = tidings.preempting_reason(request, victims, self.table)
                if self.options.own_preemption:
                    self.tell(tidings.preempting(entry.ref, reason))
                    self.work.set()
                return Verdict(version, "preempt", reason, offered=offered)
            case Wait() as wait:
                return Verdict(version, "wait", f"pod waits: {wait.reason}", offered=offered)
        raise AssertionError(found)

    def _answer(self, entry: Entry, verdict: Verdict, args: FilterArgs) -> FilterResult:
        if verdict.kind == "refused":
            return FilterResult(hopeless=same_for_all(args.names, verdict.reason))
        if not verdict.node:
            return FilterResult(failed={name: self._why_not(name, verdict.reason) for name in args.names})
        entry.attempts += 1
        if verdict.node in args.names:
            if entry.attempts > FORCE_AFTER:
                self._force(entry)
            return FilterResult((verdict.node,))
        nominated = (args.pod.get("status") or {}).get("nominatedNodeName")
        ignores = entry.reading is not None and entry.reading.request.ignore_suggested
        if ignores and args.names != [nominated]:  # with one nominated node it asks again about all others
            self._force(entry)
        reason = f"its place is on node {verdict.node}, which kube-scheduler does not offer now"
        return FilterResult(failed=same_for_all(args.names, reason))

    def _why_not(self, name: str, reason: str) -> str:
        """A reason of its own for a node that is out of the question for every pod."""
        if name in self.bad:
            return f"node is bad: {self.bad[name]}"
        return reason if name in self._promised else "node is in no cell of the configuration"

    def _force(self, entry: Entry) -> None:
        """Bind without kube-scheduler, as HiveD does for pods whose place it does not offer."""
        if entry.binding:
            return
        ticket = self._ticket(entry.ref)
        if ticket is not None:
            entry.binding = True
            self.tell(tidings.forced(entry.ref, ticket.node))
            self.force(ticket)

    # --- preempt

    def preempt(self, args: PreemptArgs) -> dict[str, Victims]:
        """Which of the nodes that in-tree filters would make room on are any good, and who has to go there.

        A node is dropped if filter would refuse it afterwards, or if a pod would die that keeps its devices by right:
        victims must never die for nothing. Raises `NotServingError` and `RequestError`.
        """
        with self.guarded():
            if not self.is_open:
                raise NotServingError("the scheduler is starting: it does not know all pods yet")
            entry = self.table.meet(args.pod, self.clock())
            if entry.reading is None:
                assert entry.problem is not None  # noqa: S101 - one of the two
                raise entry.problem
            request = entry.reading.request
            if self.options.own_preemption:
                return self._helpful(request, args)
            found = self.book.schedule(request, list(args.victims), Phase.PREEMPTING, self.wall())
            self.announce(found.outcomes)
            self.decisions["preempt verb"] += 1
            if not isinstance(found.decision, Preempt):
                return {}
            return {
                node: Victims(uids, args.victims[node].violations if node in args.victims else 0)
                for node, uids in found.decision.victims
            }

    def _helpful(self, request: PodRequest, args: PreemptArgs) -> dict[str, Victims]:
        known = self.book.pods.get(request.uid)
        if known is not None and known.info is not None:
            node = known.info.node
        else:
            offered = None if request.ignore_suggested else frozenset(args.victims)
            decision = self.book.engine.plan(request, offered)
            if not isinstance(decision, Bind):
                return {}
            node = self.book.engine.bind_info(decision).node
        found = args.victims.get(node)
        if found is None or not found.uids or any(uid in self.book.engine.state.groups.slots for uid in found.uids):
            return {}
        return {node: found}

    # --- bind

    def ticket(self, args: BindArgs) -> Ticket | str:
        """What to write for a pod that kube-scheduler wants bound; a text says why not."""
        with self.guarded():
            if not self.is_open:
                return "the scheduler is starting: it does not know all pods yet"
            entry = self.table.by_uid.get(args.pod.uid)
            ticket = self._ticket(args.pod)
            if entry is None or ticket is None:
                return f"pod {args.pod.key} holds no devices: it has to pass filter first"
            if ticket.node != args.node:
                return f"pod {args.pod.key} has its place on node {ticket.node}, not on {args.node}"
            entry.binding = True
            return ticket

    def _ticket(self, ref: PodRef) -> Ticket | None:
        known = self.book.pods.get(ref.uid)
        if known is None or known.info is None:
            return None
        info = known.info
        return Ticket(ref, info.node, {ISOLATION: isolation_text(info.devices), BIND_INFO: bind_info_text(info)})

    def bound(self, ticket: Ticket) -> None:
        """The API server has taken a binding."""
        with self.guarded():
            entry = self.table.by_uid.get(ticket.ref.uid)
            self.book.bound(ticket.ref.uid)
            if entry is not None:
                entry.binding, entry.assumed, entry.attempts = False, 0.0, 0
                entry.confirmed, entry.verdict = str(ticket.annotations[BIND_INFO]), None

    def not_bound(self, ref: PodRef, *, gone: bool = False) -> None:
        """A binding was refused, or nobody knows; the devices stay assumed until the deadline."""
        with self.guarded():
            entry = self.table.by_uid.get(ref.uid)
            if entry is not None:
                entry.binding = False
            if gone:
                self.pod_gone(ref.uid)

    # --- news

    def announce(self, outcomes: Iterable[object], *, recovered: bool = False) -> None:
        """Tell the pods what has become of them."""
        for tiding in tidings.of_outcomes(outcomes, self.table, self.book, recovered=recovered):
            self.tell(tiding)
