"""What is made of a deployment on the dev box: kubeadm's configuration, containerd's, kubeconfigs, plans, verdicts."""

from __future__ import annotations

import json
import math
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from paictl.deploy.apply import check_plan, plan_data, plan_from, wish_of
from paictl.deploy.artifacts import Artifact, ArtifactKind, Artifacts, Image
from paictl.deploy.desired import NVIDIA, Archive, Desired, containerd_toml, nvidia_toml, toml
from paictl.deploy.facts import HostFacts
from paictl.deploy.installing import TOOLKIT, Devices
from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.kubeadm import init_configuration, join_configuration
from paictl.deploy.kubeconfig import access_to, forget, merge_into
from paictl.deploy.nodes import AllReady, Labels, patiently
from paictl.deploy.settings import DeploySettings, LoginSettings
from paictl.deploy.site import DeployError, Site
from paictl.deploy.verifying import answers, ask_script, data_of, device_finding
from paictl.errors import PaictlError
from paictl.remote.kube.client import KubeError
from tests.unit.deploy.loading import load

M1, W1 = Machine("m1", "10.0.0.11", Role.MASTER), Machine("w1", "10.0.0.21", Role.WORKER)
SECRET = "kelp-Tundra"  # noqa: S105 - of no machine


def deployment(**settings: Any) -> Deployment:
    return Deployment((M1, W1), DeploySettings(LoginSettings("ops", SECRET), **settings))


def desired(given: Deployment, containerd: str = "2.4.2") -> Desired:
    names = {
        "kubeadm": "v1.37.1",
        "kubelet": "v1.37.1",
        "kubectl": "v1.37.1",
        "containerd": containerd,
        "runc": "v1",
        "cni-plugins": "v1",
        "crictl": "v1",
    }
    rows = [
        Artifact(name, ArtifactKind.BINARY, version, "amd64", "", "0" * 64, name) for name, version in names.items()
    ]
    archives = tuple(
        Archive(
            Artifact(name, ArtifactKind.IMAGE, "", "amd64", "", "1" * 64, f"images/{name}.tar"),
            (Image(ref, "sha256:1"),),
        )
        for name, ref in (
            ("etcd", "r.k8s.io/etcd:3.7.0-0"),
            ("pause", "r.k8s.io/pause:3.10"),
            ("coredns", "r/coredns:v1"),
        )
    )
    return Desired(given, Artifacts(Path("/none"), tuple(rows)), "v1.37.1", archives)


def test_the_first_master_s_configuration() -> None:
    given = deployment(etcd={"unsafe-no-fsync": True}, kubelet={"cgroupDriver": "cgroupfs"}, api_address="10.0.0.100")
    parts = {
        one["kind"]: one for one in yaml.safe_load_all(init_configuration(given, "v1.37.1", desired(given).images))
    }
    cluster = parts["ClusterConfiguration"]
    assert cluster["apiVersion"] == "kubeadm.k8s.io/v1beta4"
    assert cluster["controlPlaneEndpoint"] == "10.0.0.100:6443"
    assert cluster["apiServer"]["certSANs"] == ["10.0.0.11", "10.0.0.100"]
    assert cluster["etcd"]["local"] == {
        "extraArgs": [{"name": "unsafe-no-fsync", "value": "true"}],
        "imageTag": "3.7.0-0",
    }
    assert cluster["dns"] == {"imageTag": "v1"}
    assert parts["KubeletConfiguration"]["cgroupDriver"] == "cgroupfs"
    assert parts["KubeProxyConfiguration"]["mode"] == "nftables"
    assert parts["InitConfiguration"]["localAPIEndpoint"] == {"advertiseAddress": "10.0.0.11"}


def test_a_worker_joins_without_any_secret_in_its_configuration() -> None:
    found = yaml.safe_load(join_configuration(deployment(), W1, master=False))
    assert found["discovery"]["tlsBootstrapToken"] == "@TOKEN@"
    assert "controlPlane" not in found
    assert found["nodeRegistration"]["kubeletExtraArgs"] == [{"name": "node-ip", "value": "10.0.0.21"}]


