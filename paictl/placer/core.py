"""What the placer knows: as the extender, but a pod counts as placed from its pin on, before it is bound."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from paictl.cluster.pods.reading import noted_on
from paictl.extender.core import ExtenderCore
from paictl.extender.pod_events import PodEvent
from paictl.extender.table import PodEntry
from paictl.extender.wire import PodRef
from paictl.placer.sites import NodeTraits, site_of
from paictl.remote.kube.client import Json
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import BIND_INFO

GATE: Final = "paictl.io/cells"
"""The scheduling gate that the placer removes."""
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
    """The extender's core, with the gated pods, the pins that wait for their binding, and the nodes' labels."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.news = threading.Event()
        """Set when a pod may be placed that could not before."""
        self.gated: dict[str, Json] = {}
        """Pods with our gate, by uid, as the API server has told them last."""
        self.pinned: dict[str, float] = {}
        """Pods that were pinned and are not bound, by uid, and since when."""
        self.sites: dict[str, NodeTraits] = {}
        self.reasons: dict[str, str] = {}
        """What a waiting pod was told last, by uid."""
        self._retries: dict[str, tuple[float, float]] = {}

    def place_of(self, pod: Mapping[str, Any]) -> str:
        """The pod's node, or the node it is pinned to."""
        return super().place_of(pod) or pinned_node(pod)

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
            if GATE in gates_of(pod):
                self.gated[uid] = dict(pod)
            else:
                self.gated.pop(uid, None)
                self.reasons.pop(uid, None)
            if pinned_node(pod) and not super().place_of(pod):
                self.pinned.setdefault(uid, self.clock())
            else:
                self.pinned.pop(uid, None)
        self.news.set()

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted, or ended."""
        super().pod_gone(uid)
        with self.guarded():
            for table in (self.gated, self.pinned, self.reasons, self._retries):
                table.pop(uid, None)
        self.news.set()

    def site_changed(self, node: Json) -> None:
        """A node's labels and taints are like this now."""
        with self.guarded():
            name, site = str(node["metadata"]["name"]), site_of(node)
            if self.sites.get(name) != site:
                self.sites[name] = site
                for entry in self.table:
                    entry.cached = None if entry.ref.uid in self.gated else entry.cached
        self.news.set()

    def node_gone(self, name: str) -> None:
        """A node is no longer there."""
        super().node_gone(name)
        with self.guarded():
            self.sites.pop(name, None)
        self.news.set()

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

    def may_pin(self, entry: PodEntry) -> bool:
        """Whether no PATCH is under way for a pod and none was refused a moment ago."""
        return not entry.binding and self._retries.get(entry.ref.uid, (0.0, 0.0))[0] <= self.clock()

    def stuck(self) -> list[PodRef]:
        """Pods that were pinned longer ago than the deadline and still wait for their binding."""
        with self.guarded():
            before = self.clock() - self.options.deadline
            found = (self.table.by_uid.get(uid) for uid, since in self.pinned.items() if since < before)
            return [entry.ref for entry in found if entry is not None and not entry.deleting]

    def pin_refused(self, ref: PodRef) -> None:
        """Count a pin that kube-scheduler refuses, and look at it again after another deadline."""
        with self.guarded():
            self.decisions["pin refused"] += 1
            self.pinned[ref.uid] = self.clock()
