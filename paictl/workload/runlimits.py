"""How long a job says that it runs at most (`extras.maxRunTime`), and what is said once it has run for longer.

Limits are whole milliseconds of one attempt of the job, from its first running task on (`docs/run-time-limits.md`).
"""

from __future__ import annotations

from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.units import FOREVER, DurationError, Millis, parse_duration, span_text

_MOST: Final = 10 * 366 * 86_400.0
"""Seconds; beyond ten years a limit is a mistake, and dates would overflow."""


def limit_of(value: object) -> Millis:
    """The limit that a value of a file says: a number of seconds, or a text such as ``1h30m``.

    Raises `PaictlError` for what is not a duration between a second and ten years.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise DurationError(str(value))
    seconds = parse_duration(value) if isinstance(value, str) else float(value)
    if seconds == FOREVER or not 1 <= seconds <= _MOST:
        raise PaictlError(text("{said} is not between 1s and 10 years", said=value), hint="omit it for no limit")
    return Millis(round(seconds * 1000))


def overran(limit: Millis) -> str:
    """Why a job was stopped at its limit."""
    return text("ran longer than its maxRunTime of {span}", span=span_text(limit))
