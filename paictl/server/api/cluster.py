"""The cluster as a whole: virtual clusters, maintenance windows, reservations, and moves that would make room.

Of a virtual cluster: what was promised and what of it is used. Moves of gangs are made on the command line only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from paictl.cluster.defrag import DefragMove, DefragPlan, RoomOutcome, plan_data, read_room
from paictl.cluster.interface import MaintenanceWindow, ReservationView
from paictl.cluster.picture import Picture, VcPicture
from paictl.i18n import text
from paictl.scheduler.defrag import RoomRequest
from paictl.scheduler.explain.data import ANOTHER
from paictl.server.calls import Answer, ApiError, Call, bad, json_answer
from paictl.server.routing import Access, Operation, Route
from paictl.server.tenants import Tenants
from paictl.units import rfc3339

_TAG: Final = "virtual cluster"


def vcs(call: Call) -> Answer:
    """All of them by name."""
    picture = call.cluster.picture()
    return json_answer({vc.name: _vc_data(vc, picture) for vc in picture.vcs})


def vc(call: Call) -> Answer:
    """One of them."""
    picture = call.cluster.picture()
    for entry in picture.vcs:
        if entry.name == call.path["vc"]:
            return json_answer(_vc_data(entry, picture))
    raise ApiError(404, "NoVirtualClusterError", text("no virtual cluster {vc!r}", vc=call.path["vc"]))


def _vc_data(vc_picture: VcPicture, picture: Picture) -> dict[str, Any]:
    """Capacities in percent of all devices. Cores and memory go with devices, as they do on the nodes."""
    total = sum(other.quota for other in picture.vcs) or 1
    doomed = sum(len(cell.users) for cell in vc_picture.cells if cell.state.value == "Doomed")
    return {
        "capacity": 100 * vc_picture.quota / total,
        "usedCapacity": 100 * vc_picture.used / total,
        "maxCapacity": 100 * vc_picture.quota / total,
        "dedicated": False,
        "resourcesUsed": _resources(vc_picture.used, picture),
        "resourcesGuaranteed": _resources(vc_picture.quota - doomed, picture),
        "resourcesTotal": _resources(vc_picture.quota, picture),
        "waitingJobs": vc_picture.waiting,
    }


def _resources(devices: int, picture: Picture) -> dict[str, int]:
    """Cores, memory (MiB) and devices."""
    machines = [node.machine for node in picture.nodes if node.machine.devices]
    all_devices = sum(machine.devices for machine in machines) or 1
    cpu = sum(machine.cpu for machine in machines) * devices // all_devices
    memory = sum(machine.memory for machine in machines) // 2**20 * devices // all_devices
    return {"cpu": cpu, "vCores": cpu, "memory": memory, "gpu": devices, "GPUs": devices}


# --- windows and reservations


def windows(call: Call) -> Answer:
    """The windows that have not ended, those that begin first in front."""
    return json_answer([_window_data(window) for window in call.cluster.windows()])


def _window_data(window: MaintenanceWindow) -> dict[str, Any]:
    return {
        "name": window.name,
        "nodes": list(window.nodes),
        "start": rfc3339(window.start),
        "end": rfc3339(window.end),
        "reason": window.reason,
        "active": window.active,
    }


def reservations(call: Call) -> Answer:
    """The reservations that are not over, those that begin first in front."""
    return json_answer([_reserved(reservation) for reservation in call.cluster.reservations()])


def _reserved(view: ReservationView) -> dict[str, Any]:
    return {
        "name": view.name,
        "start": rfc3339(view.start),
        "end": rfc3339(view.end),
        "repeat": view.repeat,
        "virtualCluster": view.vc,
        "cells": view.cells,
        "cellType": view.cell_type,
        "nodes": list(view.nodes),
        "used": view.used,
        "short": view.short,
        "reason": view.reason,
        "active": view.active,
    }


# --- moves that would make room


def planned(call: Call) -> Answer:
    """The plan as data."""
    return json_answer(plan_data(plan_for(call)))


def plan_for(call: Call) -> DefragPlan:
    """The plan that a query asks for, without names of other tenants for all but administrators.

    Raises `ApiError` for a query without cells, or for a virtual cluster of others; `RoomError` as the planner does.
    """
    vc = call.query.get("vc") or ""
    words = (call.query.get("for") or "").replace(",", " ").split()
    rooms = [read_room(word, vc) for word in words]
    if level := call.query.get("level"):
        rooms.append(RoomRequest(1, level, vc))
    if not rooms:
        raise bad(text("name the cells to free: for=4xV100-NODE or level=V100-RACK"))
    if vc and not call.me.admin and not call.me.may_submit_to(vc):
        raise ApiError(403, "ForbiddenUserError", text("you may not use virtual cluster {vc}", vc=vc))
    made = call.cluster.plan_moves(rooms)
    return made if call.me.admin else _masked(made, Tenants(call))


def _masked(plan: DefragPlan, tenants: Tenants) -> DefragPlan:
    return replace(plan, rooms=tuple(_room(room, tenants) for room in plan.rooms))


def _room(room: RoomOutcome, tenants: Tenants) -> RoomOutcome:
    def named(gang: str) -> str:
        return gang if tenants.owns(gang) else ANOTHER

    def move(defrag_move: DefragMove) -> DefragMove:
        return defrag_move if tenants.owns(defrag_move.key) else replace(defrag_move, key=ANOTHER, job="", vc="")

    made, refusal = room.plan, room.refusal
    if made is not None:
        made = replace(made, yields=tuple(map(named, made.yields)))
    if refusal is not None:
        refusal = replace(refusal, fixed=tuple(map(named, refusal.fixed)))
    return replace(room, plan=made, refusal=refusal, moves=tuple(map(move, room.moves)))


ROUTES: Final = (
    Route("GET", "/api/v2/virtual-clusters", Access.USER, vcs, Operation("All virtual clusters", _TAG), jobs=True),
    Route(
        "GET",
        "/api/v2/virtual-clusters/{vc}",
        Access.USER,
        vc,
        Operation("A virtual cluster", _TAG, (200, 404)),
        jobs=True,
    ),
    Route("GET", "/api/v2/maintenance", Access.USER, windows, Operation("Maintenance windows", "cluster")),
    Route("GET", "/api/v2/reservations", Access.USER, reservations, Operation("Reservations", "cluster")),
    Route(
        "GET",
        "/api/v2/defragmentation",
        Access.USER,
        planned,
        Operation(
            "Moves of gangs that make room for a larger one",
            "cluster",
            (200, 400, 403),
            {"for": "string", "level": "string", "vc": "string"},
        ),
        slow=True,
    ),
)
