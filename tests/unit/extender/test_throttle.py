"""Who looks keeps nobody waiting who schedules: turns, shares of the time, and the lock given away in between."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from paictl.doors import core as core_module
from paictl.doors import server, views
from paictl.doors.server import BusyError, Throttle
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Caller, Harness, gang, served


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> str:
        self.now += seconds
        return "seen"


def test_looks_that_keep_the_lock_get_a_twentieth_of_the_time() -> None:
    clock = Clock()
    turns = Throttle(clock)

    async def look() -> None:
        assert await turns.run(lambda: clock.spend(1.0), rare=True) == "seen"
        for _ in range(3):
            with pytest.raises(BusyError, match="ask again in 19 s"):
                await turns.run(lambda: clock.spend(1.0), rare=True)
        assert await turns.run(lambda: "others", rare=False) == "others"
        clock.now += 19
        assert await turns.run(lambda: clock.spend(0.0), rare=True) == "seen"

    asyncio.run(look())


def test_a_look_that_fails_costs_as_much_as_one_that_does_not() -> None:
    clock = Clock()
    turns = Throttle(clock)

    def fails() -> None:
        clock.spend(2.0)
        raise KeyError("nobody")

    async def look() -> None:
        with pytest.raises(KeyError):
            await turns.run(fails, rare=True)
        with pytest.raises(BusyError):
            await turns.run(fails, rare=True)

    asyncio.run(look())


def test_only_so_many_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "QUEUE", 2)
    turns, go = Throttle(), threading.Event()

    async def look() -> None:
        waiting = [asyncio.create_task(turns.run(lambda: go.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await turns.run(lambda: True)
        go.set()
        assert await asyncio.gather(*waiting) == [True, True]
        assert await turns.run(lambda: True), "and then there is room again"

    asyncio.run(look())


def test_an_answer_is_made_again_after_a_change_and_seldom(harness: Harness) -> None:
    clock = Clock()
    cache = views.ViewCache(clock)
    made: list[float] = []

    def make() -> bytes:
        made.append(clock.now)
        clock.now += 1
        return str(clock.now).encode()

    assert [cache.get("/", harness.core, make) for _ in range(2)] == [b"1.0"] * 2
    clock.now = 100.0
    assert cache.get("/", harness.core, make) == b"1.0", "nothing has changed"
    harness.run(gang("g", 1, 4)[0])
    assert cache.get("/", harness.core, make) == b"101.0"
    harness.delete("g-0")
    clock.now += 8.5
    assert cache.get("/", harness.core, make) == b"101.0", "a tenth of the time"
    clock.now += 2
    cache.get("/", harness.core, make)
    assert made == [0.0, 100.0, 111.5]


def test_explaining_again_and_again_is_refused_and_filter_is_answered(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many ask about waiting pods while every answer takes the lock for long; each change makes the last one stale."""
    explained = []
    explain_pod = views.explain_pod

    def slow(core: core_module.DoorCore, namespace: str, name: str, language: str) -> views.Json:
        with core.guarded():
            explained.append(name)
            end = time.perf_counter() + 0.3
            while time.perf_counter() < end:
                pass
            return explain_pod(core, namespace, name, language)

    monkeypatch.setattr(views, "explain_pod", slow)
    with served(harness) as caller:
        for made in gang("full", 3, 4):
            (node,) = caller.filter(harness.create(made), NODES)["NodeNames"]
            caller.bind(made, node)
        caller.filter(harness.create(gang("late", 1, 4)[0]), NODES)
        assert caller.call("GET", "/v1/explain/pods/default/late-0")[0] == 200
        assert caller.call("GET", "/v1/explain/pods/default/late-0")[0] == 200, "nothing has changed: from memory"
        harness.core.node_gone("n3")
        other = Caller(caller.port)
        statuses = [other.call("GET", "/v1/explain/pods/default/full-0")[0] for _ in range(20)]
        assert set(statuses) == {429}, "5.7 seconds must pass first"
        assert explained == ["late-0"]
        other.connection.close()
        assert caller.filter(harness.create(gang("own", 1, 1, "B")[0]), NODES)["NodeNames"] is not None


def test_the_lock_is_given_away_between_the_parts_of_a_look(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits gets it there; what ends meanwhile is simply no longer seen."""
    for made in [*gang("one", 1, 4), *gang("two", 1, 4), *gang("three", 1, 4)]:
        harness.run(made)
    owned = harness.core.lock._is_owned  # type: ignore[attr-defined]
    monkeypatch.setattr(core_module, "SLICE", -1.0)
    others: list[str] = []

    def delete() -> None:
        harness.delete("two-0")
        others.append("here")

    def sleep(_: float) -> None:
        assert not owned(), "nobody sleeps in the lock"
        if not others:
            other = threading.Thread(target=delete)
            other.start()
            other.join(5)
            assert not other.is_alive()

    monkeypatch.setattr(time, "sleep", sleep)
    shown = views.groups(harness.core)["items"]
    assert others == ["here"]
    assert {one["metadata"]["name"] for one in shown} == {"default/one", "default/three"}
    assert not owned()
    for look in (views.physical_cluster, views.virtual_clusters, views.cluster_status):
        assert look(harness.core)
    assert views.picture(harness.core, "x").nodes
