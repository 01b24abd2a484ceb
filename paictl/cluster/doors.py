"""How pods reach the scheduler on Kubernetes: the doors by their names in the configuration, and what serves each."""

from __future__ import annotations

from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.scheduler.wire import GATE

DOORS: Final = {"extender": "hivedscheduler-extender", "gates": "hivedscheduler-placer"}
"""With `extender` a kube-scheduler of ours asks; with `gates` any kube-scheduler finds pods with their node chosen."""
GUARDED: Final = {GATE: "enabled"}
"""The label of namespaces in which admission policies protect devices, and which the placer serves."""


def server_of(door: str) -> str:
    """The Deployment and Service behind a door. Raises `PaictlError` for an unknown door."""
    if door not in DOORS:
        raise PaictlError(
            text("no door {door!r} to the scheduler", door=door),
            hint=text("use one of: {names}", names=", ".join(DOORS)),
        )
    return DOORS[door]


def scheduler_host(namespace: str, door: str) -> str:
    """The DNS name of the Service behind a door. Raises `PaictlError` for an unknown door."""
    return f"{server_of(door)}.{namespace}.svc"
