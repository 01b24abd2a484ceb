"""A value that takes long to read: kept for a while, and read again beside the requests."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from paictl.errors import PaictlError

T = TypeVar("T")

_LOGGER = logging.getLogger("paictl.server")


class Remembered(Generic[T]):
    """What `read` gave last; the first who asks waits for it, everybody else gets it at once.

    If it is older than `fresh` seconds, it is read again for those who come later. One that cannot be read stays as it
    was.
    """

    def __init__(self, fresh: float) -> None:
        self.fresh = fresh
        self._lock = threading.Lock()
        self._value: T | None = None
        self._known = False
        self._at = 0.0
        self._reading = False

    @property
    def reading(self) -> bool:
        """Whether it is being read."""
        with self._lock:
            return self._reading

    def get(self, read: Callable[[], T | None]) -> T | None:
        """The value, None if there is none yet. Raises what `read` raises, for the first who asks only.

        That `read` gives None is worth remembering, too: it may have taken as long.
        """
        with self._lock:
            value, known = self._value, self._known
            due = not self._reading and (not known or time.monotonic() - self._at > self.fresh)
            self._reading |= due
        if not due:
            return value
        if not known:
            return self._read(read)
        threading.Thread(target=self._read_later, args=(read,), daemon=True).start()
        return value

    def _read_later(self, read: Callable[[], T | None]) -> None:
        try:
            self._read(read)
        except PaictlError as error:  # the next visit tries again
            _LOGGER.warning("cannot be read again: %s", error)

    def _read(self, read: Callable[[], T | None]) -> T | None:
        try:
            found = read()
        except BaseException:
            with self._lock:
                self._reading, self._at = False, time.monotonic()
            raise
        with self._lock:
            self._reading, self._at, self._value, self._known = False, time.monotonic(), found, True
        return found
