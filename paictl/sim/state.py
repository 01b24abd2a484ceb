"""The progress of a job: the engine's own record, which no policy sees (it sees `view.JobView`).

Work is counted in units of a millionth of a millisecond at the reference rate and a rate in units a millisecond, so
that progress is a product of integers: sums are exact and the same everywhere.
"""

from __future__ import annotations

from typing import Final

from paictl.frozen import frozen
from paictl.sim.cluster import Devices
from paictl.sim.job import Job
from paictl.units import Millis

ONE: Final = 1_000_000
"""The rate of a job on its reference: units of work a millisecond."""


@frozen
class EarlierAttempts:
    """Sums over the attempts of a job that ended because devices failed."""

    first_start: Millis | None
    ran: int
    service: int
    preemptions: int
    migrations: int
    resizes: int
    lost: int
    """Work (ms at the reference rate)."""
    wasted: int
    """Device-milliseconds since the last checkpoints."""
    count: int


class JobProgress:
    """A job between its arrival and its end."""

    __slots__ = (
        "begins",
        "brought",
        "devices",
        "earlier",
        "end",
        "first_start",
        "held_since",
        "job",
        "left",
        "limit",
        "lost",
        "migrations",
        "never_done",
        "notes",
        "number",
        "placed",
        "plain",
        "preemptions",
        "ran",
        "rate",
        "resizes",
        "service",
        "version",
        "waiting_since",
    )

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.number = number
        """Its position in the order of arrival: the final tie-breaker."""
        self.left = job.true_work * ONE
        self.never_done = (job.work - job.true_work) * ONE
        """Units of work that it never reaches, because it dies first."""
        """Units of work, as of `begins`."""
        self.brought = self.left
        """Units of work that were left when it last started."""
        self.rate = 0
        self.limit = ONE
        """How much of its rate the policy allows."""
        self.begins = job.submit
        """The past or future instant from which it progresses at `rate`."""
        self.held_since = job.submit
        self.waiting_since = job.submit
        self.devices: Devices = ()
        self.placed = False
        """Whether it runs; a CPU-only job runs without devices."""
        self.first_start: Millis | None = None
        self.end: Millis | None = None
        self.ran = 0
        """Time with devices, without the time since `held_since`."""
        self.service = 0
        self.preemptions = self.migrations = self.resizes = self.lost = 0
        self.version = 0
        """Incremented with each change of rate: ends queued for an older version are void."""
        self.notes: dict[str, float] | None = None
        self.earlier: EarlierAttempts | None = None
        """Sums over its attempts up to the last failure of its devices."""
        self.plain = not (job.scaling or job.throughput or job.sensitivity or job.spread)

    def left_at(self, now: Millis) -> int:
        """Units of work that are left."""
        if self.rate and now > self.begins:
            return max(0, self.left - self.rate * (now - self.begins))
        return self.left

    def settle(self, now: Millis) -> None:
        """Update the progress before the rate changes."""
        if now > self.begins:
            self.left = self.left_at(now)
            self.begins = now

    def due(self) -> Millis | None:
        """When it will be done at this rate; None if it makes no progress."""
        return Millis(self.begins - (-self.left // self.rate)) if self.rate else None

    def book(self, now: Millis) -> None:
        """Account the time for which it held its devices until now."""
        span = now - self.held_since
        self.ran += span
        self.service += span * len(self.devices)
        self.held_since = now

    def started(self) -> None:
        """It got devices and progresses from `begins` on."""
        self.brought = self.left

    def undo(self, span: Millis) -> None:
        """Lose the work that it did here in the last `span`, in whole milliseconds."""
        units = min(self.rate * span, self.brought - self.left) // ONE
        self.lost += units
        self.left += units * ONE


class FragileProgress(JobProgress):
    """A job on devices that may fail: it remembers what its last checkpoint saved."""

    __slots__ = ("every", "saved", "since")

    def __init__(self, job: Job, number: int, every: Millis | None) -> None:
        super().__init__(job, number)
        self.every = every
        """The interval between its checkpoints; 0: continuous, None: only when it is preempted."""
        self.saved = self.left
        """Units of work that are left as of the last checkpoint."""
        self.since = job.submit
        """When it started to run: checkpoints are at multiples of `every` from then on."""

    def started(self) -> None:
        """Earlier work is saved."""
        super().started()
        self.saved = self.left
        self.since = self.begins

    def settle(self, now: Millis) -> None:
        """Also update what the checkpoints since the last call saved."""
        if self.every and now > self.begins:
            latest = self._latest(now)
            if latest >= self.begins:
                self.saved = self.left_at(latest)
        super().settle(now)

    def _latest(self, now: Millis) -> Millis:
        """When it last saved its work, or started."""
        if not self.every or now < self.since:
            return self.since
        return Millis(self.since + (now - self.since) // self.every * self.every)

    def again(self, now: Millis, number: int) -> FragileProgress:
        """The attempt after this one, which was settled and dropped now: it waits, with the saved work."""
        saved = self.left if self.every == 0 else max(self.saved, self.left)
        attempt = FragileProgress(self.job, number, self.every)
        attempt.left = attempt.saved = saved
        attempt.waiting_since = attempt.begins = attempt.held_since = now
        return attempt

    def until_now(self, wasted: int) -> EarlierAttempts:
        """All attempts up to this one, whose devices failed."""
        earlier = self.earlier or _NONE
        saved = self.left if self.every == 0 else max(self.saved, self.left)
        return EarlierAttempts(
            self.first_start if earlier.first_start is None else earlier.first_start,
            earlier.ran + self.ran,
            earlier.service + self.service,
            earlier.preemptions + self.preemptions,
            earlier.migrations + self.migrations,
            earlier.resizes + self.resizes,
            earlier.lost + self.lost + (saved - self.left) // ONE,
            earlier.wasted + wasted,
            earlier.count + 1,
        )

    def wasted(self, now: Millis) -> int:
        """Device-milliseconds since the last checkpoint, including the cost of the start."""
        if self.every == 0:
            return 0
        latest = self._latest(now)
        since = self.held_since if latest <= self.since else max(latest, self.held_since)
        return (now - since) * len(self.devices)


_NONE = EarlierAttempts(None, 0, 0, 0, 0, 0, 0, 0, 0)
