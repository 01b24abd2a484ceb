"""What a push says of nodes that it names and the cluster does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.cluster.interface import Cluster
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.config.secrets import sealing
from paictl.operate.pushing.plan import PushPlan, PushRequest, plan, send
from tests.contract.conftest import embedded
from tests.unit.cluster.fakekube import FakeKube

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster"


@pytest.fixture(params=["kubernetes", "embedded"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster that has `t4-1` of the nodes which the example names."""
    monkeypatch.setattr(sealing, "COST", (4, 1, 1))
    if request.param == "embedded":
        contract = embedded(tmp_path)
        (worker,) = [node.machine for node in contract.cluster.nodes() if node.machine.name == "worker1"]
        contract.cluster.add_node(type(worker)("t4-1", "10.20.2.1", worker.role, "t4", 24, 2**30, "nvidia.com/gpu", 4))
        return contract.cluster
    kube = FakeKube()
    for name in ("paictl-system", "paictl-jobs"):
        kube.objects[f"/api/v1/namespaces/{name}"] = {"metadata": {"name": name}}
    kube.objects["/api/v1/nodes/t4-1"] = {"metadata": {"name": "t4-1"}}
    return KubernetesCluster(kube, "fake")


def folder_without(tmp_path: Path, *lines: str) -> Path:
    folder = tmp_path / "without"
    folder.mkdir()
    for file in EXAMPLE.iterdir():
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            for line in lines:
                text = text.replace(line, "")
            (folder / file.name).write_text(text, encoding="utf-8")
    return folder


def notes(made: PushPlan) -> list[str]:
    return [note for note in made.notes if "not in the cluster" in note]


def test_nodes_that_the_cluster_does_not_have_are_named(cluster: Cluster) -> None:
    (note,) = notes(plan(cluster, PushRequest(str(EXAMPLE))))
    assert note.startswith("nodes v100-1, v100-2, v100-3, v100-4, t4-2 are in the configuration but not in the cluster")


def test_only_new_ones_are_named(cluster: Cluster, tmp_path: Path) -> None:
    t4_2 = (
        "        - cellAddress: t4-2\n",
        '  - hostname: t4-2\n    hostip: 10.20.2.2\n    machine-type: t4-machine\n    pai-worker: "true"\n',
        "t4-2,10.20.2.2\n",
    )
    smaller = folder_without(tmp_path, *t4_2)
    services = smaller / "services-configuration.yaml"
    text = services.read_text(encoding="utf-8")
    text = text.replace(
        "T4-POOL: {childCellType: T4-NODE, childCellNumber: 2}", "T4-POOL: {childCellType: T4-NODE, childCellNumber: 1}"
    )
    services.write_text(text.replace("cellNumber: 2", "cellNumber: 1", 1), encoding="utf-8")
    request = PushRequest(str(smaller))
    send(cluster, plan(cluster, request), "smaller", request)
    (note,) = notes(plan(cluster, PushRequest(str(EXAMPLE))))
    assert note.startswith("node t4-2 is in the configuration but not in the cluster; until it joins, its cells count")
