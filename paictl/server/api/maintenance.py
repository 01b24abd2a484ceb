"""Maintenance windows, and reservations."""

from __future__ import annotations

from typing import Any, Final

from paictl.cluster.interface import MaintenanceWindow, ReservationView
from paictl.server.calls import Answer, Call, json_answer
from paictl.server.routing import Access, Operation, Route
from paictl.units import rfc3339


def windows(call: Call) -> Answer:
    """The windows that have not ended, those that begin first in front."""
    return json_answer([_data(one) for one in call.cluster.windows()])


def _data(one: MaintenanceWindow) -> dict[str, Any]:
    return {
        "name": one.name, "nodes": list(one.nodes), "start": rfc3339(one.start), "end": rfc3339(one.end),
        "reason": one.reason, "active": one.active,
    }  # fmt: skip


def reservations(call: Call) -> Answer:
    """The reservations that are not over, those that begin first in front."""
    return json_answer([_reserved(one) for one in call.cluster.reservations()])


def _reserved(one: ReservationView) -> dict[str, Any]:
    return {
        "name": one.name, "start": rfc3339(one.start), "end": rfc3339(one.end), "repeat": one.repeat,
        "virtualCluster": one.vc, "cells": one.cells, "cellType": one.cell_type, "nodes": list(one.nodes),
        "used": one.used, "short": one.short, "reason": one.reason, "active": one.active,
    }  # fmt: skip


ROUTES: Final = (
    Route("GET", "/api/v2/maintenance", Access.USER, windows, Operation("Maintenance windows", "cluster")),
    Route("GET", "/api/v2/reservations", Access.USER, reservations, Operation("Reservations", "cluster")),
)
