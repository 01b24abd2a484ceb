"""Tiresias-G without its placement: queues as `las`, within them by Gittins index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from itertools import accumulate
from typing import Literal

from paictl.frozen import frozen
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Setup
from paictl.sim.policies.las import Las, LasParameters
from paictl.sim.policies.parameters import parameter
from paictl.sim.policies.queue import Key
from paictl.sim.policies.ranked import Entry
from paictl.sim.view import JobView


class Index:
    """The Gittins index of a job that attained `a`, for a quantum `d`: P(S-a <= d | S > a) / E[min(S-a, d) | S > a].

    `history`: services S of other jobs, in device-milliseconds. A look-up takes two binary searches.
    """

    def __init__(self, history: Sequence[int]) -> None:
        self._samples = sorted(history)
        self._sums = [0, *accumulate(self._samples)]

    def __call__(self, attained: int, quantum: int) -> float:
        """Probability of ending within the quantum by expected service; 0 beyond the longest of `history`."""
        low = bisect_right(self._samples, attained)
        high = bisect_right(self._samples, attained + quantum)
        total = len(self._samples)
        if low == total:
            return 0.0
        spent = self._sums[high] - self._sums[low] - (high - low) * attained + (total - high) * quantum
        return (high - low) / spent


@frozen
class GittinsParameters(LasParameters):
    """As `las`, and how the last queue is ordered."""

    last: Literal["start", "index"] = parameter(
        "start", "order of the last queue: as in las (the paper's text), or also by the index (its simulator)"
    )


class Gittins(Las):
    """Knows the distribution of GPU time over jobs, but not the duration of each job.

    All queues but the last are in descending order of the index. The last one is ordered as in `las`, or with
    `last=index` also by the index. Example: `gittins:queues=3250/7200,last=index`.
    """

    id = "gittins"
    title = "Gittins index in queues (Tiresias-G): knows the distribution of service"
    paper = "Tiresias (NSDI'19) §3.2"
    knows = frozenset({Knowledge.DISTRIBUTION})
    choices = (
        "the distribution is that of the trace itself, as in the paper's simulation",
        "the quantum d is the upper threshold of the job's queue; in the last queue, the lower one",
        "the paper serves the last queue in the order of first starts; its simulator, and so every published "
        "figure, orders all queues by the index (`last=index`)",
        "indices are updated at every event, not between events",
    )
    Parameters = GittinsParameters

    def __init__(self, parameters: GittinsParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.index = Index(setup.history)

    def key(self, job: JobView, *, runs: bool) -> Key:
        """(queue, -index), in the last queue (queue, first start)."""
        if self.lane(job):
            return super().key(job, runs=runs)
        queue = self._queue[job.number]
        return queue, -self.index(self.service(job), self.limits[min(queue, len(self.limits) - 1)])

    def lane(self, job: JobView, /) -> bool:
        """Whether its queue keeps its order (the last one may); by index it changes at every event."""
        by_start: bool = self.p.last == "start"
        return by_start and self._queue[job.number] == len(self.limits)

    def lane_rank(self, job: JobView) -> Key:
        """The key in the last queue; else 0, as the order does not matter: it changes at every event."""
        return self.key(job, runs=True) if self.lane(job) else 0

    def all_from_last(self) -> Iterator[Entry]:
        """The last queue first: it is usually long enough, so that no index has to be computed."""
        for lane in (True, False):
            if row := self._lanes.get(lane):
                yield from self.from_last(lane, row)

    def from_last(self, lane: Hashable, row: list[Entry], /) -> Iterator[Entry]:
        """Sorted by the present indices; there are few jobs in the first queues."""
        if lane is True:
            return reversed(row)
        return iter(sorted(((self.key(job, runs=True), number, job) for _, number, job in row), reverse=True))
