"""Which device of a driver is which leaf cell of a node, from the driver's ResourceSlices.

The index of a leaf cell is the device's place in the order of PCI bus addresses, as nvidia-smi numbers devices. A
device that disappears must not move the others, so the order is recorded on the Node the first time that a device of
it is allocated (`RECORD`). A driver that does not publish bus addresses is taken by the number in the device's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from paictl.frozen import frozen
from paictl.i18n import text

RECORD: Final = "paictl.io/device-indexes"
"""Annotation of a Node: PCI bus address to index, as JSON."""
_BUS: Final = ("pcieBusID", "pciBusID")
_BLOCKING: Final = ("NoSchedule", "NoExecute")
_NUMBER: Final = re.compile(r"(\d{1,6})$")


@frozen
class OfferedDevice:
    """A device that a driver offers on a node."""

    driver: str
    pool: str
    name: str
    bus: str = ""
    """PCI bus address; empty if the driver does not say."""
    uuid: str = ""
    taint: str = ""
    """The first taint that keeps pods away, as ``key=value:effect``; empty if there is none."""
    product: str = ""
    """The model, as the driver names it; empty if it does not say."""
    root: str = ""
    """The PCIe root above it; empty if the driver does not say."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What names the device in an allocation."""
        return self.driver, self.pool, self.name


@frozen
class Slice:
    """A ResourceSlice of one node."""

    name: str
    node: str
    driver: str
    pool: str
    generation: int
    count: int
    """Slices of this generation of the pool."""
    devices: tuple[OfferedDevice, ...]


@frozen
class TaintRule:
    """A DeviceTaintRule that keeps pods away: what it selects by (empty: any), and its taint, ``key=value:effect``."""

    driver: str
    pool: str
    device: str
    taint: str

    def selects(self, device: OfferedDevice) -> bool:
        """Whether the rule is about a device."""
        wanted = zip((self.driver, self.pool, self.device), device.key, strict=True)
        return all(word in ("", its) for word, its in wanted)


@frozen
class DeviceMap:
    """The devices of a node by the index of their leaf cell."""

    node: str
    devices: Mapping[int, OfferedDevice] = field(default_factory=dict)
    bad: Mapping[int, str] = field(default_factory=dict)
    """Promised indexes that cannot be used now, and why."""
    findings: tuple[str, ...] = ()
    """What contradicts the configuration; each names node and driver."""
    record: Mapping[str, int] = field(default_factory=dict)
    """Bus address to index, to be kept on the Node; empty for drivers that number the names."""


def read_slice(body: Mapping[str, Any]) -> Slice | None:
    """A ResourceSlice as the API server has it; None if its devices do not belong to one node."""
    spec = body.get("spec") or {}
    pool, node, driver = spec.get("pool") or {}, str(spec.get("nodeName") or ""), str(spec.get("driver") or "")
    if not node or not driver:
        return None
    name = str(pool.get("name") or node)
    devices = tuple(_device(driver, name, device) for device in spec.get("devices") or () if _is_whole(device))
    generation, count = int(pool.get("generation") or 0), int(pool.get("resourceSliceCount") or 1)
    return Slice(str(body["metadata"]["name"]), node, driver, name, generation, count, devices)


def read_rule(body: Mapping[str, Any]) -> TaintRule | None:
    """A DeviceTaintRule as the API server has it; None if its taint keeps nobody away."""
    spec = body.get("spec") or {}
    selector, taint = spec.get("deviceSelector") or {}, _taint([spec.get("taint") or {}])
    driver, pool, device = (str(selector.get(key) or "") for key in ("driver", "pool", "device"))
    return TaintRule(driver, pool, device, taint) if taint else None


def read_record(text: str) -> dict[str, int]:
    """The annotation `RECORD`; empty if it is missing or not what we write, as somebody may have edited it."""
    try:
        record = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(record, dict):
        return {}
    kept = {str(bus): index for bus, index in record.items() if type(index) is int and index >= 0}
    return kept if len(set(kept.values())) == len(kept) == len(record) else {}


def write_record(record: Mapping[str, int]) -> str:
    """The annotation `RECORD`, the same text for the same record."""
    return json.dumps(dict(sorted(record.items())), separators=(",", ":"))


