"""Devices matched to leaf cells, and what contradicts the configuration."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.devices.slices import DeviceMap, Slice, device_map, read_record, read_slice, write_record

DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")


def body(devices: list[dict[str, Any]], driver: str = "gpu.nvidia.com", **pool: Any) -> dict[str, Any]:
    made = {"name": "w1", "generation": 1, "resourceSliceCount": 1, **pool}
    name = f"w1-{driver}-{made['generation']}-{len(devices)}"
    spec = {"driver": driver, "nodeName": "w1", "pool": made, "devices": devices}
    return {"metadata": {"name": name}, "spec": spec}


def pci(name: str, bus: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"pcieBusID": {"string": f"0000:{bus:02X}:00.0"}}, **more}


def mapped(*bodies: dict[str, Any], promised: int = 4, record: dict[str, int] | None = None) -> DeviceMap:
    slices = [found for one in bodies if (found := read_slice(one)) is not None]
    return device_map("w1", slices, range(promised), record or {}, DRIVERS)


def names(found: DeviceMap) -> dict[int, str]:
    return {index: device.name for index, device in found.devices.items()}


def test_the_index_is_the_order_of_bus_addresses_whatever_the_names() -> None:
    found = mapped(body([pci("gpu-0", 0xC0), pci("gpu-1", 0x0A), pci("gpu-2", 0x1B), pci("gpu-3", 0x3)]))
    assert names(found) == {0: "gpu-3", 1: "gpu-1", 2: "gpu-2", 3: "gpu-0"}
    assert not found.bad
    assert not found.findings


def test_without_bus_addresses_it_is_the_number_in_the_name() -> None:
    found = mapped(body([{"name": f"device-{at:02}"} for at in (3, 1, 0)]))
    assert names(found) == {0: "device-00", 1: "device-01", 3: "device-03"}
    assert found.bad == {2: "it has no device"}
    assert found.findings == ("node w1, driver gpu.nvidia.com: 3 devices, but the cells promise 4: no device for 2",)
    assert not found.record, "the names are stable by themselves"


@given(st.integers(1, 8), st.integers(0, 2**30))
def test_a_recorded_device_keeps_its_index_whatever_comes_and_goes(number: int, seed: int) -> None:
    """The order in which devices vanish, return and are added changes no index of one that has had one."""
    dice = random.Random(seed)  # noqa: S311
    first = mapped(body([pci(f"gpu-{bus}", bus) for bus in dice.sample(range(40), number)]), promised=8)
    known = {device.bus: index for index, device in first.devices.items()}
    record = dict(first.record)
    for _ in range(5):
        present = dice.sample(range(40), dice.randint(0, 8))
        now = mapped(body([pci(f"gpu-{bus}", bus) for bus in present]), promised=8, record=record)
        for index, device in now.devices.items():
            assert known.setdefault(device.bus, index) == index
        assert set(now.bad) == set(range(8)) - set(now.devices)
        assert read_record(write_record(now.record)) == now.record
        record = dict(now.record)


@pytest.mark.parametrize(
    ("bodies", "finding"),
    [
        pytest.param([], "no slices of any of the drivers gpu.nvidia.com, gpu.amd.com", id="no driver"),
        pytest.param(
            [body([pci("a0", 1)]), body([pci("b0", 2)], "gpu.amd.com")],
            "drivers gpu.amd.com and gpu.nvidia.com both publish devices",
            id="two drivers",
        ),
        pytest.param([body([pci("a", 1), pci("b", 1)])], "devices a and b have the same bus address", id="one bus"),
        pytest.param([body([{"name": "left"}])], "has neither a PCI bus address nor a number", id="no number"),
        pytest.param(
            [body([{"name": "a1"}, {"name": "b1"}])], "devices a1 and b1 have the same number", id="one number"
        ),
        pytest.param([body([pci("a", 1)], resourceSliceCount=2)], "pool w1 is incomplete: 1 of 2 slices", id="part"),
    ],
)
def test_what_contradicts_is_a_finding_with_node_and_never_a_crash(bodies: list[Any], finding: str) -> None:
    found = mapped(*bodies)
    assert any(one.startswith("node w1") and finding in one for one in found.findings), found.findings
    assert found.bad


def test_taints_that_keep_pods_away_make_one_index_bad() -> None:
    taint = {"key": "nvidia.com/xid", "value": "79", "effect": "NoExecute"}
    none = {"key": "note", "effect": "None"}
    devices = [pci("gpu-0", 1, taints=[none, taint]), pci("gpu-1", 2, taints=[none]), pci("gpu-2", 3), pci("gpu-3", 4)]
    found = mapped(body(devices))
    assert found.bad == {0: "device gpu-0 is tainted nvidia.com/xid=79:NoExecute"}
    assert not found.findings, "a tainted device contradicts nothing"


def test_partitions_other_nodes_and_old_generations_do_not_count() -> None:
    mig = {"name": "gpu-0-mig-9", "attributes": {"type": {"string": "mig"}}}
    old = body([pci("old", 9)], generation=0)
    assert names(mapped(old, body([pci("gpu-0", 1), mig]))) == {0: "gpu-0"}
    assert read_slice({"metadata": {"name": "s"}, "spec": {"driver": "d", "allNodes": True}}) is None
    other = body([pci("nic-0", 1)], "nic.example.com")
    assert isinstance(read_slice(other), Slice)
    assert names(mapped(other, body([pci("gpu-0", 1)]))) == {0: "gpu-0"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": -1}', '{"a": 1, "b": 1}', '{"a": true}', '{"a": "1"}', "null"])
def test_a_record_that_somebody_has_edited_counts_for_nothing(text: str) -> None:
    assert read_record(text) == {}


def test_a_device_in_a_new_place_takes_no_index_of_one_that_may_come_back() -> None:
    record = dict(mapped(body([pci(f"gpu-{at}", at) for at in range(4)])).record)
    found = mapped(body([pci(f"gpu-{at}", at) for at in (0, 1, 2, 9)]), record=record)
    assert found.bad == {3: "it has no device"}
    assert any("device gpu-9 is new and has no cell; to renumber the devices" in one for one in found.findings)
    assert names(found)[4] == "gpu-9"
