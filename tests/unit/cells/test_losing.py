"""Promises that cannot be kept without some nodes, against the formula of quotas and by hand."""

from __future__ import annotations

from itertools import combinations

import pytest

from paictl.cells.quota import cells_at_risk
from paictl.cells.spec import ClusterSpec
from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.presets import PRESETS, preset_files


def spec_of(preset: str) -> ClusterSpec:
    return ConfigSnapshot(1, preset_files(preset)).spec


def cluster(vcs: dict[str, list[dict[str, object]]], pins: dict[str, list[str]] | None = None) -> ClusterSpec:
    """Two racks of two nodes with two devices; `pinned` is the second node of the second rack."""
    rack = [{"cellAddress": "a1"}, {"cellAddress": "a2"}]
    other = [{"cellAddress": "b1"}, {"cellAddress": "b2", "pinnedCellId": "pinned"}]
    cells = [{"cellType": "RACK", "cellChildren": rack}, {"cellType": "RACK", "cellChildren": other}]
    types = {
        "NODE": {"childCellType": "GPU", "childCellNumber": 2, "isNodeLevel": True},
        "RACK": {"childCellType": "NODE", "childCellNumber": 2},
    }
    found = {
        name: {"virtualCells": cells, "pinnedCells": [{"pinnedCellId": pin} for pin in (pins or {}).get(name, [])]}
        for name, cells in vcs.items()
    }
    return ClusterSpec.from_mapping(
        {
            "physicalCluster": {
                "skuTypes": {"GPU": {"gpu": 1, "cpu": 1, "memory": "1Gi"}},
                "cellTypes": types,
                "physicalCells": cells,
            },
            "virtualClusters": found,
        }
    )


def promise(path: str, number: int) -> dict[str, object]:
    return {"cellType": path, "cellNumber": number}


RACK, NODE, GPU = "RACK", "RACK.NODE", "RACK.NODE.GPU"


@pytest.mark.parametrize(
    ("vcs", "gone", "at_risk"),
    [
        ({"x": [promise(RACK, 1)]}, ("b1",), {}),
        ({"x": [promise(RACK, 1)]}, ("a1",), {"x": 1}),
        ({"x": [promise(NODE, 1)], "y": [promise(NODE, 1)]}, ("a1",), {}),
        ({"x": [promise(NODE, 1)], "y": [promise(NODE, 2)]}, ("a1",), {"x": 1, "y": 1}),
        ({"x": [promise(NODE, 1)], "y": [promise(NODE, 2)]}, ("a1", "a2"), {"x": 1, "y": 2}),
        ({"x": [promise(RACK, 1)], "y": [promise(GPU, 2)]}, ("b1",), {"y": 2}),
        ({"x": [promise(RACK, 1)], "y": [promise(GPU, 1)]}, ("a2",), {"x": 1}),
        ({"x": [promise(NODE, 3)]}, (), {}),
        ({"x": [promise(NODE, 3)]}, ("nowhere",), {}),
    ],
)
def test_who_is_short_of_cells(vcs: dict[str, list[dict[str, object]]], gone: tuple[str, ...], at_risk: object) -> None:
    assert cells_at_risk(cluster({**vcs, "p": []}, {"p": ["pinned"]}), gone) == at_risk


def test_a_pinned_cell_is_at_risk_with_its_own_node_only() -> None:
    spec = cluster({"p": [], "x": [promise(NODE, 1)]}, {"p": ["pinned"]})
    assert cells_at_risk(spec, ("b2",)) == {"p": 1}
    assert cells_at_risk(spec, ("a1", "a2")) == {}


@pytest.mark.parametrize("preset", PRESETS)
def test_fewer_nodes_never_put_less_at_risk(preset: str) -> None:
    spec = spec_of(preset)
    nodes = PRESETS[preset].nodes[:4]
    assert cells_at_risk(spec, ()) == {}
    for one, two in combinations(nodes, 2):
        less, more = cells_at_risk(spec, (one,)), cells_at_risk(spec, (one, two))
        assert all(more.get(vc, 0) >= number for vc, number in less.items())
