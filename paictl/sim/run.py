"""The result of a run: an outcome for each job, the use of the cluster over time, counters. Figures, CSV and pages are
made from this and nothing else.

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
    """The cluster does not have enough devices of its type; the policy never saw it."""


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
    """The policy's notes about it (`Policy.note`): `admitted` 0 or 1, `delay.fair-share` in ms, …"""
    interruptions: int = 0
    """How often its devices failed while it ran."""
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
    """Sums between two instants; at most about a thousand intervals for a run, however long."""

    start: Millis
    end: Millis
    used: int
    """Area of devices that at least one job held."""
    running: int
    """Area of jobs with devices."""
    waiting: int
    """Area of jobs without."""
    queued: int
    """Area of the devices that these request."""
    stray: int
    """Area of free devices on nodes that are partly used: fragments. 0 if placement does not matter."""


@frozen
class RunResult:
    """One trace under one policy on one cluster."""

    policy: str
    parameters: Mapping[str, object]
    """All of them, including defaults."""
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
    """Whether placement mattered; if not, there are no fragments."""
    log: tuple[LogEntry, ...] = ()
    """All events; empty unless requested."""
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
    """The devices that it has from now on."""
