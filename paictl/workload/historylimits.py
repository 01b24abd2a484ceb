"""How much a cluster on this machine keeps of one user: the list `history-limits` in the section `sharing`.

Its log and its list of ended jobs hold every submission for good, because the state can be computed anew from them.
Without a limit, an account could fill the disk of everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paictl.i18n import Text, text
from paictl.workload.budgets import EACH

MEGABYTE: Final = 1_000_000
DEFAULT: Final = 1_000
"""Megabytes of each user where the configuration says nothing."""


class HistoryLimits:
    """Megabytes by user; `*`: each user without an entry."""

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self.limits = {EACH: DEFAULT, **(limits or {})}

    def of(self, user: str) -> int:
        """Megabytes that are kept of a user at most."""
        return self.limits.get(user, self.limits[EACH])

    def refusal(self, user: str, kept: int) -> Text | None:
        """Why a request is not taken from a user of whom `kept` characters would be stored with it; None if it is."""
        most = self.of(user)
        if kept <= most * MEGABYTE:
            return None
        return text(
            "the history of user {user}'s jobs would take {kept:.1f} MB with this request; the limit is {most:,} MB",
            user=user,
            kept=kept / MEGABYTE,
            most=most,
        )
