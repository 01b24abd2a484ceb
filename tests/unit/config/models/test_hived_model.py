"""The typed view of a hivedscheduler configuration: defaults, repairs on the way, tolerance."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cells.quota import surplus
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import devices, location
from paictl.config.models.hived_quota import Balance, balances, whole_cells
from paictl.config.models.hived_types import DeclaredChain
from paictl.config.reading.problem import Severity
from tests.unit.config.cases import problems_of
from tests.unit.config.hivedtexts import RACKS, document_of


def test_a_document_is_read_once() -> None:
    document = document_of(RACKS)
    assert hived(document) is hived(document)
    assert hived(document) is not hived(document_of(RACKS))


def test_a_chain_knows_its_levels() -> None:
    (chain,) = hived(document_of(RACKS)).sound_chains
    assert chain.types == ("", "V100", "SWITCH", "NODE", "RACK")
    assert chain.leaves[1:] == (1, 2, 4, 8)
    assert (chain.node_level, chain.top, chain.leaf_type) == (3, 4, "V100")
    assert chain.path(2) == "RACK.NODE.SWITCH"
    assert [chain.pod(level) for level in (1, 2, 3, 4)] == [1, 2, 4, 4]


def test_devices_of_a_node_follow_from_addresses_and_defaults() -> None:
    nodes = {cell.name: cell for cell in hived(document_of(RACKS)).nodes}
    assert [device.number for device in devices(nodes["n1"])] == [0, 1, 2, 3]
    assert [device.number for device in devices(nodes["n4"])] == [7, 5, 2, 3]


def test_the_location_of_a_cell_names_nodes_and_devices() -> None:
    model = hived(document_of(RACKS))
    assert location(model.pins["box"]) == "n2"
    assert location(model.pins["corner"]) == "n4[2,3]"
    assert location(model.tops_by_chain["RACK"][0]) == "n1, n2"


def test_pinned_cells_are_taken_out_of_what_exists() -> None:
    document = document_of(RACKS)
    (balance,) = balances(document)
    assert balance.declared == [0, 0, 0, 0, 2]
    assert balance.existing == [0, 0, 1, 2, 0]  # n1 and n3 whole, of n4 the switch that is not pinned
    assert balance.quota == [0, 0, 1, 1, 0]
    assert balance.pinned == [0, 0, 1, 1, 0]
    assert balance.room == [0, 4, 2, 1, 0]
    assert whole_cells(hived(document).tops_by_chain["RACK"], balance.chain) == [0, 16, 8, 4, 2]


def test_misspelt_names_are_read_as_what_they_mean() -> None:
    text = RACKS.replace("childCellType: SWITCH", "childCellType: SWICH").replace(
        "RACK.NODE.SWITCH", "RAKC.NODE.SWITCH"
    )
    text = text.replace("childCellNumber: 2}\n      physicalCells", "childCelNumber: 2}\n      physicalCells")
    model = hived(document_of(text.replace("- {pinnedCellId: box}\n      web", "- {pinnedCellId: boxx}\n      web")))
    assert model.types.by_name["NODE"].child == model.types.by_name["NODE"].meant == "SWITCH"
    assert [chain.types for chain in model.sound_chains] == [("", "V100", "SWITCH", "NODE", "RACK")]
    assert all(chain.countable for chain in model.sound_chains)
    assert [(promise.type, promise.number) for promise in model.promises] == [
        ("NODE", 1),
        ("SWITCH", 1),
        ("NODE", 1),
        ("SWITCH", 1),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "physicalCluster:\n",
        "[]",
        "physicalCluster: {cellTypes: [], physicalCells: {}}\nvirtualClusters: 3\n",
        "physicalCluster: {cellTypes: {A: }, physicalCells: [, A, {cellType: A, cellChildren: [3, [], {}]}]}",
        "virtualClusters: {a: {virtualCells: [x, {cellType: [], cellNumber: x}], pinnedCells: {}}, b: []}",
    ],
)
def test_no_shape_is_too_strange(text: str) -> None:
    document = document_of(text)
    model = hived(document)
    assert model.promises == []
    assert balances(document) == []


LEVELS = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(LEVELS, st.data())
def test_the_room_of_a_level_is_the_most_that_can_be_added(fanouts: list[int], data: st.DataObject) -> None:
    fanout = (0, 0, *fanouts)
    size = len(fanout)
    numbers = st.lists(st.integers(0, 5), min_size=size - 1, max_size=size - 1)
    existing, quota = [0, *data.draw(numbers)], [0, *data.draw(numbers)]
    chain = DeclaredChain("T", ("",) * size, fanout, (0,) * size, (), countable=True)
    balance = Balance(chain, existing, existing, quota, [0] * size, (), 0)
    if min(surplus(existing, quota, fanout)) < 0:
        assert any(room < 0 for room in balance.room)
        return
    for level, room in enumerate(balance.room[1:], 1):
        for more, fits in ((room, True), (room + 1, False)):
            raised = [*quota[:level], quota[level] + more, *quota[level + 1 :]]
            assert (min(surplus(existing, raised, fanout)) >= 0) is fits


def test_what_still_works_is_only_a_warning() -> None:
    """Cases give places only; these rules are milder where HiveD goes on as written."""
    text = RACKS.replace("RACK.NODE, cell", "RACK.NDOE, cell").replace("RACK.NODE.SWITCH", "RACK.NOED.SWITCH")
    text = text.replace("cellAddress: n1}", "cellAddress: 17}")
    text = text.replace("      cellTypes:", "      gpuTypes: {}\n      cellTypes:")
    problems = problems_of({"hivedscheduler.yaml": dedent(text).encode()})
    assert [(problem.rule, problem.severity) for problem in problems] == [
        ("HVD536", Severity.WARNING),
        ("HVD509", Severity.WARNING),
        ("HVD524", Severity.ERROR),
        ("HVD524", Severity.WARNING),
        ("HVD535", Severity.INFO),
    ]


def test_a_quota_message_names_chain_level_numbers_and_virtual_clusters() -> None:
    text = RACKS.replace("RACK.NODE, cellNumber: 1", "RACK.NODE, cellNumber: 4")
    problems = problems_of({"hivedscheduler.yaml": dedent(text).encode()})
    assert [(problem.message, problem.hint) for problem in problems if problem.rule == "HVD525"] == [
        (
            "chain RACK, level 2: 2 SWITCH cells are promised (default 1, web 1 pinned), 0 are available",
            "promise 2 fewer, or add cells; larger promises come first: default 4 + 1 pinned NODE",
        ),
        (
            "chain RACK, level 3: 5 NODE cells are promised (default 4 + 1 pinned), 4 are available",
            "promise 1 fewer, or add cells",
        ),
    ]
