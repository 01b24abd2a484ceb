"""A cluster on this machine to which anything happens, and the question whether somebody waits who need not.

Gangs of all priorities come and go, with and without guarantees, limits, lazy preemption and repair; nodes and single
devices fail and heal; windows and reservations come and go; services stop; time passes. After each operation the
scheduler has come to rest: then no gang is still preempting, as its victims go at once, and no gang waits that a
decision from scratch would place (`waiting_needlessly`). `tests/unit/cluster/test_stuck.py` plays a few hundred,
``tools/soak.py --embedded`` as many as one likes.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from typing import Any, Final

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import FOREVER, JobRequest, MachineSpec, NodeChange, NodeRole
from paictl.cluster.presets import PRESETS, preset_files
from paictl.errors import PaictlError
from paictl.scheduler.decision import Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.groups import GroupState
from paictl.scheduler.invariants import validate
from paictl.units import Millis
from paictl.workload.job import PRIORITIES
from tests.unit.cluster.conftest import MINUTE, SERVICES

VCS: Final = ("tenanta", "tenanta", "tenantb", "tenantc")
SHAPES: Final = ((1, 1), (2, 1), (1, 2), (2, 2), (1, 4), (2, 4), (1, 8), (2, 8), (3, 2))
"""Tasks and devices of each."""
ALIKE: Final = ((1, 2), (2, 2), (1, 4), (1, 8))
SHARING: Final = (
    "",
    "",
    "sharing:\n  preemption: {victims: least-loss}\n  min-run-times: [{vc: tenanta, time: 20m}]\n",
    "sharing:\n  min-run-times: [{time: 10m}]\n",
    "sharing:\n  user-limits: [{vc: tenanta, devices: 8}]\n  opportunistic-order: {by: decayed-use}\n",
    "sharing:\n  backfill: [{mode: easy}]\n",
    "sharing:\n  backfill: [{mode: conservative}]\n",
)
"""By the seed's remainder; half of all worlds have no backfill and nothing that holds back."""


def waiting_needlessly(world: World) -> list[str]:
    """What is wrong with a cluster whose scheduler has come to rest: who still preempts, and who need not wait."""
    dispatcher, engine, now = world.dispatcher, world.dispatcher.engine, world.now
    if engine is None:
        return []
    found = [
        f"{name} is preempting"
        for name, group in engine.state.groups.by_name.items()
        if group.state is GroupState.PREEMPTING
    ]
    for name in dispatcher.waiting.groups:
        request = dispatcher.waiting.first_pod(name)
        if dispatcher.obstacle(request) or dispatcher._waits_for_reservation(name, now / 1000):
            continue
        if dispatcher._would_delay(name, now / 1000):
            continue
        asked, offered = dispatcher._offered(request, now)
        with suppress(RequestError):
            decision = engine.plan(asked, offered)
            if not isinstance(decision, Wait):
                found.append(f"{name} waits, but would get: {type(decision).__name__}")
    return found


