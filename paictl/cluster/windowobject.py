"""The ConfigMap in which a Kubernetes cluster keeps its maintenance windows: written by clients, followed by doors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.cluster.maintenance import windows_from
from paictl.cluster.values import ClusterError
from paictl.workload.windows import Windows

NAME: Final = "paictl-maintenance"
KEY: Final = "windows.json"


def windows_of(found: Mapping[str, Any] | None) -> Windows:
    """The windows of the object as the API server gives it; raises `ClusterError` for one that is damaged."""
    known = found or {}
    try:
        return windows_from(str((known.get("data") or {}).get(KEY, "")))
    except ClusterError as error:
        error.where = f"configmap {(known.get('metadata') or {}).get('namespace', '')}/{NAME}"
        raise
