"""Images of services in the artifact folder: which, from where, locked by digest, and which are missing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from paictl.cli.deploy.services import say_missing_images
from paictl.cluster.presets import preset_files
from paictl.deploy.artifacts import LOCK, Artifact, ArtifactKind, Artifacts, faults_of, images_in, read_lock
from paictl.deploy.gather import WantedImage, catalogue, gather
from paictl.errors import PaictlError
from paictl.operate.bundling import driver_systems, missing_images, missing_lines, service_images
from paictl.service.order import ServiceError
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl, paictl
from tests.unit.deploy.test_desired import deployment, desired
from tests.unit.remote.test_imagepull import StandIn, registry

__all__ = ["paictl", "registry"]

SYSTEMS = ("rhel9.4", "rhel9.6", "ubuntu22.04", "ubuntu24.04")
"""Those that a driver image is pinned for."""


@pytest.fixture
def told() -> list[str]:
    return []


def wanted(registry: StandIn, arch: str = "amd64", **more: str) -> WantedImage:
    about = {"name": "tool", "reference": "quay.io/team/tool:v1", "mirror": f"http://{registry.address}"}
    return WantedImage(arch=arch, **{**about, **more})


def rows(folder: Path) -> dict[str, Artifact]:
    return {one.arch: one for one in read_lock(folder).all if one.kind is ArtifactKind.IMAGE}


def test_images_of_both_architectures_are_in_the_lock(registry: StandIn, tmp_path: Path, told: list[str]) -> None:
    made = gather((), "", tmp_path, None, told.append, [wanted(registry), wanted(registry, "arm64")])
    assert faults_of(made) == ()
    found = rows(tmp_path)
    assert set(found) == {"amd64", "arm64"}
    assert (found["amd64"].name, found["amd64"].version) == ("tool", "v1")
    assert found["amd64"].path == "images/amd64/tool.tar"
    assert found["amd64"].url.startswith("docker://quay.io/team/tool:v1@sha256:")
    assert [one.reference for one in images_in(made.file(found["arm64"]))] == ["quay.io/team/tool:v1"]
    assert [one.arch for one in made.of(ArtifactKind.IMAGE)] == ["amd64"], "hosts get those of their architecture"


def test_what_is_there_is_kept_and_a_tag_that_moved_is_fetched(
    registry: StandIn, tmp_path: Path, told: list[str]
) -> None:
    gather((), "", tmp_path, None, told.append, [wanted(registry)])
    before = rows(tmp_path)["amd64"]
    registry.seen.clear()
    gather((), "", tmp_path, None, told.append, [wanted(registry)])
    assert told[-1] == "tool v1 already downloaded"
    assert not [path for path, _ in registry.seen if "/blobs/" in path]
    (tmp_path / before.path).write_bytes(b"damaged")
    gather((), "", tmp_path, None, told.append, [wanted(registry)])
    assert rows(tmp_path)["amd64"] == before
    registry.keep("v1", *registry.manifests[registry.image("riscv64")["digest"]])
    gather((), "", tmp_path, None, told.append, [wanted(registry)])
    assert rows(tmp_path)["amd64"].url != before.url


def test_a_lock_allows_the_same_image_only(registry: StandIn, tmp_path: Path, told: list[str]) -> None:
    gather((), "", tmp_path / "a", None, told.append, [wanted(registry)])
    lock = tmp_path / "a" / LOCK
    registry.manifests.pop("v1")  # the tag is gone, the image is not
    gather((), "", tmp_path / "b", lock, told.append, [wanted(registry)])
    assert rows(tmp_path / "b") == rows(tmp_path / "a")
    with pytest.raises(PaictlError, match="tool v1 is not in the lock"):
        gather((), "", tmp_path / "c", lock, told.append, [wanted(registry, "arm64")])
    data = json.loads(lock.read_text())
    data["artifacts"][0]["sha256"] = "0" * 64
    lock.write_text(json.dumps(data))
    with pytest.raises(PaictlError, match="is another file: SHA-256"):
        gather((), "", tmp_path / "d", lock, told.append, [wanted(registry)])
    assert not (tmp_path / "d" / LOCK).exists()


def test_a_folder_as_source_must_have_them(registry: StandIn, tmp_path: Path, told: list[str]) -> None:
    gather((), "", tmp_path / "a", None, told.append, [wanted(registry)])
    registry.stop()
    gather((), str(tmp_path / "a"), tmp_path / "b", None, told.append, [wanted(registry)])
    assert rows(tmp_path / "b") == rows(tmp_path / "a")
    with pytest.raises(PaictlError, match=r"has no archive of quay.io/team/tool:v1 \(arm64\)"):
        gather((), str(tmp_path / "a"), tmp_path / "c", None, told.append, [wanted(registry, "arm64")])
    assert not (tmp_path / "c").exists()


def test_without_encryption_only_a_registry_on_this_machine_is_believed(tmp_path: Path, told: list[str]) -> None:
    image = WantedImage("tool", "quay.io/team/tool:v1", "amd64", "http://mirror.example")
    with pytest.raises(PaictlError, match="cannot be verified over http"):
        gather((), "", tmp_path, None, told.append, [image])


def test_our_own_image_must_have_been_built(tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is downloaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    image = WantedImage("paictl", "localhost/paictl:1", "amd64")
    with pytest.raises(PaictlError, match="was not built on this machine"):
        gather(catalogue(), "https://mirror.example", tmp_path / "b", None, told.append, [image])
    with pytest.raises(PaictlError, match="was not built for arm64"):
        gather((), "", tmp_path / "b", None, told.append, [WantedImage("paictl", "localhost/paictl:1", "arm64")])
    assert not (tmp_path / "b").exists()


def test_services_are_chosen_by_name_with_what_they_need() -> None:
    found = {one.name: one.services for one in service_images(["monitoring"])}
    assert found == {
        "alertmanager": ("alert-manager",),
        "dcgm-exporter": ("job-exporter",),
        "grafana": ("grafana",),
        "node-exporter": ("node-exporter",),
        "prometheus": ("prometheus",),
    }
    assert {one.name for one in service_images(["grafana"])} == {"grafana", "prometheus"}
    plugins = {"nvidia-device-plugin", "amd-device-plugin"}
    assert {one.name for one in service_images(["device-plugin"])} == plugins, "no driver: that service is off"
    drivers = {one.name: one.reference for one in service_images(["drivers"])}  # as OpenPAI called it
    assert list(drivers) == [f"nvidia-driver-{system}" for system in SYSTEMS]
    assert all(one.startswith("nvcr.io/nvidia/driver:") for one in drivers.values())
    names = set(yaml.safe_load((ROOT / "templates" / "images.yaml").read_text()))
    assert {one.name for one in service_images(["all"])} == names
    with pytest.raises(ServiceError, match="grafna"):
        service_images(["grafna"])


def test_of_gpu_drivers_those_for_the_systems_of_the_workers_are_taken() -> None:
    found = service_images(["all"], systems=["ubuntu24.04", "rhel9.6"])
    assert driver_systems(found) == ["rhel9.6", "ubuntu24.04"]
    assert {one.name for one in found} >= {"prometheus", "nvidia-device-plugin"}
    with pytest.raises(PaictlError, match="no driver image for debian12") as caught:
        service_images(["gpu-driver"], systems=["debian12"])
    assert "rhel9.4, rhel9.6, ubuntu22.04, ubuntu24.04" in str(caught.value.hint)


def test_it_is_said_where_drivers_for_all_systems_are_downloaded(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.deploy.gather.gather", lambda *_: SimpleNamespace(all=()))
    for more, said in (
        (["all"], "drivers for all systems are downloaded (rhel9.4, rhel9.6, ubuntu22.04, ubuntu24.04)"),
        (["all", "--system", "ubuntu24.04"], ""),
        (["grafana", "--system", "ubuntu24.04"], "--system has no effect"),
        (["grafana"], ""),
    ):
        done = paictl("deploy", "bundle", "create", "--services", *more)
        warned = " ".join(done.err.split())
        assert done.code == 0, warned
        assert said in warned if said else "system" not in warned
    assert "need --services" in paictl("deploy", "bundle", "create", "--system", "ubuntu24.04").err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The textbook's configuration, with a registry of one's own and another image of Grafana."""
    files = preset_files("lab")
    services = yaml.safe_load(files["services-configuration.yaml"])
    about = {"domain": "r.example", "namespace": "pai", "username": "u", "password": "planted", "secret-name": "s"}
    services.setdefault("cluster", {})["docker-registry"] = about
    services["images"] = {"grafana": "other.example/g:2"}
    made = tmp_path / "cluster"
    made.mkdir()
    for name, content in {**files, "services-configuration.yaml": yaml.safe_dump(services)}.items():
        (made / name).write_text(content)
    return made


