"""Random numbers that are the same on every machine and every version of Python.

Python promises the bits of its own generator but not what `choice`, `shuffle` or `expovariate` make of them, and
`math.log` is whatever the C library of the machine says. Here everything is whole numbers, or decimals with a fixed
number of digits, whose logarithm and exponential are rounded correctly by definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import pairwise
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15
_DIGITS: Final = Context(prec=20, rounding=ROUND_HALF_EVEN)
_TEN: Final = Decimal(10)


class Dice:
    """A stream of random numbers for one purpose (SplitMix64, Steele et al., OOPSLA 2014).

    Streams of one seed with different names are independent: one more draw from one does not affect the others.
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int, name: str = "") -> None:
        self._state = seed & _MASK
        for byte in (0, *name.encode()):
            self._state = self.bits() ^ byte

    def bits(self) -> int:
        """64 random bits."""
        self._state = (self._state + _STEP) & _MASK
        mixed = self._state
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1, uniformly."""
        limit = (1 << 64) - (1 << 64) % bound
        while (drawn := self.bits()) >= limit:
            pass
        return drawn % bound

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included, uniformly."""
        return low + self.below(high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, uniformly."""
        return choices[self.below(len(choices))]

    def weighted(self, choices: Sequence[tuple[T, int]]) -> T:
        """One of the choices, with probability proportional to its weight."""
        drawn = self.below(sum(weight for _, weight in choices))
        for choice, weight in choices:
            drawn -= weight
            if drawn < 0:
                return choice
        raise AssertionError("weights add up to the bound")

    def fraction(self) -> Decimal:
        """More than 0 and at most 1, in steps of 2 to the power of -53."""
        return _DIGITS.divide(Decimal((self.bits() >> 11) + 1), Decimal(1 << 53))

    def exponential(self, mean: int) -> int:
        """A whole number from the exponential distribution: the gap between arrivals of a Poisson process."""
        return int((-_DIGITS.ln(self.fraction()) * mean).to_integral_value(ROUND_HALF_EVEN))

    def log_uniform(self, low: int, high: int) -> int:
        """A whole number from `low` to `high` whose logarithm is uniform; `low` is at least 1."""
        bottom = _DIGITS.ln(Decimal(low))
        span = _DIGITS.subtract(_DIGITS.ln(Decimal(high)), bottom)
        value = _DIGITS.exp(_DIGITS.add(bottom, _DIGITS.multiply(span, self.fraction())))
        return min(high, max(low, int(value.to_integral_value(ROUND_HALF_EVEN))))

    def power_of_ten(self, low: Decimal, high: Decimal, unit: int) -> int:
        """`unit` times ten to the power of a number that is uniform between `low` and `high`."""
        exponent = _DIGITS.add(low, _DIGITS.multiply(high - low, self.fraction()))
        value = _DIGITS.exp(_DIGITS.multiply(exponent, _DIGITS.ln(_TEN)))
        return int(_DIGITS.multiply(value, Decimal(unit)).to_integral_value(ROUND_HALF_EVEN))

    def quantile(self, points: Sequence[tuple[int, int]]) -> int:
        """A whole number from (share in thousandths, value) points, log-uniform between neighbours."""
        drawn = self.below(1000)
        for (_, low), (above, high) in pairwise(points):
            if drawn < above:
                return self.log_uniform(low, high)
        raise AssertionError("the points end at 1000")
