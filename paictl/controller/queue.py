"""Which jobs have to be looked at: each once however often it was named, by one worker at a time, not too often."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from typing import Final

PAUSE: Final = 0.05
"""Seconds between two looks at a job."""
SHARE: Final = 5
"""A look that takes long is not taken again before this many times as long: a huge job leaves time for others."""
BACKOFF: Final = (0.5, 60.0)
"""First and longest pause after an error, in seconds."""


class WorkQueue:
    """Names of jobs. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready = threading.Condition()
        self._due: dict[str, float] = {}
        """When a job is to be looked at."""
        self._heap: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._again: dict[str, float] = {}
        """Jobs that were named while they were looked at."""
        self._rest: dict[str, float] = {}
        """When a job may be looked at again."""
        self._errors: dict[str, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many wait."""
        with self._ready:
            return len(self._due)

    def add(self, name: str, after: float = 0.0) -> None:
        """Have a job looked at, now or in some seconds."""
        with self._ready:
            self._put(name, max(self._clock() + after, self._rest.get(name, 0.0)))

    def _put(self, name: str, due: float) -> None:
        if name in self._busy:
            self._again[name] = min(due, self._again.get(name, due))
        elif due < self._due.get(name, due + 1):
            self._due[name] = due
            heapq.heappush(self._heap, (due, name))
            self._ready.notify()

    def get(self) -> str | None:
        """The next job, waiting for it; None once the queue is closed. To be given back with `done` or `failed`."""
        with self._ready:
            while not self._closed:
                now = self._clock()
                while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
                    heapq.heappop(self._heap)  # it is to be looked at sooner, or was
                if self._heap and self._heap[0][0] <= now:
                    _, name = heapq.heappop(self._heap)
                    del self._due[name]
                    self._busy.add(name)
                    return name
                self._ready.wait(self._heap[0][0] - now if self._heap else None)
            return None

    def done(self, name: str, seconds: float) -> None:
        """A look has taken so long."""
        self._errors.pop(name, None)
        self._give_back(name, max(PAUSE, SHARE * seconds))

    def failed(self, name: str) -> None:
        """A look has failed: it is repeated, ever less often."""
        errors = self._errors[name] = self._errors.get(name, 0) + 1
        pause = min(BACKOFF[0] * 2 ** (errors - 1), BACKOFF[1])
        with self._ready:
            self._again[name] = min(self._again.get(name, self._clock() + pause), self._clock() + pause)
        self._give_back(name, pause)

    def _give_back(self, name: str, pause: float) -> None:
        with self._ready:
            self._busy.discard(name)
            rest = self._clock() + pause
            again = self._again.pop(name, None)
            if again is None:
                self._rest.pop(name, None) if pause <= PAUSE else self._rest.__setitem__(name, rest)
            else:
                self._rest[name] = rest
                self._put(name, max(again, rest))

    def forget(self, name: str) -> None:
        """A job is gone."""
        with self._ready:
            self._rest.pop(name, None)
            self._errors.pop(name, None)

    def close(self) -> None:
        """Let everybody go."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
