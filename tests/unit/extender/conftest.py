"""A small cluster: three nodes of four devices for VC A, one for VC B."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec
from tests.unit.extender.harness import Harness

CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
            "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
            "POOL": {"childCellType": "NODE", "childCellNumber": 4},
        },
        "physicalCells": [{"cellType": "POOL", "cellChildren": [{"cellAddress": f"n{i}"} for i in range(4)]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 3}]},
        "B": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 1}]},
    },
}
NODES = [f"n{i}" for i in range(4)]


def spec(**changes: Any) -> ClusterSpec:
    return ClusterSpec.from_mapping(CONFIG | changes)


def mig_spec(instances: int) -> ClusterSpec:
    """The same cells, of which each is one of so many MIG instances of a GPU."""
    skus = {"GPU": {"gpu": 1, "cpu": 1, "memory": "1Gi", "migInstances": instances}}
    return spec(physicalCluster=CONFIG["physicalCluster"] | {"skuTypes": skus})


@pytest.fixture
def harness() -> Harness:
    """Open, all nodes healthy."""
    made = Harness(spec())
    made.open(NODES)
    return made
