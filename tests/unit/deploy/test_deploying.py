"""The services after a deployment: which can run with the images that are there, and where the portal is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from paictl import __version__
from paictl.cluster.interface import Cluster
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.manifests.context import Renderer, RenderInputs, lacking
from paictl.cluster.presets import preset_files
from paictl.config.models.services import load_images
from paictl.config.pushing.push import seal_files
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Machine, Role
from paictl.errors import PaictlError
from paictl.operate.deploying import address_of, judge_room
from paictl.operate.services import LeftOut, left_out
from paictl.operate.users.accounts import named_administrator
from paictl.service.catalogue import load_catalogue
from tests.unit.deploy.preflight.test_checks import facts

OURS = {"localhost/paictl:0.1.0.dev0", load_images()["kube-scheduler"]}
PLUGIN = load_images()["nvidia-device-plugin"]
SERVICES = "services-configuration.yaml"


@pytest.fixture(autouse=True)
def _cheap_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))


def cluster(more: str = "") -> Cluster:
    """A cluster with the configuration of the labs, which has GPUs."""
    files = preset_files("lab")
    pushed = SimpleNamespace(files=seal_files({**files, SERVICES: files[SERVICES] + more}))
    return cast(Cluster, SimpleNamespace(name="pai", configuration=lambda: pushed))


def without(
    cluster: Cluster, images: Iterable[str], skipped: Sequence[str] = (), running: Sequence[str] = ()
) -> tuple[LeftOut, ...]:
    """What is left out of a start where the machines have these images alone."""
    catalogue, files = load_catalogue(), cluster.configuration().files
    renderer = Renderer(RenderInputs(cluster.name, NAMESPACE, JOBS_NAMESPACE, __version__, files))
    return left_out(lacking(renderer, catalogue.services, set(images)), catalogue, skipped, running)


def test_with_all_images_nothing_is_left_out() -> None:
    images = [*OURS, *load_images().values()]
    assert without(cluster(), images) == ()


def test_a_service_without_its_image_is_left_out_and_says_which() -> None:
    left_out = {entry.service: entry for entry in without(cluster(), [*OURS, PLUGIN])}
    assert left_out["grafana"].images == (load_images()["grafana"],)
    assert set(left_out) == {"grafana", "prometheus", "alert-manager", "node-exporter", "job-exporter"}


def test_who_needs_a_service_that_is_left_out_is_left_out_too() -> None:
    left_out = {entry.service: entry for entry in without(cluster(), OURS)}
    assert left_out["device-plugin"].images == (PLUGIN,)
    assert (left_out["hivedscheduler"].images, left_out["hivedscheduler"].needs) == ((), "device-plugin")
    assert left_out["webportal"].needs == "rest-server"
    assert "frameworkcontroller" not in left_out


def test_what_runs_already_is_not_missed_whoever_has_brought_its_image() -> None:
    left_out = {entry.service for entry in without(cluster(), OURS, running=["device-plugin"])}
    assert left_out == {"grafana", "prometheus", "alert-manager", "node-exporter", "job-exporter"}


def test_what_is_skipped_anyway_is_not_said() -> None:
    left_out = {entry.service: entry for entry in without(cluster(), OURS, skipped=["device-plugin"])}
    assert "device-plugin" not in left_out
    assert left_out["hivedscheduler"].why.of("zh") == "未启动：它需要 device-plugin"


def test_a_device_plugin_that_somebody_else_brings_is_not_missed() -> None:
    left_out = {entry.service for entry in without(cluster("device-plugin: {enabled: false}\n"), OURS)}
    assert {"device-plugin", "hivedscheduler", "webportal"} & left_out == set()


@pytest.mark.parametrize(("more", "port"), [("", 30286), ("webportal: {node-port: 30443}\n", 30443)])
def test_the_portal_is_on_a_port_of_every_node(more: str, port: int) -> None:
    assert address_of(cluster(more), "webportal").port == port


def test_the_first_administrator_is_named_without_a_password() -> None:
    assert named_administrator(cluster()) in preset_files("lab")[SERVICES]
    assert named_administrator(cluster())


def site_files(tmp_path: Path, cpus: int) -> tuple[list[str], list[HostFacts]]:
    """The three files of a master and a worker with two GPUs, and what was found on both."""
    rows = {
        "m.csv": "m1,10.0.0.1\n",
        "w.csv": "w1,10.0.0.2\n",
        "c.yaml": "user: a\npassword: b\ndocker_image_tag: v1\n",
    }
    for name, content in rows.items():
        (tmp_path / name).write_text(content)
    machines = Machine("m1", "10.0.0.1", Role.MASTER), Machine("w1", "10.0.0.2", Role.WORKER)
    hosts = [HostFacts(machine, {"host": facts("dgx", {"cpus": cpus})}) for machine in machines]
    return [str(tmp_path / name) for name in rows], hosts


def test_machines_that_no_cell_fits_on_are_refused_before_the_install(tmp_path: Path) -> None:
    """It was once said after it, with an option that `apply` does not have."""
    files, hosts = site_files(tmp_path, 2)
    with pytest.raises(PaictlError, match="is too small") as caught:
        judge_room(files, hosts, tmp_path / "none")
    assert caught.value.where is None
    assert "-p DIR" in str(caught.value.hint)
    assert "nothing was changed" in str(caught.value.hint)
    files, hosts = site_files(tmp_path, 8)
    assert judge_room(files, hosts, tmp_path / "none") == []


@pytest.mark.parametrize(("cpus", "said"), [(8, []), (2, ["w1: 2 CPUs in its cells, 2 on the machine"])])
def test_cells_that_take_all_of_a_machine_s_cpus_are_said_before_the_install(
    tmp_path: Path, cpus: int, said: list[str]
) -> None:
    files, hosts = site_files(tmp_path, cpus)
    (tmp_path / "cfg").mkdir()
    (tmp_path / "cfg" / SERVICES).write_text(PROMISES)
    assert [line.partition(" (")[0] for line in judge_room(files, hosts, tmp_path / "cfg")] == said


PROMISES = """hivedscheduler:
  config: |
    physicalCluster:
      skuTypes: {V: {gpu: 1, cpu: 1, memory: 1024Mi}}
      cellTypes: {NODE: {childCellType: V, childCellNumber: 2, isNodeLevel: true}}
      physicalCells: [{cellType: NODE, cellAddress: w1}]
    virtualClusters: {default: {virtualCells: [{cellType: NODE, cellNumber: 1}]}}
"""
