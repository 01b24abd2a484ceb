"""Maintenance windows, and reservations."""

from __future__ import annotations

from typing import Any, Final

from paictl.cluster.interface import MaintenanceWindow, ReservationView
from paictl.server.calls import Answer, Call, json_answer
from paictl.server.routing import Access, Operation, Route
from paictl.units import rfc3339


def windows(call: Call) -> Answer:
    """The windows that have not ended, those that begin first in front."""
    return json_answer([_data(window) for window in call.cluster.windows()])


def _data(window: MaintenanceWindow) -> dict[str, Any]:
    return {
        "name": window.name, "nodes": list(window.nodes), "start": rfc3339(window.start), "end": rfc3339(window.end),
        "reason": window.reason, "active": window.active,
    }  # fmt: skip


def reservations(call: Call) -> Answer:
    """The reservations that are not over, those that begin first in front."""
    return json_answer([_reserved(reservation) for reservation in call.cluster.reservations()])


def _reserved(view: ReservationView) -> dict[str, Any]:
    return {
        "name": view.name, "start": rfc3339(view.start), "end": rfc3339(view.end), "repeat": view.repeat,
        "virtualCluster": view.vc, "cells": view.cells, "cellType": view.cell_type, "nodes": list(view.nodes),
        "used": view.used, "short": view.short, "reason": view.reason, "active": view.active,
    }  # fmt: skip


ROUTES: Final = (
    Route("GET", "/api/v2/maintenance", Access.USER, windows, Operation("Maintenance windows", "cluster")),
    Route("GET", "/api/v2/reservations", Access.USER, reservations, Operation("Reservations", "cluster")),
)
