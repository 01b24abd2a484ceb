"""Progressive filling: plans do the work in time, on free devices, with the least sufficient quota."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.programs.filling import Curve, FreeDevices, Stretch

CURVES = st.lists(st.floats(0.5, 3), min_size=1, max_size=4).map(
    lambda steps: Curve(tuple(1 << n for n in range(len(steps))), tuple(sum(steps[: n + 1]) for n in range(len(steps))))
)
"""Levels 1, 2, 4, …, each faster than the one below."""


def done(plan: list[Stretch], curve: Curve) -> float:
    return sum((end - first) * curve.rates[level] for first, end, level in plan)


@given(
    devices=st.integers(1, 12),
    jobs=st.lists(st.tuples(CURVES, st.floats(0.1, 60), st.integers(0, 20)), min_size=1, max_size=8),
)
def test_plans_keep_deadlines_and_never_take_more_than_is_free(
    devices: int, jobs: list[tuple[Curve, float, int]]
) -> None:
    profile = FreeDevices(devices)
    for curve, work, due in jobs:
        before = [profile.free(slot) for slot in range(25)]
        plan = profile.filled(curve, work, due)
        if plan is None:
            at_best = [curve.at_most(free) for free in before[:due]]
            assert sum(curve.rates[level] for level in at_best if level >= 0) < work, "no quota would have done"
            continue
        assert done(plan, curve) >= work * (1 - 1e-6)
        assert plan[-1].end <= due
        quota = max(level for _, _, level in plan)
        fewer = [min(quota - 1, curve.at_most(free)) for free in before[:due]]
        assert sum(curve.rates[level] for level in fewer if level >= 0) < work, "one level less would not do"
        profile.take(plan, curve)
        assert min(profile.free(slot) for slot in range(25)) >= 0
        used = {slot: curve.levels[level] for first, end, level in plan for slot in range(first, end)}
        assert [profile.free(slot) for slot in range(25)] == [b - used.get(slot, 0) for slot, b in enumerate(before)]


def test_a_job_fills_gaps_and_what_is_promised_stays() -> None:
    profile, curve = FreeDevices(4), Curve((1, 2, 4), (1.0, 2.0, 3.0))
    profile.take([Stretch(0, 5, 2)], curve)
    assert profile.filled(curve, 2, 6) == [Stretch(5, 6, 1)]
    assert profile.filled(curve, 4, 6) is None
