"""Who runs in Gavel's next round: slots by type, their shares of time, and what they have received since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Final

from paictl.sim.view import JobView

_FIRST: Final = 1e9
"""Stands for "has not run on that type yet": such jobs come first, in the order of their shares."""

Numbers = tuple[int, ...]
"""The numbers of the jobs of a slot: one job, or two that share devices."""


class RoundQueue:
    """The slots that may run on each type, and the time that each job has received there since shares were computed.

    Types are numbered from 0; `devices` has how many each has. A round looks at every slot that may run, so all that
    does not change from round to round is kept here. Times are milliseconds; each job starts with `head_start` on every
    type, as in the published code: no job is infinitely behind.
    """

    def __init__(self, devices: Sequence[int], head_start: int) -> None:
        self._devices = devices
        self._head_start = head_start
        self._ways: list[dict[Numbers, int]] = [{} for _ in devices]
        """By type: how many devices each slot needs that may run there."""
        self._shares: list[dict[Numbers, float]] = [{} for _ in devices]
        """By type: the shares of time of slots, also of jobs that are gone; whoever is not here fills gaps."""
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
            self._ways[kind][job.number,] = job.gpus

    def leave(self, number: int) -> None:
        """A job is gone, and so are the slots that it was part of."""
        for kind, received in enumerate(self._received):
            self._given[kind] -= received.pop(number)
        for numbers in ((number,), *self._pairs.pop(number, ())):
            for ways in self._ways:
                ways.pop(numbers, None)

    def reset(self) -> None:
        """Forget shares, pairs, and what the jobs have received: new shares count from now on.

        On which types a job may run alone does not change.
        """
        for numbers in {numbers for pairs in self._pairs.values() for numbers in pairs}:
            for ways in self._ways:
                ways.pop(numbers, None)
        self._pairs = {}
        self._shares = [{} for _ in self._devices]
        self._received = [dict.fromkeys(received, self._head_start) for received in self._received]
        self._given = [self._head_start * len(received) for received in self._received]

    def clear(self) -> None:
        """No slot may run on any type until it is offered."""
        self._ways = [{} for _ in self._devices]

    def offer(self, numbers: Numbers, kind: int, devices: int) -> None:
        """Let a slot that needs so many devices run on a type; it fills gaps until it is given a share."""
        self._ways[kind][numbers] = devices
        if len(numbers) > 1:
            for number in numbers:
                self._pairs.setdefault(number, []).append(numbers)

    def share(self, numbers: Numbers, kind: int, share: float) -> None:
        """Give a slot a share of its time on a type; nothing comes of it if its jobs are gone."""
        self._shares[kind][numbers] = share

    def account(self, ran: Iterable[tuple[Numbers, int]], span: int) -> None:
        """Slots that ran on a type for so long; jobs that are gone are skipped."""
        given = self._given
        for numbers, kind in ran:
            received = self._received[kind]
            for number in numbers:
                if number in received:
                    received[number] += span
                    given[kind] += span

    def everybody(self, order: Iterable[int]) -> dict[Numbers, int] | None:
        """The type of each slot if all can run, each on the first type that it may use; None if there is no room.

        Shares decide nothing here. Pairs are rivals of their own jobs, so there is never room for all of them.
        """
        if self._pairs:
            return None
        chosen: dict[Numbers, int] = {}
        for kind in order:
            ways = self._ways[kind]
            if chosen:
                ways = {numbers: devices for numbers, devices in ways.items() if numbers not in chosen}
            if sum(ways.values()) > self._devices[kind]:
                return None
            chosen |= dict.fromkeys(ways, kind)
        return chosen

    def choose(self, order: Iterable[int]) -> dict[Numbers, int]:
        """The type of each slot that runs next: types fill up in this order, with whoever is most behind its share.

        Slots that do not fit are skipped.
        """
        chosen: dict[Numbers, int] = {}
        taken: set[int] = set()
        for kind in order:
            left = self._devices[kind]
            for _, _, numbers, devices in self._ranked(kind, taken):
                if devices <= left and taken.isdisjoint(numbers):
                    chosen[numbers] = kind
                    taken.update(numbers)
                    left -= devices
                    if not left:
                        break
        return chosen

    def _ranked(self, kind: int, taken: Set[int]) -> list[tuple[float, float, Numbers, int]]:
        """(minus priority, minus share, numbers, devices) of slots without those jobs, who is most behind first."""
        received, given, shares = self._received[kind], self._given[kind], self._shares[kind]
        entries = []
        for numbers, devices in self._ways[kind].items():
            if not taken.isdisjoint(numbers):
                continue
            share, priority = shares.get(numbers, 0.0), 0.0
            if share > 0:
                own = received[numbers[0]] if len(numbers) == 1 else max(received[number] for number in numbers)
                priority = share / (own / given) if own > 0 and given > 0 else share * _FIRST
            entries.append((-priority, -share, numbers, devices))
        entries.sort()
        return entries
