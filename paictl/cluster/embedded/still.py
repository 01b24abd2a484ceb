"""What can be said of a cluster in which nothing has happened since the last command, without computing it anew.

Every command writes down what there is to see at its end, until when that holds (the next event that is to happen by
itself) and the seal of the state that it was seen in. As long as it holds, who only looks needs neither the world nor
any of the modules that decide and act, which are most of them. It does not hold where anything else wrote meanwhile (an
older paictl, which writes no views, notes its commands in the log as well), nor where the state was damaged.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from paictl.cluster.embedded.present import Present
from paictl.cluster.embedded.store import Store, whole
from paictl.cluster.embedded.viewrows import node_from, service_from, view_from
from paictl.cluster.interface import JobView, MaintenanceWindow, NodeView, ServiceView
from paictl.cluster.maintenance import shown
from paictl.units import Millis
from paictl.workload.windows import read_window

KEY: Final = "still"
"""The setting in which it is stored."""
FORM: Final = 3
"""Changed whenever what is written down is, so that what another version wrote is computed anew."""
MOST: Final = 500
"""Tasks and nodes at most: more take longer to write down with every command than it takes to load the world."""


class Still:
    """The cluster as its last command left it."""

    def __init__(self, row: dict[str, Any], epoch: datetime) -> None:
        self._row = row
        self._epoch = epoch

    @classmethod
    def of(cls, store: Store, present: Present) -> Still | None:
        """What holds now; None if nothing was written down, or something has happened since."""
        row = store.meta(KEY)
        with whole():
            if row is None or row["form"] != FORM or row["seal"] != store.seal():
                return None
            if row["until"] is not None and present.instant >= row["until"]:
                return None
            return cls(row, present.epoch)

    def jobs(self) -> list[tuple[int, JobView]]:
        """(number, view without tasks) of the jobs that have not ended."""
        with whole():
            return [(row["number"], view_from(row, self._epoch, tasks=False)) for row in self._row["jobs"]]

    def job(self, key: str) -> JobView | None:
        """A job that has not ended, None if there is none of that key."""
        with whole():
            found = next((row for row in self._row["jobs"] if row["key"] == key), None)
            return None if found is None else view_from(found, self._epoch)

    def nodes(self) -> list[NodeView]:
        """All nodes by name."""
        with whole():
            return [node_from(row, self._epoch) for row in self._row["nodes"]]

    def windows(self, now: Millis) -> tuple[MaintenanceWindow, ...]:
        """The maintenance windows that have not ended."""
        with whole():
            return shown(map(read_window, self._row["windows"]), now, self._epoch)

    def services(self) -> list[ServiceView]:
        """All services that are there, by name."""
        with whole():
            return [service_from(row, self._epoch) for row in self._row["services"]]
