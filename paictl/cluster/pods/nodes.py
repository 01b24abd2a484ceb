"""Which nodes are bad, and what the pods on each node request together, from their objects in the API.

Pods of all schedulers count: a system pod takes CPU as well. A change costs what one pod requests, however many pods
there are, and a node's sum is there without walking them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from paictl.cluster.pods.feasibility import Amounts, NodeFacts, node_facts
from paictl.cluster.pods.labels import DEVICES
from paictl.frozen import frozen

GIVEN_UP: Final = "paictl.io/given-up"
"""Annotation of a node: for how many seconds containers of pods that were given up there may still run once it is
back."""


@frozen
class NodeStatus:
    """What matters of a node. `devices` is what its device plugin offers now, None if it has none."""

    name: str
    ready: bool
    schedulable: bool
    devices: int | None = None
    facts: NodeFacts | None = None
    """What decides whether it takes a pod, None if nothing is known: then it excludes none."""
    ending: float = 0.0
    """For how many seconds containers of pods that were given up may still run once it is back, by its annotation."""


def node_status(node: Mapping[str, Any], resources: Sequence[str] = DEVICES) -> NodeStatus:
    """What matters of a node object; the resource that the node has most of counts as its devices."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    known = {name: _count(capacity[name]) for name in resources if name in capacity}
    devices = None
    if known:
        most = max(known, key=lambda name: known[name])
        devices = _count(allocatable.get(most, 0))
    about = node["metadata"]
    ending = _count((about.get("annotations") or {}).get(GIVEN_UP, 0))
    return NodeStatus(str(about["name"]), ready, not spec.get("unschedulable"), devices, node_facts(node), ending)


def why_bad(node: NodeStatus | None, promised: int) -> str:
    """Why nothing new goes to a node whose cells promise so many devices; empty if something may.

    A node without any device plugin is not judged by its devices: its cells may stand for something else.
    """
    if node is None:
        return "it is not there"
    if not node.ready:
        return "it is not Ready"
    if not node.schedulable:
        return "it is cordoned"
    if node.devices is not None and node.devices < promised:
        return f"it has {node.devices} healthy devices, its cells promise {promised}"
    return ""


def _count(amount: object) -> int:
    text = str(amount)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


class NodeUsage:
    """Sums by node. Not thread-safe: its owner has a lock."""

    def __init__(self) -> None:
        self.version = 0
        """Another number after each change."""
        self._pods: dict[str, tuple[str, Amounts]] = {}
        self._sums: dict[str, dict[str, int]] = {}

    def place(self, uid: str, node: str, requests: Amounts) -> None:
        """A pod is on a node and requests so much; its place and requests before no longer count."""
        if self._pods.get(uid) == (node, requests):
            return
        self.remove(uid)
        self._pods[uid] = node, requests
        _shift(self._sums.setdefault(node, {}), requests, 1)
        self.version += 1

    def remove(self, uid: str) -> None:
        """A pod is on no node any more; nothing happens if it was on none."""
        node, requests = self._pods.pop(uid, ("", {}))
        if not node:
            return
        left = self._sums[node]
        _shift(left, requests, -1)
        if not left:
            del self._sums[node]
        self.version += 1

    def used(self, node: str, without: Iterable[str] = ()) -> dict[str, int]:
        """What the pods on a node request, these (uids) not counted."""
        sums = dict(self._sums.get(node, {}))
        for uid in without:
            at, requests = self._pods.get(uid, ("", {}))
            if at == node:
                _shift(sums, requests, -1)
        return sums


def _shift(sums: dict[str, int], requests: Amounts, sign: int) -> None:
    for name, amount in requests.items():
        left = sums.get(name, 0) + sign * amount
        if left:
            sums[name] = left
        else:
            sums.pop(name, None)
