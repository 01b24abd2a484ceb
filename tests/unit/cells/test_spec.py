from typing import Any

import pytest

from paictl.cells.chain import build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import MAX_LEVELS, ClusterSpec, SpecError
from paictl.cells.tree import build_physical, build_virtual


def config() -> dict[str, Any]:
    return {
        "physicalCluster": {
            "cellTypes": {
                "SOCKET": {"childCellType": "GPU", "childCellNumber": 2},
                "NODE": {"childCellType": "SOCKET", "childCellNumber": 2, "isNodeLevel": True},
                "RACK": {"childCellType": "NODE", "childCellNumber": 3},
            },
            "physicalCells": [
                {"cellType": "RACK", "cellChildren": [{"cellAddress": n} for n in ("a", "b", "c")]},
                {"cellType": "NODE", "cellAddress": "d", "pinnedCellId": "pin"},
            ],
        },
        "virtualClusters": {
            "A": {"virtualCells": [{"cellType": "RACK.NODE.SOCKET", "cellNumber": 2}]},
            "B": {"pinnedCells": [{"pinnedCellId": "pin"}]},
        },
    }


def test_chain_has_types_sizes_and_node_level() -> None:
    rack = build_chains(ClusterSpec.from_mapping(config()))["RACK"]
    assert rack.types == ("", "GPU", "SOCKET", "NODE", "RACK")
    assert rack.leaves == (0, 1, 2, 4, 12)
    assert rack.cells == (0, 1, 3, 7, 22)
    assert (rack.node_level, rack.top, rack.nodes(4), rack.nodes(1)) == (3, 4, 3, 1)


def test_preassigned_cells_come_in_address_order() -> None:
    spec = ClusterSpec.from_mapping(config())
    chains = build_chains(spec)
    pinned = pinned_levels(spec, chains)
    assert [preassigned_levels(vc, chains, pinned) for vc in spec.virtual_clusters] == [
        [("RACK", 2, None), ("RACK", 2, None)],
        [("NODE", 3, "pin")],
    ]


def read_all(data: dict[str, Any]) -> None:
    spec = ClusterSpec.from_mapping(data)
    chains = build_chains(spec)
    pinned = pinned_levels(spec, chains)
    for vc in spec.virtual_clusters:
        preassigned_levels(vc, chains, pinned)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda c: c.update(physicalCluster=None), "physicalCluster"),
        (
            lambda c: c["physicalCluster"]["cellTypes"]["NODE"].update(childCellNumber=0),
            "physicalCluster.cellTypes.NODE.childCellNumber",
        ),
        (
            lambda c: c["physicalCluster"]["cellTypes"]["NODE"].update(isNodeLevel=False),
            "physicalCluster.physicalCells[0].cellType",
        ),
        (
            lambda c: c["physicalCluster"]["cellTypes"]["SOCKET"].update(childCellType="RACK"),
            "physicalCluster.physicalCells[0].cellType",
        ),
        (
            lambda c: c["physicalCluster"]["physicalCells"][0]["cellChildren"].pop(),
            "physicalCluster.physicalCells[0].cellChildren",
        ),
        (
            lambda c: c["physicalCluster"]["physicalCells"][0]["cellChildren"][1].update(pinnedCellId="pin"),
            "physicalCluster.physicalCells[1].pinnedCellId",
        ),
        (
            lambda c: c["virtualClusters"]["A"]["virtualCells"][0].update(cellType="RACK.SHELF"),
            "virtualClusters.A.virtualCells[0].cellType",
        ),
        (
            lambda c: c["virtualClusters"]["B"]["pinnedCells"][0].update(pinnedCellId="pan"),
            "virtualClusters.B.pinnedCells[0].pinnedCellId",
        ),
    ],
)
def test_errors_name_the_field(change: Any, path: str) -> None:
    data = config()
    change(data)
    with pytest.raises(SpecError) as caught:
        read_all(data)
    assert caught.value.path == path


def types(*numbers: int) -> dict[str, Any]:
    """Cell types t1 (nodes), t2 … with so many children each; ``config`` fields for a cluster of them."""
    return {
        f"t{level}": {"childCellType": f"t{level - 1}", "childCellNumber": number, "isNodeLevel": level == 1}
        for level, number in enumerate(numbers, 1)
    }


def nested(depth: int) -> dict[str, Any]:
    cell: dict[str, Any] = {"cellType": "t1"}
    for _ in range(depth):
        cell = {"cellType": "t1", "cellChildren": [cell]}
    return cell


def build(data: dict[str, Any]) -> None:
    spec = ClusterSpec.from_mapping(data)
    build_virtual(spec, build_physical(spec))


