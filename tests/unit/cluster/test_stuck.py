"""Nobody waits on a cluster on this machine whom a decision from scratch would place, and nobody preempts for ever."""

from __future__ import annotations

from collections import Counter

import pytest

from paictl.cluster.embedded.dispatch import Bound, Dispatcher, Evicted
from paictl.scheduler.book import Book
from tests.unit.cluster.stuck import StuckWorld
from tests.unit.scheduler.support import config, healthy, pod

SEEDS = ((4, 60), (11, 110), (59, 140))
"""Seeds and operations. Each of them has found a gang that waited needlessly."""


def test_once_the_scheduler_has_come_to_rest_nobody_waits_needlessly() -> None:
    met: Counter[str] = Counter()
    for seed, operations in SEEDS:
        world = StuckWorld(seed)
        for _ in range(operations):
            world.step()
        met += world.stats
    assert met["waiting"] > 100


@pytest.mark.parametrize("older", [0, 9])
def test_a_gang_that_preempts_gets_its_place_though_an_older_one_of_its_kind_comes_back(older: int) -> None:
    queue = Dispatcher()
    queue.resume(Book(healthy(config(A={"NODE": 1}, B={"NODE": 3}))))
    for index in range(4):  # on all nodes, without a guarantee
        queue.add(pod(f"lent-{index}", "B", 4, priority=-1), index)
        assert isinstance(queue.next(0.0)[-1], Bound)
    queue.add(pod("first", "A", 4), 5)
    (evicted,) = queue.next(0.0)
    assert isinstance(evicted, Evicted)
    for uid in evicted.uids:
        queue.remove(uid, 0.0)
    queue.add(pod("second", "A", 4), older)  # its job starts again, at its old place in the queue
    (bound,) = queue.next(0.0)
    assert isinstance(bound, Bound)
    assert bound.uid == "first"
    assert queue.next(0.0) == []
