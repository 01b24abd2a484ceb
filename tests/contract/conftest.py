"""What every kind of cluster has to do: one suite, run against each kind that is listed here.

A kind is a function that brings a cluster with the preset "lab" up (one master, two workers with a device each, VCs
`default` and `vc1`) and gives a `Contract`. Tests use the ports alone, ask again until what they wait for is so, and
assume no more than `paictl.cluster.interface` promises.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import yaml

from paictl.cluster.capabilities import HandClock
from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.present import plan_beginning
from paictl.cluster.interface import FOREVER, Cluster, JobRequest, JobState, JobView, Port
from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import preset_files
from paictl.config.pushing.push import seal_files, secrets_of
from paictl.service.catalogue import load_catalogue
from paictl.units import Millis
from tests.contract import hosts
from tests.e2e_kube.controlplane import ControlPlane, binaries, control_plane, missing
from tests.e2e_kube.jobrig import JobRig, job_rig
from tests.e2e_kube.kubeapi import KubeApi

T = TypeVar("T")

BEGINNING: Final = datetime(2026, 6, 15, 9, tzinfo=UTC)
"""When imagined clusters begin: an hour that no test crosses midnight from, whatever the hour it is run at."""


@dataclass(frozen=True)
class Contract:
    """A cluster under test: `again` opens it as another process would, `patience` is in seconds."""

    cluster: Cluster
    again: Callable[[], Cluster]
    patience: float
    imagined: bool
    """Whether its machines are imagined, so that one can be let fail."""
    image: str = "pai/standard"

    def request(self, name: str, **options: Any) -> JobRequest:
        """A job of one role; for ever unless `seconds` is given."""
        seconds, limit = options.pop("seconds", None), options.pop("max_run_time", None)
        limited = {} if limit is None else {"maxRunTime": limit}
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
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": self.image}],
            "taskRoles": {"train": role},
            "defaults": {"virtualCluster": options.pop("vc", "default")},
            "extras": {"gangAllocation": options.pop("gang", True), **limited},
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


PATIENCE: Final = 30.0
"""Seconds that a real cluster may take."""


def embedded(folder: Path, preset: str = "lab") -> Contract:
    files = preset_files(preset)
    first, then = commands.bring_up("pai", tuple(load_catalogue().services), machines_in(files), seal_files(files))
    place = folder / "state"
    place.mkdir(mode=0o700, exist_ok=True)
    plan_beginning(place, BEGINNING.timestamp())
    cluster = EmbeddedCluster.up(place, first, then)
    return Contract(cluster, lambda: EmbeddedCluster.at(place), 0.0, imagined=True)


def on_kubernetes(plane: ControlPlane) -> Contract:
    """The same machines as nodes that kwok keeps ready, and nothing left of the test before."""
    api = KubeApi(plane)
    fresh_nodes(api)
    forget_configuration(api)
    pinned = pin("real", str(plane.kubeconfig), "x")
    files = preset_files("lab")
    sealed = seal_files(files)
    cluster = open_pinned(pinned)
    cluster.push(sealed, "first", base=0, secrets=secrets_of(files, sealed))
    return Contract(cluster, lambda: open_pinned(pinned), PATIENCE, imagined=False)


def on_hosts() -> Contract:
    """The cluster of tests/e2e_hosts/test_textbook.py, which runs this; elsewhere it is skipped."""
    if reason := hosts.why_no_hosts():
        pytest.skip(reason)
    pinned = hosts.begin()
    return Contract(open_pinned(pinned), lambda: open_pinned(pinned), hosts.PATIENCE, imagined=False, image=hosts.IMAGE)


def fresh_nodes(api: KubeApi) -> None:
    """A master and two workers of one device each, ready and not cordoned."""
    if not api.get("/api/v1/nodes")["items"]:
        api.add_nodes(["worker1", "worker2"], **{"nvidia.com__gpu": "1"})
        api.add_nodes(["master1"])
        api.patch("/api/v1/nodes/master1", {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}})
        api.await_nodes(3)
    for name in ("master1", "worker1", "worker2"):
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


def forget_configuration(api: KubeApi) -> None:
    """As before the first push of all, but for the namespace."""
    for kind in ("configmaps", "secrets"):
        api.call("DELETE", f"/api/v1/namespaces/paictl-system/{kind}?labelSelector=app.kubernetes.io/part-of=paictl")


KINDS: Final = ("embedded", "kubernetes")
"""Every kind of cluster that paictl can open."""


def why_no_control_plane() -> str:
    """The reason why no real cluster can be had; empty where one can."""
    if os.environ.get("PAICTL_E2E") != "1":
        return "needs a real control plane: make kube, then make e2e"
    return f"{', '.join(missing())} not in {binaries()}: make kube" if missing() else ""


@pytest.fixture(scope="session")
def session_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all tests of this folder; they are skipped, saying why, where there can be none."""
    if reason := why_no_control_plane():
        pytest.skip(reason)
    with control_plane(tmp_path_factory.mktemp("cp")) as up:
        yield up


@pytest.fixture(scope="session")
def session_jobs(session_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    """What runs jobs there, by the preset's configuration."""
    api = KubeApi(session_plane)
    fresh_nodes(api)
    services = yaml.safe_load(preset_files("lab")["services-configuration.yaml"])
    hived = yaml.safe_load(services["hivedscheduler"]["config"])
    with job_rig(session_plane, api, hived, tmp_path_factory.mktemp("jobs")) as rig:
        yield rig


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every kind for every test; what needs services that really run is tried on hosts instead of kwok's nodes."""
    if "contract" in metafunc.fixturenames:
        together = metafunc.definition.get_closest_marker("together") is not None
        kinds = [hosts.HOSTS if together and kind == "kubernetes" else kind for kind in KINDS]
        metafunc.parametrize("contract", kinds, indirect=True)


@pytest.fixture
def contract(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contract:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    if request.param == "embedded":
        return embedded(tmp_path)
    if request.param == hosts.HOSTS:
        return on_hosts()
    needed = next((mark.args for mark in request.node.iter_markers("needs")), ())
    plane = request.getfixturevalue("session_plane")
    rig = request.getfixturevalue("session_jobs") if {Port.JOBS, Port.SCHEDULING} & set(needed) else None
    if rig is not None:
        rig.forget_jobs()
    made = on_kubernetes(plane)
    if Port.SERVICES in needed:  # beside the rig's own processes: what was applied for those is taken over
        made.cluster.set_service("hivedscheduler", running=True, take_over=True)
    return made
