"""Maintenance windows."""

from __future__ import annotations

from typing import Any, Final

from paictl.cluster.interface import MaintenanceWindow
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


ROUTES: Final = (
    Route("GET", "/api/v2/maintenance", Access.USER, windows, Operation("Maintenance windows", "cluster")),
)
