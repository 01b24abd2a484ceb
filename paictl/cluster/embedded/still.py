"""What can be said of a cluster in which nothing has happened since the last command, and how it is written down.

Every command writes down what there is to see at its end, until when that holds (the next event that is to happen by
itself) and the seal of the state that it was seen in. As long as it holds, who only looks needs neither the world nor
any of the modules that decide and act, which are most of them. It does not hold where anything else wrote meanwhile (an
older paictl, which writes no views, notes its commands in the log as well), nor where the state was damaged.

Loads nothing that decides or acts: who only looks at a cluster needs no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from paictl.cluster.embedded.clock import Present
from paictl.cluster.embedded.records import Happened
from paictl.cluster.embedded.store import Store, whole
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
from paictl.units import Millis, instant, millis_between
from paictl.workload.windows import read_window

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
