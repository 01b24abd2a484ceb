"""Who looks must not keep scheduling waiting: looks come one after the other, those that keep the lock seldom."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

SHARE: Final = 0.05
"""Of the time that looks which keep the lock may take."""
QUEUE: Final = 32
"""Who may wait for a turn; more are sent away."""
PATIENCE: Final = 5.0
"""Seconds that a turn may be away; who would wait for longer is sent away."""


class BusyError(Exception):
    """Too many look at the same time; `seconds` later there may be room."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"too many questions of this kind: ask again in {self.seconds} s")


class Throttle:
    """Turns in one thread of their own, so that bindings never wait for a free one. Used from one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._pool = ThreadPoolExecutor(1, "look")
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._rare_waiting = 0
        self._rare_at = 0.0
        """When the next look that keeps the lock may begin."""
        self._pause = 0.0
        """Between the last of these and the next."""

    async def run(self, work: Callable[[], T], *, rare: bool = False) -> T:
        """What `work` returns or raises; `rare`: it keeps the lock. Raises `BusyError` if its turn is too far away."""
        away = self._rare_at - self.clock() + self._rare_waiting * self._pause if rare else 0.0
        if self._waiting >= QUEUE or away > PATIENCE:
            raise BusyError(away)
        self._waiting += 1
        try:
            return await (self._rare(work) if rare else self._run(work))
        finally:
            self._waiting -= 1

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def _rare(self, work: Callable[[], T]) -> T:
        """One at a time, and after each a pause that its cost decides."""

        def timed() -> T:
            began = self.clock()
            try:
                return work()
            finally:
                now = self.clock()
                self._pause = (now - began) * (1 / SHARE - 1)
                self._rare_at = now + self._pause

        self._rare_waiting += 1
        try:
            async with self._turn:
                await asyncio.sleep(max(0.0, self._rare_at - self.clock()))
                return await self._run(timed)
        finally:
            self._rare_waiting -= 1
