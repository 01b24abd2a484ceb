"""The cluster's clock: wall time times a factor, from the instant of the last command on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis

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
    found = anchor(wall)
    return None if found is None else [found.wall, found.boot, found.since_boot]


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
