"""Policies that order those who wait and never take anything away: what fifo, backfill and sjf share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from heapq import heappop, heappush

from paictl.sim.actions import Trigger
from paictl.sim.policies.base import Policy
from paictl.sim.view import JobView

Key = int | float | tuple[int | float, ...]


class Queue(Policy):
    """Starts waiting jobs by (key, submit, row), passing over those for which there is no place.

    Jobs wait in heaps by size and placement group: where the first of a heap finds no place, nobody behind it does, so
    a decision looks at one job of each size however many wait.
    """

    endures = True

    @abstractmethod
    def key(self, job: JobView, /) -> Key:
        """Lower goes first."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type] # as Policy takes them
        self._waiting: dict[tuple[int, Hashable], list[tuple[Key, int, JobView]]] = {}

    def plan(self, moment: Trigger) -> None:
        """Start whom there is room for."""
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
        """The group whose first job goes next."""
        free = self.placement.free
        best: tuple[Key, int, JobView] | None = None
        found = None
        for group, heap in self._waiting.items():
            if group[0] <= free and group not in stuck and (best is None or heap[0] < best):
                best, found = heap[0], group
        return found
