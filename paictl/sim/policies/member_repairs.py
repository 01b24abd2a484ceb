"""Repair in place for `hived`: gangs that keep their devices while a lost member is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.sim.actions import Trigger
    from paictl.sim.view import JobView


class MemberRepairs:
    """Gangs that wait for a member, and the figures of all repairs.

    For the engine, an attempt ends with the failure, and the next one starts when the gang is whole; meanwhile the core
    keeps the devices of the other members.
    """

    def __init__(self) -> None:
        self.failed: frozenset[int] = frozenset()
        """Devices that fail at this instant."""
        self._next: dict[str, JobView] = {}
        """By job: its next attempt, if it arrived at this instant."""
        self._waiting: dict[int, tuple[JobView, Millis]] = {}
        """Gangs that are not whole: (job, since when)."""
        self._done: dict[str, tuple[int, int]] = {}
        """By job: (number of repairs, milliseconds that it waited for them)."""
        self._idle = 0
        """Device-milliseconds that gangs stood still."""

    def begin(self, moment: Trigger) -> None:
        """Note the failures and the next attempts of an instant."""
        self.failed = frozenset(moment.failed)
        self._next = {job.id: job for job in moment.arrived} if moment.failed else {}

    def next_attempt(self, job: JobView) -> JobView | None:
        """The attempt that follows one whose devices failed; None for a job that ended otherwise."""
        return self._next.get(job.id)

    def lost(self, job: JobView, now: Millis) -> None:
        """A gang waits for a member from now on."""
        self._waiting[job.number] = job, now

    def whole(self, job: JobView, now: Millis) -> None:
        """A gang has all of its members again."""
        _, since = self._waiting.pop(job.number)
        number, waited = self._done.get(job.id, (0, 0))
        self._done[job.id] = number + 1, waited + now - since
        self._idle += job.gpus * (now - since)

    def drop(self, job: JobView, now: Millis) -> None:
        """A gang gives up its repair, to restart as a whole."""
        _, since = self._waiting.pop(job.number)
        self._idle += job.gpus * (now - since)

    def keeps(self, job: JobView) -> bool:
        """Whether a job waits for a member."""
        return job.number in self._waiting

    def waiting(self) -> list[JobView]:
        """Gangs that wait for a member, the longest wait first."""
        return [job for job, _ in self._waiting.values()]

    def notes(self, job: JobView) -> Mapping[str, float]:
        """Repairs of a job, and seconds that it waited for them."""
        number, waited = self._done.get(job.id, (0, 0))
        return {"repairs": number, "repair_wait": waited / 1000} if number else {}

    def counted(self) -> Mapping[str, float]:
        """Repairs, the mean seconds from a failure until a gang is whole, and device hours that gangs stood still."""
        number = sum(repairs for repairs, _ in self._done.values())
        if not number and not self._idle:
            return {}
        waited = sum(waited for _, waited in self._done.values())
        return {
            "repaired": number,
            "repair_wait": round(waited / max(1, number) / 1000, 3),
            "repair_idle_hours": round(self._idle / 3_600_000, 6),
        }
