"""Command lines of students against patterns of manifests."""

from __future__ import annotations

import time

import pytest

from paictl.lab.commandlog import means, wall_clock

COMPARE = "paictl sim compare trace.yaml * --policy quota --each-job"


@pytest.mark.parametrize(
    ("pattern", "command", "same"),
    [
        ("paictl job list", "paictl job list", True),
        ("paictl job list", "paictl job list -o json", False),
        ("paictl job explain *", "paictl job explain job-1", True),
        ("paictl job explain *", "paictl job explain", False),
        ("paictl job explain *", "paictl job logs job-1", False),
        ("paictl job submit a.yaml --vc vc1", "paictl job submit --vc vc1 a.yaml", True),
        ("paictl job submit a.yaml --vc vc1", "paictl job submit --vc=vc1 a.yaml", True),
        ("paictl job submit a.yaml --vc vc1", "paictl job submit --vc default a.yaml", False),
        ("paictl job submit a.yaml*", "paictl job submit a.yaml", True),
        ("paictl job submit a.yaml*", "paictl job submit --vc default a.yaml", True),
        ("paictl job submit a.yaml *", "paictl job submit a.yaml", False),
        ("paictl job submit a.yaml *big*", "paictl job submit --name job-big a.yaml", True),
        (COMPARE, "paictl sim compare trace.yaml --config x.yaml --policy quota --each-job", True),
        (COMPARE, "paictl sim compare --each-job --policy quota --config x.yaml trace.yaml", True),
        (COMPARE, "paictl sim compare trace.yaml --policy quota --each-job", False),
        (COMPARE, "paictl sim compare trace.yaml --config x.yaml --policy cells --each-job", False),
        ("paictl job show 'a b'", "paictl job show 'a b'", True),
        ("paictl job show a", "paictl job", False),
    ],
)
def test_options_stand_in_any_order_and_nothing_else_is_taken(pattern: str, command: str, same: bool) -> None:
    assert means(pattern, command) is same


def test_instants_of_one_second_are_told_apart() -> None:
    """Two students' runs are no copies of each other because a program has played both within a second."""
    before = wall_clock()
    time.sleep(0.002)
    assert before < wall_clock()
