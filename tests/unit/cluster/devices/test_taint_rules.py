"""DeviceTaintRules: devices that an administrator calls bad, whatever their driver says of them."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.devices.directory import DeviceDirectory
from tests.unit.cluster.devices.test_slices import body, pci

NVIDIA = "gpu.nvidia.com"


def rule(name: str, *, effect: str = "NoSchedule", key: str = "ops/fault", **selector: str) -> dict[str, Any]:
    spec = {"deviceSelector": selector, "taint": {"key": key, "value": "xid79", "effect": effect}}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def directory(told: list[str]) -> DeviceDirectory:
    """A node with two devices."""
    made = DeviceDirectory({"w1": (0, 1)})
    made.slice_changed(body([pci("gpu-0", 1), pci("gpu-1", 2)]))
    made.changed = told.append
    assert not made.of("w1").bad
    return made


@pytest.mark.parametrize(
    ("selector", "bad"),
    [
        ({"driver": NVIDIA, "pool": "w1", "device": "gpu-1"}, {1}),
        ({"pool": "w1"}, {0, 1}),
        ({}, {0, 1}),
        ({"device": "gpu-0"}, {0}),
        ({"driver": "gpu.amd.com"}, set()),
        ({"pool": "w2", "device": "gpu-1"}, set()),
    ],
)
def test_a_rule_makes_bad_what_it_selects_until_it_is_gone(
    directory: DeviceDirectory, told: list[str], selector: dict[str, str], bad: set[int]
) -> None:
    directory.rule_changed(rule("r", **selector))
    assert set(directory.of("w1").bad) == bad
    assert all("is tainted ops/fault=xid79:NoSchedule" in why for why in directory.of("w1").bad.values())
    directory.rule_gone("r")
    assert not directory.of("w1").bad
    assert told == (["w1", "w1"] if bad else [])


def test_a_rule_that_keeps_nobody_away_or_is_changed_so_takes_nothing(directory: DeviceDirectory) -> None:
    directory.rule_changed(rule("r", effect="None"))
    assert not directory.of("w1").bad
    directory.rule_changed(rule("r", device="gpu-1"))
    assert set(directory.of("w1").bad) == {1}
    directory.rule_changed(rule("r", device="gpu-0"))
    assert set(directory.of("w1").bad) == {0}
    directory.rule_changed(rule("r", effect="None"))
    assert not directory.of("w1").bad


def test_a_slice_that_comes_after_its_rule_is_tainted_and_a_drivers_own_taint_is_named_first() -> None:
    directory = DeviceDirectory({"w1": (0, 1)})
    directory.rule_changed(rule("r"))
    own = [{"key": "own", "effect": "NoExecute"}]
    directory.slice_changed(body([pci("gpu-0", 1), pci("gpu-1", 2, taints=own)]))
    assert directory.of("w1").bad == {
        0: "device gpu-0 is tainted ops/fault=xid79:NoSchedule",
        1: "device gpu-1 is tainted own:NoExecute",
    }
    directory.rule_gone("r")
    assert set(directory.of("w1").bad) == {1}