class StuckWorld:
    """A world by the dice of a seed."""

    def __init__(self, seed: int, sharing: str | None = None) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a test
        self.stats: Counter[str] = Counter()
        self.number = 0
        self.alike = seed % 2 == 0
        """Whether many jobs ask for the same, as only then one can stand before another of its kind."""
        chosen = PRESETS["three-tenants"]
        self.nodes = list(chosen.nodes)
        machines = [
            MachineSpec(name, f"10.0.1.{i}", NodeRole.WORKER, "gpu", devices=chosen.hardware.devices)
            for i, name in enumerate(chosen.nodes)
        ]
        files = dict(preset_files("three-tenants"))
        files["services-configuration.yaml"] += SHARING[seed % len(SHARING)] if sharing is None else sharing
        up, then = commands.bring_up("pai", SERVICES, machines, files)
        self.world = up.begin()
        for command in then:
            commands.apply(self.world, Millis(0), command)

    def step(self) -> None:
        """One operation, and what must hold after it."""
        operations = {
            self.submit: 14,
            self.stop: 4,
            self.change_node: 2,
            self.change_device: 3,
            self.heal: 3,
            self.wait: 8,
            self.add_window: 1,
            self.remove_window: 1,
            self.reserve: 1,
            self.unreserve: 1,
            self.evict: 1,
            self.restart: 1,
        }
        (operation,) = self.dice.choices(list(operations), list(operations.values()))
        self.stats[operation.__name__] += 1
        with suppress(PaictlError):
            operation()
        engine = self.world.dispatcher.engine
        if engine is not None:
            validate(engine.state)
        self.stats["waiting"] += len(self.world.dispatcher.waiting.groups)
        found = waiting_needlessly(self.world)
        assert not found, "; ".join(found)
        self.world.events.clear()
        self.world.ended.clear()

    def _do(self, command: commands.LoggedCommand) -> None:
        commands.apply(self.world, self.world.now, command)

    def submit(self) -> None:
        dice = self.dice
        self.number += 1
        tasks, gpu = dice.choice(ALIKE if self.alike else SHAPES)
        extras: dict[str, Any] = {
            "gangAllocation": dice.random() < 0.8,
            "hivedScheduler": {"lazyPreemptionEnable": not self.alike and dice.random() < 0.2},
        }
        if (limit := dice.choice((None,) if self.alike else (None, "10m", "1h"))) is not None:
            extras["maxRunTime"] = limit
        if not self.alike and dice.random() < 0.2:
            extras["restart"] = "member"
        reservations = [one.name for one in self.world.reservations.all]
        if reservations and not self.alike and dice.random() < 0.3:
            extras["reservation"] = dice.choice(reservations)
        roles = {"train": tasks} if self.alike or dice.random() < 0.8 else {"train": tasks, "ps": 1}
        data = {
            "protocolVersion": 2,
            "name": f"j{self.number}",
            "type": "job",
            "extras": extras,
            "jobRetryCount": dice.choice((0, 0, 2, -2)),
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
            "taskRoles": {
                name: {
                    "instances": instances,
                    "dockerImage": "image",
                    "commands": ["true"],
                    "resourcePerInstance": {"gpu": gpu, "cpu": gpu, "memoryMB": 1024 * gpu},
                }
                for name, instances in roles.items()
            },
            "defaults": {"virtualCluster": dice.choice(VCS)},
        }
        lasts = dice.choice((Millis(3 * MINUTE), Millis(30 * MINUTE), Millis(200 * MINUTE), FOREVER))
        request = JobRequest(dice.choice(("ann", "bob")), data, None, dice.choice(list(PRIORITIES)), lasts)
        self._do(commands.Submit((request,)))

    def stop(self) -> None:
        if self.world.jobs:
            self._do(commands.StopJob(self.dice.choice(list(self.world.jobs))))

    def change_node(self) -> None:
        change = self.dice.choice((NodeChange.FAIL, NodeChange.FAIL, NodeChange.CORDON))
        self._do(commands.SetNode(self.dice.choice(self.nodes), change))

    def change_device(self) -> None:
        devices = tuple(sorted(self.dice.sample(range(8), self.dice.choice((1, 1, 2)))))
        self._do(commands.SetDevices(self.dice.choice(self.nodes), NodeChange.FAIL, devices))

    def heal(self) -> None:
        node = self.dice.choice(self.nodes)
        for change in (NodeChange.HEAL, NodeChange.UNCORDON):
            self._do(commands.SetNode(node, change))
        self._do(commands.SetDevices(node, NodeChange.HEAL, tuple(range(8))))

    def wait(self) -> None:
        self.world.advance(Millis(self.world.now + self.dice.choice((1, 5, 12, 60)) * MINUTE))

    def add_window(self) -> None:
        start = Millis(self.world.now + self.dice.choice((0, 10, 90)) * MINUTE)
        span = Millis(self.dice.choice((10, 60)) * MINUTE)
        nodes = tuple(self.dice.sample(self.nodes, self.dice.choice((1, 2))))
        self._do(commands.AddWindow(nodes, span, start, "", Millis(0), "", self.dice.random() < 0.3))

    def remove_window(self) -> None:
        if self.world.windows.all:
            self._do(commands.RemoveWindow(self.dice.choice(self.world.windows.all).name))

    def reserve(self) -> None:
        start = Millis(self.world.now + self.dice.choice((0, 10, 90)) * MINUTE)
        span, cell = Millis(self.dice.choice((10, 60)) * MINUTE), self.dice.choice(("V100-NODE", "V100-SOCKET"))
        self._do(commands.AddReservation(span, start, self.dice.choice(VCS), 1, cell, (), "once", "", ""))

    def unreserve(self) -> None:
        if self.world.reservations.all:
            self._do(commands.RemoveReservation(self.dice.choice(self.world.reservations.all).name))

    def evict(self) -> None:
        if self.world.jobs:
            self._do(commands.EvictGang(self.dice.choice(list(self.world.jobs)), "", "moved"))

    def restart(self) -> None:
        """The scheduler or the job controller is away for a while."""
        name = self.dice.choice(("hivedscheduler", "frameworkcontroller"))
        service = self.world.services.get(name)
        self._do(commands.SetService(name, not service.running))
        if service.running and self.dice.random() < 0.8:
            self._do(commands.SetService(name, True))
