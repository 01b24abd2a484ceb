"""Commands as they stand in the log: JSON in, one method of `World` each.

The log is the truth: what a command did follows from its words, the instant at which it came and what came before. So a
command holds everything it needs and nothing that can be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paictl.cluster.embedded.machines import machine_from
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import JobRequest, Machine
from paictl.units import Millis
from paictl.workload.template import masked

Command = dict[str, Any]


def up(name: str, services: Sequence[str], machines: Sequence[Machine]) -> Command:
    """The first command of every log."""
    return {"do": "up", "name": name, "services": list(services), "machines": [asdict(machine) for machine in machines]}


def submit(requests: Sequence[JobRequest]) -> Command:
    """Take jobs; the values of their secrets do not go into the log."""
    return {
        "do": "submit",
        "jobs": [{**asdict(request), "data": _without_secrets(request.data)} for request in requests],
    }


def stop_job(key: str) -> Command:
    """End a job."""
    return {"do": "stop-job", "key": key}


def set_node(name: str, change: str) -> Command:
    """`change` is cordon, uncordon, fail or heal."""
    return {"do": "set-node", "name": name, "change": change}


def add_node(machine: Machine) -> Command:
    """A machine joins."""
    return {"do": "add-node", "machine": asdict(machine)}


def remove_node(name: str) -> Command:
    """A machine leaves."""
    return {"do": "remove-node", "name": name}


def push(files: Mapping[str, str], message: str) -> Command:
    """A new version of the configuration, secrets sealed already."""
    return {"do": "push", "files": dict(files), "message": message}


def set_service(name: str, *, running: bool) -> Command:
    """Start or stop a service."""
    return {"do": "set-service", "name": name, "running": running}


def restart_services(names: Sequence[str]) -> Command:
    """Stop services, the last first, and start them again in order."""
    return {"do": "restart-services", "names": list(names)}


def wipe_service(name: str) -> Command:
    """Delete a service with its data."""
    return {"do": "wipe-service", "name": name}


def tick(span: Millis) -> Command:
    """Nothing but time passes."""
    return {"do": "tick", "span": span}


def run_out() -> Command:
    """Time passes until nothing more will happen."""
    return {"do": "run-out"}


def bring_up(
    name: str, services: Sequence[str], machines: Sequence[Machine], files: Mapping[str, str]
) -> list[Command]:
    """All commands of a new cluster whose services, given in start order, run by the configuration in `files`."""
    start = [set_service(service, running=True) for service in services]
    return [up(name, services, machines), push(files, "at start"), *start]


def begin(command: Command) -> World:
    """The cluster that the first command of a log makes."""
    world = World(command["name"], command["services"])
    for machine in command["machines"]:
        world.add_node(machine_from(machine))
    return world


def apply(world: World, at: Millis, command: Command) -> Any:
    """Let time pass until `at` and carry a command out; what it returns is its method's."""
    world.advance(at)
    return _METHODS[command["do"]](world, command)


def replay(log: Sequence[tuple[Millis, Command]]) -> World:
    """The cluster, with all its events, that a log of (instant, command) makes; the first command is `up`."""
    world = begin(log[0][1])
    for at, command in log[1:]:
        apply(world, at, command)
    return world


def _without_secrets(data: Mapping[str, object]) -> dict[str, object]:
    secrets = data.get("secrets")
    return {**data, "secrets": masked(secrets)} if isinstance(secrets, Mapping) else dict(data)


_METHODS: Mapping[str, Callable[[World, Command], Any]] = {
    "submit": lambda world, c: world.submit([JobRequest(**job) for job in c["jobs"]]),
    "stop-job": lambda world, c: world.stop_job(c["key"]),
    "set-node": lambda world, c: world.set_node(c["name"], c["change"]),
    "add-node": lambda world, c: world.add_node(machine_from(c["machine"])),
    "remove-node": lambda world, c: world.remove_node(c["name"]),
    "push": lambda world, c: world.push(c["files"], c["message"]),
    "set-service": lambda world, c: world.set_service(c["name"], running=c["running"]),
    "restart-services": lambda world, c: world.restart_services(c["names"]),
    "wipe-service": lambda world, c: world.wipe_service(c["name"]),
    "tick": lambda world, c: world.advance(Millis(world.now + c["span"])),
    "run-out": lambda world, c: world.advance(None),  # noqa: ARG005
}
