"""How far a job has come: the engine's own record, which no policy sees (it sees `view.JobView`).

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
    """The sums over those attempts of a job that ended because devices failed."""

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
        "begins", "brought", "devices", "earlier", "end", "first_start", "held_since", "job", "left", "limit", "lost",
        "migrations", "notes", "number", "placed", "plain", "preemptions", "ran", "rate", "resizes", "service",
        "version", "waiting_since",
    )  # fmt: skip

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.number = number
        """Its place in the order of arrival: the last word of every tie."""
        self.left = job.true_work * ONE
        """Units of work, as of `begins`."""
        self.brought = self.left
        """Units of work that were left when it last started."""
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
        self.earlier: EarlierAttempts | None = None
        """What it did until its devices failed under it for the last time."""
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

    def started(self) -> None:
        """It was given devices and begins at `begins`."""
        self.brought = self.left

    def undo(self, span: Millis) -> None:
        """What it did here in the last `span` is lost, in whole milliseconds of work."""
        units = min(self.rate * span, self.brought - self.left) // ONE
        self.lost += units
        self.left += units * ONE


class FragileProgress(JobProgress):
    """A job on devices that may fail: it remembers what its last checkpoint saved."""

    __slots__ = ("every", "saved", "since")

    def __init__(self, job: Job, number: int, every: Millis | None) -> None:
        super().__init__(job, number)
        self.every = every
        """How often it saves its work while it runs; 0: always, None: only when it is preempted."""
        self.saved = self.left
        """Units of work that are left as of the last checkpoint."""
        self.since = job.submit
        """When it began to run: checkpoints are at multiples of `every` from then on."""

    def started(self) -> None:
        """What was done before is saved."""
        super().started()
        self.saved = self.left
        self.since = self.begins

    def settle(self, now: Millis) -> None:
        """Also: what the checkpoints since the last time saved."""
        if self.every and now > self.begins:
            latest = self._latest(now)
            if latest >= self.begins:
                self.saved = self.left_at(latest)
        super().settle(now)

    def _latest(self, now: Millis) -> Millis:
        """When it last saved its work, or began."""
        if not self.every or now < self.since:
            return self.since
        return Millis(self.since + (now - self.since) // self.every * self.every)

    def again(self, now: Millis, number: int) -> FragileProgress:
        """The next attempt of this one, which was settled and dropped now: it waits, with what was saved."""
        saved = self.left if self.every == 0 else max(self.saved, self.left)
        made = FragileProgress(self.job, number, self.every)
        made.left = made.saved = saved
        made.waiting_since = made.begins = made.held_since = now
        return made

    def until_now(self, wasted: int) -> EarlierAttempts:
        """All attempts up to this one, whose devices failed."""
        before = self.earlier or _NONE
        saved = self.left if self.every == 0 else max(self.saved, self.left)
        return EarlierAttempts(
            self.first_start if before.first_start is None else before.first_start, before.ran + self.ran,
            before.service + self.service, before.preemptions + self.preemptions, before.migrations + self.migrations,
            before.resizes + self.resizes, before.lost + self.lost + (saved - self.left) // ONE,
            before.wasted + wasted, before.count + 1,
        )  # fmt: skip

    def wasted(self, now: Millis) -> int:
        """Device-milliseconds since the last checkpoint, what the start cost included."""
        if self.every == 0:
            return 0
        latest = self._latest(now)
        since = self.held_since if latest <= self.since else max(latest, self.held_since)
        return (now - since) * len(self.devices)


_NONE = EarlierAttempts(None, 0, 0, 0, 0, 0, 0, 0, 0)
