"""The placer's process: a door that nobody asks to schedule."""

from __future__ import annotations

from paictl.doors.service import DoorService
from paictl.placer.term import PlacerTerm


class PlacerService(DoorService):
    """From `start` to `stop`; `run` does both around the HTTP server."""

    component = "hivedscheduler-placer"
    prefix = "paictl_placer"
    term_type = PlacerTerm
