"""One bad device: its node keeps the others, its VC sees it, nobody gets it, and it heals."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Book
from paictl.scheduler.decision import Bind, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import Ignored, LeafHealth, NodeHealth
from paictl.scheduler.explain import explain
from paictl.scheduler.invariants import validate
from tests.unit.scheduler.support import NODES, config, gone, healthy, place, pod, run


def spoiled(engine: Engine, *devices: tuple[str, int]) -> Engine:
    for node, device in devices:
        engine.observe(LeafHealth(node, device, healthy=False))
        validate(engine.state)
    return engine


def devices_of(engine: Engine, vc: str, priority: int, number: int) -> list[tuple[str, int]]:
    """The devices that single pods get, one after the other."""
    found = []
    for at in range(number):
        node, (device,) = place(engine, run(engine, pod(f"{vc}{priority}-{at}", vc, 1, priority)))
        found.append((node, device))
    return found


@pytest.mark.parametrize("priority", [-1, 0])
def test_all_devices_but_the_bad_one_are_used(priority: int) -> None:
    engine = spoiled(healthy(config(A={"NODE": 4})), ("n2", 1))
    found = devices_of(engine, "A", priority, 15)
    assert sorted(found) == sorted({(node, device) for node in NODES for device in range(4)} - {("n2", 1)})
    assert isinstance(engine.plan(pod("more", "A", 1, priority)), Wait)
    engine.observe(LeafHealth("n2", 1, healthy=True))
    assert place(engine, run(engine, pod("more", "A", 1, priority))) == ("n2", (1,))


def test_whole_nodes_go_before_one_that_lacks_a_device() -> None:
    engine = spoiled(healthy(config(A={"NODE": 2}, B={"NODE": 2})), ("n0", 0))
    assert place(engine, run(engine, pod("small", "A", 1)))[0] == "n1"
    assert {place(engine, run(engine, pod(f"b{at}", "B", 4)))[0] for at in range(2)} == {"n2", "n3"}
    waits = engine.plan(pod("large", "A", 4))
    assert isinstance(waits, Wait)
    assert "needs a bad node" in waits.reason
    assert place(engine, run(engine, pod("three", "A", 3)))[0] in ("n0", "n1")


def test_what_runs_on_it_stays_and_is_not_replaced_by_a_stronger_pod() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 3}))
    node, _ = place(engine, run(engine, pod("weak", "A", 4, 0)))
    spoiled(engine, (node, 3))
    assert isinstance(engine.plan(pod("strong", "A", 4, 9)), Wait), "the device would not serve it"
    gone(engine, "weak")
    assert place(engine, run(engine, pod("strong", "A", 4, 9)))[0] != node


def test_a_socket_with_a_bad_device_keeps_its_other_one() -> None:
    engine = spoiled(healthy(config(A={"SWITCH": 8})), ("n0", 0))
    pairs = [place(engine, run(engine, pod(f"p{at}", "A", 2))) for at in range(7)]
    assert ("n0", (0, 1)) not in pairs
    assert isinstance(engine.plan(pod("pair", "A", 2)), Wait)
    assert place(engine, run(engine, pod("one", "A", 1))) == ("n0", (1,))


@pytest.mark.parametrize("devices", [(0,), (0, 1), (0, 1, 2, 3)])
def test_a_node_that_fails_and_returns_keeps_its_bad_devices(devices: Collection[int]) -> None:
    engine = spoiled(healthy(config(A={"NODE": 4})), *(("n1", device) for device in devices))
    before = engine.state.digest()
    engine.observe(NodeHealth("n1", healthy=False))
    validate(engine.state)
    engine.observe(NodeHealth("n1", healthy=True))
    validate(engine.state)
    assert engine.state.digest() == before
    for device in devices:
        engine.observe(LeafHealth("n1", device, healthy=True))
    assert engine.state.digest() == healthy(config(A={"NODE": 4})).state.digest()


def test_explain_counts_the_device_and_not_its_node() -> None:
    engine = spoiled(healthy(config(A={"NODE": 1}, B={"NODE": 3})), *((name, 0) for name in NODES))
    (view,) = explain(engine, pod("large", "A", 4)).views
    assert (view.leaves.doomed + view.leaves.bad, view.leaves.free) == (1, 3)
    assert isinstance(engine.plan(pod("three", "A", 3)), Bind)


def test_a_restart_keeps_what_was_reported() -> None:
    book = Book(Engine(ClusterSpec.from_mapping(config(A={"NODE": 4}))))
    for name in NODES:
        book.report(name, True)
    book.report_device("n3", 2, False)
    before = book.engine.state
    book.restart(book.engine.spec)
    after = book.engine.state
    assert after.health.bad_leaves == before.health.bad_leaves
    for chain in before.physical.chain_indexes():
        assert after.doomed.cells_in(chain) == before.doomed.cells_in(chain)
    validate(after)
    book.report_device("n3", 2, True)
    book.restart(book.engine.spec)
    assert not book.engine.state.health.bad_leaves


def test_a_device_that_the_configuration_has_not_is_ignored() -> None:
    engine = healthy(config(A={"NODE": 1}))
    for node, device in (("n0", 4), ("nowhere", 0)):
        (outcome,) = engine.observe(LeafHealth(node, device, healthy=False))
        assert isinstance(outcome, Ignored)
        assert f"node {node} has no device {device}" in outcome.reason
