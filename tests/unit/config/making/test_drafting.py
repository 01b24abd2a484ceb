"""Drafts of configurations from clusters of every shape: valid, complete, and the same again."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec
from paictl.cells.tree import build_physical
from paictl.config.making.discovered import Ask, DiscoveredCluster, DiscoveredNode, DiscoveredShare, DiscoveredTopology
from paictl.config.making.drafting import draft
from paictl.config.making.generate_text import draft_text
from paictl.errors import PaictlError
from paictl.i18n import translated

BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
GPU = "nvidia.com/gpu"


def node(
    name: str, block: str = "", rack: str = "", *, devices: int = 8, model: str = "A100", switch: int = 0
) -> DiscoveredNode:
    labels = {key: value for key, value in ((BLOCK, block), (RACK, rack)) if value}
    return DiscoveredNode(name, GPU, devices, Decimal(96), 900 << 10, model, labels, switch)


def racks(*sizes: int, block: str = "b0") -> list[DiscoveredNode]:
    return [node(f"{block}r{r}n{i}", block, f"{block}r{r}") for r, size in enumerate(sizes) for i in range(size)]


def drafted(*nodes: DiscoveredNode, shares: tuple[DiscoveredShare, ...] = (), **more: str) -> dict[str, dict[str, int]]:
    """The cells of each tenant."""
    made = draft(DiscoveredCluster(nodes, shares=shares), **more)
    draft_text(made, "test")
    return {tenant.name: dict(tenant.cells) for tenant in made.tenants}


def test_equal_racks_are_cells_and_a_cluster_without_queues_has_one_tenant() -> None:
    made = draft(DiscoveredCluster(tuple(racks(4, 4, 4))))
    assert {name: (one.child, one.number) for name, one in made.types.items()} == {
        "A100-NODE": ("A100", 8),
        "A100-RACK": ("A100-NODE", 4),
    }
    assert [(tenant.name, dict(tenant.cells)) for tenant in made.tenants] == [("default", {"A100-RACK": 3})]
    assert any("who are the tenants" in question for question in made.questions)
    assert [child.address for child in made.cells[0].children] == ["b0r0n0", "b0r0n1", "b0r0n2", "b0r0n3"]


def test_a_level_that_tells_nothing_is_no_cell() -> None:
    assert drafted(*racks(2, 2)) == {"default": {"A100-RACK": 2}}, "one block is no level"
    assert drafted(*racks(1, 1, 1)) == {"default": {"A100-POOL": 1}}, "nor is a rack of one node"


def test_unequal_racks_are_cells_of_their_own() -> None:
    nodes = [*racks(4, 4, block="b0"), *racks(4, 3, block="b1")]
    made = draft(DiscoveredCluster(tuple(nodes)))
    assert {name: one.number for name, one in made.types.items() if "RACK" in name} == {
        "A100-RACK-4": 4,
        "A100-RACK-3": 3,
    }
    assert sorted(made.tenants[0].cells.values()) == [1, 1, 1]
    assert any(f"{BLOCK}=b1 has parts of 2 shapes" in remark for remark in made.remarks)
    draft_text(made, "test")


def test_nodes_of_other_sizes_and_switches_have_types_of_their_own() -> None:
    nodes = [node("a", switch=2), node("b"), node("c", devices=4)]
    made = draft(DiscoveredCluster(tuple(nodes)))
    assert {name: (one.child, one.number) for name, one in made.types.items() if one.is_node} == {
        "A100-NODE-8-BY-2": ("A100-SWITCH", 4),
        "A100-NODE-8-FLAT": ("A100", 8),
        "A100-NODE-4-FLAT": ("A100", 4),
    }
    draft_text(made, "test")


def test_mig_instances_are_cells_below_their_gpu() -> None:
    nodes = tuple(
        DiscoveredNode(f"n{i}", GPU, 14, Decimal(96), 900 << 10, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", {}, 7, 7, "1g.5gb")
        for i in range(2)
    )
    made = draft(DiscoveredCluster((*nodes, node("whole"))))
    leaf = "A100-SXM4-40GB-MIG-1g-5gb"
    assert {name: (one.child, one.number) for name, one in made.types.items() if name.startswith(leaf)} == {
        f"{leaf}-GPU": (leaf, 7),
        f"{leaf}-NODE": (f"{leaf}-GPU", 2),
        f"{leaf}-POOL": (f"{leaf}-NODE", 2),
    }
    assert any("is each GPU of n0, n1 divided into 7 MIG instances 1g.5gb" in one for one in made.questions)
    spec = ClusterSpec.from_mapping(yaml.safe_load(draft_text(made, "test")))
    assert (spec.mig_instances(leaf), spec.mig_instances("A100")) == (7, 0)
    assert spec.sku_types[leaf]["migProfile"] == "1g.5gb"


def test_a_guessed_division_is_asked_about_and_has_cells_of_its_own() -> None:
    model = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
    nodes = (
        DiscoveredNode("n0", GPU, 56, Decimal(96), 900 << 10, model, {}, 7, 7, "1g.10gb"),
        DiscoveredNode("n1", GPU, 24, Decimal(96), 900 << 10, model, {}, 6, 6, "1g.10gb", guessed=True),
    )
    made = draft(DiscoveredCluster(nodes))
    assert {instances for instances, _ in made.mig.values()} == {7, 6}
    assert any(
        "into how many MIG instances 1g.10gb is each GPU of n1 divided? 6 is a guess" in one for one in made.questions
    )


def test_a_quota_gets_the_largest_cells_that_it_fills() -> None:
    shares = (
        DiscoveredShare("ClusterQueue", "Team A", (Ask(44, GPU),)),
        DiscoveredShare("ClusterQueue", "team-a", (Ask(16, GPU),)),
    )
    assert drafted(*racks(4, 4), shares=shares) == {
        "teama": {"A100-RACK": 1, "A100-RACK.A100-NODE": 1, "A100-RACK.A100-NODE.A100": 4},
        "teama2": {"A100-RACK.A100-NODE": 2},
    }


def test_no_device_is_promised_twice() -> None:
    shares = tuple(DiscoveredShare("Queue", name, (Ask(number),)) for name, number in (("a", 3), ("b", 2)))
    made = draft(DiscoveredCluster((node("n", devices=4),), shares=shares))
    cell = "A100-POOL.A100-NODE.A100"
    assert {tenant.name: dict(tenant.cells) for tenant in made.tenants} == {"a": {cell: 3}, "b": {cell: 1}}
    assert "Queue b has 2 devices: for 1 of them no cell is left" in made.remarks
    draft_text(made, "test")


def test_a_flavor_is_for_its_nodes_and_what_is_not_there_is_remarked() -> None:
    nodes = [*racks(2, 2), *(node(f"t{i}", model="T4", devices=4) for i in range(2))]
    shares = (DiscoveredShare("ClusterQueue", "big", (Ask(99, GPU, {BLOCK: "b0"}),)),)
    made = draft(DiscoveredCluster(tuple(nodes), shares=shares))
    assert dict(made.tenants[0].cells) == {"A100-RACK": 2}
    assert any("ClusterQueue big has 99 nvidia.com/gpu: for 67 of them no cell is left" in one for one in made.remarks)
    assert any("8 devices of T4 in T4-POOL are not promised to any virtual cluster" in one for one in made.remarks)


def test_a_named_topology_and_levels_of_ones_own_count_instead() -> None:
    nodes = tuple(racks(2, 2, block="b0") + racks(2, 2, block="b1"))
    topologies = (DiscoveredTopology("Topology of k", "x", (BLOCK,)), DiscoveredTopology("Topology of k", "y", (RACK,)))
    found = DiscoveredCluster(nodes, topologies)
    assert dict(draft(found, topology="x").tenants[0].cells) == {"A100-BLOCK": 2}
    assert dict(draft(found, [RACK]).tenants[0].cells) == {"A100-RACK": 4}
    with pytest.raises(PaictlError, match="no topology z") as error:
        draft(found, topology="z")
    assert error.value.hint == "one of: x, y"
    with pytest.raises(PaictlError, match="nodes without the label rack: b0r0n0, b0r0n1, b0r1n0 and 5 more"):
        draft(found, ["rack"])
    with pytest.raises(PaictlError, match="no node has devices"):
        draft(DiscoveredCluster(()))


def _where(block: str, rack: str) -> dict[str, str]:
    return {BLOCK: block, RACK: rack} if rack else {BLOCK: block}


NODES = st.lists(
    st.tuples(
        st.sampled_from(["b0", "b1", "b2"]),
        st.sampled_from(["r0", "r1", "r2", ""]),
        st.sampled_from([1, 4, 8]),
        st.sampled_from(["NVIDIA-A100-SXM4", "Tesla T4", ""]),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 400),
    ),
    min_size=1,
    max_size=14,
)
SHARES = st.lists(
    st.tuples(st.sampled_from(["a", "A", "team-1", "!"]), st.integers(1, 200), st.sampled_from([{}, {BLOCK: "b1"}])),
    max_size=5,
)


@given(NODES, SHARES, st.randoms(use_true_random=False))
def test_every_draft_is_valid_has_every_device_once_and_does_not_depend_on_order(
    rows: list[tuple[str, str, int, str, int, int]], asked: list[tuple[str, int, dict[str, str]]], dice: random.Random
) -> None:
    nodes = [
        DiscoveredNode(f"n{i}", GPU, size, Decimal(cpus) / 4, 1000, model, _where(block, rack), near)
        for i, (block, rack, size, model, near, cpus) in enumerate(rows)
    ]
    shares = tuple(DiscoveredShare("ClusterQueue", name, (Ask(number, GPU, labels),)) for name, number, labels in asked)
    text = draft_text(draft(DiscoveredCluster(tuple(nodes), shares=shares)), "test")
    spec = ClusterSpec.from_mapping(yaml.safe_load(text))
    tree = build_physical(spec)
    assert {name: sum(len(tree.leaves(cell)) for cell in cells) for name, cells in tree.nodes.items()} == {
        one.name: one.devices for one in nodes
    }
    dice.shuffle(nodes)
    assert draft_text(draft(DiscoveredCluster(tuple(nodes), shares=shares)), "test") == text


def test_questions_and_remarks_have_their_chinese() -> None:
    model = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
    nodes = (
        *racks(4, 4, block="b0"),
        *racks(4, 3, block="b1"),
        *racks(1, 1, 1, block="b2"),
        node("t", model="T4"),
        node("bare", model=""),
        DiscoveredNode("n0", GPU, 56, Decimal(96), 900 << 10, model, {}, 7, 7, "1g.10gb"),
        DiscoveredNode("n1", GPU, 24, Decimal(96), 900 << 10, model, {}, 6, 6, "1g.10gb", guessed=True),
    )
    without = draft(DiscoveredCluster(nodes))
    shared = draft(DiscoveredCluster(nodes, shares=(DiscoveredShare("Queue", "q", (Ask(999),)),)))
    promised = draft(DiscoveredCluster(nodes, shares=(DiscoveredShare("Queue", "q", (Ask(1),)),)))
    said = [*without.questions, *without.remarks, *shared.remarks, *promised.remarks]
    assert len({sentence.split()[0] for sentence in said}) > 4
    for sentence in said:
        chinese = translated(sentence, "zh")
        assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese), sentence
        assert not {"the", "of", "is", "are", "and"} & set(chinese.split()), chinese
