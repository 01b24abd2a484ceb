"""What a run leaves behind: an outcome for each job, what the cluster did over time, counters. Figures, CSV and pages
are made from this and from nothing else.

Instants and spans are milliseconds; an area is devices (or jobs) times milliseconds, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from paictl.frozen import frozen
from paictl.sim.job import Deadline, DeadlineKind, Share
from paictl.units import Millis


class Ending(StrEnum):
    """How a job left the simulation."""

    PASSED = "passed"
    KILLED = "killed"
    """By its user, as in the trace."""
    FAILED = "failed"
    """As in the trace."""
    STOPPED = "stopped"
    """By the policy, for good."""
    UNFINISHED = "unfinished"
    """It still waited or ran when nothing was left to happen."""
    IMPOSSIBLE = "impossible"
    """The cluster has not so many devices of its type; no policy was asked."""


FINISHED = frozenset({Ending.PASSED, Ending.KILLED, Ending.FAILED})
"""Endings that count as a completion."""


@frozen
class JobOutcome:
    """One job in one run."""

    id: str
    user: str
    vc: str
    model: str
    gpus: int
    submit: Millis
    work: Millis
    """Until its end in the trace, at the reference rate."""
    share: Share
    urge: DeadlineKind
    deadlines: tuple[Deadline, ...]
    ending: Ending
    first_start: Millis | None
    """None: it never ran."""
    end: Millis | None
    """None: it did not end."""
    ran: Millis
    """Time in which it held devices."""
    service: int
    """Devices times the time it held them."""
    preemptions: int
    migrations: int
    resizes: int
    lost: int
    """Work thrown away by preemptions without a checkpoint (ms at the reference rate)."""
    notes: Mapping[str, float]
    """What the policy noted about it (`Policy.note`): `admitted` 0 or 1, `delay.fair-share` in ms, …"""
    interruptions: int = 0
    """How often its devices failed under it."""
    wasted: int = 0
    """Devices times the time since its last checkpoint, at those moments."""

    @property
    def jct(self) -> Millis | None:
        """Completion minus submission; None if it did not complete."""
        return Millis(self.end - self.submit) if self.end is not None and self.ending in FINISHED else None

    @property
    def queueing(self) -> Millis | None:
        """From submission to the first start."""
        return None if self.first_start is None else Millis(self.first_start - self.submit)

    @property
    def waiting(self) -> Millis | None:
        """All time without devices."""
        return None if self.end is None else Millis(self.end - self.submit - self.ran)


@frozen
class Interval:
    """What happened between two instants; at most a few thousand for a run, however long."""

    start: Millis
    end: Millis
    used: int
    """Area of devices that at least one job held."""
    running: int
    """Area of jobs with devices."""
    waiting: int
    """Area of jobs without."""
    queued: int
    """Area of the devices that those ask for."""
    stray: int
    """Area of free devices on nodes that are partly used: fragments. 0 where places do not count."""


@frozen
class RunResult:
    """One trace under one policy on one cluster."""

    policy: str
    parameters: Mapping[str, object]
    """All of them, those with their defaults too."""
    cluster: str
    """As the user wrote it."""
    devices: int
    seed: int
    outcomes: tuple[JobOutcome, ...]
    """By (submission, row of the trace)."""
    intervals: tuple[Interval, ...]
    """Without gaps from the first submission to the last event."""
    counters: Mapping[str, float]
    """`events`, `decisions`, `preemptions`, `migrations`, `resizes`, and what the policy counts itself (`conflicts`,
    `stranded`, `delay_causes.VC.fragmentation`, …)."""
    located: bool = False
    """Whether it mattered where the devices are; if not, there are no fragments."""
    log: tuple[LogEntry, ...] = ()
    """What happened, one by one; empty unless asked for."""
    failures: str = ""
    """What fails, as the user wrote it; empty: nothing does."""
    wall_seconds: float = 0.0
    """On this machine; never part of what is compared."""


@frozen
class LogEntry:
    """One line of the log of a run."""

    time: Millis
    what: str
    """`submit`, `start`, `preempt`, `migrate`, `resize`, `colocate`, `stop`, `interrupt`, or an `Ending`."""
    job: str
    devices: tuple[int, ...] = ()
    """Those it has from now on."""
