"""What time it is in a cluster, by its clock and this machine's."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from paictl.cluster.embedded.clock import Clock, anchor_row, steady, wall_time
from paictl.cluster.embedded.store import Store
from paictl.units import Millis, from_unix

BEGINNING = "beginning.json"
"""Says when a cluster begins that comes up in this folder, as labs want it."""


class Present:
    """The clock of the cluster in a store. `wall` gives Unix time in seconds (tests have their own)."""

    def __init__(self, store: Store, wall: Callable[[], float] = wall_time) -> None:
        self._store = store
        self._unix = wall

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""
        return from_unix(float(self._store.meta("epoch")))

    @property
    def clock(self) -> Clock:
        """The clock as the last command left it."""
        instant, wall, speed, run_out = self._store.meta("clock")
        return Clock(Millis(instant), wall, speed, run_out)

    @property
    def wall(self) -> float:
        """Unix time as it goes on from when the cluster came up, or from the first command after a reboot."""
        return steady(self._store.meta("anchor"), wall_time()) if self._unix is wall_time else self._unix()

    @property
    def instant(self) -> Millis:
        """The present on the cluster's own clock."""
        return self.clock.at(self.wall)

    def begin(self, start: float, speed: float, *, run_out: bool) -> None:
        """The cluster comes up at a Unix time."""
        self._store.set_meta("epoch", start)
        self._store.set_meta("clock", [0, start, speed, run_out])
        if self._unix is wall_time:
            self._store.set_meta("anchor", anchor_row(start))

    def go_on(self, now: Millis) -> None:
        """The clock goes on from an instant; a reboot since it was last set begins a new anchor."""
        wall = self.wall
        clock = self.clock.set(now, wall)
        if self._store.meta("anchor") is not None:
            self._store.set_meta("anchor", anchor_row(wall))
        self._store.set_meta("clock", [clock.instant, clock.wall, clock.speed, clock.run_out])

    def set_speed(self, speed: float, *, run_out: bool) -> None:
        """Let the clock run at another speed from now on."""
        now, wall = self.instant, self.wall
        self._store.set_meta("clock", [now, wall, speed, run_out])


def plan_beginning(folder: Path, epoch: float) -> None:
    """Let the next cluster in a folder begin at a Unix time with its clock at a standstill, whenever it comes up."""
    (folder / BEGINNING).write_text(json.dumps({"epoch": epoch}) + "\n", encoding="utf-8")


def planned_beginning(folder: Path) -> float | None:
    """The Unix time at which a cluster in a folder is to begin; None where that is when it comes up."""
    try:
        return float(json.loads((folder / BEGINNING).read_text(encoding="utf-8"))["epoch"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
