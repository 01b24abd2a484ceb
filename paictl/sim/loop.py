"""The event loop: events ordered by (time, urgency, sequence), so that ties are never left to chance."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, Generic, TypeVar

from paictl.units import Millis

START: Final = Millis(0)

E = TypeVar("E")


class EventPriority(IntEnum):
    """The order of events at one instant: hardware, then ends (they free devices), then arrivals, then timers."""

    HARDWARE = 0
    END = 1
    ARRIVAL = 2
    TIMER = 3


class EventLoop(Generic[E]):
    """A queue of future events and the current instant; events are data, and the caller acts on them."""

    __slots__ = ("_queue", "_sequence", "now")

    def __init__(self, now: Millis = START) -> None:
        self.now = now
        self._queue: list[tuple[Millis, int, int, E]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._queue)

    def schedule(self, at: Millis, urgency: EventPriority, event: E) -> None:
        """Queue an event; one in the past happens now."""
        self._sequence += 1
        heapq.heappush(self._queue, (max(at, self.now), int(urgency), self._sequence, event))

    def peek(self) -> Millis | None:
        """When the next event happens, None if there is none."""
        return self._queue[0][0] if self._queue else None

    def first(self) -> E:
        """The next event, still queued; there must be one."""
        return self._queue[0][3]

    def first_at(self) -> Millis:
        """When that one happens."""
        return self._queue[0][0]

    def forget(self) -> None:
        """Drop the next event without it happening: the clock stays."""
        heapq.heappop(self._queue)

    def pop(self, until: Millis | None = None) -> E | None:
        """Advance to the next event and return it; None, with the clock at `until`, if none happens by then.

        Without `until` the clock stays where the last event was.
        """
        if self._queue and (until is None or self._queue[0][0] <= until):
            at, _, _, event = heapq.heappop(self._queue)
            self.now = at
            return event
        if until is not None and until > self.now:
            self.now = until
        return None

    def pending(self) -> Iterator[tuple[Millis, EventPriority, E]]:
        """The queued events in the order in which they will happen; scheduling them again keeps that order."""
        return (
            (at, EventPriority(urgency), event)
            for at, urgency, _, event in sorted(self._queue, key=lambda row: row[:3])
        )
