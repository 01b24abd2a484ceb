"""The clock of a cluster, and what can be said of its present as long as nothing has happened since the last command.

The clock is wall time times a factor, from the instant of the last command on.

Every command writes down what there is to see at its end, until when that holds (the next event that is to happen by
itself) and the seal of the state that it was seen in. As long as it holds, who only looks needs neither the world nor
any of the modules that decide and act, which are most of them. It does not hold where anything else wrote meanwhile (an
older paictl, which writes no views, notes its commands in the log as well), nor where the state was damaged.

Loads nothing that decides or acts: who only looks at a cluster needs no more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from paictl.cluster.embedded.store import Happened, Store, whole
from paictl.cluster.interface import (
    JobState,
    JobView,
    MachineSpec,
    MaintenanceWindow,
    MemberRepair,
    NodeCondition,
    NodeRole,
    NodeView,
    PromisedStart,
    ReservationView,
    ServiceView,
    TaskView,
)
from paictl.cluster.maintenance import shown
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis, from_unix, instant, millis_between
from paictl.workload.windows import read_window

END: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""When time on a cluster's clock ends: calendars have no year 10,000, and dates near it cannot be computed with."""

MAX = "max"
"""A clock that runs until nothing more happens, after every command."""


@frozen
class Clock:
    """`instant` of the cluster was at Unix time `wall` (seconds); since then it runs `speed` times faster.

    Speed 0 stands still: only `paictl cluster tick` advances it. `run_out` marks the clock of ``--speed max``.
    """

    instant: Millis
    wall: float
    speed: float = 1.0
    run_out: bool = False

    def at(self, wall: float) -> Millis:
        """The cluster's instant at a Unix time; never before `instant`, whatever the wall clock does."""
        return Millis(self.instant + max(0, int((wall - self.wall) * 1000 * self.speed)))

    def set(self, instant: Millis, wall: float) -> Clock:
        """The same clock, set."""
        return Clock(instant, wall, self.speed, self.run_out)


def wall_time() -> float:
    """Unix time in seconds; the one place where the embedded cluster reads a clock."""
    return time.time()


@frozen
class Anchor:
    """An instant on two clocks: the wall's, which somebody may set, and the one that counts since this boot."""

    wall: float
    boot: str
    since_boot: float


def anchor(wall: float) -> Anchor | None:
    """The present; None where the system does not tell its boots apart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return Anchor(wall, boot, time.clock_gettime(time.CLOCK_BOOTTIME))
    except (OSError, AttributeError):
        return None


def anchor_row(wall: float) -> list[object] | None:
    """The same as JSON values."""
    point = anchor(wall)
    return None if point is None else [point.wall, point.boot, point.since_boot]


def steady(row: Sequence[Any] | None, wall: float) -> float:
    """Unix time as it goes on from an anchor (its row), though the wall clock may have been set back meanwhile.

    Readers are asked for the time without leaving a trace, so that only such a clock keeps them from seeing an
    earlier instant than they saw before.
    """
    then, now = None if row is None else Anchor(*row), anchor(wall)
    if then is None or now is None or then.boot != now.boot:
        return wall
    return then.wall + now.since_boot - then.since_boot


def parse_speed(word: str) -> tuple[float, bool]:
    """(factor, run out) of ``--speed``: a number of at least 0, or ``max``."""
    if word == MAX:
        return 0.0, True
    try:
        factor = float(word)
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1_000_000:
        raise PaictlError(text("invalid speed {word!r}", word=word), hint="a number from 0 (paused) to 1000000, or max")
    return factor, False


BEGINNING = "beginning.json"
"""Says when a cluster begins that comes up in this folder, as labs want it."""


class Present:
    """The clock of the cluster in a store. `wall` gives Unix time in seconds (tests have their own)."""

    def __init__(self, store: Store, wall: Callable[[], float] = wall_time) -> None:
        self._store = store
        self._unix = wall

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""
        return from_unix(float(self._store.meta("epoch")))

    @property
    def clock(self) -> Clock:
        """The clock as the last command left it."""
        instant, wall, speed, run_out = self._store.meta("clock")
        return Clock(Millis(instant), wall, speed, run_out)

    @property
    def wall(self) -> float:
        """Unix time as it goes on from when the cluster came up, or from the first command after a reboot."""
        return steady(self._store.meta("anchor"), wall_time()) if self._unix is wall_time else self._unix()

    @property
    def instant(self) -> Millis:
        """The present on the cluster's own clock."""
        return Millis(min(self.clock.at(self.wall), millis_between(self.epoch, END)))

    def begin(self, start: float, speed: float, *, run_out: bool) -> None:
        """The cluster comes up at a Unix time."""
        self._store.set_meta("epoch", start)
        self._store.set_meta("clock", [0, start, speed, run_out])
        if self._unix is wall_time:
            self._store.set_meta("anchor", anchor_row(start))

    def go_on(self, now: Millis) -> None:
        """The clock goes on from an instant; a reboot since it was last set begins a new anchor."""
        wall = self.wall
        clock = self.clock.set(now, wall)
        if self._store.meta("anchor") is not None:
            self._store.set_meta("anchor", anchor_row(wall))
        self._store.set_meta("clock", [clock.instant, clock.wall, clock.speed, clock.run_out])

    def set_speed(self, speed: float, *, run_out: bool) -> None:
        """Let the clock run at another speed from now on."""
        now, wall = self.instant, self.wall
        self._store.set_meta("clock", [now, wall, speed, run_out])


