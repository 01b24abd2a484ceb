"""Policies that order waiting jobs and never preempt: the base of backfill, sjf and quota."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from heapq import heappop, heappush

from paictl.sim.actions import Trigger
from paictl.sim.policies.base import Policy
from paictl.sim.view import JobView

Key = int | float | tuple[int | float, ...]


class Queue(Policy):
    """Starts waiting jobs by (key, submit, row) and skips those for which there is no place.

    Jobs wait in heaps by size and placement group: if the first of a heap does not fit, no other of the heap does, so
    a decision looks at one job of each size, however many wait.
    """

    endures = True

    @abstractmethod
    def key(self, job: JobView, /) -> Key:
        """The sort key of a waiting job; the lowest goes first."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type] # as Policy takes them
        self._waiting: dict[tuple[int, Hashable], list[tuple[Key, int, JobView]]] = {}

    def plan(self, moment: Trigger) -> None:
        """Start every job for which there is room, in order."""
        for job in moment.arrived:
            heap = self._waiting.setdefault((job.gpus, self.placement.group(job)), [])
            heappush(heap, (self.key(job), job.number, job))
        stuck: set[tuple[int, Hashable]] = set()
        while (group := self._first(stuck)) is not None:
            heap = self._waiting[group]
            if self.start(heap[0][2]):
                heappop(heap)
                if not heap:
                    del self._waiting[group]
            else:
                stuck.add(group)

    def _first(self, stuck: set[tuple[int, Hashable]]) -> tuple[int, Hashable] | None:
        """The group whose first job is next, among those not in `stuck`."""
        free = self.placement.free
        best: tuple[Key, int, JobView] | None = None
        chosen = None
        for group, heap in self._waiting.items():
            if group[0] <= free and group not in stuck and (best is None or heap[0] < best):
                best, chosen = heap[0], group
        return chosen
