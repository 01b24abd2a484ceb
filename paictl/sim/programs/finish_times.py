"""Themis' ratio on devices of one kind: the least worst one, and the shares of time that keep it.

With a share `x` of its time a job ends after `age + left / x`; in isolation it would take `alone`. The share that a job
needs for a ratio falls as the ratio rises: the least ratio is where all needs are at most 1 and fit on the devices.
Both this ratio and the price of a device below are roots of convex functions, to which Newton's method comes from one
side: no solver is needed. All times have the same unit.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from paictl.frozen import frozen

_STEPS: Final = 100
"""Steps of Newton's method at most; it needs about five."""
_SLACK: Final = 1e-9
"""Share of the devices below which nothing counts as left over."""
_EXACT: Final = 1e-14
"""Relative error at which a root counts as reached."""
_DIGITS: Final = 12
"""Significant digits of the shares: further digits depend on the order in which a processor adds."""


@frozen
class Demands:
    """Arrays with an entry for each job: devices, time left with all of its devices, time since it came, time alone."""

    devices: Any
    left: Any
    age: Any
    alone: Any

    def needed(self, size: int) -> Any:
        """The share of its time that each job needs to keep the least ratio that all can keep on `size` devices."""
        ratio = float(((self.age + self.left) / self.alone).max()) * (1 + 1e-12)
        until = ratio * self.alone - self.age  # from now to its end: no job needs more than all of its time
        for _ in range(_STEPS):
            shares = self.left / until
            missing = float(self.devices @ shares) - size
            if missing <= _EXACT * size:
                break
            fall = float(self.devices @ (shares * self.alone / until))
            until += missing / fall * self.alone
        return shares


def isolated_shares(devices: Any, size: int, jobs: int) -> Any:
    """The share of its time that a job with `devices` devices runs on its part of the cluster (`size / jobs` devices,
    rounded up), at most 1."""
    return np.minimum(-(-size // max(jobs, 1)) / np.asarray(devices, dtype=float), 1.0)


def fair_shares(demands: Demands, size: int) -> Any:
    """The shares of the jobs' time for which the worst ratio is smallest.

    If that leaves devices idle, the result is the centre of all such shares, as an interior-point solver finds it; jobs
    with fewer devices then run for more of their time.
    """
    least = demands.needed(size)
    rest = size - float(demands.devices @ least)
    return _rounded(least if rest <= _SLACK * size else _central(least, demands.devices, rest))


def _rounded(shares: Any) -> Any:
    """Round to significant digits: rounding to decimals would turn a very small share into none."""
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(shares)))
    return np.round(shares * scale) / scale


def _central(least: Any, devices: Any, rest: float) -> Any:
    """The analytic centre of the feasible shares between `least` and 1, if the needs leave `rest` devices idle: where
    the sum of the logarithms of all distances to a bound is largest.

    A need counts twice, because it bounds both the share and the time that follows from it. With the price `p` of a
    device, each share is the root of `2 / (x - least) - 1 / (1 - x) = p * devices`; the right price is 1 / (devices
    that stay free).
    """
    room = 1.0 - least
    area = devices * room
    price = (2 * len(least) + 1) / rest  # too high: no job pays more than 2 for what it gets above its need
    for _ in range(_STEPS):
        cost = price * area
        part = 4.0 / (cost + 3.0 + np.sqrt((cost - 2.0) * cost + 9.0))  # of its room
        odds = (part / (1.0 - part)) ** 2
        surplus = price * rest - float(cost @ part) - 1.0
        rise = rest - float(area @ (odds / (2.0 + odds)))
        step = surplus / rise
        if step <= _EXACT * price:
            break
        price -= step
    return least + room * part