@pytest.mark.parametrize(("number", "version"), [("2.0.1", 3), ("2.2.0", 3), ("2.3.0", 4), ("2.4.2", 4)])
def test_containerd_s_configuration_by_its_version(number: str, version: int) -> None:
    given = deployment(containerd={"restrict_oom_score_adj": True, "cni": {"max_conf_num": 1}})
    found = tomllib.loads(containerd_toml(desired(given, number)))
    runtime = found["plugins"]["io.containerd.cri.v1.runtime"]
    assert found["version"] == version
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["cni"]["bin_dirs"] == ["/opt/cni/bin"]
    assert runtime["cni"]["max_conf_num"] == 1
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert found["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == "r.k8s.io/pause:3.10"


def test_containerd_of_a_host_with_gpus_starts_containers_by_nvidia_s_runtime() -> None:
    """Jobs get their devices by NVIDIA_VISIBLE_DEVICES, which runc does not read."""
    made = desired(deployment())
    folder = NVIDIA.rpartition("/")[0]
    assert tomllib.loads(containerd_toml(made))["imports"] == [f"{folder}/*.toml"]
    found = tomllib.loads(nvidia_toml(made))
    own = found["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]
    assert (found["version"], own["default_runtime_name"]) == (4, "nvidia")
    assert own["runtimes"]["nvidia"]["options"]["BinaryName"].endswith("nvidia-container-runtime")


@pytest.mark.parametrize(
    ("changed", "due"),
    [
        ({"host": {"gpus": {"devices": [{"vendor": "0x1002"}]}}}, []),
        ({"gpu_runtime": "", "devices": []}, ["/etc/cdi/nvidia.yaml", NVIDIA]),
        ({"toolkit": ""}, ["nvidia-container-toolkit"]),
        ({"gpu_runtime": "something else"}, [NVIDIA]),
        ({}, []),
    ],
)
def test_what_a_host_with_gpus_lacks(changed: dict[str, Any], due: list[str]) -> None:
    made = desired(deployment())
    host = {"gpus": {"devices": [{"vendor": "0x10de"}]}}
    whole = {"host": host, "toolkit": "1.18", "devices": ["/etc/cdi/nvidia.yaml"]}
    facts = HostFacts(W1, {**whole, "gpu_runtime": nvidia_toml(made), **changed})
    phase = Devices(cast(Site, SimpleNamespace(desired=made, machines=[W1], facts={W1.name: facts})))
    assert phase.changes(facts) == due


@pytest.mark.parametrize(
    ("by_service", "gpus", "root", "due"),
    [
        (False, {"driver": "570.1"}, "", []),
        (False, {"driver": "570.1"}, "/run/nvidia/driver", []),  # of NVIDIA's operator
        (True, {"driver": None}, "", [TOOLKIT]),
        (True, {"driver": None}, "/run/nvidia/driver", []),
        (True, {"driver": "580.1", "installed": ["570.1", "580.1"]}, "/run/nvidia/driver", []),
        (True, {"driver": "580.1", "installed": []}, "", ["/etc/cdi/nvidia.yaml"]),
        (True, {"driver": "580.1", "installed": ["580.1"], "own": True}, "", ["/etc/cdi/nvidia.yaml"]),
    ],
)
def test_the_toolkit_looks_where_the_driver_is(
    by_service: bool, gpus: dict[str, Any], root: str, due: list[str]
) -> None:
    """Devices are described on the host only where the driver is the host's own; without one that fails."""
    made = desired(deployment(driver_by_service=by_service))
    host = {"gpus": {"devices": [{"vendor": "0x10de"}], "root": root, **gpus}}
    own = {"devices": ["/etc/cdi/nvidia.yaml"]} if not by_service else {"devices": []}
    values = {"host": host, "toolkit": "1.18", "gpu_runtime": nvidia_toml(made), **own}
    facts = HostFacts(W1, values)
    played: list[dict[str, Any]] = []
    site = SimpleNamespace(
        desired=made, machines=[W1], facts={W1.name: facts}, play=lambda *given: played.append(given[3])
    )
    phase = Devices(cast(Site, site))
    assert phase.changes(facts) == due
    phase.run(lambda *_: None)
    if due:
        where = "/run/nvidia/driver" if by_service and "/etc/cdi/nvidia.yaml" not in due else "/"
        assert played[0]["paictl_driver_roots"] == {W1.name: where}
        assert played[0]["paictl_moved_drivers"] == ([W1.name] if TOOLKIT in due else [])


@pytest.mark.parametrize(
    ("settings", "root"),
    [
        ('[nvidia-container-cli]\n#root = "/x"\nroot = "/run/nvidia/driver"\n', "/run/nvidia/driver"),
        ('[nvidia-container-cli]\n#root = "/run/nvidia/driver"\n\n[other]\nroot = "/y"\n', ""),
        ("", ""),
    ],
)
def test_where_the_toolkit_looks_is_read_off_its_settings(settings: str, root: str) -> None:
    assert load("module_utils/paictl_gather.py").driver_root(settings) == root


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("updates/dkms/nvidia.ko.zst", True),
        ("updates/dkms/nvidia-current.ko", True),
        ("extra/nvidia.ko", True),
        ("kernel/drivers/i2c/busses/i2c-nvidia-gpu.ko", False),
        ("updates/nvidia-fs.ko", False),
    ],
)
def test_a_driver_on_the_disk_is_seen(tmp_path: Path, name: str, own: bool) -> None:
    gather = load("module_utils/paictl_gather.py")
    path = tmp_path / "6.8.0-86-generic" / name
    path.parent.mkdir(parents=True)
    path.touch()
    assert gather.on_disk("6.8.0-86-generic", str(tmp_path)) is own
    assert gather.on_disk("5.15.0-1-generic", str(tmp_path)) is False


