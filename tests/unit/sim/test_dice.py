from __future__ import annotations

import collections
from decimal import Decimal

from paictl.sim.dice import Dice


def test_the_numbers_are_these_for_ever() -> None:
    dice = Dice(1, "x")
    assert [dice.bits() for _ in range(2)] == [5545996061330065973, 4416908874010266101]
    assert [dice.exponential(30000) for _ in range(4)] == [32963, 119193, 50106, 33707]
    assert [dice.log_uniform(60, 800) for _ in range(4)] == [324, 740, 170, 470]
    assert dice.power_of_ten(Decimal("1.5"), Decimal(3), 60000) == 12249077


def test_seeds_and_names_make_other_streams() -> None:
    assert len({Dice(seed, name).bits() for seed in range(20) for name in ("", "a", "b", "ab")}) == 80


def test_the_distributions_are_what_they_say() -> None:
    dice = Dice(7)
    drawn = [dice.exponential(1000) for _ in range(20_000)]
    assert 970 < sum(drawn) / len(drawn) < 1030
    weights = collections.Counter(dice.weighted([("a", 1), ("b", 0), ("c", 3)]) for _ in range(4000))
    assert weights["b"] == 0
    assert 2.6 < weights["c"] / weights["a"] < 3.4
    logs = sorted(dice.log_uniform(10, 100_000) for _ in range(4001))
    assert 800 < logs[2000] < 1250
    assert logs[0] >= 10
    assert logs[-1] <= 100_000
    halves = sorted(dice.quantile([(0, 1), (500, 100), (1000, 10_000)]) for _ in range(4001))
    assert 85 < halves[2000] < 118
    assert {dice.below(3) for _ in range(100)} == {0, 1, 2}
    assert {dice.between(2, 4) for _ in range(100)} == {2, 3, 4}
    assert dice.pick("x") == "x"