def test_a_configuration_says_which_images(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    found = {one.name: one.reference for one in service_images(["all"], str(folder))}
    assert found["grafana"] == "other.example/g:2"
    assert found["prometheus"].startswith("r.example/pai/prometheus:v")
    assert "amd-device-plugin" not in found, "no machine has such devices"
    missing = missing_images(folder, set(found.values()) - {"other.example/g:2"})
    assert missing == {"grafana": ("other.example/g:2",)}
    path = folder / "services-configuration.yaml"
    path.write_text(path.read_text() + "gpu-driver: {enabled: true, system: ubuntu24.04, version: 570.195.03}\n")
    drivers = {one.name: one.reference for one in service_images(["gpu-driver"], str(folder))}
    assert drivers == {"nvidia-driver-ubuntu24.04": "r.example/pai/nvidia-driver-ubuntu24.04:570.195.03-ubuntu24.04"}
    path.write_text(path.read_text().replace("system: ubuntu24.04, ", ""))
    drivers = {one.name: one.reference for one in service_images(["gpu-driver"], str(folder), ["rhel9.6"])}
    assert drivers == {"nvidia-driver-rhel9.6": "r.example/pai/nvidia-driver-rhel9.6:570.195.03-rhel9.6"}
    assert missing_images(folder, (), ["node-exporter"]).keys() == {"node-exporter"}
    assert missing_images(folder / "none", ()) == {}
    assert missing_lines({}) == []
    assert missing_lines(missing)[-1] == "to add them: paictl deploy bundle create --services grafana"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--with", "gpus"], "--with gpus: unknown"),
        (["--services", "grafna"], "grafna"),
        (["--services", "grafana", "--mirror", "quay.io"], "expected HOST=URL"),
        (["--services", "grafana", "--mirror", "quay.io=https://u:p@r.example"], "expected HOST=URL"),
        (["--mirror", "quay.io=https://r.example"], "need --services"),
        (["--services", "grafana", "--mirror", "quai.io=https://r.example"], "--mirror quai.io: no image comes from"),
    ],
)
def test_bad_words_of_the_command(tmp_path: Path, paictl: Paictl, words: list[str], message: str) -> None:
    done = paictl("deploy", "bundle", "create", "-o", str(tmp_path / "b"), *words)
    assert (done.code, message in done.err) == (2, True), done.err
    assert not (tmp_path / "b").exists()