def plan_beginning(folder: Path, epoch: float) -> None:
    """Let the next cluster in a folder begin at a Unix time with its clock at a standstill, whenever it comes up."""
    (folder / BEGINNING).write_text(json.dumps({"epoch": epoch}) + "\n", encoding="utf-8")


def planned_beginning(folder: Path) -> float | None:
    """The Unix time at which a cluster in a folder is to begin; None where that is when it comes up."""
    try:
        return float(json.loads((folder / BEGINNING).read_text(encoding="utf-8"))["epoch"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


# --- what was written down


KEY: Final = "still"
"""The setting in which it is stored."""
FORM: Final = 6
"""Changed whenever what is written down is, so that what another version wrote is computed anew."""
MOST: Final = 500
"""Tasks and nodes at most: more take longer to write down with every command than it takes to load the world."""


class Still:
    """The cluster as its last command left it; `views.WorldViews` says the same of a world."""

    def __init__(self, row: dict[str, Any], epoch: datetime, now: Millis) -> None:
        self._row = row
        self._epoch = epoch
        self._now = now

    @classmethod
    def of(cls, store: Store, present: Present) -> Still | None:
        """What holds now; None if nothing was written down, or something has happened since."""
        row = store.meta(KEY)
        with whole():
            if row is None or row["form"] != FORM or row["seal"] != store.seal():
                return None
            now = present.instant
            if row["until"] is not None and now >= row["until"]:
                return None
            return cls(row, present.epoch, now)

    def jobs(self, *, ended: bool = False) -> list[tuple[int, JobView]]:  # noqa: ARG002 - the store holds all
        """(number, view without tasks) of the jobs that have not ended."""
        with whole():
            return [(row["number"], view_from(row, self._epoch, tasks=False)) for row in self._row["jobs"]]

    def job(self, key: str) -> JobView | None:
        """A job that has not ended, None if there is none of that key."""
        with whole():
            job = next((row for row in self._row["jobs"] if row["key"] == key), None)
            return None if job is None else view_from(job, self._epoch)

    def events(self) -> Sequence[Happened]:
        """What the store does not hold yet: nothing."""
        return ()

    def nodes(self) -> list[NodeView]:
        """All nodes by name."""
        with whole():
            return [node_from(row, self._epoch) for row in self._row["nodes"]]

    def windows(self) -> tuple[MaintenanceWindow, ...]:
        """The maintenance windows that have not ended."""
        with whole():
            return shown(map(read_window, self._row["windows"]), self._now, self._epoch)

    def reservations(self) -> tuple[ReservationView, ...]:
        """The reservations that are not over."""
        with whole():
            return tuple(reservation_from(row, self._epoch) for row in self._row["reservations"])

    def promised_starts(self) -> tuple[PromisedStart, ...]:
        """The gangs that wait and were promised a start."""
        with whole():
            return tuple(PromisedStart(job, instant(self._epoch, Millis(at))) for job, at in self._row["starts"])

    def services(self) -> list[ServiceView]:
        """All services that are there, by name."""
        with whole():
            return [service_from(row, self._epoch) for row in self._row["services"]]


Row = dict[str, Any]

SHOWN: Final = "shown"
"""Where the data of a job that has ended hold the views of its tasks; nowhere in those of clusters of before."""

_JOB: Final = ("submitted", "started", "ended")
_TASK: Final = ("started", "ended")
_REPAIR: Final = ("lost", "back")
_SINCE: Final = ("since",)
_RESERVATION: Final = ("start", "end")


def dump_view(view: JobView, epoch: datetime) -> Row:
    """A job, with the tasks that its view has."""
    row = _dumped(view, epoch, _JOB)
    repairs = [_dumped(repair, epoch, _REPAIR) for repair in view.repairs]
    return {**row, "tasks": [_dumped(task, epoch, _TASK) for task in view.tasks], "repairs": repairs}


def view_from(row: Mapping[str, Any], epoch: datetime, *, tasks: bool = True) -> JobView:
    """The inverse of `dump_view`; without `tasks` the short form of lists."""
    shown = tuple(_task_from(task, epoch) for task in row["tasks"]) if tasks else ()
    repairs = tuple(
        MemberRepair(**{**repair, **_instants(repair, epoch, _REPAIR)}) for repair in row.get("repairs", ())
    )
    tags = tuple(row.get("tags", ()))
    values = {"state": JobState(row["state"]), "tasks": shown, "repairs": repairs, "tags": tags}
    return JobView(**{**row, **_instants(row, epoch, _JOB), **values})


def _task_from(row: Mapping[str, Any], epoch: datetime) -> TaskView:
    return TaskView(**{**row, **_instants(row, epoch, _TASK), "devices": tuple(row["devices"])})


def dump_node(view: NodeView, epoch: datetime) -> Row:
    """A node."""
    return _dumped(view, epoch, _SINCE)


def node_from(row: Mapping[str, Any], epoch: datetime) -> NodeView:
    """The inverse of `dump_node`."""
    values = {
        "machine": machine_from(row["machine"]),
        "condition": NodeCondition(row["condition"]),
        **{name: tuple(row[name]) for name in ("pods", "bad_devices", "pods_at_risk")},
    }
    return NodeView(**{**row, **_instants(row, epoch, _SINCE), **values})


def machine_from(row: Mapping[str, Any]) -> MachineSpec:
    """A machine from the JSON values that `dataclasses.asdict` gives."""
    return MachineSpec(**{**row, "role": NodeRole(row["role"])})


def dump_service(view: ServiceView, epoch: datetime) -> Row:
    """A service."""
    return _dumped(view, epoch, _SINCE)


def service_from(row: Mapping[str, Any], epoch: datetime) -> ServiceView:
    """The inverse of `dump_service`."""
    return ServiceView(**{**row, **_instants(row, epoch, _SINCE), "stale": tuple(row["stale"])})


def dump_reservation(view: ReservationView, epoch: datetime) -> Row:
    """A reservation."""
    return _dumped(view, epoch, _RESERVATION)


def reservation_from(row: Mapping[str, Any], epoch: datetime) -> ReservationView:
    """The inverse of `dump_reservation`."""
    return ReservationView(**{**row, **_instants(row, epoch, _RESERVATION), "nodes": tuple(row["nodes"])})


def _dumped(
    view: JobView | TaskView | MemberRepair | NodeView | ServiceView | ReservationView,
    epoch: datetime,
    names: Iterable[str],
) -> Row:
    row = asdict(view)
    for name in names:
        row[name] = None if row[name] is None else millis_between(epoch, row[name])
    return row


def _instants(row: Mapping[str, Any], epoch: datetime, names: Iterable[str]) -> Row:
    return {name: None if row[name] is None else instant(epoch, row[name]) for name in names}
