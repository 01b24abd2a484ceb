"""First come, first served on typed devices, as the published code of Gavel has it (stanford-futuredata/gavel@c4fa400).

Each job has one type at a time, whole. The first job for which no type has room blocks all behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Waiting = tuple[int, int, Sequence[float]]
"""(number, devices, rate on each type) of a job; jobs are told in the order of arrival."""


class FirstCome:
    """Aware: everybody chooses anew each time, the fastest type with room first. Unaware: a type is drawn and kept.

    `draw` gives a whole number below its argument.
    """

    def __init__(self, draw: Callable[[int], int], *, aware: bool) -> None:
        self._draw = draw
        self._aware = aware
        self._kept: dict[int, tuple[int, int]] = {}
        """(type, devices) of each job that has one, also of those that have ended since."""

    def assign(self, jobs: Sequence[Waiting], devices: Sequence[int]) -> dict[int, int]:
        """The type of each job that has one."""
        left = list(devices)
        queue = list(jobs)
        if self._aware:
            self._kept = {}
        else:
            queue = self._replace(jobs, left)
        for number, needs, rates in queue:
            kinds = [kind for kind, rate in enumerate(rates) if rate > 0 and left[kind] >= needs]
            if not kinds:
                break
            kind = max(kinds, key=lambda kind: (rates[kind], -kind)) if self._aware else kinds[self._draw(len(kinds))]
            self._kept[number] = kind, needs
            left[kind] -= needs
        return {number: kind for number, (kind, _) in self._kept.items()}

    def _replace(self, jobs: Sequence[Waiting], left: list[int]) -> list[Waiting]:
        """Let the head of the queue have the type of each job that has ended, if it fits; returns who has none yet."""
        here = {number for number, _, _ in jobs}
        queue = [job for job in jobs if job[0] not in self._kept]
        for number, (kind, needs) in sorted(self._kept.items()):
            if number in here:
                left[kind] -= needs
                continue
            del self._kept[number]
            if queue and queue[0][1] <= left[kind] and queue[0][2][kind] > 0:
                successor, devices, _ = queue.pop(0)
                self._kept[successor] = kind, devices
                left[kind] -= devices
        return queue
