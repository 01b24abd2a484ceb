"""How far a job has come: the engine's own record, which no policy sees (it sees `view.JobView`).

Work is counted in units of a millionth of a millisecond at the reference rate and a rate in units a millisecond, so
that progress is a product of integers: sums are exact and the same everywhere.
"""

from __future__ import annotations

from typing import Final

from paictl.sim.cluster import Devices
from paictl.sim.job import Job
from paictl.units import Millis

ONE: Final = 1_000_000
"""The rate of a job on its reference: units of work a millisecond."""


class JobProgress:
    """A job between its arrival and its end."""

    __slots__ = (
        "begins", "devices", "end", "first_start", "held_since", "job", "left", "limit", "lost", "migrations",
        "notes", "number", "placed", "plain", "preemptions", "ran", "rate", "resizes", "service", "version",
        "waiting_since",
    )  # fmt: skip

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.number = number
        """Its place in the order of arrival: the last word of every tie."""
        self.left = job.true_work * ONE
        """Units of work, as of `begins`."""
        self.rate = 0
        self.limit = ONE
        """How much of its rate the policy lets it have."""
        self.begins = job.submit
        """Since when, or from when on, it progresses at `rate`."""
        self.held_since = job.submit
        self.waiting_since = job.submit
        self.devices: Devices = ()
        self.placed = False
        """Whether it runs; a job of CPUs alone does so without devices."""
        self.first_start: Millis | None = None
        self.end: Millis | None = None
        self.ran = 0
        """Time with devices, without the stretch since `held_since`."""
        self.service = 0
        self.preemptions = self.migrations = self.resizes = self.lost = 0
        self.version = 0
        """Raised with each change of rate: ends that were queued for an older one are void."""
        self.notes: dict[str, float] | None = None
        self.plain = not (job.scaling or job.throughput or job.sensitivity or job.spread)

    def left_at(self, now: Millis) -> int:
        """Units of work that are left."""
        if self.rate and now > self.begins:
            return max(0, self.left - self.rate * (now - self.begins))
        return self.left

    def settle(self, now: Millis) -> None:
        """Write the progress down, before the rate changes."""
        if now > self.begins:
            self.left = self.left_at(now)
            self.begins = now

    def due(self) -> Millis | None:
        """When it will be done at this rate; None if it stands still."""
        return Millis(self.begins - (-self.left // self.rate)) if self.rate else None

    def book(self, now: Millis) -> None:
        """Account the time for which it held its devices until now."""
        span = now - self.held_since
        self.ran += span
        self.service += span * len(self.devices)
        self.held_since = now
