"""What is doomed is a function of what is used and what is bad, whatever the way there (attack.md H4)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Allocation, Book
from paictl.scheduler.decision import Bind, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth, PodGone
from paictl.scheduler.invariants import validate
from tests.unit.scheduler.support import config, healthy, pod, run


def pair(*vcs: tuple[str, str, int]) -> dict[str, Any]:
    """Two nodes of two GPUs; VCs as (name, type, number)."""
    return {
        "physicalCluster": {
            "cellTypes": {
                "NODE": {"childCellType": "GPU", "childCellNumber": 2, "isNodeLevel": True},
                "POOL": {"childCellType": "NODE", "childCellNumber": 2},
            },
            "physicalCells": [
                {"cellType": "POOL", "cellChildren": [{"cellAddress": "n1"}, {"cellAddress": "n2"}]},
            ],
        },
        "virtualClusters": {
            name: {"virtualCells": [{"cellType": f"POOL.{kind}", "cellNumber": number}]} for name, kind, number in vcs
        },
    }


DOOM = pair(("a", "NODE", 1), ("b", "NODE.GPU", 1))


def test_a_restart_with_an_unchanged_cluster_changes_no_answer() -> None:
    book = Book(Engine(ClusterSpec.from_mapping(DOOM)))
    book.report("n1", True)
    book.report("n2", True)
    book.report("n2", False)
    before = book.schedule(pod("p", "b", 1))
    assert isinstance(before.decision, Bind)
    digest = book.engine.state.digest()
    book.restart(book.engine.spec)
    assert book.engine.state.digest() == digest
    assert book.schedule(pod("p", "b", 1)).info == before.info


def test_a_node_that_never_came_up_dooms_no_more_than_one_that_failed() -> None:
    book = Book(Engine(ClusterSpec.from_mapping(DOOM)))
    book.report("n1", True)
    assert isinstance(book.place(pod("p", "b", 1)), Allocation)


@pytest.mark.parametrize("last", range(4))
def test_the_order_of_reports_does_not_matter(last: int) -> None:
    digests = set()
    for order in itertools.permutations(range(4)):
        engine = Engine.from_config(config(A={"NODE": 2, "SWITCH": 2}, B={"NODE": 1}))
        for node in order:
            engine.observe(NodeHealth(f"n{node}", healthy=True))
            assert engine.state is not None  # settled in between
        for node in order[:2]:
            engine.observe(NodeHealth(f"n{node}", healthy=False))
        for node in order[:2]:
            if node != last:
                engine.observe(NodeHealth(f"n{node}", healthy=True))
        validate(engine.state)
        digests.add((last in order[:2], engine.state.digest()))
    assert len(digests) == 2, "one state with the node bad, one without"


def test_a_doomed_cell_whose_healthy_part_is_used_is_doomed_anew_when_it_is_left() -> None:
    data = config(A={"POOL": 1})
    engine = healthy(data)
    engine.observe(NodeHealth("n3", healthy=False))
    chain = engine.state.physical.chain_indexes()[0]
    doomed = engine.state.doomed.cells_in(chain)
    assert [vc for vc, _ in doomed] == ["A"]
    assert isinstance(run(engine, pod("p", "A", 4)), Bind)
    assert engine.state.doomed.cells_in(chain) == []
    engine.observe(PodGone("p"))
    validate(engine.state)
    assert engine.state.doomed.cells_in(chain) == doomed


def test_idle_doomed_cells_are_freed_from_the_top_down_and_by_id() -> None:
    engine = healthy(config(A={"NODE": 4}))
    chain = engine.state.physical.chain_indexes()[0]
    address = engine.state.physical.address
    for node in ("n3", "n1", "n2"):
        engine.observe(NodeHealth(node, healthy=False))
    assert [address(cell) for _, cell in engine.state.doomed.cells_in(chain)] == ["0/n1", "0/n2", "0/n3"]
    engine.observe(NodeHealth("n1", healthy=True))
    assert [address(cell) for _, cell in engine.state.doomed.cells_in(chain)] == ["0/n2", "0/n3"]
    assert isinstance(run(engine, pod("p", "A", 4)), Bind)
    assert isinstance(run(engine, pod("q", "A", 4)), Bind)
    assert isinstance(run(engine, pod("r", "A", 4)), Wait)


def test_a_burst_of_reports_is_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.from_config(config(A={"NODE": 4}))
    assert engine.state is not None
    settled = []
    settle = type(engine.state.doomed).settle

    def counted(doomed: Any) -> None:
        settled.append(1)
        settle(doomed)

    monkeypatch.setattr(type(engine.state.doomed), "settle", counted)
    for node in range(4):
        engine.observe(NodeHealth(f"n{node}", healthy=True))
    assert not settled
    assert engine.state.doomed.cells_in(engine.state.physical.chain_indexes()[0]) == []
    assert len(settled) == 1


def test_a_node_that_flaps_where_healthy_ones_are_enough_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = healthy(config(A={"NODE": 3}, B={"NODE": 1}))
    assert engine.state is not None
    anew = []
    settle = type(engine.state.doomed)._settle

    def counted(doomed: Any, chain: Any) -> None:
        anew.append(chain)
        settle(doomed, chain)

    monkeypatch.setattr(type(engine.state.doomed), "_settle", counted)
    for is_healthy in (False, True, False):
        engine.observe(NodeHealth("n3", healthy=is_healthy))
        validate(engine.state)
    assert anew == []
    engine.observe(NodeHealth("n2", healthy=False))
    validate(engine.state)
    assert len(anew) == 1, "two healthy nodes do not serve A's three"
    engine.observe(NodeHealth("n2", healthy=True))
    validate(engine.state)
    assert len(anew) == 2, "what was doomed is spared again"
    assert engine.state.doomed.cells_in(engine.state.physical.chain_indexes()[0]) == []


def test_a_change_of_the_choice_is_not_forgotten_after_one_of_numbers() -> None:
    engine = healthy(config(A={"NODE": 4}))
    doomed, chain = engine.state.doomed, engine.state.physical.chain_indexes()[0]
    doomed._unsettle(chain, choice=False)
    doomed._unsettle(chain, choice=True)
    doomed._unsettle(chain, choice=False)
    assert doomed.unsettled == {chain: True}


def test_a_cell_that_only_a_doomed_one_keeps_from_being_whole_is_chosen() -> None:
    """Seed 8741 of the soak: n1 is given back beside n2, which is doomed; were it not, their pool would be whole."""
    data = pair(("b", "NODE", 2))
    cells = data["physicalCluster"]["physicalCells"]
    cells.append({"cellType": "POOL", "cellChildren": [{"cellAddress": "n3"}, {"cellAddress": "n4"}]})
    data["virtualClusters"]["a"] = {"virtualCells": [{"cellType": "POOL", "cellNumber": 1}]}
    engine = healthy(data)
    run(engine, pod("p", "b", 2))
    for name in ("n2", "n3"):
        engine.observe(NodeHealth(name, healthy=False))
    engine.observe(PodGone("p"))
    validate(engine.state)
