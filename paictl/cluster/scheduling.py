"""The values that cross the port of scheduling: why a job is where it is, and whom another configuration would harm."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from paictl.cluster.values import JobState
from paictl.frozen import frozen
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.explain.data import Explanation
    from paictl.workload.lentorder import LineAhead


class JobSituation(StrEnum):
    """Why a job is where it is."""

    NOT_WAITING = "not waiting"
    SERVICE_STOPPED = "service stopped"
    """A service stands between it and devices; `JobExplanation.service` says which."""
    NO_SCHEDULER = "no scheduler"
    UNKNOWN_TERMS = "unknown terms"
    """It asks for what the scheduler's configuration does not have; `JobExplanation.reason` says for what."""
    STARTING = "starting"
    """Its pods have their devices; containers are on the way, or `JobExplanation.reason` says what holds them up."""
    NOT_OFFERED = "not offered"
    """Cells are free, and kube-scheduler finds no node for another reason, which `JobExplanation.reason` says."""
    EXCLUDED = "excluded"
    """Cells are free, and none of their nodes would take its pods; `JobExplanation.reason` says why not."""
    HELD_BACK = "held back"
    """A budget or a limit for users holds it back, whatever is free; `JobExplanation.reason` says which."""
    MAINTENANCE = "maintenance"
    """Windows alone keep it waiting: `JobExplanation.windows`; with the run time `longest` it would start."""
    BACKFILL = "backfill"
    """It would delay a job with a promised start; with the run time `longest` it would start."""
    RESERVATION = "reservation"
    """Its own reservation does not last or has no room, or it would use what is kept for another; `reason` says."""
    NO_ROOM = "no room"
    """The scheduler has looked; `JobExplanation.scheduler` says what it found."""


@frozen
class ClosingWindow:
    """A maintenance window that a job would still run in; instants as in RFC 3339."""

    name: str
    nodes: tuple[str, ...]
    start: str
    end: str


@frozen
class LatestStart:
    """When a job starts at the latest, as RFC 3339; empty where nothing can be promised."""

    at: str
    ends: tuple[tuple[str, str], ...] = ()
    """(job, instant) of the jobs that must have ended, with their latest ends."""
    unlimited: tuple[str, ...] = ()
    """Jobs without a limit that are in its way, where nothing can be promised."""
    place: int = 0
    """Its number in the line, where every gang in line is promised a start; else 0."""
    behind: int = 0
    """So many gangs before it have a promised start, which is why it has none; 0: that is not why."""


@frozen
class JobExplanation:
    """Why a job is where it is, as data; `paictl.operate.explaining` makes text of it.

    `waiting` of its `tasks` wait.
    """

    job: str
    state: JobState
    situation: JobSituation
    service: str = ""
    reason: str = ""
    waiting: int = 0
    tasks: int = 0
    scheduler: Explanation | None = None
    windows: tuple[ClosingWindow, ...] = ()
    longest: Millis | None = None
    start: LatestStart | None = None
    """Where backfill has looked at it."""
    ahead: LineAhead | None = None
    """Whose opportunistic jobs are tried before it."""
    moves: int = 0
    """So many gangs would have to move so that it starts; 0: none, or it is not known."""
    listed: bool = True
    """Whether budgets or limits, which people can list, hold it back; else it is the minimum run time of others."""
    room: str = ""
    """The options with which `paictl cluster defrag plan` shows these moves."""


class JobImpact(StrEnum):
    """What another configuration would do to a job once the scheduler loads it."""

    NO_GUARANTEE = "keeps running without its guarantee"
    NO_CELL = "runs on devices that the scheduler does not know"
    NO_VC = "waits for a virtual cluster that is gone"
    NEVER = "waits and can never run"


@frozen
class Impact:
    """A job that another configuration would harm."""

    job: str
    vc: str
    harm: JobImpact


def harm_of_running(groups: Iterable[str], now: Engine | None, then: Engine) -> JobImpact | None:
    """What its `groups` lose of the guarantees that they have `now`; None if nothing."""
    for name in groups:
        before = None if now is None else now.state.groups.by_name.get(name)
        after = then.state.groups.by_name.get(name)
        if before is None or before.virtual is None:
            continue
        if after is None:
            return JobImpact.NO_CELL
        if after.virtual is None:
            return JobImpact.NO_GUARANTEE
    return None
