"""The times of pods as their objects say: how long they run at most, when they began, when they were made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from paictl.cluster.maintenance import UNIX
from paictl.units import Millis, millis_between

MAX_RUN_TIME: Final = "paictl.io/max-run-time"
"""Annotation of pods: how long their job's attempt runs at most, as ``7200000ms``."""


RESERVATION: Final = "paictl.io/reservation"
"""Annotation of pods: the reservation whose cells their job uses."""


def reservation_of(pod: Mapping[str, Any]) -> str:
    """The reservation that a pod names; empty if it names none."""
    noted = pod["metadata"].get("annotations")
    return str(noted.get(RESERVATION, "")) if isinstance(noted, dict) else ""


def run_limit(pod: Mapping[str, Any]) -> Millis | None:
    """How long a pod runs at most, by its job's annotation or its own deadline; None: it does not say."""
    noted = pod["metadata"].get("annotations")
    said = str(noted.get(MAX_RUN_TIME, "")) if isinstance(noted, dict) else ""
    if said.endswith("ms") and said[:-2].isdecimal():
        return Millis(int(said[:-2]))
    seconds = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return Millis(1000 * seconds) if isinstance(seconds, int) and not isinstance(seconds, bool) else None


def began_at(pod: Mapping[str, Any]) -> Millis | None:
    """When a pod began to run, in milliseconds since 1970; None while nobody says so."""
    at = (pod.get("status") or {}).get("startTime")
    try:
        return None if at is None else millis_between(UNIX, datetime.fromisoformat(str(at)))
    except ValueError:
        return None


def created_at(pod: Mapping[str, Any]) -> str:
    """When a pod was created, as the API server writes it: texts in the order of time."""
    return str(pod["metadata"].get("creationTimestamp") or "")
