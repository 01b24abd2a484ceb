"""What every policy makes of one small trace is on record, to the byte, with one process and with several.

CI runs this with the oldest and the newest Python, and with the oldest and the newest solver.
"""

from __future__ import annotations

from tools.sim_digests import NAMES, differences, found, recorded


def test_every_policy_does_what_is_recorded_with_one_process_and_with_two() -> None:
    before, alone, together = recorded(), found(1), found(2)
    assert tuple(before) == NAMES, "python -m tools.sim_digests --write, after a change that was meant"
    assert differences(before, alone) == []
    assert differences(alone, together) == []


def test_the_trace_can_tell_policies_apart() -> None:
    digests = [row["sha256"] for row in recorded().values()]
    assert len(set(digests)) == len(digests)


def test_what_differs_is_named() -> None:
    row = recorded()["srtf"]
    later = {"srtf": {**row, "sha256": "0", "mean_jct": 1.5}, "new": row}
    assert differences({"srtf": row, "old": row}, later) == [
        "new: new",
        "old: gone",
        f"srtf: mean_jct {row['mean_jct']} -> 1.5",
    ]
    assert differences({"srtf": row}, {"srtf": {**row, "sha256": "0"}}) == ["srtf: the same figures, other bytes"]
