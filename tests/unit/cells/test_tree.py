from __future__ import annotations

from typing import Any

import pytest

from paictl.cells.ids import NO_PARENT
from paictl.cells.spec import ClusterSpec, SpecError
from paictl.cells.tree import build_physical, build_virtual


def spec(**change: Any) -> ClusterSpec:
    data: dict[str, Any] = {
        "physicalCluster": {
            "cellTypes": {
                "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
                "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
                "RACK": {"childCellType": "NODE", "childCellNumber": 2},
            },
            "physicalCells": [
                {"cellType": "RACK", "pinnedCellId": "rack"},
                {
                    "cellType": "RACK",
                    "cellAddress": "r",
                    "cellChildren": [{"cellAddress": "x", "pinnedCellId": "node"}, {"cellAddress": "y"}],
                },
                {"cellType": "NODE", "cellAddress": "z"},
            ],
        },
        "virtualClusters": {
            "A": {
                "virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 1}],
                "pinnedCells": [{"pinnedCellId": "rack"}],
            },
            "B": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]},
        },
    }
    data["virtualClusters"].update(change)
    return ClusterSpec.from_mapping(data)


def test_ids_are_dense_and_in_pre_order() -> None:
    tree = build_physical(spec())
    assert len(tree) == 15 + 15 + 7
    for cell in tree.cells():
        children = list(tree.children(cell))
        assert all(tree.parent[child] == cell for child in children)
        below = [other for other in tree.cells()[cell + 1 :] if cell in ancestors(tree, other)]
        assert below == list(range(cell + 1, tree.end(cell)))
        assert list(tree.subtree(cell)) == [cell, *below]
        assert tree.leaves(cell) == [other for other in (cell, *below) if tree.level[other] == 1]


def ancestors(tree: Any, cell: int) -> set[int]:
    out = set()
    while (cell := tree.parent[cell]) != NO_PARENT:
        out.add(cell)
    return out


def test_default_addresses_count_on_per_level_and_start_anew_in_a_node() -> None:
    tree = build_physical(spec())
    assert [tree.address(cell) for cell in tree.at[0][3]] == ["0/0", "0/1", "r/x", "r/y"]
    assert [tree.address(leaf) for leaf in tree.leaves(tree.nodes["y"][0])] == [
        "r/y/0/0",
        "r/y/0/1",
        "r/y/1/2",
        "r/y/1/3",
    ]
    assert {tree.device(leaf) for leaf in tree.at[0][1]} == {0, 1, 2, 3}
    assert [tree.node_name(leaf) for leaf in tree.at[1][1]] == ["z"] * 4


def test_ranks_of_children_and_nodes_are_arithmetic() -> None:
    tree = build_physical(spec())
    for rows in tree.at:
        for row in rows:
            assert [tree.rank[cell] for cell in row] == list(range(len(row)))
    second = tree.at[0][4][1]
    assert list(tree.node_ranks(second)) == [2, 3]
    assert list(tree.node_ranks(tree.leaves(second)[-1])) == [3]


def test_virtual_addresses_do_not_start_anew_in_a_node() -> None:
    declared = spec()
    tree = build_virtual(declared, build_physical(declared))
    rack = next(cell for cell, top in tree.preassigned.items() if top.pinned_id == "rack")
    assert tree.address(tree.leaves(rack)[-1]) == "A/1/1/3/7"
    assert [(top.vc, top.number, tree.type_of(cell)) for cell, top in tree.preassigned.items()] == [
        ("A", 0, "NODE"),
        ("A", 1, "RACK"),
        ("B", 0, "NODE"),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"B": {"pinnedCells": [{"pinnedCellId": "rack"}]}}, "already belongs to VC A"),
        ({"B": {"pinnedCells": [{"pinnedCellId": "none"}]}}, "no physical cell is pinned as none"),
    ],
)
def test_pins_that_cannot_be(change: dict[str, Any], message: str) -> None:
    declared = spec(**change)
    with pytest.raises(SpecError, match=message):
        build_virtual(declared, build_physical(declared))


def shared_node(first: dict[str, Any], second: dict[str, Any], **skus: Any) -> dict[str, Any]:
    """One node in two chains: two cells of type A and two of type B."""
    types = {f"{kind}-NODE": {"childCellType": kind, "childCellNumber": 2, "isNodeLevel": True} for kind in "AB"}
    return {
        "physicalCluster": {
            "skuTypes": skus,
            "cellTypes": types,
            "physicalCells": [{"cellType": "A-NODE", **first}, {"cellType": "B-NODE", **second}],
        },
        "virtualClusters": {},
    }


def addresses(*numbers: int | str) -> list[dict[str, Any]]:
    return [{"cellAddress": number} for number in numbers]


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (
            shared_node({"cellAddress": "n"}, {"cellAddress": "n"}),
            "physicalCluster.physicalCells[1]",
            "device 0 of node n is also in the chain A-NODE",
        ),
        (
            shared_node({"cellAddress": "n"}, {"cellAddress": "n"}, A={"gpu": 0}, B={"gpu": 1, "cpu": 2})
            | {"virtualClusters": {}},
            "",
            "",
        ),
        (
            shared_node({"cellAddress": "n"}, {"cellAddress": "n", "cellChildren": addresses(2, 3)}),
            "",
            "",
        ),
        (
            shared_node({"cellAddress": "n", "cellChildren": addresses(0, "00")}, {"cellAddress": "m"}),
            "physicalCluster.physicalCells[0]",
            "two A cells of node n have the address 0",
        ),
        (
            shared_node({"cellAddress": "n", "cellChildren": addresses(0, "9" * 5000)}, {"cellAddress": "m"}),
            "physicalCluster.physicalCells[0].cellChildren[1]",
            "must be its device index",
        ),
    ],
    ids=["two chains", "CPU and GPU SKU", "other devices", "one address twice", "absurd address"],
)
def test_a_device_has_one_leaf_cell(data: dict[str, Any], path: str, message: str) -> None:
    spec = ClusterSpec.from_mapping(data)
    if not path:
        build_physical(spec)
        return
    with pytest.raises(SpecError) as caught:
        build_physical(spec)
    assert caught.value.path == path
    assert message in caught.value.message


def test_a_node_is_in_a_chain_once() -> None:
    data = shared_node({"cellAddress": "n"}, {"cellAddress": "m"})
    data["physicalCluster"]["physicalCells"].append({"cellType": "A-NODE", "cellAddress": "n"})
    with pytest.raises(SpecError, match="node n is listed twice in the chain A-NODE") as caught:
        build_physical(ClusterSpec.from_mapping(data))
    assert caught.value.path == "physicalCluster.physicalCells[2]"


@pytest.mark.parametrize(
    ("sku", "device"),
    [
        (None, True),
        ({"gpu": 1}, True),
        ({"gpu": 0}, False),
        ({"cpu": 4}, False),
        ({"gpu": "0"}, False),
        ({"gpu": "2"}, True),
    ],
)
def test_a_sku_without_gpu_is_no_device(sku: dict[str, Any] | None, device: bool) -> None:
    data = shared_node({}, {}, **({} if sku is None else {"A": sku}))
    assert ClusterSpec.from_mapping(data).is_device("A") is device
