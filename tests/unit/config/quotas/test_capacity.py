"""What a cluster has, and to whom it is promised."""

from __future__ import annotations

import pytest

from paictl.config.quotas.capacity import CellShare, capacity, configuration
from paictl.config.reading.load import load_memory
from paictl.errors import PaictlError
from tests.unit.config.hivedtexts import RACKS, document_of


def test_levels_count_cells_promises_and_what_is_left() -> None:
    (chain,) = capacity(document_of(RACKS)).chains
    assert (chain.name, chain.device, chain.devices, chain.left) == ("RACK", "V100", 16, 4)
    assert chain.nodes == ("n1", "n2", "n3", "n4")
    rows = [
        (level.type, level.is_node, level.devices, level.cells, level.promised, level.left) for level in chain.levels
    ]
    assert rows == [
        ("RACK", False, 8, 2, 0, 0),
        ("NODE", True, 4, 4, 2, 1),
        ("SWITCH", False, 2, 8, 2, 2),
        ("V100", False, 1, 16, 0, 4),
    ]


def test_a_cell_is_not_left_if_its_parts_are_promised() -> None:
    text = RACKS.replace("RACK.NODE, cellNumber: 1", "RACK.NODE, cellNumber: 2")
    (chain,) = capacity(document_of(text)).chains
    assert [level.left for level in chain.levels] == [0, 0, 0, 0]


def test_what_is_promised_too_much_is_negative() -> None:
    text = RACKS.replace("RACK.NODE, cellNumber: 1", "RACK.NODE, cellNumber: 4")
    (chain,) = capacity(document_of(text)).chains
    assert [level.left for level in chain.levels] == [0, -2, -4, -8]


def test_a_share_tells_cells_devices_largest_pod_and_gang() -> None:
    default, web = capacity(document_of(RACKS)).vcs
    (share,) = default.shares
    assert share.cells == (
        CellShare("NODE", 1, 4),
        CellShare("SWITCH", 1, 2),
        CellShare("NODE", 1, 4, pinned="box", at="n2"),
    )
    assert (default.devices, share.devices, share.largest_pod) == (10, 10, 4)
    assert share.largest_gang == 6  # the pinned cell is no part of a gang that does not name it
    assert (web.devices, web.shares[0].largest_pod, web.shares[0].largest_gang) == (2, 2, 2)


def test_incomplete_cells_are_not_counted_as_whole() -> None:
    text = RACKS.replace("- {cellAddress: n3}\n", "")
    (chain,) = capacity(document_of(text)).chains
    assert [(level.type, level.cells) for level in chain.levels] == [
        ("RACK", 1),
        ("NODE", 3),
        ("SWITCH", 6),
        ("V100", 12),
    ]


def test_the_configuration_is_found_in_service_settings() -> None:
    lines = "\n".join(f"    {line}" for line in RACKS.splitlines())
    loaded = load_memory({"services-configuration.yaml": f"hivedscheduler:\n  config: |{lines}\n".encode()})
    document = configuration(loaded)
    assert document.host is not None
    assert [chain.name for chain in capacity(document).chains] == ["RACK"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config.yaml": b"user: x\n"}, "no hivedscheduler configuration here"),
        ({"hived-a.yaml": RACKS.encode(), "hived-b.yaml": RACKS.encode()}, "more than one"),
        ({"hivedscheduler.yaml": b"physicalCluster: [\n"}, "cannot be read"),
    ],
)
def test_files_without_one_clear_configuration_are_refused(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(PaictlError, match=message) as caught:
        configuration(load_memory(files))
    assert caught.value.hint
