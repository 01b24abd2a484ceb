"""Polls what was used while this process leads: budgets and the order of opportunistic gangs depend on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from paictl.doors.core import DoorCore, NotServingError

if TYPE_CHECKING:
    from paictl.workload.budgets import Used
    from paictl.workload.lentorder import RecentUse

PERIOD: Final = 5.0
"""Seconds between two polls."""
BEGIN: Final = 0.5
"""Seconds between polls until the accounts are read."""


def take_recent(core: DoorCore, used: RecentUse) -> None:
    """Update the recent use without a guarantee; takes the core's lock."""
    with core.guarded():
        core.allowances.recent = used


class BudgetWatch:
    """Polls what was used; `renew` is called with it and must take the core's lock itself."""

    def __init__(self, used: Callable[[], Used | None], renew: Callable[[Used], None]) -> None:
        self._used = used
        self._renew = renew
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="budgets", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def look(self) -> bool:
        """Poll once; whether the use is known."""
        if (used := self._used()) is None:
            return False
        self._renew(used)
        return True

    def _run(self) -> None:
        known = False
        while not self._stop.wait(PERIOD if known else BEGIN):
            with suppress(NotServingError):  # a broken core has said so already
                known = self.look()
