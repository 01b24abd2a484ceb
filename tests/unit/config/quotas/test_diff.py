"""What changes between two configurations."""

from __future__ import annotations

from paictl.config.quotas.capacity import capacity
from paictl.config.quotas.diff import CellChange, QuotaDifference, compare
from tests.unit.config.hivedtexts import RACKS, document_of


def change(new: str, old: str = RACKS) -> QuotaDifference:
    return compare(capacity(document_of(old)), capacity(document_of(new)))


def test_nothing_changes() -> None:
    assert change(RACKS).same
    assert change(RACKS.replace("- {cellAddress: n1}", "- {cellAddress: n1, cellType: NODE}")).same


def test_a_virtual_cluster_gains_and_loses_cells() -> None:
    found = change(RACKS.replace("RACK.NODE, cellNumber: 1", "RACK.NODE, cellNumber: 2"))
    (vc,) = found.vcs
    assert not found.same
    assert found.chains == ()
    assert (vc.name, vc.change, vc.devices_before, vc.devices_after) == ("default", "changed", 10, 14)
    assert vc.cells == (CellChange("RACK", "NODE", None, 1, 2, 4, 8),)
    assert vc.kept_pinned == ("box",)


def test_virtual_clusters_come_and_go() -> None:
    found = change(RACKS.replace("      web:", "      sound:"))
    assert [(vc.name, vc.change, vc.devices_before, vc.devices_after) for vc in found.vcs] == [
        ("sound", "added", 0, 2),
        ("web", "removed", 2, 0),
    ]


def test_a_pinned_cell_that_is_other_hardware_has_moved() -> None:
    new = RACKS.replace("n2, pinnedCellId: box", "n2").replace("n3}", "n3, pinnedCellId: box}")
    (vc,) = change(new).vcs
    assert [(cell.pinned, cell.moved, cell.devices_before, cell.devices_after) for cell in vc.cells] == [
        ("box", "n2 → n3", 4, 4)
    ]
    assert vc.kept_pinned == ()


def test_nodes_come_and_go() -> None:
    found = change(RACKS.replace("- {cellAddress: n1}", "- {cellAddress: n9}"))
    (chain,) = found.chains
    assert (chain.change, chain.nodes_added, chain.nodes_removed) == ("changed", ("n9",), ("n1",))
    assert found.vcs == ()


def test_cell_types_of_another_shape_change_the_devices_of_each_cell() -> None:
    found = change(
        RACKS.replace(
            "SWITCH: {childCellType: V100, childCellNumber: 2}", "SWITCH: {childCellType: V100, childCellNumber: 4}"
        )
    )
    (chain,) = found.chains
    assert (chain.shape_changed, chain.devices_before) == (True, 16)
    assert [vc.name for vc in found.vcs] == ["default", "web"]
    assert found.vcs[0].cells[0] == CellChange("RACK", "NODE", None, 1, 1, 4, 8)


def test_chains_come_and_go() -> None:
    found = change(RACKS.replace("RACK", "SHELF"))
    assert [(chain.name, chain.change) for chain in found.chains] == [("SHELF", "added"), ("RACK", "removed")]
    default = found.vcs[0]
    assert {(cell.chain, cell.cells_before, cell.cells_after) for cell in default.cells} == {
        ("SHELF", 0, 1),
        ("RACK", 1, 0),
    }
