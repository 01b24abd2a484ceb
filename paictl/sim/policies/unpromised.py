"""ElasticFlow's jobs without a promise: which of them a decision looks at, and who of these comes first."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable
from heapq import merge

from paictl.sim.view import JobView
from paictl.units import Millis

_Rank = tuple[int, int]
"""(remaining service, number); service as units of work times devices."""


class Unpromised:
    """Jobs in the order in which they came here, at most `most` of which, the oldest, are looked at while they wait.

    A job that waits does no work, so its rank holds until it starts: those who wait are kept in order. Running jobs are
    ranked for each decision, and are looked at however young they are. `running` has their numbers, also of jobs that
    are not here: its owner changes it, and then tells `runs` or `waits`.
    """

    def __init__(self, most: int, running: Collection[int]) -> None:
        self._most = most
        self._running = running
        self._jobs: dict[int, JobView] = {}
        self._oldest: set[int] = set()
        self._younger: deque[int] = deque()
        """Those behind the oldest, and jobs that have left since."""
        self._order: list[_Rank] = []
        """The oldest that wait."""
        self._ranks: dict[int, _Rank] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._jobs

    def __getitem__(self, number: int) -> JobView:
        return self._jobs[number]

    def enter(self, job: JobView, now: Millis) -> None:
        """A job comes: it is younger than all others here."""
        self._jobs[job.number] = job
        self._younger.append(job.number)
        self._look(now)

    def leave(self, number: int, now: Millis) -> None:
        """A job ends; nothing happens if it is not here."""
        if self._jobs.pop(number, None) is None:
            return
        self._unrank(number)
        self._oldest.discard(number)
        self._look(now)

    def runs(self, number: int) -> None:
        """A job has started; nothing happens if it is not here."""
        self._unrank(number)

    def waits(self, number: int, now: Millis) -> None:
        """A job has lost its devices; nothing happens if it is not here."""
        if number in self._oldest:
            self._rank(number, now)

    def by_service(self, now: Millis) -> Iterable[JobView]:
        """The oldest and all that run, least remaining service first, then in the order of arrival."""
        running = sorted(_rank(self._jobs[number], now) for number in self._running if number in self._jobs)
        return (self._jobs[number] for _, number in merge(self._order, running))

    def _look(self, now: Millis) -> None:
        """Look at younger jobs, too, as far as there are fewer older ones than a decision looks at."""
        while self._younger and len(self._oldest) < self._most:
            number = self._younger.popleft()
            if number in self._jobs:
                self._oldest.add(number)
                if number not in self._running:
                    self._rank(number, now)

    def _rank(self, number: int, now: Millis) -> None:
        rank = self._ranks[number] = _rank(self._jobs[number], now)
        insort(self._order, rank)

    def _unrank(self, number: int) -> None:
        if (rank := self._ranks.pop(number, None)) is not None:
            del self._order[bisect_left(self._order, rank)]


def _rank(job: JobView, now: Millis) -> _Rank:
    return job.remaining(now) * job.gpus, job.number
