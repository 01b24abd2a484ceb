"""The times of pods as their objects say: when they began, when they were made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from paictl.cluster.maintenance import UNIX
from paictl.units import Millis, millis_between


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
