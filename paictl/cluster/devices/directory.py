"""The devices of all nodes, kept up to date by what the API server says about slices and nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from paictl.cluster.devices.slices import (
    RECORD,
    DeviceMap,
    OfferedDevice,
    Slice,
    TaintRule,
    device_map,
    read_record,
    read_rule,
    read_slice,
    write_record,
)
from paictl.remote.kube.client import MERGE, KubeClient

DRIVERS: Final = ("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com")
"""Drivers whose devices can be leaf cells, if no other is named."""
_NODES: Final = "/api/v1/nodes"


class DeviceDirectory:
    """Maps of devices by node. Safe to use from many threads; `changed` is called with a node's name, without locks."""

    def __init__(self, promised: Mapping[str, Sequence[int]], drivers: Sequence[str] = DRIVERS) -> None:
        self.promised = promised
        """Indexes of the leaf cells of each node of the configuration."""
        self.drivers = tuple(drivers)
        self.changed: Callable[[str], None] = lambda _node: None
        self._lock = threading.Lock()
        self._slices: dict[str, Slice] = {}
        self._by_node: dict[str, dict[str, Slice]] = {}
        self._rules: dict[str, TaintRule] = {}
        """What administrators say about devices, by the name of the rule."""
        self._pools: dict[tuple[str, str], str] = {}
        """Node of each driver's pool that was ever there."""
        self._records: dict[str, str] = {}
        self._plugged: dict[str, frozenset[str]] = {}
        self._maps: dict[str, DeviceMap] = {}

    def slice_changed(self, body: Mapping[str, Any]) -> None:
        """A ResourceSlice is like this now."""
        device_slice = read_slice(body)
        name = str(body["metadata"]["name"])
        with self._lock:
            touched = self._forget(name)
            if device_slice is not None and device_slice.driver in self.drivers:
                self._slices[name] = device_slice
                self._by_node.setdefault(device_slice.node, {})[name] = device_slice
                self._pools[device_slice.driver, device_slice.pool] = device_slice.node
                self._maps.pop(device_slice.node, None)
                touched.add(device_slice.node)
        self._tell(touched)

    def slice_gone(self, name: str) -> None:
        """A ResourceSlice is no longer there."""
        with self._lock:
            touched = self._forget(name)
        self._tell(touched)

    def _forget(self, name: str) -> set[str]:
        known = self._slices.pop(name, None)
        if known is None:
            return set()
        self._by_node[known.node].pop(name, None)
        self._maps.pop(known.node, None)
        return {known.node}

    def rule_changed(self, body: Mapping[str, Any]) -> None:
        """A DeviceTaintRule is like this now."""
        name, rule = str(body["metadata"]["name"]), read_rule(body)
        with self._lock:
            touched = self._forget_rule(name)
            if rule is not None:
                self._rules[name] = rule
                touched |= self._selected(rule)
        self._tell(touched)

    def rule_gone(self, name: str) -> None:
        """A DeviceTaintRule is no longer there."""
        with self._lock:
            touched = self._forget_rule(name)
        self._tell(touched)

    def _forget_rule(self, name: str) -> set[str]:
        known = self._rules.pop(name, None)
        return set() if known is None else self._selected(known)

    def _selected(self, rule: TaintRule) -> set[str]:
        """The nodes of the devices that a rule is about, whose maps are made anew."""
        nodes = {
            device_slice.node for device_slice in self._slices.values() if any(map(rule.selects, device_slice.devices))
        }
        for node in nodes:
            self._maps.pop(node, None)
        return nodes

    def _with_rules(self, device_slice: Slice) -> Slice:
        """A slice whose devices have the taints of the rules that select them, if they have none of their own."""

        def tainted(device: OfferedDevice) -> OfferedDevice:
            rules = (rule.taint for _, rule in sorted(self._rules.items()) if rule.selects(device))
            taint = device.taint or next(rules, "")
            return replace(device, taint=taint) if taint else device

        return replace(device_slice, devices=tuple(map(tainted, device_slice.devices))) if self._rules else device_slice

    def plugged(self, node: str) -> frozenset[str]:
        """The resources that a node offers by device plugins."""
        with self._lock:
            return self._plugged.get(node, frozenset())

    def recorded(self, node: str) -> bool:
        """Whether devices of a node were allocated at some time, so that a driver belongs there."""
        with self._lock:
            return bool(self._records.get(node))

    def node_changed(self, body: Mapping[str, Any]) -> None:
        """A Node is like this now; its record may have changed."""
        about = body["metadata"]
        name, text = str(about["name"]), str((about.get("annotations") or {}).get(RECORD, ""))
        offered = (body.get("status") or {}).get("allocatable") or {}
        with self._lock:
            self._plugged[name] = frozenset(key for key, count in offered.items() if "/" in key and str(count) != "0")
            if self._records.get(name, "") == text:
                return
            self._records[name] = text
            self._maps.pop(name, None)
        self._tell({name})

    def _tell(self, nodes: set[str]) -> None:
        for node in sorted(nodes):
            self.changed(node)

    def of(self, node: str) -> DeviceMap:
        """The devices of a node by the index of their leaf cell; of a node that the configuration has not, none."""
        with self._lock:
            known = self._maps.get(node)
            if known is None:
                slices = map(self._with_rules, self._by_node.get(node, {}).values())
                record = read_record(self._records.get(node, ""))
                known = device_map(node, slices, self.promised.get(node, ()), record, self.drivers)
                self._maps[node] = known
            return known

    def node_of(self, driver: str, pool: str) -> str:
        """The node of a pool; empty if it belongs to none or to another driver."""
        with self._lock:
            return self._pools.get((driver, pool), "")

    def findings(self) -> list[str]:
        """What contradicts the configuration, in its order."""
        return [finding for node in self.promised for finding in self.of(node).findings]

    def tainted(self) -> list[str]:
        """Devices of the configuration that a taint keeps pods from, in its order."""
        maps = (self.of(node) for node in self.promised)
        return [
            f"node {known.node}, driver {known.devices[index].driver}: {why}"
            for known in maps
            for index, why in known.bad.items()
            if index in known.devices
        ]

    def keep_record(self, client: KubeClient, node: str, timeout: float) -> None:
        """Record the indexes of a node's devices, before the first is allocated. Raises `KubeError`."""
        record = self.of(node).record
        with self._lock:
            text = self._records.get(node, "")
        if record == read_record(text):
            return
        body = {"metadata": {"annotations": {RECORD: write_record(record)}}}
        self.node_changed(client.request("PATCH", f"{_NODES}/{node}", body, kind=MERGE, timeout=timeout))
