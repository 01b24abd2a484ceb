"""What a door knows of maintenance windows, and of how long pods run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from paictl.cluster.kubernetes.names import MAX_RUN_TIME
from paictl.cluster.maintenance import UNIX
from paictl.cluster.values import ClusterError
from paictl.cluster.windowobject import windows_of
from paictl.units import Millis, millis_between
from paictl.workload.windows import Windows


class DoorWindows:
    """The windows as the ConfigMap says, and what is wrong with it."""

    def __init__(self) -> None:
        self.found = Windows()
        self.problem = ""
        self.told: set[tuple[str, str]] = set()
        """(window, pod) of who was told to leave, by name and uid."""
        self._closed: dict[tuple[int, ...], frozenset[str]] = {}
        """Nodes of windows by their numbers: a decision asks for the same few again and again."""
        self._left: tuple[frozenset[str], frozenset[str], frozenset[str]] | None = None

    def change(self, found: Mapping[str, Any] | None) -> None:
        """The ConfigMap is like this now, None: it is not there. A damaged one changes nothing."""
        try:
            self.found, self.problem = windows_of(found), ""
            self._closed.clear()
        except ClusterError as error:
            self.problem = f"{error}"

    def prune(self, now: Millis) -> None:
        """Forget windows that are over: nothing is asked otherwise for them than without any."""
        if any(one.end <= now for one in self.found):
            self.found = self.found.current(now)
            self._closed.clear()

    def closed(self, now: Millis, limit: Millis | None) -> frozenset[str]:
        """The nodes that a pod may not get now which runs for `limit` at most, as `Windows.closed` says."""
        which = tuple(number for number, one in enumerate(self.found) if one.closes(now, limit))
        if which not in self._closed:
            self._closed[which] = self.found.closed(now, limit)
        return self._closed[which]

    def left(self, nodes: frozenset[str], closed: frozenset[str]) -> frozenset[str]:
        """The nodes without those that are closed; made once for the same sets."""
        if self._left is None or self._left[0] is not nodes or self._left[1] is not closed:
            self._left = nodes, closed, nodes - closed
        return self._left[2]


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
