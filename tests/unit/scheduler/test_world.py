"""Random clusters, random histories: every invariant after every step (see `world.World`)."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paictl.scheduler.decision import Bind, Phase, Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import NodeHealth, PodGone
from paictl.scheduler.invariants import validate
from paictl.scheduler.journal import Journal
from tests.unit.scheduler.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from paictl.scheduler.engine import Engine


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


def assert_rolls_back(engine: Engine, change: Callable[[], object], step: int, patch: pytest.MonkeyPatch) -> None:
    """A change that fails at any journal entry (every `step`-th is tried) leaves an equal state; then it is made."""
    begin, before = Journal.begin, engine.state.digest()
    for fuse in range(0, 2000, step):

        def bombed(journal: Journal, fuse: int = fuse) -> int:
            mark = begin(journal)
            if journal.depth == 1:
                journal.log = Bomb(fuse)
            return mark

        patch.setattr(Journal, "begin", bombed)
        try:
            change()
        except OSError:
            assert engine.state.digest() == before
        else:
            return
        finally:
            patch.setattr(Journal, "begin", begin)
    raise AssertionError("the change never ends")


@pytest.mark.parametrize("seed", range(12))
def test_apply_completes_or_rolls_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(seed)  # noqa: S311 (a test, not a secret)
    world = World(numbers.randrange, check_plans=False)
    for _ in range(60):
        world.step()
        engine, request = world.engine, world.new_request()
        decision = world.plan(request, None, Phase.PREEMPTING)
        if isinstance(decision, Wait):
            continue
        info = engine.bind_info(decision) if isinstance(decision, Bind) else None
        assert_rolls_back(engine, partial(engine.apply, decision), 1 + numbers.randrange(9), monkeypatch)
        if info is not None:
            world.running[request.uid] = (request, info)


@pytest.mark.parametrize("seed", range(12))
def test_observe_completes_or_rolls_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(seed)  # noqa: S311 (a test, not a secret)
    world = World(numbers.randrange, check_plans=False)
    for _ in range(60):
        world.step()
        engine, step = world.engine, 1 + numbers.randrange(9)
        name = world.nodes[numbers.randrange(len(world.nodes))]
        assert_rolls_back(engine, partial(engine.observe, NodeHealth(name, name in world.bad)), step, monkeypatch)
        world.bad ^= {name}
        known = sorted({*engine.state.groups.slots, *engine.state.groups.waiting})
        if known:
            uid = known[numbers.randrange(len(known))]
            world.running.pop(uid, None)
            assert_rolls_back(engine, partial(engine.observe, PodGone(uid)), step, monkeypatch)
        validate(engine.state)


def changes(outcomes: list[Any], own: str) -> dict[str, str]:
    """What became of other groups: whether they lost their guarantee, or what else."""
    found = {}
    for change in outcomes:
        before, after = change.before, change.after
        if change.name != own:
            lost = before and after and before.virtual and not after.virtual
            found[change.name] = "lazy" if lost else "cancelled" if after is None else "changed"
    return found


@pytest.mark.parametrize("seed", range(60))
def test_an_old_decision_does_to_others_what_was_planned_or_is_refused(seed: int) -> None:
    numbers = random.Random(seed)  # noqa: S311 (a test, not a secret)
    world = World(numbers.randrange, check_plans=False)
    for _ in range(25):
        for _ in range(numbers.randrange(4)):
            world.step()
        request = world.new_request()
        suggested = None if numbers.random() < 0.5 else [name for name in world.nodes if numbers.random() < 0.5]
        decision = world.engine.plan(request, suggested)
        if not isinstance(decision, Bind):
            continue
        engine, info = world.engine, world.engine.bind_info(decision)
        for _ in range(numbers.randrange(1, 6)):
            world.step()
        if world.engine is not engine:  # restarted: nobody applies a decision of another engine
            continue
        before = world.engine.state.digest()
        names = set(world.engine.state.groups.by_name)
        try:
            outcomes = world.engine.apply(decision)
        except RequestError:
            assert world.engine.state.digest() == before
            continue
        wanted = dict.fromkeys(decision.lazy, "lazy") | dict.fromkeys(decision.cancel, "cancelled")
        assert changes(outcomes, request.group) == wanted
        assert set(wanted) <= names
        world.check_guarantees(outcomes)
        world.running[request.uid] = (request, info)
        validate(world.engine.state)