def test_containerd_1_is_too_old() -> None:
    with pytest.raises(PaictlError, match=r"containerd 1\.7\.0 is too old"):
        containerd_toml(desired(deployment(), "1.7.0"))


def test_toml_is_read_back_as_it_was() -> None:
    tables: dict[tuple[str, ...], Mapping[str, Any]] = {
        ("a", 'x.y"z'): {"t": "q\\ü\n", "l": ["1", "2"], "n": {"b": False}}
    }
    assert tomllib.loads(toml({"version": 3}, tables)) == {
        "version": 3,
        "a": {'x.y"z': {"t": "q\\ü\n", "l": ["1", "2"], "n": {"b": False}}},
    }


def test_workers_get_no_images_of_the_control_plane() -> None:
    made = desired(deployment())
    assert [one["archive"] for one in made.for_images(Role.WORKER)] == ["pause.tar", "coredns.tar"]
    assert [one["archive"] for one in made.for_images(Role.MASTER)] == ["etcd.tar", "pause.tar", "coredns.tar"]


def test_nothing_that_goes_to_ansible_s_inventory_or_the_run_folder_is_secret() -> None:
    made = desired(deployment())
    inventory = made.inventory()
    assert SECRET not in repr(inventory)
    assert SECRET not in json.dumps([dict(inventory.variables), [dict(one.variables) for one in inventory]])
    assert SECRET not in json.dumps(wish_of(made), default=str)
    assert inventory.login.password == SECRET
    assert [one.groups for one in inventory] == [("masters", "first"), ("workers",)]


def test_a_plan_is_of_the_files_it_was_made_of(tmp_path: Path) -> None:
    made = desired(deployment())
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_data(("m", "w", "c"), made, ())))
    check_plan(plan_from(path), made)
    check_plan(plan_from(path), desired(Deployment((M1, W1), DeploySettings(LoginSettings("ops", "another password")))))
    with pytest.raises(PaictlError, match="have changed since the plan was made"):
        check_plan(plan_from(path), desired(deployment(network="none")))
    path.write_text("{}")
    with pytest.raises(PaictlError, match="is not a deployment plan"):
        plan_from(path)


ACCESS = {
    "clusters": [{"name": "lab", "cluster": {"server": "https://10.0.0.11:6443"}}],
    "users": [{"name": "kubernetes-admin", "user": {"token": "t"}}],
}


def test_a_kubeconfig_keeps_what_it_has(tmp_path: Path) -> None:
    path, access = tmp_path / "config", tmp_path / "admin.conf"
    mine = {
        "current-context": "mine",
        "contexts": [{"name": "mine", "context": {}}],
        "clusters": [],
        "users": [],
        "x": 1,
    }
    path.write_text(yaml.safe_dump(mine))
    access.write_text(yaml.safe_dump(ACCESS))
    assert merge_into(path, access, "lab")
    assert not merge_into(path, access, "lab")
    found = yaml.safe_load(path.read_text())
    assert (found["current-context"], found["x"]) == ("mine", 1)
    assert path.stat().st_mode & 0o777 == 0o600
    own = access_to(path, "lab")
    assert own is not None
    assert own["clusters"][0]["cluster"] == {"server": "https://10.0.0.11:6443"}
    assert access_to(path, "other") is None
    assert forget(path, "lab")
    assert yaml.safe_load(path.read_text()) == mine


