"""Nodes and services of the embedded cluster as the interface shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from paictl.cluster.embedded.services import CONFIGURATION, CONTROLLER, HISTORIANS, READERS, SCHEDULER, EmbeddedService
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import NodeRole, NodeView, ServiceView
from paictl.units import instant
from paictl.words import listed

NO_CELL: Final = "in no cell of the scheduler's configuration, so nothing runs there"


def node_views(world: World, epoch: datetime) -> list[NodeView]:
    """All nodes with the pods that run on them."""
    pods: dict[str, list[str]] = {}
    at_risk: dict[str, list[str]] = {}
    broken = {node.machine.name: set(node.bad_devices) for node in world.machines if node.bad_devices}
    used: dict[str, int] = {}
    for key, job in world.jobs.items():
        for ref, run in job.running():
            pod = f"{key}/{ref.role}[{ref.index}]"
            pods.setdefault(run.info.node, []).append(pod)
            if broken.get(run.info.node, set()).intersection(run.info.devices):
                at_risk.setdefault(run.info.node, []).append(pod)
            used[run.info.node] = used.get(run.info.node, 0) + len(run.info.devices)
    cells, closed, kept = world.dispatcher.nodes, world.windows.active(world.now), world.windows.held(world.now)
    return [
        NodeView(
            node.machine, node.condition, instant(epoch, node.since), used.get(name, 0), tuple(pods.get(name, ())),
            f"in maintenance ({closed[name].name})" if name in closed
            else f"kept free of new pods ({kept[name].name})" if name in kept
            else NO_CELL if cells is not None and node.machine.role is NodeRole.WORKER and name not in cells else "",
            node.bad_devices, tuple(at_risk.get(name, ())),
        )
        for node in world.machines
        for name in [node.machine.name]
    ]  # fmt: skip


def service_view(world: World, service: EmbeddedService, epoch: datetime) -> ServiceView:
    """A service, and why it does not do its work if it does not."""
    reasons, newest = [], world.configs.newest
    if not service.running:
        reasons.append("stopped")
    elif service.name in READERS and newest not in (0, service.loaded):
        reasons.append(f"runs by configuration {service.loaded}, the newest is {newest}")
    if service.name == SCHEDULER:
        missing = [name for name in world.dispatcher.nodes or () if name not in world.machines]
        if missing:
            reasons.append(f"its configuration names nodes that are not there: {listed(missing)}")
    since, running = instant(epoch, service.since), service.running
    return ServiceView(service.name, running, running, since, "; ".join(reasons), service.loaded)


def losses_of(world: World, name: str, ended: int, versions: int) -> tuple[str, ...]:
    """What deleting a service would destroy; `ended` counts jobs in the history, `versions` those pushed."""
    if not world.services.get(name).there:
        return ()
    lost = {
        CONFIGURATION: (versions, "version of the configuration", "versions of the configuration"),
        CONTROLLER: (len(world.jobs), "job that waits or runs", "jobs that wait or run"),
        **dict.fromkeys(HISTORIANS, (ended, "ended job in the history", "ended jobs in the history")),
    }
    count, one, many = lost.get(name, (0, "", ""))
    return (f"{count} {one if count == 1 else many}",) if count else ()
