"""Random clusters, random histories: every invariant after every step (see `world.World`)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paictl.scheduler.decision import Bind, Phase, Preempt
from paictl.scheduler.journal import Journal
from tests.unit.scheduler.world import World


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_invariants_hold_whatever_happens(data: Any) -> None:
    world = World(lambda n: int(data.draw(st.integers(0, n - 1))))
    for _ in range(data.draw(st.integers(1, 25))):
        world.step()


@pytest.mark.parametrize("seed", range(25))
def test_invariants_hold_over_long_histories(seed: int) -> None:
    numbers = random.Random(seed)  # noqa: S311 (a test, not a secret)
    world = World(numbers.randrange)
    for _ in range(120):
        world.step()


class Bomb(list[Any]):
    """A journal that fails at the n-th entry."""

    def __init__(self, fuse: int) -> None:
        super().__init__()
        self.fuse = fuse

    def append(self, entry: Any) -> None:
        if not self.fuse:
            self.fuse = -1
            raise OSError("injected")
        self.fuse -= 1
        super().append(entry)


@pytest.mark.parametrize("seed", range(12))
def test_apply_completes_or_rolls_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(seed)  # noqa: S311 (a test, not a secret)
    world = World(numbers.randrange, check_plans=False)
    begin = Journal.begin
    for _ in range(60):
        world.step()
        request = world.new_request()
        decision = world.plan(request, None, Phase.PREEMPTING)
        if not isinstance(decision, Bind | Preempt):
            continue
        before = world.engine.state.digest()
        for fuse in range(0, 400, 1 + numbers.randrange(9)):

            def bombed(journal: Journal, fuse: int = fuse) -> int:
                mark = begin(journal)
                if journal.depth == 1:
                    journal.log = Bomb(fuse)
                return mark

            monkeypatch.setattr(Journal, "begin", bombed)
            try:
                world.engine.apply(decision)
            except OSError:
                assert world.engine.state.digest() == before
            else:
                break
            finally:
                monkeypatch.setattr(Journal, "begin", begin)
        if isinstance(decision, Bind):
            world.running[request.uid] = (request, world.engine.bind_info(decision))
