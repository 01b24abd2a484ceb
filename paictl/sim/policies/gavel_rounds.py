"""Who runs in Gavel's next round: slots by type, their shares of time, and what they have received since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from paictl.sim.view import JobView

_FIRST: Final = 1e9
"""Stands for "has not run on that type yet": such jobs come first, in the order of their shares."""

Slot = tuple[JobView, ...]
"""One job, or two that share devices."""
Numbers = tuple[int, ...]
"""The numbers of a slot's jobs: what it is looked up by."""
_Way = tuple[Numbers, float, int]
"""A slot on a type: its numbers, its share of time, how many devices it needs."""


class RoundQueue:
    """The slots that may run on each type, and the time that each job has received there since shares were computed.

    Types are numbered from 0; `devices` has how many each has. A round looks at every slot that may run, so all that
    does not change from round to round is kept here. Times are milliseconds; each job starts with `head_start` on every
    type, as in the published code: no job is infinitely behind.
    """

    def __init__(self, devices: Sequence[int], head_start: int) -> None:
        self._devices = devices
        self._head_start = head_start
        self._ways: list[dict[Numbers, _Way]] = [{} for _ in devices]
        self._pairs: dict[int, list[Numbers]] = {}
        """The pairs that a job is part of."""
        self._received: list[dict[int, int]] = [{} for _ in devices]
        self._given = [0] * len(devices)
        """What all jobs that are there have received on each type."""

    def enter(self, job: JobView, kinds: Iterable[int]) -> None:
        """A job that has no shares yet may fill gaps on these types."""
        for received in self._received:
            received[job.number] = self._head_start
        self._given = [given + self._head_start for given in self._given]
        for kind in kinds:
            self.offer((job,), kind, 0.0)

    def leave(self, number: int) -> None:
        """A job is gone, and so are the slots that it was part of."""
        for kind, received in enumerate(self._received):
            self._given[kind] -= received.pop(number)
        for numbers in ((number,), *self._pairs.pop(number, ())):
            for ways in self._ways:
                ways.pop(numbers, None)

    def reset(self) -> None:
        """Forget all slots, and what the jobs have received: new shares count from now on."""
        self._ways = [{} for _ in self._devices]
        self._pairs = {}
        self._received = [dict.fromkeys(received, self._head_start) for received in self._received]
        self._given = [self._head_start * len(received) for received in self._received]

    def offer(self, slot: Slot, kind: int, share: float) -> None:
        """Let a slot run on a type, for that share of its time; 0: where a gap is left."""
        numbers = tuple(job.number for job in slot)
        self._ways[kind][numbers] = numbers, share, slot[0].gpus
        if len(numbers) > 1:
            for number in numbers:
                self._pairs.setdefault(number, []).append(numbers)

    def account(self, ran: Iterable[tuple[Numbers, int]], span: int) -> None:
        """Slots that ran on a type for so long; jobs that are gone are skipped."""
        given = self._given
        for numbers, kind in ran:
            received = self._received[kind]
            for number in numbers:
                if number in received:
                    received[number] += span
                    given[kind] += span

    def choose(self, order: Iterable[int]) -> dict[Numbers, int]:
        """The type of each slot that runs next: types fill up in this order, with whoever is most behind its share.

        Slots that do not fit are skipped.
        """
        chosen: dict[Numbers, int] = {}
        taken: set[int] = set()
        for kind in order:
            ways = [way for way in self._ways[kind].values() if taken.isdisjoint(way[0])]
            left = self._devices[kind]
            if not self._pairs and sum([way[2] for way in ways]) <= left:  # room for all: their order decides nothing
                chosen |= dict.fromkeys((way[0] for way in ways), kind)
                taken.update(way[0][0] for way in ways)
                continue
            for _, _, numbers, devices in self._ranked(kind, ways):
                if devices <= left and taken.isdisjoint(numbers):
                    chosen[numbers] = kind
                    taken.update(numbers)
                    left -= devices
                    if not left:
                        break
        return chosen

    def _ranked(self, kind: int, ways: Iterable[_Way]) -> list[tuple[float, float, Numbers, int]]:
        """(minus priority, minus share, numbers, devices), the slot that is most behind its share first."""
        received, given = self._received[kind], self._given[kind]
        entries = []
        for numbers, share, devices in ways:
            priority = 0.0
            if share > 0:
                own = received[numbers[0]] if len(numbers) == 1 else max(received[number] for number in numbers)
                priority = share / (own / given) if own > 0 and given > 0 else share * _FIRST
            entries.append((-priority, -share, numbers, devices))
        entries.sort()
        return entries
