"""The tool that measures the benefit of backfill: its verdict, and its figures."""

from __future__ import annotations

import pytest

from paictl.sim.job import Job
from paictl.units import Millis
from tools import sim_backfill
from tools.sim_backfill import Played, played


@pytest.mark.parametrize(
    ("with_backfill", "code"),
    [
        (Played(50.0, 0.90, 0), 0),
        (Played(51.0, 0.90, 0), 1),
        (Played(20.0, 0.882, 0), 0),
        (Played(20.0, 0.87, 0), 1),
        (Played(20.0, 0.90, 1), 1),
    ],
)
def test_the_verdict_is_the_aim(monkeypatch: pytest.MonkeyPatch, with_backfill: Played, code: int) -> None:
    runs = {"hived": Played(100.0, 0.90, 0), "hived:backfill=easy": with_backfill}
    monkeypatch.setattr(sim_backfill, "played", lambda _jobs, _nodes, policy: runs[policy])
    monkeypatch.setattr("sys.argv", ["sim_backfill", "--jobs", "1"])
    assert sim_backfill.main() == code


def test_large_gangs_are_measured_and_no_others() -> None:
    """A gang of all devices waits for the job before it, and a small job behind it for both."""
    jobs = [
        Job("first", Millis(0), 8, Millis(60_000)),
        Job("large", Millis(1_000), 32, Millis(60_000)),
        Job("small", Millis(2_000), 8, Millis(60_000)),
    ]
    figures = played(jobs, 4, "fifo")
    assert figures.waiting == 59.0
    assert figures.broken == 0
    with pytest.raises(ValueError, match="no gang of 32"):
        played(jobs[:1], 4, "fifo")
