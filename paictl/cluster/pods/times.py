"""The times of pods as their objects say: how long they run at most, when they began, when they were made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from paictl.cluster.kubernetes.names import job_of
from paictl.cluster.maintenance import UNIX
from paictl.errors import PaictlError
from paictl.units import Millis, millis_between
from paictl.workload.runlimits import limit_of

MAX_RUN_TIME: Final = "paictl.io/max-run-time"
"""Annotation of the pods of jobs of ours: how long the job's attempt runs at most, as ``7200000ms``."""


CHECKPOINT_EVERY: Final = "paictl.io/checkpoint-every"
"""Annotation of pods: how often they save their work, as ``30m``."""


def run_limit(pod: Mapping[str, Any]) -> Millis | None:
    """How long a pod runs at most for sure; None: nobody ends it.

    By the annotation for a pod of a job of ours, which the job controller ends; else by its own deadline, which its
    kubelet enforces. An annotation that a user wrote says nothing: maintenance and promised starts would trust a pod
    that runs on.
    """
    if job_of(pod):
        said = str(pod["metadata"]["annotations"].get(MAX_RUN_TIME, ""))
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


def checkpoint_every(pod: Mapping[str, Any]) -> Millis | None:
    """How often a pod saves its work, by its annotation; None: it does not say."""
    noted = pod["metadata"].get("annotations")
    said = noted.get(CHECKPOINT_EVERY) if isinstance(noted, dict) else None
    try:
        return None if said is None else limit_of(str(said))
    except PaictlError:
        return None


def created_at(pod: Mapping[str, Any]) -> str:
    """When a pod was created, as the API server writes it: texts in the order of time."""
    return str(pod["metadata"].get("creationTimestamp") or "")
