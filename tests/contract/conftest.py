"""What every kind of cluster has to do: one suite, run against each kind that is listed here.

A kind is a function that brings a cluster with the preset "lab" up (one master, two workers with a device each, VCs
`default` and `vc1`) and gives a `Contract`. Tests use the ports alone, ask again until what they wait for is so, and
assume no more than `paictl.cluster.interface` promises.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import FOREVER, Cluster, HandClock, JobRequest, JobState, JobView
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import preset_files
from paictl.config.pushing.fileset import seal_files
from paictl.service.catalogue import load_catalogue
from paictl.units import Millis

T = TypeVar("T")


@dataclass(frozen=True)
class Contract:
    """A cluster under test: `again` opens it as another process would, `patience` is in seconds."""

    cluster: Cluster
    again: Callable[[], Cluster]
    patience: float
    imagined: bool
    """Whether its machines are imagined, so that one can be let fail."""

    def request(self, name: str, **options: Any) -> JobRequest:
        """A job of one role; for ever unless `seconds` is given."""
        seconds = options.pop("seconds", None)
        role = {
            "instances": options.pop("instances", 1),
            "dockerImage": "image",
            "resourcePerInstance": {"gpu": options.pop("gpu", 1), "cpu": 1, "memoryMB": 512},
            "commands": ["sleep 1h" if seconds is None else f"sleep {seconds}"],
        }
        data = {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
            "taskRoles": {"train": role},
            "defaults": {"virtualCluster": options.pop("vc", "default")},
            "extras": {"gangAllocation": options.pop("gang", True)},
        }
        duration = FOREVER if seconds is None else Millis(seconds * 1000)
        return JobRequest(options.pop("user", "ann"), data, None, options.pop("priority", "test"), duration)

    def submit(self, name: str, **options: Any) -> str:
        return self.cluster.submit([self.request(name, **options)])[0].key

    def until(self, ask: Callable[[], T], wanted: Callable[[T], bool]) -> T:
        """Ask until the answer is as wanted: what was asked is acknowledged, not done."""
        end = time.monotonic() + self.patience
        while not wanted(found := ask()):
            if time.monotonic() > end:
                raise AssertionError(f"still {found!r} after {self.patience} s")
            time.sleep(0.05)
        return found

    def job_in(self, key: str, state: JobState) -> JobView:
        return self.until(lambda: self.cluster.job(key), lambda job: job.state is state)

    def pass_time(self, seconds: int) -> None:
        """Let time pass: by hand where it can be done, else it passes by itself."""
        if isinstance(self.cluster, HandClock):
            self.cluster.tick(Millis(seconds * 1000))


def embedded(folder: Path) -> Contract:
    files = preset_files("lab")
    first, then = commands.bring_up("pai", tuple(load_catalogue().services), machines_in(files), seal_files(files))
    place = folder / "state"
    cluster = EmbeddedCluster.up(place, first, then, clock=(0.0, False))
    return Contract(cluster, lambda: EmbeddedCluster.at(place), 0.0, imagined=True)


KINDS: dict[str, Callable[[Path], Contract]] = {"embedded": embedded}
"""Every kind of cluster that paictl can open."""


@pytest.fixture(params=list(KINDS))
def contract(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contract:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    return KINDS[request.param](tmp_path)
