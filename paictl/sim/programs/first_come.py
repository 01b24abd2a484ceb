"""First come, first served on typed devices, as in Gavel's published code (stanford-futuredata/gavel@c4fa400).

All devices of a job have one type. The first job for which no type has room blocks all jobs behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Waiting = tuple[int, int, Sequence[float]]
"""(number, devices, rate on each type) of a job; jobs are listed in the order of arrival."""


class FirstCome:
    """Aware: every decision gives each job the fastest type with room. Unaware: a job draws a type once and keeps it.

    `draw(n)` returns a random integer from 0 to n - 1.
    """

    def __init__(self, draw: Callable[[int], int], *, aware: bool) -> None:
        self._draw = draw
        self._aware = aware
        self._assigned: dict[int, tuple[int, int]] = {}
        """(type, devices) of each job that has a type, including jobs that have ended since."""

    def assign(self, jobs: Sequence[Waiting], devices: Sequence[int]) -> dict[int, int]:
        """By job number, the index of its type; jobs that have to wait are absent."""
        free = list(devices)
        queue = list(jobs)
        if self._aware:
            self._assigned = {}
        else:
            queue = self._replace(jobs, free)
        for number, needs, rates in queue:
            kinds = [kind for kind, rate in enumerate(rates) if rate > 0 and free[kind] >= needs]
            if not kinds:
                break
            kind = max(kinds, key=lambda kind: (rates[kind], -kind)) if self._aware else kinds[self._draw(len(kinds))]
            self._assigned[number] = kind, needs
            free[kind] -= needs
        return {number: kind for number, (kind, _) in self._assigned.items()}

    def _replace(self, jobs: Sequence[Waiting], free: list[int]) -> list[Waiting]:
        """Give the type of each ended job to the head of the queue, if it fits; return the jobs without a type."""
        present = {number for number, _, _ in jobs}
        queue = [job for job in jobs if job[0] not in self._assigned]
        for number, (kind, needs) in sorted(self._assigned.items()):
            if number in present:
                free[kind] -= needs
                continue
            del self._assigned[number]
            if queue and queue[0][1] <= free[kind] and queue[0][2][kind] > 0:
                successor, devices, _ = queue.pop(0)
                self._assigned[successor] = kind, devices
                free[kind] -= devices
        return queue
