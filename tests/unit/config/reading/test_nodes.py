"""The tolerant accessors, and the way from nodes to plain data."""

from __future__ import annotations

from paictl.config.reading.nodes import MappingNode, SequenceNode, follow, to_data
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import parse_yaml


def top(text: str) -> MappingNode:
    root = parse_yaml(Source("x", text)).root
    assert isinstance(root, MappingNode)
    return root


def test_a_section_of_another_shape_is_as_good_as_none() -> None:
    root = top("a: [1]\nb: {c: 1}\nd: x\ne:\n")
    for key in ("a", "d", "e", "none"):
        assert len(root.mapping(key)) == 0
        assert root.mapping(key).get("x") is None
    for key in ("b", "d", "e", "none"):
        assert list(root.sequence(key)) == []
    assert root.scalar("a") is root.scalar("b") is root.scalar("none") is None
    assert root.at("b", "c", "d").entries == {}
    assert root.at("b").integer("c") == 1


def test_integers_are_no_booleans_and_text_is_no_number() -> None:
    root = top("t: yes\nn: 1\nf: 1.0\ns: '1'\nd: 2001-01-01\n")
    assert [root.integer(key) for key in "tnfsd"] == [None, 1, None, None, None]
    assert [root.text(key) is not None for key in "tnfsd"] == [False, False, False, True, True]


def test_lists_give_their_mappings_and_scalars() -> None:
    items = top("a: [1, {b: 2}, [3], x]\n").sequence("a")
    assert len(list(items.mappings())) == 1
    assert [scalar.text for scalar in items.scalars()] == ["1", "x"]
    assert len(items) == 4


def test_a_path_is_followed_as_far_as_it_goes() -> None:
    root = top("a: [{b: 1}]\n'0': x\n")
    found = follow(root, ("a", 0, "b"))
    assert found is not None
    assert to_data(found) == 1
    for path in (("a", 1), ("a", "0"), (0,), ("a", 0, "b", "c"), ("x",)):
        assert follow(root, path) is None
    assert follow(root, ("0",)) is not None
    assert follow(root, ()) is root


def test_aliased_nodes_share_one_object() -> None:
    data = to_data(top("a: &a [1]\nb: *a\n"))
    assert isinstance(data, dict)
    assert data["a"] is data["b"]


def test_an_empty_collection_is_kept() -> None:
    assert to_data(top("a: []\nb: {}\n")) == {"a": [], "b": {}}
    assert isinstance(top("a: []\n").get("a"), SequenceNode)
