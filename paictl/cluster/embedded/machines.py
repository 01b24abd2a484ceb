"""Machines of the embedded cluster and their devices: how they are, come, go, fail and heal, and when pods leave them.

A pod on a node that fails keeps running for a while, since the node may come back. It is lost when that time is over,
or at once where the node is removed: no pod runs on a node that stays away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from paictl.cells.spec import MIG_INSTANCES
from paictl.cluster.embedded.dispatch import Dispatcher, Survivors
from paictl.cluster.embedded.jobs import LiveJob, Timer, repairs_on
from paictl.cluster.embedded.present import machine_from
from paictl.cluster.embedded.services import SCHEDULER, Configurations, EmbeddedServices
from paictl.cluster.interface import (
    ClusterError,
    ConflictError,
    EventKind,
    MachineSpec,
    NodeChange,
    NodeCondition,
    NodeRole,
)
from paictl.frozen import frozen
from paictl.i18n import listed, text
from paictl.scheduler.events import RunningPod
from paictl.scheduler.wire import isolation_text
from paictl.sim.loop import EventLoop, EventPriority
from paictl.units import Millis
from paictl.workload.lifecycle import PodChange

TOLERATION: Final = Millis(300_000)
"""How long pods on a failed node are given, as Kubernetes tolerates an unreachable node by default."""

REPAIR_AFTER: Final = Millis(5_000)
"""How long a node has to be failed until members of gangs that allow repairs leave it."""

NODE_CHANGES: Final[Mapping[NodeChange, Mapping[str, bool]]] = {
    NodeChange.CORDON: {"cordoned": True},
    NodeChange.UNCORDON: {"cordoned": False},
    NodeChange.FAIL: {"failed": True},
    NodeChange.HEAL: {"failed": False},
}

_NODE_WORDS: Final[Mapping[NodeChange, str]] = {
    NodeChange.CORDON: "no new pods",
    NodeChange.UNCORDON: "new pods again",
    NodeChange.FAIL: f"its pods are given up unless it is back within {TOLERATION // 60_000} minutes",
    NodeChange.HEAL: "back again",
}


def node_words(change: NodeChange, *, repairs: bool) -> str:
    """What a change of a node means; `repairs`: it fails under pods that are replaced alone (``restart: member``)."""
    more = f", those of jobs with restart: member within {REPAIR_AFTER // 1000} seconds" if repairs else ""
    return _NODE_WORDS[change] + more


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
                "machine": asdict(node.machine),
                "since": node.since,
                "cordoned": node.cordoned,
                "failed": node.failed,
                "bad_devices": list(node.bad_devices),
                "bad_since": list(node.bad_since),
            }
            for node in self
        ]

    def load(self, rows: list[dict[str, Any]]) -> None:
        """The inverse of `dump`."""
        for row in rows:
            machine = machine_from(row["machine"])
            bad = tuple(row.get("bad_devices", ()))  # clusters of earlier versions do not say them
            since = Millis(row["since"])
            at = tuple(Millis(moment) for moment in row.get("bad_since", (since,) * len(bad)))
            self._nodes[machine.name] = EmbeddedNode(machine, since, row["cordoned"], row["failed"], bad, at)


class WithHardware:
    """The part of the world that keeps machines."""

    loop: EventLoop[Timer]
    jobs: dict[str, LiveJob]
    machines: Machines
    dispatcher: Dispatcher
    services: EmbeddedServices
    configs: Configurations
    pods: Mapping[str, object]
    _say: Callable[..., None]
    _pod_over: Callable[..., None]
    _settle: Callable[[], None]

    def divided(self) -> Mapping[str, int]:
        """MIG instances of each GPU by node, of nodes whose devices are these; none while the scheduler is stopped."""
        loaded = self.services.version(SCHEDULER)
        if not loaded or not any(MIG_INSTANCES in content for content in self.configs.get(loaded).files.values()):
            return {}  # the usual case, in which the scheduler need not be loaded
        if (engine := self.dispatcher.engine) is None:
            return {}
        tree = engine.state.physical
        by_node = {
            name: max(tree.chains[tree.chain[cell]].instances for cell in cells) for name, cells in tree.nodes.items()
        }
        return {name: instances for name, instances in by_node.items() if instances}

    def _device_names(self, node: str, devices: Iterable[int]) -> list[str]:
        instances = self.divided().get(node, 0)
        return [isolation_text((device,), instances) for device in devices]

    def hardware_due(self, timer: Timer) -> None:
        """A node has been away for so long that pods leave it, or devices have been bad for so long."""
        if timer.kind == "devices":
            self._leave_devices(timer.subject, Millis(timer.detail))
            return
        node = self.machines.get(timer.subject)
        if node.failed and node.since == timer.detail and timer.kind == "repair":
            self._lose_pods(timer.subject, "its node has failed", members=True)
        elif node.failed and node.since == timer.detail:
            self._lose_pods(timer.subject, "its node did not come back")

    def add_node(self, machine: MachineSpec) -> None:
        """A machine joins, ready."""
        self.machines.add(machine, self.loop.now)
        self._say(EventKind.NODE_ADDED, f"node/{machine.name}", machine.role.value)
        self._observe(machine.name)

    def remove_node(self, name: str) -> None:
        """A machine leaves; its pods are lost."""
        removed = self.machines.remove(name)
        self._say(EventKind.NODE_REMOVED, f"node/{name}", "")
        self.dispatcher.report(name, False, self.loop.now / 1000)
        for device in removed.bad_devices:  # a machine that comes by this name is another one
            self.dispatcher.report_device(name, device, True, self.loop.now / 1000)
        self._lose_pods(name, "its node was removed")
        self._settle()

    def set_node(self, name: str, change: NodeChange) -> EmbeddedNode:
        """Do one of cordon, uncordon, fail, heal; pods on a failed node are lost if it stays so for five minutes."""
        flags = NODE_CHANGES[change]
        old, new = self.machines.set(name, self.loop.now, **flags)
        repairs = new.failed and not old.failed and repairs_on(name, self.jobs.values())
        if new != old:
            self._say(EventKind(new.condition.value), f"node/{name}", node_words(change, repairs=repairs))
            self._observe(name)
        if new.failed and not old.failed:
            since = self.loop.now
            self.loop.schedule(Millis(since + TOLERATION), EventPriority.HARDWARE, Timer("lost", name, since))
            if repairs:
                self.loop.schedule(Millis(since + REPAIR_AFTER), EventPriority.HARDWARE, Timer("repair", name, since))
        return new

    def set_devices(self, name: str, change: NodeChange, devices: Sequence[int]) -> EmbeddedNode:
        """Let devices of a node fail or heal; pods on a failed one keep running."""
        broken = change is NodeChange.FAIL
        old, new = self.machines.set_devices(name, self.loop.now, devices, broken=broken)
        changed = sorted(set(old.bad_devices) ^ set(new.bad_devices))
        if not changed:
            return new
        self._say(
            EventKind.DEVICE_FAILED if broken else EventKind.DEVICE_HEALED,
            f"node/{name}",
            listed(f"device {device}" for device in self._device_names(name, changed)),
            devices=changed,
        )
        for device in changed:
            self.dispatcher.report_device(name, device, not broken, self.loop.now / 1000)
        self._settle()
        loaded = self.services.version(SCHEDULER)
        if loaded:
            self.watch_devices([new], self.configs.get(loaded).bad_device_deadline)
        return new

    def watch_devices(self, nodes: Iterable[EmbeddedNode], deadline: float | None) -> None:
        """See to it that pods leave devices that stay bad for so many seconds."""
        if deadline is None:
            return
        for node in nodes:
            for since in sorted(set(node.bad_since)):
                at = Millis(max(self.loop.now, since + round(1000 * deadline)))
                self.loop.schedule(at, EventPriority.HARDWARE, Timer("devices", node.machine.name, since))

    def _leave_devices(self, name: str, since: Millis) -> None:
        """Pods on devices that have been bad since an instant are lost, and with them their gangs start again."""
        node = self.machines.get(name)
        bad = {device for device, at in zip(node.bad_devices, node.bad_since, strict=True) if at == since}
        for job in list(self.jobs.values()):
            for ref, run in job.running():
                uid, hit = job.pod(ref).uid, sorted(bad.intersection(run.info.devices))
                if run.info.node == name and hit and uid in self.pods and self.services.runs(SCHEDULER):
                    (device,) = self._device_names(name, hit[:1])
                    self._pod_over(uid, PodChange.LOST, f"its device {device} is bad")

    def _observe(self, name: str) -> None:
        node = self.machines.get(name)
        if node.machine.role is NodeRole.WORKER:
            self.dispatcher.report(name, node.healthy, self.loop.now / 1000)
            self._settle()

    def _lose_pods(self, node: str, reason: str, *, members: bool = False) -> None:
        """The pods on a node are lost, or with `members` those of which the rest of the gang keeps running."""
        uids = [
            job.pod(ref).uid
            for job in self.jobs.values()
            if job.job.repairs or not members
            for ref, run in job.running()
            if run.info.node == node
        ]
        for uid in uids:
            if uid in self.pods:
                self._pod_over(uid, PodChange.LOST, reason)

    def survivors(self) -> Survivors:
        """What a scheduler finds when it starts."""
        workers = [node for node in self.machines if node.machine.role is NodeRole.WORKER]
        return Survivors(
            [node.machine.name for node in workers if node.healthy],
            [(node.machine.name, device) for node in workers for device in node.bad_devices],
            [RunningPod(job.request(ref), run.info) for job in self.jobs.values() for ref, run in job.running()],
        )
