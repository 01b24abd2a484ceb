from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_file
from paictl.service.order import ServiceError, needed_by, start_order, users_of

DIAMOND = {"d": ("b", "c"), "c": ("a",), "b": ("a",), "a": ()}


def test_what_is_needed_comes_first_and_names_break_ties() -> None:
    assert start_order(DIAMOND) == ("a", "b", "c", "d")
    assert start_order({"z": (), "y": (), "x": ("z",)}) == ("y", "z", "x")


def test_a_service_that_becomes_free_late_does_not_overtake_by_position() -> None:
    assert start_order({"b": (), "a": ("b",), "c": ()}) == ("b", "a", "c")


@given(st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 9)), max_size=10))
def test_every_acyclic_graph_is_sorted_whatever_order_it_is_written_in(wild: dict[int, set[int]]) -> None:
    graph = {f"s{key}": [f"s{need}" for need in needs if need < key] for key, needs in wild.items()}
    graph = {name: [need for need in needs if need in graph] for name, needs in graph.items()}
    order = start_order(graph)
    assert sorted(order) == sorted(graph)
    assert all(order.index(need) < order.index(name) for name, needs in graph.items() for need in needs)
    assert order == start_order(dict(reversed(graph.items())))


def test_a_cycle_is_named_link_by_link() -> None:
    with pytest.raises(ServiceError) as caught:
        start_order({"a": ("b",), "b": ("c",), "c": ("b",), "free": ()})
    assert caught.value.message == "services depend on each other: b > c > b"
    with pytest.raises(ServiceError, match="a > a"):
        start_order({"a": ("a",)})


def test_a_dangling_prerequisite_is_named_with_what_was_meant() -> None:
    with pytest.raises(ServiceError) as caught:
        start_order({"rest-server": ("hivedschedular",), "hivedscheduler": ()})
    assert "rest-server needs hivedschedular" in caught.value.message
    assert caught.value.hint == "did you mean 'hivedscheduler'?"
    with pytest.raises(ServiceError) as caught:
        start_order({"job-exporter": ("drivers",)})
    assert caught.value.hint is not None
    assert "describe drivers too" in caught.value.hint


def test_reach_follows_the_graph_both_ways() -> None:
    assert needed_by(DIAMOND, ["d"]) == {"a", "b", "c"}
    assert users_of(DIAMOND, ["b"]) == {"d"}
    assert users_of(DIAMOND, ["d"]) == frozenset()


def openpai(folder: Path) -> dict[str, tuple[str, ...]]:
    """Name → prerequisites of OpenPAI's services."""
    graph = {}
    for path in sorted(folder.glob("*.service.yaml")):
        top = load_file(str(path), FileKind.SERVICE)[0].top
        graph[path.name.removesuffix(".service.yaml")] = tuple(
            need.text for need in top.sequence("prerequisite").scalars()
        )
    return graph


def test_openpai_has_three_dangling_prerequisites_and_no_cycle(shared: Path) -> None:
    graph = openpai(shared / "corpus" / "graph")
    dangling = {(name, need) for name, needs in graph.items() for need in needs if need not in graph}
    assert dangling == {
        ("alert-manager", "drivers"),
        ("job-exporter", "drivers"),
        ("rest-server", "yarn-frameworklauncher"),
    }
    with pytest.raises(ServiceError, match="alert-manager needs drivers"):
        start_order(graph)
    mended = {name: [need for need in needs if need in graph] for name, needs in graph.items()}
    assert len(start_order(mended)) == len(graph) == 29
