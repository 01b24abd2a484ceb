"""Nodes and services: how they are, and the few things that can be done to them from a browser."""

from __future__ import annotations

from typing import Final

from paictl.cluster.interface import NodeChange, Port
from paictl.errors import PaictlError
from paictl.operate.nodes import change_nodes
from paictl.operate.services import list_services, perform, prepare
from paictl.server.calls import Answer, Call, bad, redirect
from paictl.server.portal.rendering import page
from paictl.server.routing import Access, Operation, Route
from paictl.service.carry_out import Patience
from paictl.service.plan import Action, ServiceRequest

NODES: Final = "/admin/nodes"
SERVICES: Final = "/admin/services"
_CHANGES: Final = (NodeChange.CORDON, NodeChange.UNCORDON)
_ACTIONS: Final = (Action.START, Action.STOP, Action.RESTART)
_PATIENCE: Final = 20.0
"""Seconds that a page waits for a service; after that the list says what it waits for."""


def nodes(call: Call) -> Answer:
    """The machines."""
    values = {"title": "Nodes", "here": "/admin", "tab": NODES, "nodes": call.cluster.nodes(), "now": call.cluster.now}
    return page(call, "admin/nodes.html", values)


def change_node(call: Call) -> Answer:
    """Cordon or uncordon a node."""
    wish = str(call.fields().get("change", ""))
    change = next((change for change in _CHANGES if change.value == wish), None)
    if change is None:
        raise bad("cordon or uncordon")
    change_nodes(call.cluster, [call.path["node"]], change)
    return redirect(NODES)


def services(call: Call) -> Answer:
    """The services in the order in which they start."""
    return _services(call)


def _services(call: Call, error: str = "", hint: str = "") -> Answer:
    lacking = call.cluster.lacks.get(Port.SERVICES, "")
    values = {
        "title": "Services", "here": "/admin", "tab": SERVICES, "lacking": lacking, "error": error, "hint": hint,
        "services": [] if lacking else list_services(call.cluster), "now": call.cluster.now,
    }  # fmt: skip
    return page(call, "admin/services.html", values, status=400 if error else 200)


def act(call: Call) -> Answer:
    """Start, stop or restart a service."""
    wish = str(call.fields().get("action", ""))
    action = next((action for action in _ACTIONS if action.value == wish), None)
    if action is None:
        raise bad("start, stop or restart")
    try:
        prepared = prepare(call.cluster, ServiceRequest(action, (call.path["service"],)))
        outcomes = perform(call.cluster, prepared, patience=Patience(deadline=_PATIENCE))
    except PaictlError as error:
        return _services(call, error.message, error.hint or "")
    failed = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    return redirect(SERVICES) if failed is None else _services(call, failed.message, failed.hint or "")


ROUTES: Final = (
    Route("GET", NODES, Access.ADMIN, nodes, Operation("Nodes")),
    Route(
        "POST",
        f"{NODES}/{{node}}",
        Access.ADMIN,
        change_node,
        Operation("Cordon or uncordon", answers=(303, 400)),
    ),
    Route("GET", SERVICES, Access.ADMIN, services, Operation("Services")),
    Route(
        "POST",
        f"{SERVICES}/{{service}}",
        Access.ADMIN,
        act,
        Operation("Start, stop, restart", answers=(303, 400)),
    ),
)
