"""The curves that Optimus fits are recovered from points on them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.programs.curves import LossCurve, Speed, fit_loss, fit_speed

POINTS = ((1, 1), (2, 1), (1, 2), (4, 4), (2, 6), (8, 3), (5, 9))


@pytest.mark.parametrize(("theta", "batch"), [((2.83, 3.92, 0.0, 0.11), None), ((1.02, 2.78, 4.92, 0.0, 0.02), 64.0)])
def test_the_speeds_of_the_paper_are_recovered(theta: tuple[float, ...], batch: float | None) -> None:
    speed = Speed(theta, batch)
    fitted = fit_speed([(p, w, speed.at(p, w)) for p, w in POINTS], batch)
    assert fitted.theta == pytest.approx(theta, rel=0.01, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(b0=st.floats(0.05, 2), b1=st.floats(0.5, 3), b2=st.floats(0, 0.4))
def test_a_loss_curve_is_recovered(b0: float, b1: float, b2: float) -> None:
    true = LossCurve(b0, b1, b2)
    epochs = [float(k) for k in range(1, 40)]
    losses = [true.at(k) for k in epochs]
    fitted = fit_loss(epochs, losses)
    for k, loss in zip(epochs[1:-1], losses[1:-1], strict=True):
        assert fitted.at(k) * max(losses[0], *losses) == pytest.approx(loss, rel=0.05)


def test_one_wild_point_changes_little() -> None:
    true = LossCurve(0.2, 1.0, 0.05)
    epochs = [float(k) for k in range(1, 30)]
    losses = [true.at(k) for k in epochs]
    wild = [*losses[:10], 5.0, *losses[11:]]
    calm, fitted = fit_loss(epochs, losses), fit_loss(epochs, wild)
    assert fitted.at(20.0) == pytest.approx(calm.at(20.0), rel=0.05)


def test_a_job_has_converged_when_the_loss_stands_still() -> None:
    assert LossCurve(0.2, 1.0, 0.05).epochs_until(0.01) < LossCurve(0.2, 1.0, 0.05).epochs_until(0.001)