def test_a_mirror_of_docker_hub_has_images_without_a_host(
    tmp_path: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[WantedImage] = []

    def kept(*words: Any) -> Artifacts:
        asked.extend(words[-1])
        return Artifacts(tmp_path, ())

    monkeypatch.setattr("paictl.deploy.gather.gather", kept)
    for name in ("docker.io", "registry-1.docker.io"):
        words = ["--services", "grafana", "--mirror", f"{name}=https://hub.example"]
        words += ["--mirror", "quay.io=https://quay.example"]
        done = paictl("deploy", "bundle", "create", "-o", str(tmp_path / "b"), *words)
        assert done.code == 0, done.err
        mirrors = {one.reference: one.mirror for one in asked}
        assert [url for image, url in mirrors.items() if "/grafana:" in image] == ["https://hub.example"], mirrors


@pytest.mark.parametrize(
    ("settings", "here", "missing"),
    [
        ("enabled: true", (), SYSTEMS),
        ("enabled: true", ("ubuntu24.04",), ()),
        ("enabled: true, version: 570.195.03", ("ubuntu24.04",), SYSTEMS),
        ("enabled: false", (), ()),
        ("enabled: true, system: ubuntu22.04", ("ubuntu24.04",), ("ubuntu22.04",)),
    ],
)
def test_driver_images_are_missed_also_where_nobody_says_the_system(
    folder: Path, settings: str, here: tuple[str, ...], missing: tuple[str, ...]
) -> None:
    path = folder / "services-configuration.yaml"
    path.write_text(path.read_text() + f"gpu-driver: {{{settings}}}\n")
    known = [f"r.example/pai/nvidia-driver-{one}:580.126.20-{one}" for one in here]
    found = missing_images(folder, known, ["gpu-driver"]).get("gpu-driver", ())
    assert tuple(one.rpartition("-")[2] for one in found) == missing


def test_missing_images_are_said_for_machines_that_reach_no_registry(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    assert say_missing_images(desired(deployment()), folder) == [], "they pull what they lack"
    lines = say_missing_images(desired(deployment(offline=True)), folder, ["grafana"])
    assert [line.partition(" lacks")[0] for line in lines[:-1]] == ["service prometheus", "service grafana"]
    said = capsys.readouterr().err
    assert "service grafana lacks images among the artifacts: other.example/g:2" in said
    assert "paictl deploy bundle create --services prometheus,grafana" in said


def test_the_commands_from_a_registry_to_a_verified_folder(
    registry: StandIn, tmp_path: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.deploy.gather.catalogue", lambda *_: ())
    (reference,) = (one.reference for one in service_images(["node-exporter"]))
    registry.keep(reference.rpartition(":")[2], *registry.manifests["v1"])
    words = ["--services", "node-exporter", "--mirror", f"quay.io=http://{registry.address}", "--arch", "amd64"]
    done = paictl("deploy", "bundle", "create", "-o", str(tmp_path / "b"), *words, "--arch", "arm64")
    assert done.code == 0, done.err
    assert f"image {reference} from http://{registry.address}" in done.err
    listed = paictl("deploy", "bundle", "list", str(tmp_path / "b"), "-o", "json").data
    assert [(one["name"], one["kind"], one["arch"]) for one in listed] == [
        ("node-exporter", "image", "amd64"),
        ("node-exporter", "image", "arm64"),
    ]
    assert paictl("deploy", "bundle", "verify", str(tmp_path / "b")).code == 0
    path = tmp_path / "b" / listed[0]["path"]
    assert [one.reference for one in images_in(path)] == [reference], "as the pod names it"
    path.write_bytes(b"damaged")
    assert paictl("deploy", "bundle", "verify", str(tmp_path / "b")).code == 1
