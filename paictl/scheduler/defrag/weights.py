"""What a move costs: the work that is lost, and whose it is."""

from __future__ import annotations

from typing import Final

RESTART: Final = 300
"""Seconds that a restart costs each device beside the work that is lost: a gang that has just begun is not free."""
SHARE: Final = 100
"""The factors below are hundredths."""
GUARANTEED: Final = 200
"""A gang with a guarantee counts twice, and its priority on top of it: 310 for OpenPAI's class `test`… `crit` 320."""
NEAR_BUDGET: Final = 150
"""A tenant near the end of its budget has to pay for lost work from the little that is left."""


def weight_of(devices: int, lost: int, *, priority: int, guaranteed: bool, near_budget: bool = False) -> int:
    """The weight of a move in seconds of a device, at least 1.

    `lost` is how many seconds of work are lost: since the gang started, or since its last checkpoint.
    """
    factor = GUARANTEED + max(0, priority) if guaranteed else SHARE
    weight = devices * (RESTART + max(0, lost)) * factor
    if near_budget:
        weight = weight * NEAR_BUDGET // SHARE
    return max(1, weight // SHARE)
