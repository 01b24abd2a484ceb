"""Instants as Kubernetes writes them, and the times of pods as their objects say: when they began, were made, save."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cluster.maintenance import UNIX
from paictl.errors import PaictlError
from paictl.units import Millis, millis_between
from paictl.workload.runlimits import limit_of

CHECKPOINT_EVERY: Final = "paictl.io/checkpoint-every"
"""Annotation of pods: how often they save their work, as ``30m``."""
SAVES_ON_SIGTERM: Final = "paictl.io/saves-on-sigterm"
"""Annotation of pods that save their work when they get SIGTERM: ``true``."""

START_PROMISED: Final = "paictl.io/StartPromised"
"""Condition of a waiting pod: its message is the instant at which its gang starts at the latest."""

RESERVATION: Final = "paictl.io/reservation"
"""Annotation of pods: the reservation whose cells their job uses."""


def reservation_of(pod: Mapping[str, Any]) -> str:
    """The reservation that a pod names; empty if it names none."""
    noted = pod["metadata"].get("annotations")
    return str(noted.get(RESERVATION, "")) if isinstance(noted, dict) else ""


def promised_at(pod: Mapping[str, Any]) -> Millis | None:
    """The start that was promised to a pod's gang, in milliseconds since 1970, by its condition; None: none was.

    A condition, not an annotation: tenants cannot write the status of their pods, so none can promise himself a start.
    """
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == START_PROMISED and condition.get("status") == "True":
            try:
                return millis_between(UNIX, datetime.fromisoformat(str(condition.get("message"))))
            except (ValueError, TypeError, OverflowError):  # no door wrote this: not a date, or one without a time zone
                return None
    return None


def began_at(pod: Mapping[str, Any]) -> Millis | None:
    """When a pod began to run, in milliseconds since 1970; None while nobody says so."""
    at = (pod.get("status") or {}).get("startTime")
    try:
        return None if at is None else millis_between(UNIX, datetime.fromisoformat(str(at)))
    except ValueError:
        return None


def checkpoint_every(pod: Mapping[str, Any], longest_grace: float = math.inf) -> Millis | None:
    """How often a pod saves its work, by its annotations (0: when it gets SIGTERM); None: it does not say.

    A pod that would be killed before it has saved anything does not save it: one without a grace period, or with more
    than victims get (`longest_grace`, in seconds).
    """
    noted = pod["metadata"].get("annotations")
    if not isinstance(noted, dict):
        return None
    if noted.get(SAVES_ON_SIGTERM) == "true":
        grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds", 30)
        if isinstance(grace, int) and 0 < grace <= longest_grace:
            return Millis(0)
    period = noted.get(CHECKPOINT_EVERY)
    try:
        return None if period is None else limit_of(str(period))
    except PaictlError:
        return None


def created_at(pod: Mapping[str, Any]) -> str:
    """When a pod was created, as the API server writes it: texts in the order of time."""
    return str(pod["metadata"].get("creationTimestamp") or "")


def read_time(text: object) -> datetime | None:
    """The instant of ``2026-11-22T05:00:00Z``, with or without fractions; None for anything else."""
    try:
        instant = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
