"""The clock of a cluster: wall time times a factor, from the instant of the last command on; and what it shows now."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from paictl.cluster.embedded.records import END
from paictl.cluster.embedded.store import Store
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis, from_unix, millis_between

MAX = "max"
"""A clock that runs until nothing more happens, after every command."""


@frozen
class Clock:
    """`instant` of the cluster was at Unix time `wall` (seconds); since then it runs `speed` times faster.

    Speed 0 stands still: only `paictl cluster tick` advances it. `run_out` marks the clock of ``--speed max``.
    """

    instant: Millis
    wall: float
    speed: float = 1.0
    run_out: bool = False

    def at(self, wall: float) -> Millis:
        """The cluster's instant at a Unix time; never before `instant`, whatever the wall clock does."""
        return Millis(self.instant + max(0, int((wall - self.wall) * 1000 * self.speed)))

    def set(self, instant: Millis, wall: float) -> Clock:
        """The same clock, set."""
        return Clock(instant, wall, self.speed, self.run_out)


def wall_time() -> float:
    """Unix time in seconds; the one place where the embedded cluster reads a clock."""
    return time.time()


@frozen
class Anchor:
    """An instant on two clocks: the wall's, which somebody may set, and the one that counts since this boot."""

    wall: float
    boot: str
    since_boot: float


def anchor(wall: float) -> Anchor | None:
    """The present; None where the system does not tell its boots apart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return Anchor(wall, boot, time.clock_gettime(time.CLOCK_BOOTTIME))
    except (OSError, AttributeError):
        return None


def anchor_row(wall: float) -> list[object] | None:
    """The same as JSON values."""
    point = anchor(wall)
    return None if point is None else [point.wall, point.boot, point.since_boot]


def steady(row: Sequence[Any] | None, wall: float) -> float:
    """Unix time as it goes on from an anchor (its row), though the wall clock may have been set back meanwhile.

    Readers are asked for the time without leaving a trace, so that only such a clock keeps them from seeing an
    earlier instant than they saw before.
    """
    then, now = None if row is None else Anchor(*row), anchor(wall)
    if then is None or now is None or then.boot != now.boot:
        return wall
    return then.wall + now.since_boot - then.since_boot


def parse_speed(word: str) -> tuple[float, bool]:
    """(factor, run out) of ``--speed``: a number of at least 0, or ``max``."""
    if word == MAX:
        return 0.0, True
    try:
        factor = float(word)
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= 1_000_000:
        raise PaictlError(text("invalid speed {word!r}", word=word), hint="a number from 0 (paused) to 1000000, or max")
    return factor, False


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
        return Millis(min(self.clock.at(self.wall), millis_between(self.epoch, END)))

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
