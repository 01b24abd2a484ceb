"""Instants as Kubernetes writes them, and how long pods run at most."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cluster.kubernetes.names import job_of
from paictl.units import Millis

MAX_RUN_TIME: Final = "paictl.io/max-run-time"
"""Annotation of the pods of jobs of ours: how long the job's attempt runs at most, as ``7200000ms``."""


def read_time(text: object) -> datetime | None:
    """The instant of ``2026-11-22T05:00:00Z``, with or without fractions; None for anything else."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


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
