"""What the placer knows: as the extender, but a pod counts as placed from its pin on, before it is bound."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from paictl.cluster.pods.feasibility import PodDemand
from paictl.cluster.pods.nodes import NodeStatus
from paictl.cluster.pods.reading import bound_node, noted_on, pinned_node
from paictl.doors import pod_events
from paictl.doors.core import Binding, DoorCore
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import CachedDecision, PodEntry, PodRef
from paictl.remote.kube.client import Json
from paictl.scheduler.errors import RequestError
from paictl.scheduler.wire import BIND_INFO, GATE

REFUSED: Final = (5.0, 600.0)
"""First and longest pause in seconds before a gang is tried again whose pins would be refused."""
RETRY: Final = (1.0, 30.0)
"""First and longest pause in seconds before a PATCH that was refused is sent again."""
DEMANDS: Final = 16
"""Demands for which nodes are remembered."""


def gates_of(pod: Mapping[str, Any]) -> list[str]:
    """Names of a pod's scheduling gates."""
    return [str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


class NodesByDemand:
    """Which nodes would let a pod in by what it demands, for as long as no node and nothing on one changes.

    Thousands of pods of one template may wait, and look at each node in each round, while others wait for their turn.
    """

    def __init__(self, core: DoorCore) -> None:
        self._core = core
        self._versions = -1, -1
        self._known: list[tuple[PodDemand | None, dict[str, bool]]] = []

    def of(self, demand: PodDemand | None) -> dict[str, bool]:
        """What is known, to be completed by whoever looks at another node."""
        versions = self._core.usage.version, self._core.health.changes
        if versions != self._versions or self._core.claims is not None:  # claims say what a node offers
            self._versions, self._known = versions, []
        for other, takes in self._known:
            if other == demand:
                return takes
        self._known = [*self._known[1 - DEMANDS :], (demand, {})]
        return self._known[-1][1]


class PlacerCore(DoorCore):
    """The common core, with the gated pods and the pins that wait for their binding."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.starts.turns.holds_back = False  # `placing` tries gangs in their order
        self.news = threading.Event()
        """Set when a pod may be placed that could not before."""
        self.gated: dict[str, Json] = {}
        """Pods with our gate, by uid, as the API server has told them last."""
        self.pinned: dict[str, float] = {}
        """Pods that were pinned and are not bound, by uid, and since when."""
        self.unsure: set[str] = set()
        """Pods whose PATCH was sent and not answered, by uid: they may be pinned, so nobody else gets their places."""
        self.takes = NodesByDemand(self)
        self.reasons: dict[str, str] = {}
        """What a waiting pod was told last, by uid."""
        self._retries: dict[str, tuple[float, float]] = {}

    def namespace_changed(self, namespace: Mapping[str, Any]) -> None:
        """A namespace is like this now; pods that were not believed are, as soon as it is guarded."""
        super().namespace_changed(namespace)
        self.news.set()

    def open(self) -> None:
        """Begin to place: all nodes, pods and namespaces have been told."""
        super().open()
        with self.guarded():
            for uid in self.doubted:
                self._tell_doubt(uid)

    def doubts(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod says that it holds devices where anybody may have written that."""
        return not self.is_guarded(pod) and BIND_INFO in noted_on(pod) and bool(bound_node(pod) or pinned_node(pod))

    def _tell_doubt(self, uid: str) -> None:
        ref, space = self.table.by_uid[uid].ref, self.doubted[uid]["metadata"].get("namespace")
        why = f"namespace {space} does not have the label {GATE}=enabled, so any user may have written it"
        self.record(pod_events.unaccounted(ref, RequestError(ref.key, BIND_INFO, why)))

    def _runs(self, entry: PodEntry, pod: Mapping[str, Any], node: str) -> None:
        if self.is_guarded(pod) or BIND_INFO not in noted_on(pod):
            super()._runs(entry, pod, node)

    def pod_changed(self, pod: Mapping[str, Any]) -> None:
        """A pod is like this now."""
        with self.guarded():
            uid = str(pod["metadata"].get("uid"))
            was_doubted = uid in self.doubted
            super().pod_changed(pod)
            if uid not in self.table.by_uid:
                return
            if uid in self.doubted and self.is_open and not was_doubted:
                self._tell_doubt(uid)
            if GATE in gates_of(pod):
                self.gated[uid] = dict(pod)
            else:
                self.gated.pop(uid, None)
                self.reasons.pop(uid, None)
            if self.place_of(pod):
                self.unsure.discard(uid)
            if self.place_of(pod) and not bound_node(pod):
                self.pinned.setdefault(uid, self.clock())
            elif self.pinned.pop(uid, None) is not None and (known := self.book.pods.get(uid)) and known.info:
                self.check_claims(self.table.by_uid[uid].ref, known.info)
        self.news.set()

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted, or ended."""
        super().pod_gone(uid)
        with self.guarded():
            for table in (self.gated, self.pinned, self.reasons, self._retries):
                table.pop(uid, None)
            self.unsure.discard(uid)
        self.news.set()

    def devices_changed(self, name: str) -> None:
        """What a driver says about a node's devices has changed."""
        super().devices_changed(name)
        self.news.set()

    def node_changed(self, node: NodeStatus) -> None:
        """A node is like this now."""
        super().node_changed(node)
        self.news.set()

    def node_gone(self, name: str) -> None:
        """A node is no longer there."""
        super().node_gone(name)
        self.news.set()

    def claims_changed(self, pod: str = "", nodes: Iterable[str] = ()) -> None:
        """Something is new about the claims of a pod (uid; empty: of nobody's) that hold devices of these nodes."""
        super().claims_changed(pod, nodes)
        self.news.set()

    def in_line(self, entry: PodEntry) -> bool:
        """As the common core says, but our own gate keeps no pod from a place, and all pods that wait have it."""
        pod = self.gated.get(entry.ref.uid)
        if entry.reading is None or pod is None or gates_of(pod) != [GATE] or not self.is_guarded(pod):
            return False
        return self.refusal(entry) is None and not self.over_limit(entry.reading.request)

    def _ask_again(self) -> None:
        super()._ask_again()
        self.news.set()

    def waits_for_devices(self, entry: PodEntry) -> bool:
        """Whether a pod still carries our gate, so that the devices of its claims may be taken back."""
        return entry.ref.uid in self.gated

    def gated_pod(self, uid: str) -> Json | None:
        """A gated pod as the API server has told it last."""
        with self.guarded():
            return self.gated.get(uid)

    def unanswered(self, ref: PodRef) -> None:
        """A PATCH was sent, and nobody knows whether it was taken: from now on only the pod itself can say."""
        super().unanswered(ref)
        with self.guarded():
            if ref.uid in self.table.by_uid:
                self.unsure.add(ref.uid)

    def may_have_begun(self, refs: Iterable[PodRef]) -> bool:
        """Whether any of these pods may be pinned, as far as its last PATCH says."""
        with self.guarded():
            return any(ref.uid in self.unsure for ref in refs)

    def pin_failed(self, ref: PodRef, error: str) -> None:
        """A PATCH was refused: it is sent again, ever less often, until it is taken or the place is given back."""
        with self.guarded():
            _, pause = self._retries.get(ref.uid, (0.0, RETRY[0]))
            self._retries[ref.uid] = self.clock() + pause, min(2 * pause, RETRY[1])
            message = f"it has its place, but cannot be pinned to it: {error}"
            self.record(PodEvent(ref, "PinFailed", message, warning=True))

    def pin_later(self, refs: Iterable[PodRef]) -> None:
        """The API server did not answer: pods keep their places, and are pinned as soon as it is back.

        That refuses nothing, so the pause does not grow: a gang of which some pods were pinned when the API server
        went away would wait for the others for half a minute after its return.
        """
        with self.guarded():
            for ref in refs:
                if (entry := self.table.by_uid.get(ref.uid)) is not None:
                    entry.binding = False
                    self._retries[ref.uid] = self.clock() + RETRY[0], RETRY[0]

    def gang_refused(self, refs: Iterable[PodRef], why: str) -> None:
        """The API server would not take all pins of a gang: none is sent, its place is free for others meanwhile."""
        with self.guarded():
            for entry in filter(None, (self.table.by_uid.get(ref.uid) for ref in refs)):
                uid = entry.ref.uid
                _, pause = self._retries.get(uid, (0.0, REFUSED[0]))
                self._retries[uid] = self.clock() + pause, min(2 * pause, REFUSED[1])
                entry.binding = False
                self.give_back(entry)
                reason = f"pod waits: its gang cannot be pinned as a whole: {why}"
                entry.cached = CachedDecision(-1, "wait", reason)
                if self.reasons.get(uid) != reason:
                    self.reasons[uid] = reason
                    self.record(PodEvent(entry.ref, "PinFailed", reason, warning=True))

    def give_back(self, entry: PodEntry) -> None:
        """A pod that is not pinned loses the place that was meant for it."""
        self.usage.remove(entry.ref.uid)
        self.record_outcomes(self.book.cancel(entry.ref.uid, self.wall()))
        entry.assumed, entry.cached = 0.0, None

    def may_pin(self, entry: PodEntry) -> bool:
        """Whether no PATCH is under way for a pod and none was refused a moment ago."""
        return not entry.binding and self._retries.get(entry.ref.uid, (0.0, 0.0))[0] <= self.clock()

    def stuck(self) -> list[PodRef]:
        """Pods that were pinned longer ago than the deadline and still wait for their binding."""
        with self.guarded():
            before = self.clock() - self.options.deadline
            entries = (self.table.by_uid.get(uid) for uid, since in self.pinned.items() if since < before)
            return [entry.ref for entry in entries if entry is not None and not entry.deleting]

    def unclaimed(self) -> list[Binding]:
        """Pods that are pinned and whose claims do not hold their devices: kube-scheduler frees the claims of a pod
        that it cannot schedule, and would choose other devices at its next attempt."""
        with self.guarded():
            claims, bindings = self.claims, []
            for uid in self.pinned if claims is not None else ():
                entry, known = self.table.by_uid.get(uid), self.book.pods.get(uid)
                if claims is None or entry is None or known is None or known.info is None or entry.deleting:
                    continue
                if claims.disagreement(uid, known.info.node, known.info.devices):
                    bindings.append(Binding(entry.ref, known.info.node, {}, known.info.devices))
            return bindings

    def pin_refused(self, ref: PodRef) -> None:
        """Count a pin that kube-scheduler refuses, and look at it again after another deadline."""
        with self.guarded():
            self.decisions["pin refused"] += 1
            self.pinned[ref.uid] = self.clock()