def test_a_new_kubeconfig_has_the_cluster_as_its_current_context(tmp_path: Path) -> None:
    access = tmp_path / "admin.conf"
    access.write_text(yaml.safe_dump(ACCESS))
    assert merge_into(tmp_path / "new/config", access, "lab")
    assert yaml.safe_load((tmp_path / "new/config").read_text())["current-context"] == "paictl-lab"


def ended(message: str) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"state": {"terminated": {"reason": "Completed", "message": message}}}]}}


def test_the_last_words_of_a_pod_that_asked() -> None:
    found = answers("w1", ended("dns ok\nservice no\npeer:w2 ok\n"))
    assert [(one.check, one.verdict.value) for one in found] == [
        ("dns", "ok"),
        ("service", "failed"),
        ("peer:w2", "ok"),
    ]
    waiting = {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]}}
    assert answers("w1", waiting)[0].message == "ErrImagePull: no"
    assert "mkdir" not in ask_script("", {})  # images have few programs
    script = ask_script("10.96.0.7", {"w2": "10.200.1.3"})
    assert "nc -w 3 10.96.0.7 80 " in script
    assert "nc -w 3 10.200.1.3 8080 " in script


@pytest.mark.parametrize(
    ("answers_of_nc", "words"),
    [
        ("echo 'HTTP/1.0 200 OK'", ["network-policies-enforced no", "hosts-closed:w1 no"]),
        ("exit 1", ["network-policies-enforced ok", "hosts-closed:w1 ok"]),
    ],
)
def test_a_network_that_obeys_no_policy_is_told_by_a_pod_that_must_not_answer(
    tmp_path: Path, answers_of_nc: str, words: list[str]
) -> None:
    programs = {"nc": f"cat >/dev/null; {answers_of_nc}", "nslookup": "exit 0", "sleep": "exit 0"}
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    kubelets = {"w1": ("10.77.0.11", 10250)}
    script = ask_script("10.96.0.7", {}, "10.200.1.9", kubelets).replace("/dev/termination-log", str(log))
    subprocess.run(["/bin/sh", "-c", script], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    said = log.read_text().splitlines()
    assert said[-2:] == words
    closed, kubelet = found = answers("w1", ended(log.read_text()))[-2:]
    protected = words[0].endswith("ok")
    assert {one.verdict for one in found} == {"ok" if protected else "warning"}
    assert ("isolation relies on TLS" in closed.message) is not protected
    assert ("pods reach the kubelet of w1" in kubelet.message) is not protected
    assert data_of(found)["ok"]  # the cluster does its work


def test_devices_that_others_use_are_not_judged() -> None:
    busy = {"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}}
    assert device_finding("w1", ("nvidia.com/gpu", 8), busy).verdict == "skipped"
    assert device_finding("w1", ("nvidia.com/gpu", 8), {"status": {"phase": "Succeeded"}}).verdict == "ok"
    assert device_finding("w1", ("nvidia.com/gpu", 8), {"status": {"phase": "Pending"}}).verdict == "failed"


def test_kubeadm_waits_as_long_as_its_caller() -> None:
    given = deployment()
    texts = [init_configuration(given, "v1.37.1", (), 900.0), join_configuration(given, W1, 900.0, master=False)]
    for text in texts:
        first = next(yaml.safe_load_all(text))
        assert set(first["timeouts"].values()) == {"900s"}
        assert {"controlPlaneComponentHealthCheck", "kubeletHealthCheck", "tlsBootstrap"} <= first["timeouts"].keys()
    assert "timeouts" not in next(yaml.safe_load_all(init_configuration(given, "v1.37.1", ())))


def test_nodes_are_waited_for_as_long_as_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 100))
    asked: list[set[str]] = []

    def not_ready(_: object, wanted: set[str]) -> dict[str, str]:
        asked.append(wanted)
        return {"w1": "starts"}

    monkeypatch.setattr("paictl.deploy.nodes.api", lambda _: None)
    monkeypatch.setattr("paictl.deploy.nodes.not_ready", not_ready)
    time = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda _: None)
    monkeypatch.setattr("paictl.deploy.nodes.time", time)
    site = SimpleNamespace(timeout=1000.0, machines=(M1, W1), desired=SimpleNamespace(deployment=deployment()))
    with pytest.raises(DeployError, match="not Ready: w1: starts") as failed:
        AllReady(cast(Site, site)).run(lambda *_: None)
    assert len(asked) == 11  # a hundred seconds each
    assert "--timeout" in str(failed.value.hint)


