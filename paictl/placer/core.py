"""What the placer knows: as the extender, but a pod counts as placed from its pin on, before it is bound."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from paictl.cluster.pods.nodes import NodeStatus
from paictl.cluster.pods.reading import noted_on
from paictl.extender import pod_events
from paictl.extender.core import Binding, ExtenderCore
from paictl.extender.pod_events import PodEvent
from paictl.extender.table import CachedDecision, PodEntry
from paictl.extender.wire import PodRef
from paictl.remote.kube.client import Json
from paictl.scheduler.errors import RequestError
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import BIND_INFO

GATE: Final = "paictl.io/cells"
"""The scheduling gate that the placer removes."""
REFUSED: Final = (5.0, 600.0)
"""First and longest pause in seconds before a gang is tried again whose pins would be refused."""
RETRY: Final = (1.0, 30.0)
"""First and longest pause in seconds before a PATCH that was refused is sent again."""


def gates_of(pod: Mapping[str, Any]) -> list[str]:
    """Names of a pod's scheduling gates."""
    return [str(gate.get("name")) for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]


def pinned_node(pod: Mapping[str, Any]) -> str:
    """The node that a pod was pinned to by a placer; empty if it was not.

    The annotation alone is no proof: it counts once the gates are gone and all terms name one and the same node.
    """
    spec = pod.get("spec") or {}
    if BIND_INFO not in noted_on(pod) or spec.get("schedulingGates"):
        return ""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    named: set[str] = set()
    for term in (required or {}).get("nodeSelectorTerms") or ():
        fields = [one for one in term.get("matchFields") or () if one.get("key") == "metadata.name"]
        values = [one["values"] for one in fields if one.get("operator") == "In" and len(one.get("values") or ()) == 1]
        if not values:
            return ""
        named.update(map(str, values[-1]))
    return named.pop() if len(named) == 1 else ""


