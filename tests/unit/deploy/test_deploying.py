"""The services after a deployment: which can run with the images that are there, and where the portal is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from paictl import __version__
from paictl.cluster.interface import Cluster
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.manifests.context import Renderer, RenderInputs, lacking
from paictl.cluster.presets import preset_files
from paictl.config.models.images import load_images
from paictl.config.pushing.fileset import seal_files
from paictl.operate.deploying import address_of
from paictl.operate.services import LeftOut, left_out
from paictl.operate.users.bootstrap import named_administrator
from paictl.service.catalogue import load_catalogue

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
    found = {one.service: one for one in without(cluster(), [*OURS, PLUGIN])}
    assert found["grafana"].images == (load_images()["grafana"],)
    assert set(found) == {"grafana", "prometheus", "alert-manager", "node-exporter", "job-exporter"}


def test_who_needs_a_service_that_is_left_out_is_left_out_too() -> None:
    found = {one.service: one for one in without(cluster(), OURS)}
    assert found["device-plugin"].images == (PLUGIN,)
    assert (found["hivedscheduler"].images, found["hivedscheduler"].needs) == ((), "device-plugin")
    assert found["webportal"].needs == "rest-server"
    assert "frameworkcontroller" not in found


def test_what_runs_already_is_not_missed_whoever_has_brought_its_image() -> None:
    found = {one.service for one in without(cluster(), OURS, running=["device-plugin"])}
    assert found == {"grafana", "prometheus", "alert-manager", "node-exporter", "job-exporter"}


def test_what_is_skipped_anyway_is_not_said() -> None:
    found = {one.service: one for one in without(cluster(), OURS, skipped=["device-plugin"])}
    assert "device-plugin" not in found
    assert found["hivedscheduler"].why.of("zh") == "未启动：它需要 device-plugin"


def test_a_device_plugin_that_somebody_else_brings_is_not_missed() -> None:
    found = {one.service for one in without(cluster("device-plugin: {enabled: false}\n"), OURS)}
    assert {"device-plugin", "hivedscheduler", "webportal"} & found == set()


@pytest.mark.parametrize(("more", "port"), [("", 30286), ("webportal: {node-port: 30443}\n", 30443)])
def test_the_portal_is_on_a_port_of_every_node(more: str, port: int) -> None:
    assert address_of(cluster(more), "webportal").port == port


def test_the_first_administrator_is_named_without_a_password() -> None:
    assert named_administrator(cluster()) in preset_files("lab")[SERVICES]
    assert named_administrator(cluster())
