"""Which of many jobs would fit, one after another, if `take` placed them: by counts alone.

While jobs are only added, the free devices of a node only fall. So the first node with room for a size is never before
the last one found for that size, and a trial of n jobs takes O(n + nodes) steps for each size.
"""

from __future__ import annotations

from collections.abc import Sequence

from paictl.sim.view import JobView


class CountTrial:
    """Free devices of each type, on any node; `free`: by type, in the order of the cluster."""

    def __init__(self, free: dict[str, int]) -> None:
        self._free = free

    def take(self, job: JobView, number: int) -> bool:
        """All of one type if one has enough, else of several if the job has no type."""
        kinds = [job.gpu_type] if job.gpu_type is not None else list(self._free)
        for kind in kinds:
            if self._free.get(kind, 0) >= number:
                self._free[kind] -= number
                return True
        if job.gpu_type is not None or sum(self._free.values()) < number:
            return False
        for kind in kinds:
            part = min(number, self._free[kind])
            self._free[kind] -= part
            number -= part
        return True


class PoolTrial:
    """Nodes of one type and size; `free`: free devices of each node, in the order of the cluster."""

    def __init__(self, kind: str, size: int, free: list[int]) -> None:
        self.kind = kind
        self._size = size
        self._free = free
        self._idle = free.count(size)
        self._first = [0] * (size + 1)
        """By size of a part: no node before this one has room for it."""

    def take(self, number: int) -> bool:
        """Whole nodes and one part of a node."""
        if number < self._size:
            return self._use(number)
        whole, rest = divmod(number, self._size)
        if whole > self._idle:
            return False
        before = (list(self._free), self._idle, list(self._first)) if rest else None
        for _ in range(whole):
            self._use(self._size)
        if before is not None and not self._use(rest):
            self._free, self._idle, self._first = before
            return False
        return True

    def _use(self, part: int) -> bool:
        """Put a part on the first node that has room for it, if there is one."""
        free, node = self._free, self._first[part]
        while node < len(free) and free[node] < part:
            node += 1
        self._first[part] = node
        if node == len(free):
            return False
        self._idle -= free[node] == self._size
        free[node] -= part
        return True


class NodeTrial:
    """As few nodes as possible, of one type and size."""

    def __init__(self, pools: Sequence[PoolTrial]) -> None:
        self._pools = pools

    def take(self, job: JobView, number: int) -> bool:
        """In the first pool that has room."""
        kind = job.gpu_type
        for pool in self._pools:  # noqa: SIM110 this is called for each job of each decision: half the time of `any`
            if (kind is None or pool.kind == kind) and pool.take(number):
                return True
        return False
