"""Which differences between two runs are significant."""

from __future__ import annotations

import json

import pytest

from paictl.cli.main import run as paictl
from paictl.sim.compare import LEAST, interval, pair
from paictl.sim.dice import Dice
from paictl.sim.simulate import simulate
from paictl.sim.specify import cluster_named
from paictl.sim.traces.load import load


def test_a_steady_difference_is_certain_and_noise_is_not() -> None:
    dice = Dice(1)
    steady = [1000 + dice.below(500) for _ in range(400)]
    noise = [dice.below(20_001) - 10_000 for _ in range(400)]
    low, high = interval(steady)
    assert low is not None
    assert high is not None
    assert 1 < low < sum(steady) / 400_000 < high < 1.5
    low, high = interval(noise)
    assert low is not None
    assert high is not None
    assert low < 0 < high


def test_jobs_that_change_together_do_not_count_as_many_observations() -> None:
    """One bad hour of a trace: 400 jobs whose whole difference is in one stretch are no evidence."""
    low, high = interval([0] * 380 + [-100_000] * 20)
    assert low is not None
    assert high is not None
    assert low < 0 <= high


def test_too_few_jobs_say_nothing() -> None:
    assert interval([1] * (LEAST - 1)) == (None, None)


@pytest.mark.parametrize(("policies", "certain"), [(("fifo", "srtf"), True), (("fifo", "fifo"), False)])
def test_pairs_say_whether_they_differ(policies: tuple[str, str], certain: bool) -> None:
    jobs, spec = load("tenants").jobs, cluster_named("12x8")
    comparison = pair([simulate(jobs, spec, policy) for policy in policies], 0, 1)
    assert comparison.significant is certain


def test_the_command_says_what_may_be_chance(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "compare", "tenants", "--policy", "fifo", "--policy", "srtf", "--policy", "easy"]
    assert paictl([*words, "--cluster", "60x8", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {comparison["significant"] for comparison in data["pairs"]} <= {True, False}
    chance = [comparison for comparison in data["pairs"] if comparison["significant"] is False]
    assert paictl([*words, "--cluster", "60x8"]) == 0
    assert capsys.readouterr().err.count("is not significant") == len(chance) > 0
