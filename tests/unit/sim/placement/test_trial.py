"""Trials: the jobs that fit by counts are those that the placement itself would place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.cluster import Cluster, mixed
from paictl.sim.job import Job
from paictl.sim.placement import PLACEMENTS
from paictl.sim.state import JobProgress
from paictl.sim.view import JobView
from paictl.units import Millis

CLUSTER = Cluster(mixed([("x", 3, 4), ("y", 2, 8), ("x", 1, 2)]))


@pytest.mark.parametrize("placement", PLACEMENTS)
@given(
    taken=st.lists(st.integers(1, 9), max_size=4),
    jobs=st.lists(st.tuples(st.integers(1, 20), st.sampled_from([None, "x", "y"])), max_size=20),
)
def test_a_trial_places_who_the_book_would_and_changes_nothing(
    placement: str, taken: list[int], jobs: list[tuple[int, str | None]]
) -> None:
    book, same = (PLACEMENTS[placement](CLUSTER) for _ in range(2))
    views = [
        JobView(JobProgress(Job(str(number), Millis(0), gpus, Millis(1000), gpu_type=kind), number))
        for number, (gpus, kind) in enumerate([*((gpus, None) for gpus in taken), *jobs])
    ]
    for job in views[: len(taken)]:
        assert book.take(job, job.gpus) == same.take(job, job.gpus)
    trial = book.trial()
    assert book.free == same.free
    for job in views[len(taken) :]:
        assert trial.take(job, job.gpus) == (same.take(job, job.gpus) is not None)
