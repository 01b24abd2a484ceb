"""Embedded clusters for tests: on a preset, with a wall clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import JobRequest, MachineSpec, NodeRole
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import PRESETS, preset_files
from paictl.units import Millis, instant
from tests.unit.cluster.catalogue import Catalogue, whole_catalogue

SERVICES = ("cluster-configuration", "hivedscheduler", "frameworkcontroller", "rest-server")
MINUTE = 60_000


@dataclass
class Bench:
    """A cluster with everything running, and short ways to use it."""

    folder: Path
    cluster: EmbeddedCluster
    wall: list[float] = field(default_factory=lambda: [1_000_000.0])

    def job(self, name: str, vc: str, **options: Any) -> dict[str, Any]:
        gpu, instances = options.pop("gpu", 1), options.pop("instances", 1)
        extras = {"gangAllocation": options.pop("gang", True), "hivedScheduler": options.pop("hived", {})}
        if (limit := options.pop("max_run_time", None)) is not None:
            extras["maxRunTime"] = limit
        if (restart := options.pop("restart", None)) is not None:
            extras["restart"] = restart
        role = {
            "dockerImage": "image",
            "resourcePerInstance": {"gpu": gpu, "cpu": gpu, "memoryMB": 1024 * gpu},
            "commands": options.pop("commands", ["sleep 5m"]),
        }
        roles = {"train": {"instances": instances, **role}}
        if helpers := options.pop("helpers", 0):
            roles["ps"] = {"instances": helpers, **role}  # after the other, though not by the alphabet
        return {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "jobRetryCount": options.pop("retries", 0),
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
            "taskRoles": roles,
            "defaults": {"virtualCluster": vc},
            "extras": extras,
        }

    def submit(self, name: str, vc: str = "default", priority: str = "test", **options: Any) -> str:
        duration = options.pop("duration", None)
        request = JobRequest("ann", self.job(name, vc, **options), None, priority, duration)
        return self.cluster.submit([request])[0].key

    def state(self, key: str) -> str:
        return self.cluster.job(key).state.value

    def at(self, millis: int) -> datetime:
        """The instant so long after the cluster came up."""
        return instant(self.cluster.epoch, Millis(millis))

    def pass_time(self, millis: int) -> None:
        self.cluster.tick(Millis(millis))

    def again(self) -> EmbeddedCluster:
        """The same cluster as another process sees it."""
        return EmbeddedCluster.at(self.folder, lambda: self.wall[0])


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return whole_catalogue()


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[MakeBench]:
    made: list[Bench] = []

    def make(preset: str = "lab", **options: Any) -> Bench:
        folder = tmp_path / f"cluster{len(made)}"
        wall = [1_000_000.0]
        chosen = PRESETS[preset]
        machines = [MachineSpec("master1", "10.0.0.1", NodeRole.MASTER)] + [
            MachineSpec(
                name, f"10.0.{1 + i // 250}.{1 + i % 250}", NodeRole.WORKER, "gpu", devices=chosen.hardware.devices
            )
            for i, name in enumerate(chosen.nodes)
        ]
        services = options.get("services", SERVICES)
        files = options.get("files", preset_files(preset))
        if "files" in options:
            machines = machines_in(files)
        command = commands.BringUp("pai", tuple(services), tuple(machines))
        cluster = EmbeddedCluster.up(folder, command, clock=options.get("clock", (0.0, False)), wall=lambda: wall[0])
        cluster.push(files, "first")
        for name in services:
            cluster.set_service(name, running=True)
        made.append(Bench(folder, cluster, wall))
        return made[-1]

    yield make
    for one in made:  # the command log alone gives the same state, in every test
        assert one.cluster.replayed() == one.cluster.stored()
