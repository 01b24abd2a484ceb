"""What a cluster of programs tells about them for a problem report: their states, logs and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from paictl.frozen import frozen

Tell = Callable[[str], object]
"""Called with what goes on now, for people."""

LINES: Final = 2000
SECONDS: Final = 120.0


@frozen
class LogLimits:
    """How much of logs is taken, and until when (on `time.monotonic`'s clock)."""

    until: float
    lines: int = LINES
    """The newest lines of each container, and of the one before it where it has restarted."""
    container_bytes: int = 256 << 10
    total_bytes: int = 32 << 20
    containers: int = 300
    events: int = 5000
    """The newest ones, of each namespace."""


@frozen
class ContainerLog:
    """The newest lines that a container has written, as they are: with any secret that is in them."""

    namespace: str
    pod: str
    container: str
    previous: bool
    """Whether this is the container before the present one."""
    text: str = field(repr=False)
    cut: bool
    """Whether the lines that were asked for were too many bytes."""


@frozen
class Diagnostics:
    """What was found; `missing` says what could not be read, and why.

    `secrets` are values that no text of a report may hold, as far as the caller may read them.
    """

    pods: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]
    logs: Sequence[ContainerLog]
    missing: Mapping[str, str]
    secrets: frozenset[str] = field(repr=False)
