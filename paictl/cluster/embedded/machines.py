"""Machines and how they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any

from paictl.cluster.embedded.still import machine_from
from paictl.cluster.interface import ClusterError, ConflictError, MachineSpec, NodeCondition, NodeRole
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis


@frozen
class EmbeddedNode:
    """A machine's condition since an instant; `cordoned` outlives a failure, as in Kubernetes."""

    machine: MachineSpec
    since: Millis
    cordoned: bool = False
    failed: bool = False
    bad_devices: tuple[int, ...] = ()
    """Rising numbers of its devices that are broken, whatever the machine is."""
    bad_since: tuple[Millis, ...] = ()
    """Since when each of them is."""

    @property
    def condition(self) -> NodeCondition:
        """What people see: a failure hides that the node is cordoned."""
        if self.failed:
            return NodeCondition.FAILED
        return NodeCondition.CORDONED if self.cordoned else NodeCondition.READY

    @property
    def healthy(self) -> bool:
        """Whether the scheduler may use it: ready and schedulable."""
        return not (self.failed or self.cordoned)


class Machines:
    """All machines by name."""

    def __init__(self) -> None:
        self._nodes: dict[str, EmbeddedNode] = {}

    def __iter__(self) -> Iterator[EmbeddedNode]:
        return (self._nodes[name] for name in sorted(self._nodes))

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def get(self, name: str) -> EmbeddedNode:
        """A machine; raises `ClusterError` with the nearest names if there is none."""
        if name not in self._nodes:
            raise ClusterError(text("no node {name!r}", name=name), hint="list them with: paictl node list")
        return self._nodes[name]

    def add(self, machine: MachineSpec, now: Millis) -> EmbeddedNode:
        """A machine joins; raises `ConflictError` for a name or address that another one has."""
        for other in self:
            if machine.name == other.machine.name:
                raise ConflictError(text("node {name!r} already exists", name=machine.name))
            if machine.address and machine.address == other.machine.address:
                raise ConflictError(
                    text(
                        "node {name!r} already has the address {address}",
                        name=other.machine.name,
                        address=machine.address,
                    )
                )
        self._nodes[machine.name] = EmbeddedNode(machine, now)
        return self._nodes[machine.name]

    def remove(self, name: str) -> EmbeddedNode:
        """A machine leaves."""
        node = self.get(name)
        if node.machine.role is NodeRole.MASTER and sum(other.machine.role is NodeRole.MASTER for other in self) == 1:
            raise ClusterError(
                text("{name} is the only master", name=name), hint="take the cluster down instead: paictl cluster down"
            )
        del self._nodes[name]
        return node

    def set(
        self, name: str, now: Millis, *, cordoned: bool | None = None, failed: bool | None = None
    ) -> tuple[EmbeddedNode, EmbeddedNode]:
        """Change a machine; returns it before and after."""
        old = self.get(name)
        new = replace(
            old,
            cordoned=old.cordoned if cordoned is None else cordoned,
            failed=old.failed if failed is None else failed,
        )
        if new.condition is not old.condition:
            new = replace(new, since=now)
        self._nodes[name] = new
        return old, new

    def set_devices(
        self, name: str, now: Millis, devices: Iterable[int], *, broken: bool
    ) -> tuple[EmbeddedNode, EmbeddedNode]:
        """Let devices of a machine break, or mend them; returns it before and after.

        Raises `ClusterError` for a number that none of its devices has.
        """
        old, chosen = self.get(name), set(devices)
        old.machine.check_devices(chosen)
        since = {} if not broken else dict.fromkeys(chosen, now)
        kept = dict(zip(old.bad_devices, old.bad_since, strict=True))
        bad = (
            dict(sorted((since | kept).items()))
            if broken
            else {device: kept[device] for device in kept if device not in chosen}
        )
        self._nodes[name] = replace(old, bad_devices=tuple(bad), bad_since=tuple(bad.values()))
        return old, self._nodes[name]

    def dump(self) -> list[dict[str, Any]]:
        """All machines as JSON values."""
        return [
            {
                "machine": asdict(node.machine), "since": node.since, "cordoned": node.cordoned, "failed": node.failed,
                "bad_devices": list(node.bad_devices), "bad_since": list(node.bad_since),
            }
            for node in self
        ]  # fmt: skip

    def load(self, rows: list[dict[str, Any]]) -> None:
        """The inverse of `dump`."""
        for row in rows:
            machine = machine_from(row["machine"])
            bad = tuple(row.get("bad_devices", ()))  # clusters of earlier versions do not say them
            since = Millis(row["since"])
            at = tuple(Millis(moment) for moment in row.get("bad_since", (since,) * len(bad)))
            self._nodes[machine.name] = EmbeddedNode(machine, since, row["cordoned"], row["failed"], bad, at)
