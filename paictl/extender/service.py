"""The extender's process: a door that kube-scheduler asks."""

from __future__ import annotations

from paictl.doors.service import DoorService
from paictl.extender.server import ExtenderApi


class ExtenderService(DoorService):
    """From `start` to `stop`; `run` does both around the HTTP server."""

    component = "hivedscheduler-extender"
    prefix = "paictl_extender"
    api_type = ExtenderApi
