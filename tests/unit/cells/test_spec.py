from typing import Any

import pytest

from paictl.cells.chain import build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import ClusterSpec, SpecError


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
        (lambda c: c["physicalCluster"]["cellTypes"]["NODE"].update(childCellNumber=0),
         "physicalCluster.cellTypes.NODE.childCellNumber"),
        (lambda c: c["physicalCluster"]["cellTypes"]["NODE"].update(isNodeLevel=False),
         "physicalCluster.physicalCells[0].cellType"),
        (lambda c: c["physicalCluster"]["cellTypes"]["SOCKET"].update(childCellType="RACK"),
         "physicalCluster.physicalCells[0].cellType"),
        (lambda c: c["physicalCluster"]["physicalCells"][0]["cellChildren"].pop(),
         "physicalCluster.physicalCells[0].cellChildren"),
        (lambda c: c["physicalCluster"]["physicalCells"][0]["cellChildren"][1].update(pinnedCellId="pin"),
         "physicalCluster.physicalCells[1].pinnedCellId"),
        (lambda c: c["virtualClusters"]["A"]["virtualCells"][0].update(cellType="RACK.SHELF"),
         "virtualClusters.A.virtualCells[0].cellType"),
        (lambda c: c["virtualClusters"]["B"]["pinnedCells"][0].update(pinnedCellId="pan"),
         "virtualClusters.B.pinnedCells[0].pinnedCellId"),
    ],
)  # fmt: skip
def test_errors_name_the_field(change: Any, path: str) -> None:
    data = config()
    change(data)
    with pytest.raises(SpecError) as caught:
        read_all(data)
    assert caught.value.path == path
