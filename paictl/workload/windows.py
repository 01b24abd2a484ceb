"""Maintenance windows: which nodes a pod may not get now, and who has to leave (`docs/maintenance.md`).

Pure: instants are milliseconds since an epoch of the caller's, and the caller says what time it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, listed, text
from paictl.units import Millis

NOTICE: Final = Millis(86_400_000)
"""How long before a window its jobs are warned by default."""
_NAME: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"


class WindowError(PaictlError):
    """A window that cannot be added; nothing has changed."""

    exit_code = ExitCode.NEGATIVE


@frozen
class Window:
    """`nodes` are out of service from `start` until just before `end`."""

    name: str
    nodes: tuple[str, ...]
    start: Millis
    end: Millis
    notice: Millis = NOTICE
    reason: str = ""
    hold: bool = False
    """Whether the nodes are only kept free of new pods, as defragmentation does: who runs there stays."""

    def closes(self, now: Millis, limit: Millis | None) -> bool:
        """Whether a pod that starts now and runs for `limit` at most (None: for ever) would meet the window."""
        return now < self.end and (limit is None or now + limit > self.start)

    def is_active(self, now: Millis) -> bool:
        """Whether the nodes are out of service."""
        return self.start <= now < self.end

    def overlaps(self, other: Window) -> bool:
        """Whether there is an instant of both."""
        return self.start < other.end and other.start < self.end


def read_window(row: Mapping[str, Any]) -> Window:
    """A window from the JSON values that `dataclasses.asdict` gives."""
    return Window(**{**row, "nodes": tuple(row["nodes"])})


@frozen
class Windows:
    """All windows of a cluster, in the order in which they were added."""

    all: tuple[Window, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all)

    def __iter__(self) -> Iterator[Window]:
        return iter(self.all)

    def closed(self, now: Millis, limit: Millis | None) -> frozenset[str]:
        """The nodes that a pod may not get now which runs for `limit` at most (None: for ever)."""
        return frozenset(node for window in self.all if window.closes(now, limit) for node in window.nodes)

    def active(self, now: Millis) -> dict[str, Window]:
        """The nodes that are out of service now, each with its window."""
        return self._of(now, hold=False)

    def held(self, now: Millis) -> dict[str, Window]:
        """The nodes that are kept free of new pods now, each with its window."""
        return self._of(now, hold=True)

    def _of(self, now: Millis, *, hold: bool) -> dict[str, Window]:
        active = (window for window in self.all if window.is_active(now) and window.hold is hold)
        return {node: window for window in active for node in window.nodes}

    def longest(self, now: Millis, fits: Callable[[frozenset[str]], bool]) -> Millis | None:
        """The longest run time with which a pod `fits` beside the nodes closed to it; None if none is long enough.

        Only the instants at which windows begin make a difference, so only those are tried.
        """
        for start in sorted({window.start for window in self.all if window.start > now}, reverse=True):
            limit = Millis(start - now)
            if fits(self.closed(now, limit)):
                return limit
        return None

    def find(self, name: str) -> Window:
        """The window of a name; raises `PaictlError` with the nearest if there is none."""
        window = next((window for window in self.all if window.name == name), None)
        if window is None:
            hint = did_you_mean(name, [window.name for window in self.all]) or "list them with: paictl maintenance list"
            raise PaictlError(text("no window {name!r}", name=name), hint=hint)
        return window

    def without(self, name: str) -> Windows:
        """All but one; raises as `find` does."""
        removed = self.find(name)
        return Windows(tuple(window for window in self.all if window is not removed))

    def current(self, now: Millis) -> Windows:
        """Those that have not ended."""
        return Windows(tuple(window for window in self.all if now < window.end))

    def free_name(self, *, hold: bool = False) -> str:
        """The first ``maintenance-N`` that no window has; ``defrag-N`` for one that only keeps nodes free."""
        taken, stem = {window.name for window in self.all}, "defrag" if hold else "maintenance"
        return next(name for number in range(1, len(taken) + 2) if (name := f"{stem}-{number}") not in taken)

    def added(self, window: Window, now: Millis, nodes: Collection[str]) -> Windows:
        """These and one more; `nodes` are all nodes of the cluster. Raises `WindowError` for what is wrong with it."""
        _check(window, now, nodes)
        for other in self.all:
            if other.name == window.name:
                raise WindowError(text("window {name!r} already exists", name=window.name), hint="give another name")
            both = sorted({*other.nodes} & {*window.nodes})
            if both and other.overlaps(window):
                raise WindowError(
                    text("it overlaps window {name} of {nodes}", name=other.name, nodes=listed(both)),
                    hint=text("choose another time, or first: paictl maintenance remove {name}", name=other.name),
                )
        return Windows((*self.all, window))


def check_nodes(named: Iterable[str], nodes: Collection[str]) -> None:
    """Raise `WindowError` for the first named node that is not among the nodes of the cluster."""
    for node in named:
        if node not in nodes:
            hint = did_you_mean(node, nodes) or "list them with: paictl node list"
            raise WindowError(text("no node {name!r}", name=node), hint=hint)


def _check(window: Window, now: Millis, nodes: Collection[str]) -> None:
    if not re.fullmatch(_NAME, window.name):
        raise WindowError(
            text("{name!r} is not a valid window name", name=window.name),
            hint="use up to 63 lower case letters, digits and -",
        )
    if not window.nodes:
        raise WindowError(text("window {name} has no nodes", name=window.name), hint="name some: --nodes NODE")
    check_nodes(window.nodes, nodes)
    if window.end <= window.start:
        raise WindowError(text("window {name} ends before it begins", name=window.name), hint="say how long: --for 4h")
    if window.start < now:
        name, over = window.name, window.end <= now
        message = text("window {name} ends in the past", name=name) if over else None
        raise WindowError(
            message or text("window {name} begins in the past", name=name),
            hint="leave --from out for a window that begins now",
        )
