"""Themis' ratio on devices of one kind: the least worst one, and the shares of time that keep it.

With a share `x` of its time a job ends after `age + left / x`; in isolation it would take `alone`. For a given ratio
the share that a job needs is known, and falls as the ratio rises: the least ratio is where all needs are at most 1 and
fit on the devices, which a bisection finds without a solver. Times are of one unit.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from paictl.frozen import frozen

_STEPS: Final = 45
_SLACK: Final = 1e-9
"""Part of the devices: less than this is not left over."""
_CHEAP, _DEAR = 1e-9, 1e12
"""Prices of a device between which the right one lies."""
_DIGITS: Final = 12
"""Significant digits of the shares that are kept: what follows depends on how a processor adds."""


@frozen
class Demands:
    """Arrays with an entry for each job: devices, time left with all of its devices, time since it came, time alone."""

    devices: Any
    left: Any
    age: Any
    alone: Any

    def needed(self, ratio: float) -> Any:
        """The share of its time with which each job keeps the ratio; infinite where none does."""
        over = ratio * self.alone - self.age
        return np.where(over > 0, self.left / np.where(over > 0, over, 1.0), np.inf)

    def fits(self, ratio: float, size: int) -> bool:
        """Whether all of them can keep it on so many devices."""
        shares = self.needed(ratio)
        return bool(shares.max() <= 1.0 and (self.devices * shares).sum() <= size)


def isolated_shares(devices: Any, size: int, jobs: int) -> Any:
    """Which part of its time a job with so many devices runs in its part of the cluster (as many whole devices as
    each of the jobs can have, rounded up), at most all of it."""
    return np.minimum(-(-size // max(jobs, 1)) / np.asarray(devices, dtype=float), 1.0)


def fair_shares(demands: Demands, size: int) -> Any:
    """The share of each job's time with which the worst ratio is as small as it can be.

    Where that leaves devices, the shares are those in the middle of all that keep it, as an interior-point solver finds
    them; jobs with fewer devices then have more of their time.
    """
    alone = ((demands.age + demands.left) / demands.alone).max()
    low = high = float(alone) * (1 + 1e-12)
    while not demands.fits(high, size):
        low, high = high, high * 2
    for _ in range(_STEPS):
        ratio = (low + high) / 2
        if not low < ratio < high:
            break
        if demands.fits(ratio, size):
            high = ratio
        else:
            low = ratio
    least = np.minimum(demands.needed(high), 1.0)
    rest = size - float((demands.devices * least).sum())
    return _rounded(least if rest <= _SLACK * size else _central(least, demands.devices, size))


def _rounded(shares: Any) -> Any:
    """Positive shares, to significant digits: to decimals, a job that needs next to nothing would get nothing."""
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(shares)))
    return np.round(shares * scale) / scale


def _central(least: Any, devices: Any, size: int) -> Any:
    """The analytic centre of the shares between what is needed and 1 that fit: where the sum of the logarithms of all
    distances to a bound is largest.

    A need counts twice, as it is a bound of the share and of the time that follows from it. With the price `p` of a
    device, each share is the root of `2 / (x - least) - 1 / (1 - x) = p * devices`; the right price is one over what
    is left.
    """
    room = 1.0 - least

    def shares(price: float) -> Any:
        cost = price * devices * room
        middle = cost + 3.0
        return least + 4.0 * room / (middle + np.sqrt(middle * middle - 8.0 * cost))

    low, high = _CHEAP, _DEAR
    for _ in range(_STEPS):
        price = (low * high) ** 0.5
        if price * (size - float((devices * shares(price)).sum())) < 1.0:
            low = price
        else:
            high = price
    return shares(high)