CELLS = "physicalCluster.physicalCells"
NUMBER = "physicalCluster.cellTypes.{}.childCellNumber"


@pytest.mark.parametrize(
    ("cell_types", "cells", "vcs", "path"),
    [
        (types(10**15), [{"cellType": "t1"}], [], NUMBER.format("t1")),
        (types(10**4000), [{"cellType": "t1"}], [], NUMBER.format("t1")),
        (types(-(10**4000)), [{"cellType": "t1"}], [], NUMBER.format("t1")),
        (types(0), [{"cellType": "t1"}], [], NUMBER.format("t1")),
        (types(1000, 10**6, 10**6), [{"cellType": "t3"}], [], NUMBER.format("t2")),
        (types(166_000), [{"cellType": "t1"}] * 4, [], f"{CELLS}[3]"),
        (types(*[1] * MAX_LEVELS), [{"cellType": f"t{MAX_LEVELS}"}], [], f"{CELLS}[0].cellType"),
        (types(*[1] * 100_000), [{"cellType": "t100000"}], [], f"{CELLS}[0].cellType"),
        (
            {**types(2, 2), "t0": {"childCellType": "t2", "childCellNumber": 2}},
            [{"cellType": "t2"}],
            [],
            f"{CELLS}[0].cellType",
        ),
        (types(2), [nested(400)], [], f"{CELLS}[0]{'.cellChildren[0]' * MAX_LEVELS}"),
        (types(4), [{"cellType": "t1"}], [10**15], "virtualClusters.vc0.virtualCells[0].cellNumber"),
        (types(4), [{"cellType": "t1"}], [10**6], "virtualClusters.vc0.virtualCells[0].cellNumber"),
        (types(166_000), [{"cellType": "t1"}], [2, 1, 1], "virtualClusters.vc2"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_absurd_sizes_are_refused_before_they_are_built(
    cell_types: dict[str, Any], cells: list[Any], vcs: list[int], path: str
) -> None:
    data = {
        "physicalCluster": {"cellTypes": cell_types, "physicalCells": cells},
        "virtualClusters": {
            f"vc{i}": {"virtualCells": [{"cellType": "t1", "cellNumber": number}]} for i, number in enumerate(vcs)
        },
    }
    with pytest.raises(SpecError) as caught:
        build(data)
    assert caught.value.path == path
    assert len(caught.value.message) < 200


def test_as_many_levels_as_are_allowed_can_be_built() -> None:
    data = {
        "physicalCluster": {
            "cellTypes": types(*[1] * (MAX_LEVELS - 1)),
            "physicalCells": [{"cellType": f"t{MAX_LEVELS - 1}"}],
        },
        "virtualClusters": {},
    }
    tree = build_physical(ClusterSpec.from_mapping(data))
    assert (len(tree), tree.chains[0].top) == (MAX_LEVELS, MAX_LEVELS)


def test_what_hived_ignores_beside_the_amounts_of_a_sku_is_ignored() -> None:
    data = config()
    data["physicalCluster"]["skuTypes"] = {"GPU": {"gpu": 1, "cpu": 4, "memory": "1Gi", "note": {"a": 1}, "spot": True}}
    assert ClusterSpec.from_mapping(data).sku_types == {"GPU": {"gpu": 1, "cpu": 4, "memory": "1Gi"}}
    data["physicalCluster"]["skuTypes"]["GPU"]["cpu"] = 1.5
    with pytest.raises(SpecError, match="expected an amount"):
        ClusterSpec.from_mapping(data)


def test_an_address_without_quotes_is_taken_as_it_reads() -> None:
    data = config()
    data["physicalCluster"]["physicalCells"][0]["cellAddress"] = float("inf")
    data["physicalCluster"]["physicalCells"][1]["cellAddress"] = 10.5
    assert [cell.address for cell in ClusterSpec.from_mapping(data).physical_cells] == ["inf", "10.5"]


def test_leaf_cells_may_be_mig_instances() -> None:
    data = config()
    sku = {"gpu": 1, "cpu": 4, "memory": "1Gi", "migInstances": 2, "migProfile": "3g.40gb"}
    data["physicalCluster"]["skuTypes"] = {"GPU": sku, "T4": {"gpu": 1}}
    spec = ClusterSpec.from_mapping(data)
    assert [spec.mig_instances(name) for name in ("GPU", "NODE", "RACK", "T4", "nowhere")] == [2, 2, 2, 0, 0]
    assert ClusterSpec.from_mapping(spec.to_mapping()) == spec
    for wrong in (0, 8, "7", -1):
        sku["migInstances"] = wrong
        with pytest.raises(SpecError) as caught:
            ClusterSpec.from_mapping(data)
        assert caught.value.path == "physicalCluster.skuTypes.GPU.migInstances"
