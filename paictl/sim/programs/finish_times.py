"""Themis' ratio on devices of one kind: the least worst one, and the shares of time that keep it.

With a share `x` of its time a job ends after `age + left / x`; in isolation it would take `alone`. The share that a job
needs for a ratio falls as the ratio rises: the least ratio is where all needs are at most 1 and fit on the devices,
which a bisection finds without a solver. All times have the same unit.
"""

from __future__ import annotations

from math import exp, log
from typing import Any, Final

import numpy as np
from scipy.optimize import brentq

from paictl.frozen import frozen

_STEPS: Final = 45
_SLACK: Final = 1e-9
"""Share of the devices below which nothing counts as left over."""
_EXACT: Final = 1e-14
"""How exact the logarithm of a price is."""
_DIGITS: Final = 12
"""Significant digits of the shares: further digits depend on the order in which a processor adds."""


@frozen
class Demands:
    """Arrays with an entry for each job: devices, time left with all of its devices, time since it came, time alone."""

    devices: Any
    left: Any
    age: Any
    alone: Any

    def needed(self, ratio: float) -> Any:
        """The share of its time with which each job keeps the ratio; infinite if no share is enough."""
        over = ratio * self.alone - self.age
        return np.where(over > 0, self.left / np.where(over > 0, over, 1.0), np.inf)

    def fits(self, ratio: float, size: int) -> bool:
        """Whether all jobs can keep the ratio on `size` devices."""
        shares = self.needed(ratio)
        return bool(shares.max() <= 1.0 and (self.devices * shares).sum() <= size)


def isolated_shares(devices: Any, size: int, jobs: int) -> Any:
    """The share of its time that a job with `devices` devices runs on its part of the cluster (`size / jobs` devices,
    rounded up), at most 1."""
    return np.minimum(-(-size // max(jobs, 1)) / np.asarray(devices, dtype=float), 1.0)


def fair_shares(demands: Demands, size: int) -> Any:
    """The shares of the jobs' time for which the worst ratio is smallest.

    If that leaves devices idle, the result is the centre of all such shares, as an interior-point solver finds it; jobs
    with fewer devices then run for more of their time.
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
    """Round to significant digits: rounding to decimals would turn a very small share into none."""
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(shares)))
    return np.round(shares * scale) / scale


def _central(least: Any, devices: Any, size: int) -> Any:
    """The analytic centre of the feasible shares between `least` and 1: where the sum of the logarithms of all
    distances to a bound is largest.

    A need counts twice, because it bounds both the share and the time that follows from it. With the price `p` of a
    device, each share is the root of `2 / (x - least) - 1 / (1 - x) = p * devices`; the right price is 1 / (devices
    that stay free).
    """
    room = 1.0 - least
    rest = size - float((devices * least).sum())

    def above(price: float) -> Any:
        cost = price * devices * room
        middle = cost + 3.0
        return 4.0 * room / (middle + np.sqrt(middle * middle - 8.0 * cost))

    def surplus(power: float) -> float:
        price = exp(power)
        return price * (rest - float((devices * above(price)).sum())) - 1.0

    # At most `rest` stays free, so the price is at least 1 / rest. No job gets more than 2 / (price * devices) above
    # its need, so at the higher price enough stays free for a surplus of at least 1.
    low, high = log(1.0 / rest), log(2.0 * (len(least) + 1) / rest)
    if surplus(low) >= 0.0:  # few jobs on many devices: what they get above their needs is lost in rounding
        return least + above(exp(low))
    return least + above(exp(brentq(surplus, low, high, xtol=_EXACT, rtol=_EXACT)))