NO_PLUGIN = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:…"


@pytest.mark.parametrize(
    ("network", "waiting", "lacks"),
    [
        ("none", {"m1": NO_PLUGIN, "w1": NO_PLUGIN}, True),
        ("none", {"w1": NO_PLUGIN}, False),
        ("none", {"m1": NO_PLUGIN, "w1": "starts"}, False),
        ("bridge", {"m1": NO_PLUGIN, "w1": NO_PLUGIN}, False),
    ],
)
def test_only_a_cluster_whose_user_brings_the_network_is_left_without(
    monkeypatch: pytest.MonkeyPatch, network: str, waiting: dict[str, str], lacks: bool
) -> None:
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("paictl.deploy.nodes.api", lambda _: None)
    monkeypatch.setattr("paictl.deploy.nodes.not_ready", lambda *_: waiting)
    time = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda _: None)
    monkeypatch.setattr("paictl.deploy.nodes.time", time)
    of = SimpleNamespace(deployment=deployment(network=network))
    site = SimpleNamespace(timeout=1000.0, machines=(M1, W1), desired=of, lacks_network=False)
    said: list[tuple[str, str]] = []
    try:
        AllReady(cast(Site, site)).run(lambda *words: said.append(words))
    except DeployError:
        assert not lacks
    assert site.lacks_network == lacks
    assert any("install your own, then apply again" in text for text, _ in said) == lacks


@pytest.mark.parametrize(("status", "asked"), [(403, 3), (409, 1)])
def test_a_young_api_refuses_everybody_for_a_while(monkeypatch: pytest.MonkeyPatch, status: int, asked: int) -> None:
    """Its roles are read a moment after it listens; what it says later on counts at once."""
    answers: list[KubeError | int] = [KubeError("forbidden", status=status), KubeError("forbidden", status=status), 7]
    seen = []

    def ask() -> int:
        seen.append(answers.pop(0))
        if isinstance(seen[-1], KubeError):
            raise seen[-1]
        return seen[-1]

    monkeypatch.setattr("paictl.deploy.nodes.time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None))
    if status == 403:
        assert patiently(ask) == 7
    else:
        with pytest.raises(KubeError):
            patiently(ask)
    assert len(seen) == asked


class Registering:
    """An API server at which w1 becomes a node after so many questions."""

    def __init__(self, after: float) -> None:
        self.after = after
        self.labelled: list[str] = []

    def list(self, _path: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        yield "1", []

    def request(self, _method: str, path: str, _body: object, **_: object) -> None:
        self.after -= 1
        if path.endswith("/w1") and self.after > 0:
            raise KubeError('nodes "w1" not found', status=404)
        self.labelled.append(path.rpartition("/")[2])


def test_a_machine_that_has_just_joined_is_labelled_as_soon_as_it_is_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubeadm is done when the kubelet has its certificate, a moment before the kubelet registers its node."""
    clock = iter(range(0, 10_000, 100))
    time = SimpleNamespace(monotonic=lambda: float(next(clock)), sleep=lambda _: None)
    monkeypatch.setattr("paictl.deploy.nodes.time", time)
    site = cast(Site, SimpleNamespace(timeout=1000.0, machines=(M1, W1)))
    for after in (5, math.inf):
        server = Registering(after)
        monkeypatch.setattr("paictl.deploy.nodes.api", lambda _, server=server: server)
        phase = Labels(site)
        assert phase.should_run() == ""
        if after == 5:
            phase.run(lambda *_: None)
            assert server.labelled == ["m1", "w1"]
        else:
            with pytest.raises(DeployError, match="w1 has joined but is not a node yet") as failed:
                phase.run(lambda *_: None)
            assert "journalctl -u kubelet" in str(failed.value.hint)
