"""Jobs, nodes and services as the interface shows them, as JSON values and back; instants on the cluster's clock.

Loads nothing that decides or acts: who only looks at a cluster needs no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from paictl.cluster.interface import (
    JobState,
    JobView,
    MachineSpec,
    MemberRepair,
    NodeCondition,
    NodeRole,
    NodeView,
    ServiceView,
    TaskView,
)
from paictl.units import instant, millis_between

Row = dict[str, Any]

SHOWN: Final = "shown"
"""Where the data of a job that has ended hold the views of its tasks; nowhere in those of clusters of before."""

_JOB: Final = ("submitted", "started", "ended")
_TASK: Final = ("started", "ended")
_REPAIR: Final = ("lost", "back")
_SINCE: Final = ("since",)


def dump_view(view: JobView, epoch: datetime) -> Row:
    """A job, with the tasks that its view has."""
    row = _dumped(view, epoch, _JOB)
    repairs = [_dumped(one, epoch, _REPAIR) for one in view.repairs]
    return {**row, "tasks": [_dumped(task, epoch, _TASK) for task in view.tasks], "repairs": repairs}


def view_from(row: Mapping[str, Any], epoch: datetime, *, tasks: bool = True) -> JobView:
    """The inverse of `dump_view`; without `tasks` the short form of lists."""
    shown = tuple(_task_from(task, epoch) for task in row["tasks"]) if tasks else ()
    repairs = tuple(MemberRepair(**{**one, **_instants(one, epoch, _REPAIR)}) for one in row.get("repairs", ()))
    said = {"state": JobState(row["state"]), "tasks": shown, "repairs": repairs}
    return JobView(**{**row, **_instants(row, epoch, _JOB), **said})


def _task_from(row: Mapping[str, Any], epoch: datetime) -> TaskView:
    return TaskView(**{**row, **_instants(row, epoch, _TASK), "devices": tuple(row["devices"])})


def dump_node(view: NodeView, epoch: datetime) -> Row:
    """A node."""
    return _dumped(view, epoch, _SINCE)


def node_from(row: Mapping[str, Any], epoch: datetime) -> NodeView:
    """The inverse of `dump_node`."""
    said = {
        "machine": machine_from(row["machine"]), "condition": NodeCondition(row["condition"]),
        **{name: tuple(row[name]) for name in ("pods", "bad_devices", "pods_at_risk")},
    }  # fmt: skip
    return NodeView(**{**row, **_instants(row, epoch, _SINCE), **said})


def machine_from(row: Mapping[str, Any]) -> MachineSpec:
    """A machine from the JSON values that `dataclasses.asdict` gives."""
    return MachineSpec(**{**row, "role": NodeRole(row["role"])})


def dump_service(view: ServiceView, epoch: datetime) -> Row:
    """A service."""
    return _dumped(view, epoch, _SINCE)


def service_from(row: Mapping[str, Any], epoch: datetime) -> ServiceView:
    """The inverse of `dump_service`."""
    return ServiceView(**{**row, **_instants(row, epoch, _SINCE), "stale": tuple(row["stale"])})


def _dumped(
    view: JobView | TaskView | MemberRepair | NodeView | ServiceView, epoch: datetime, names: Iterable[str]
) -> Row:
    row = asdict(view)
    for name in names:
        row[name] = None if row[name] is None else millis_between(epoch, row[name])
    return row


def _instants(row: Mapping[str, Any], epoch: datetime, names: Iterable[str]) -> Row:
    return {name: None if row[name] is None else instant(epoch, row[name]) for name in names}