class PlacerCore(ExtenderCore):
    """The extender's core, with the gated pods, the pins that wait for their binding, and the guarded namespaces."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.news = threading.Event()
        """Set when a pod may be placed that could not before."""
        self.gated: dict[str, Json] = {}
        """Pods with our gate, by uid, as the API server has told them last."""
        self.pinned: dict[str, float] = {}
        """Pods that were pinned and are not bound, by uid, and since when."""
        self.namespaces: set[str] = set()
        """Namespaces that the admission policies guard."""
        self.doubted: dict[str, Json] = {}
        """Pods with a place that anybody may have written, by uid; they hold nothing."""
        self.reasons: dict[str, str] = {}
        """What a waiting pod was told last, by uid."""
        self._retries: dict[str, tuple[float, float]] = {}

    def place_of(self, pod: Mapping[str, Any]) -> str:
        """The pod's node, or the node it is pinned to if nobody but the placer can have pinned it."""
        return super().place_of(pod) or (pinned_node(pod) if self.is_guarded(pod) else "")

    def is_guarded(self, pod: Mapping[str, Any]) -> bool:
        """Whether the admission policies hold in a pod's namespace, so that only the placer writes its annotations."""
        return str(pod["metadata"].get("namespace")) in self.namespaces

    def namespace_changed(self, namespace: Mapping[str, Any]) -> None:
        """A namespace is like this now; pods that were not believed are, as soon as it is guarded."""
        super().namespace_changed(namespace)
        with self.guarded():
            name, labels = str(namespace["metadata"]["name"]), namespace["metadata"].get("labels") or {}
            if labels.get(GATE) != "enabled":
                self.namespaces.discard(name)
            elif name not in self.namespaces:
                self.namespaces.add(name)
                for pod in [one for one in self.doubted.values() if one["metadata"].get("namespace") == name]:
                    self.pod_changed(pod)
        self.news.set()

    def namespace_gone(self, name: str) -> None:
        """A namespace is no longer there."""
        super().namespace_gone(name)
        with self.guarded():
            self.namespaces.discard(name)

    def open(self) -> None:
        """Begin to place: all nodes, pods and namespaces have been told."""
        super().open()
        with self.guarded():
            for uid in self.doubted:
                self._tell_doubt(uid)

    def _doubt(self, pod: Json) -> None:
        """Do not count what a pod says about its devices where anybody may have written it."""
        uid = str(pod["metadata"].get("uid"))
        told = uid in self.doubted
        self.doubted[uid] = pod
        if self.is_open and not told:
            self._tell_doubt(uid)

    def _tell_doubt(self, uid: str) -> None:
        ref, space = self.table.by_uid[uid].ref, self.doubted[uid]["metadata"].get("namespace")
        why = f"namespace {space} does not have the label {GATE}=enabled, so anybody may have written it"
        self.record(pod_events.unaccounted(ref, RequestError(ref.key, BIND_INFO, why)))

    def _runs(self, entry: PodEntry, pod: Mapping[str, Any], node: str) -> None:
        if self.is_guarded(pod) or BIND_INFO not in noted_on(pod):
            super()._runs(entry, pod, node)

    def asks_for(self, entry: PodEntry, request: PodRequest) -> bool:
        """Whether a pod still asks for what was decided; which nodes count is the placer's own choice."""
        if entry.reading is None:
            return False
        return replace(entry.reading.request, ignore_suggested=request.ignore_suggested) == request

    def pod_changed(self, pod: Mapping[str, Any]) -> None:
        """A pod is like this now."""
        super().pod_changed(pod)
        with self.guarded():
            uid = str(pod["metadata"].get("uid"))
            if uid not in self.table.by_uid:
                return
            if not self.is_guarded(pod) and (
                pinned_node(pod) or (super().place_of(pod) and BIND_INFO in noted_on(pod))
            ):
                self._doubt(dict(pod))
            else:
                self.doubted.pop(uid, None)
            if GATE in gates_of(pod):
                self.gated[uid] = dict(pod)
            else:
                self.gated.pop(uid, None)
                self.reasons.pop(uid, None)
            if self.place_of(pod) and not super().place_of(pod):
                self.pinned.setdefault(uid, self.clock())
            elif self.pinned.pop(uid, None) is not None and (known := self.book.pods.get(uid)) and known.info:
                self.check_claims(self.table.by_uid[uid].ref, known.info)
        self.news.set()

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted, or ended."""
        super().pod_gone(uid)
        with self.guarded():
            for table in (self.gated, self.pinned, self.doubted, self.reasons, self._retries):
                table.pop(uid, None)
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

    def waits_for_devices(self, entry: PodEntry) -> bool:
        """Whether a pod still carries our gate, so that the devices of its claims may be taken back."""
        return entry.ref.uid in self.gated

    def gated_pod(self, uid: str) -> Json | None:
        """A gated pod as the API server has told it last."""
        with self.guarded():
            return self.gated.get(uid)

    def pin_failed(self, ref: PodRef, error: str) -> None:
        """A PATCH was refused: it is sent again, ever less often, until it is taken or the place is given back."""
        with self.guarded():
            _, pause = self._retries.get(ref.uid, (0.0, RETRY[0]))
            self._retries[ref.uid] = self.clock() + pause, min(2 * pause, RETRY[1])
            message = f"it has its place, but cannot be pinned to it: {error}"
            self.record(PodEvent(ref, "PinFailed", message, warning=True))

    def gang_refused(self, refs: Iterable[PodRef], why: str) -> None:
        """The API server would not take all pins of a gang: none is sent, its place is free for others meanwhile."""
        with self.guarded():
            for entry in filter(None, (self.table.by_uid.get(ref.uid) for ref in refs)):
                uid = entry.ref.uid
                _, pause = self._retries.get(uid, (0.0, REFUSED[0]))
                self._retries[uid] = self.clock() + pause, min(2 * pause, REFUSED[1])
                entry.binding = False
                self.give_back(entry)
                reason = f"pod waits: its gang cannot be pinned whole: {why}"
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
            found = (self.table.by_uid.get(uid) for uid, since in self.pinned.items() if since < before)
            return [entry.ref for entry in found if entry is not None and not entry.deleting]

    def unclaimed(self) -> list[Binding]:
        """Pods that are pinned and whose claims do not hold their devices: kube-scheduler frees the claims of a pod
        that it cannot schedule, and would choose other devices at its next attempt."""
        with self.guarded():
            claims, found = self.claims, []
            for uid in self.pinned if claims is not None else ():
                entry, known = self.table.by_uid.get(uid), self.book.pods.get(uid)
                if claims is None or entry is None or known is None or known.info is None or entry.deleting:
                    continue
                if claims.disagreement(uid, known.info.node, known.info.devices):
                    found.append(Binding(entry.ref, known.info.node, {}, known.info.devices))
            return found

    def pin_refused(self, ref: PodRef) -> None:
        """Count a pin that kube-scheduler refuses, and look at it again after another deadline."""
        with self.guarded():
            self.decisions["pin refused"] += 1
            self.pinned[ref.uid] = self.clock()
