"""The values of `--cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from paictl.errors import PaictlError
from paictl.sim.cluster import Cluster, ClusterShapeError
from paictl.sim.specify import cluster_named
from tests.conftest import ROOT


def test_numbers_of_nodes_and_devices() -> None:
    spec = cluster_named("15x4")
    assert (len(spec.nodes), {node.devices for node in spec.nodes}, spec.text) == (15, {4}, "15x4")
    mixed = cluster_named("V100=2x4,P100=4x4,K80=6x4")
    assert Cluster(mixed).types == {"V100": 8, "P100": 16, "K80": 24}


@pytest.mark.parametrize("text", ["", "x", "4", "4x", "0x4", "4x0", "-1x4", "1x2,", "A=1x2,A=1x2", "1 x 2", "a=b"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ClusterShapeError):
        cluster_named(text)


@pytest.mark.parametrize("text", ["1000001x1", "99999999x9", "1x99999999", "A=600000x1,B=600000x1"])
def test_what_is_far_too_large_is_said_to_be(text: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterShapeError, match="more than 1,000,000 devices"):
        cluster_named(text)
    with pytest.raises(ClusterShapeError, match="more than 1,000,000 devices"):
        cluster_named(own(tmp_path, "cluster: [{nodes: 99999999, devices: 1}]"))


def test_a_hived_configuration_gives_nodes_levels_and_quotas() -> None:
    spec = cluster_named(str(ROOT / "labs" / "15_fragmentation" / "services-configuration.yaml"))
    assert [(node.name, node.devices, node.type) for node in spec.nodes] == [
        (f"worker{number}", 8, "V100") for number in range(1, 5)
    ]
    assert spec.nodes[0].inner == (("V100-QUAD", 4),)
    assert dict(spec.quotas) == {"default": 16, "vc1": 16}
    assert spec.hived is not None
    cluster = Cluster(spec)
    assert (cluster.level((0, 3)), cluster.level((0, 4)), cluster.level((0, 8))) == ("V100-QUAD", "node", "V100-POOL")


def test_the_section_sharing_counts_where_it_is_with_the_configuration_or_beside_it(tmp_path: Path) -> None:
    text = (ROOT / "labs" / "15_fragmentation" / "services-configuration.yaml").read_text(encoding="utf-8")
    assert cluster_named(str(ROOT / "labs" / "15_fragmentation" / "services-configuration.yaml")).sharing is None
    section = "sharing:\n  lend-limits: [{vc: vc1, devices: 2}]\n  preemption: {victims: least-loss}\n"
    (tmp_path / "services-configuration.yaml").write_text(text + section, encoding="utf-8")
    expected = '{"lend-limits": [{"vc": "vc1", "devices": 2}]}'
    assert cluster_named(str(tmp_path / "services-configuration.yaml")).sharing == expected
    beside = tmp_path / "beside"
    beside.mkdir()
    config = yaml.safe_load(text)["hivedscheduler"]["config"]
    (beside / "hivedscheduler.yaml").write_text(config, encoding="utf-8")
    assert cluster_named(str(beside)).sharing is None
    (beside / "services-configuration.yaml").write_text(section, encoding="utf-8")
    assert cluster_named(str(beside)).sharing == expected


def test_a_layout_gives_its_workers_with_devices(tmp_path: Path) -> None:
    path = tmp_path / "layout.yaml"
    path.write_text(
        """machine-sku:
  master: {mem: 60Gi, cpu: {vcore: 8}}
  gpu: {computing-device: {type: nvidia.com/gpu, model: K80, count: 4}, mem: 220Gi, cpu: {vcore: 24}}
machine-list:
- {hostname: m, hostip: 10.0.0.1, machine-type: master, pai-master: "true"}
- {hostname: a, hostip: 10.0.0.2, machine-type: gpu, pai-worker: "true"}
- {hostname: b, hostip: 10.0.0.3, machine-type: gpu, pai-worker: "true"}
- {hostname: c, hostip: 10.0.0.4, machine-type: master, pai-worker: "true"}
"""
    )
    assert [(node.name, node.devices, node.type) for node in cluster_named(str(path)).nodes] == [
        ("a", 4, "K80"),
        ("b", 4, "K80"),
    ]


def own(folder: Path, text: str) -> str:
    path = folder / "cluster.yaml"
    path.write_text(text)
    return str(path)


def test_a_cluster_file_of_our_own_has_racks_and_domains(tmp_path: Path) -> None:
    spec = cluster_named(
        own(
            tmp_path,
            """
cluster:
- {name: a, nodes: 2, devices: 8, type: V100, inside: {socket: 4, pcie: 2}, around: {rack: r1, domain: d1}}
- {name: b, devices: 8, type: V100, inside: {socket: 4, pcie: 2}, around: {rack: r2, domain: d1}}
- {devices: 4, type: K80}
quotas: {research: 12}
""",
        )
    )
    assert [node.name for node in spec.nodes] == ["a-1", "a-2", "b", "node3"]
    assert spec.quotas == {"research": 12}
    cluster = Cluster(spec)
    level = cluster.level
    levels = [level((0, 1)), level((0, 2)), level((0, 4)), level((0, 8)), level((0, 16)), level((0, 24))]
    assert levels == ["pcie", "socket", "node", "rack", "domain", "cluster"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster: 3", "expected a list of nodes"),
        ("cluster: []", "expected a list of nodes"),
        ("cluster: [3]", "expected a node"),
        ("cluster: [{devices: 0}]", "whole number of at least 1"),
        ("cluster: [{nodes: 2}]", "whole number of at least 1"),
        ("cluster: [{devices: 8, device: 1}]", "unknown key 'device'"),
        ("cluster: [{devices: 6, inside: {socket: 4}}]", "cannot be divided into a socket of 4"),
        ("cluster: [{devices: 6, around: rack}]", "expected levels"),
        ("cluster: [{name: a, devices: 1}, {name: a, devices: 1}]", "same name"),
        ("cluster: [{devices: 1}]\nquotas: [1]", "expected devices by virtual cluster"),
        ("cluster: [{devices: 1}]\nquotas: {a: -1}", "expected devices by virtual cluster"),
        ("clusters: 1", "is not a cluster description"),
    ],
)
def test_a_bad_cluster_file_is_refused_with_the_place(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PaictlError, match=said) as refused:
        cluster_named(own(tmp_path, text))
    assert "cluster.yaml" in str(refused.value)