def device_map(
    node: str, slices: Iterable[Slice], promised: Iterable[int], record: Mapping[str, int], drivers: Sequence[str]
) -> DeviceMap:
    """Match devices to the indexes that the cells of a node promise.

    `drivers` are those whose devices can be leaf cells. Nothing is raised: what contradicts the promise is a finding,
    and an index without a usable device is bad.
    """
    wanted = sorted(promised)
    mine = [device_slice for device_slice in slices if device_slice.driver in drivers]
    names = sorted({device_slice.driver for device_slice in mine})
    if len(names) != 1:
        why = f"drivers {' and '.join(names)} both publish devices" if names else f"no slices of {_listed(drivers)}"
        hint = f"{why}; choose one by --device-driver" if names else f"{why}; is the driver running there?"
        return DeviceMap(node, {}, dict.fromkeys(wanted, why), (f"node {node}: {hint}",), dict(record))
    (driver,) = names
    devices, findings = complete(mine)
    by_bus = bool(devices) and all(device.bus for device in devices)
    placed, kept, strange = _by_bus(devices, record) if by_bus else _by_name(devices, record)
    bad = {
        index: f"device {placed[index].name} is tainted {placed[index].taint}"
        if index in placed
        else "it has no device"
        for index in wanted
        if index not in placed or placed[index].taint
    }
    missing = [str(index) for index in wanted if index not in placed]
    if missing:
        which = f"no device for {', '.join(missing)}"
        findings.append(f"{len(devices)} devices, but the cells promise {len(wanted)}: {which}")
        findings += [
            f"device {device.name} is new and has no cell; to renumber the devices, remove the node's annotation "
            f"{RECORD} while no pod has devices there"
            for index, device in sorted(placed.items())
            if index not in wanted and device.bus
        ]
    remarks = tuple(f"node {node}, driver {driver}: {finding}" for finding in (*findings, *strange))
    return DeviceMap(node, placed, bad, remarks, kept)


def _listed(drivers: Sequence[str]) -> str:
    return f"driver {drivers[0]}" if len(drivers) == 1 else f"any of the drivers {', '.join(drivers)}"


def _is_whole(body: Mapping[str, Any]) -> bool:
    """Whether a device is no partition: some drivers list those beside the device that they are cut from."""
    kind = (body.get("attributes") or {}).get("type") or {}
    return kind.get("string", "gpu") == "gpu" and not body.get("consumesCounters")


def _device(driver: str, pool: str, body: Mapping[str, Any]) -> OfferedDevice:
    attributes = {str(name).rpartition("/")[2]: value for name, value in (body.get("attributes") or {}).items()}

    def attribute(name: str) -> str:
        return str((attributes.get(name) or {}).get("string") or "")

    bus = next((attribute(name) for name in _BUS if name in attributes), "")
    return OfferedDevice(
        driver,
        pool,
        str(body["name"]),
        bus.lower(),
        attribute("uuid"),
        _taint(body.get("taints") or ()),
        attribute("productName"),
        attribute("pcieRoot"),
    )


def _taint(taints: Iterable[Mapping[str, Any]]) -> str:
    """The first of these that keeps pods away; empty if none does."""
    first = next((taint for taint in taints if taint.get("effect") in _BLOCKING), None)
    if first is None:
        return ""
    value = f"={first['value']}" if first.get("value") else ""
    return f"{first.get('key')}{value}:{first['effect']}"


def complete(slices: Sequence[Slice]) -> tuple[list[OfferedDevice], list[str]]:
    """The devices of the newest generation of each pool; a pool that is published in part has none, as for
    kube-scheduler's own allocator."""
    devices: list[OfferedDevice] = []
    findings: list[str] = []
    for pool in sorted({device_slice.pool for device_slice in slices}):
        newest = max(device_slice.generation for device_slice in slices if device_slice.pool == pool)
        current = [
            device_slice for device_slice in slices if device_slice.pool == pool and device_slice.generation == newest
        ]
        count = max(device_slice.count for device_slice in current)
        if len(current) < count:
            findings.append(
                text(
                    "pool {pool} is incomplete: {count} of {expected} slices",
                    pool=pool,
                    count=len(current),
                    expected=count,
                )
            )
        else:
            devices += [device for device_slice in current for device in device_slice.devices]
    return devices, findings


def _by_bus(
    devices: Sequence[OfferedDevice], record: Mapping[str, int]
) -> tuple[dict[int, OfferedDevice], dict[str, int], list[str]]:
    """Recorded devices keep their index, others take the free ones in the order of their bus addresses."""
    kept, placed, strange = dict(record), dict[int, OfferedDevice](), list[str]()
    free = (index for index in range(len(devices) + len(record)) if index not in set(record.values()))
    for device in sorted(devices, key=lambda device: device.bus):
        if device.bus not in kept:
            kept[device.bus] = next(free)
        index = kept[device.bus]
        if index in placed:
            strange.append(f"devices {placed[index].name} and {device.name} have the same bus address, {device.bus}")
        else:
            placed[index] = device
    return placed, kept, strange


def _by_name(
    devices: Sequence[OfferedDevice], record: Mapping[str, int]
) -> tuple[dict[int, OfferedDevice], dict[str, int], list[str]]:
    """By the number at the end of the name; a device without one, or with another's, is not used."""
    placed, strange = dict[int, OfferedDevice](), list[str]()
    for device in sorted(devices, key=lambda device: device.name):
        number = _NUMBER.search(device.name)
        if number is None:
            strange.append(f"device {device.name} has neither a PCI bus address nor a number in its name")
        elif (index := int(number[1])) in placed:
            strange.append(f"devices {placed[index].name} and {device.name} have the same number")
        else:
            placed[index] = device
    return placed, dict(record), strange
