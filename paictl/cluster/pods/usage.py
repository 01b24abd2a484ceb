"""What the pods on each node request together, kept up to date pod by pod.

Pods of all schedulers count: a system pod takes CPU as well. A change costs what one pod requests, however many pods
there are, and a node's sum is there without walking them.
"""

from __future__ import annotations

from collections.abc import Iterable

from paictl.cluster.pods.feasibility import Amounts


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
        found = dict(self._sums.get(node, {}))
        for uid in without:
            at, requests = self._pods.get(uid, ("", {}))
            if at == node:
                _shift(found, requests, -1)
        return found


def _shift(sums: dict[str, int], requests: Amounts, sign: int) -> None:
    for name, amount in requests.items():
        left = sums.get(name, 0) + sign * amount
        if left:
            sums[name] = left
        else:
            sums.pop(name, None)
