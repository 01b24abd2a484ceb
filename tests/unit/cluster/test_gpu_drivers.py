"""The service gpu-driver: what it renders for which nodes, and what its pods' states say of each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from paictl.cli.node.drivers import say_drivers
from paictl.cluster.interface import DriverSource, NodeDriver
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.kubernetes.services.nodes import drivers_of, system_named, systems_of
from paictl.cluster.kubernetes.services.workloads import Observer, is_ready
from paictl.cluster.manifests.context import Renderer, RenderInputs
from paictl.cluster.manifests.templating import Manifest, TemplateError
from tests.unit.cluster.catalogue import LAYOUT, LEAST, MIXED, SERVICES, Catalogue, by_name
from tests.unit.cluster.fakekube import FakeKube

WANTED = "580.126.20"
NODES = """\
machine-sku:
  nv: {mem: 220Gi, cpu: {vcore: 24}, computing-device: {type: nvidia.com/gpu, model: A100, count: 8}}
machine-list:
"""


def layout(*names: str) -> str:
    lines = (
        f"  - {{hostname: {name}, hostip: 10.0.0.{number}, machine-type: nv, pai-worker: 'true'}}\n"
        for number, name in enumerate(names, 2)
    )
    return NODES + "".join(lines)


def driver_objects(
    systems: Mapping[str, str] | None, settings: str = "{enabled: true}", more: str = "", service: str = "gpu-driver"
) -> list[Manifest]:
    """What a service comes to on a cluster whose nodes run some systems; without any where there is no cluster."""
    names = ("W1", "w2", "w3", "w4")
    files = {LAYOUT: layout(*names), SERVICES: f"{LEAST}gpu-driver: {settings}\n{more}"}
    asked = None if systems is None else lambda: systems
    inputs = RenderInputs("pai", NAMESPACE, JOBS_NAMESPACE, "1.2.3", files, systems=asked)
    return Renderer(inputs).sealed(service)


def sets(found: list[Manifest]) -> dict[str, dict[str, Any]]:
    return {one.name: one.body["spec"]["template"]["spec"] for one in found if one.kind == "DaemonSet"}


def env(spec: dict[str, Any]) -> dict[str, str]:
    (container,) = spec["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def left_out(spec: dict[str, Any]) -> list[str]:
    """Nodes that a DaemonSet leaves out by their names."""
    if "affinity" not in spec:
        return []
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/hostname", "NotIn")
    names: list[str] = expression["values"]
    return names


def test_a_daemon_set_for_each_system_with_the_image_for_it() -> None:
    systems = {"w1": "ubuntu22.04", "w2": "ubuntu24.04", "w3": "debian12", "elsewhere": "rhel9.4"}
    found = sets(driver_objects(systems))
    assert {name: left_out(spec) for name, spec in found.items()} == {
        "nvidia-driver-ubuntu22-04": ["w2"],
        "nvidia-driver-ubuntu24-04": ["w1", "w3"],
    }
    for name, spec in found.items():
        system = name.removeprefix("nvidia-driver-").replace("-", ".")
        images = {one["image"] for one in (*spec["initContainers"], *spec["containers"])}
        assert images == {f"nvcr.io/nvidia/driver:{WANTED}-{system}"}
        assert (env(spec)["SYSTEM"], env(spec)["WANTED"]) == (system, WANTED)
        assert spec["nodeSelector"] == {"paictl.io/devices": "nvidia.com"}


def test_nodes_whose_system_has_no_image_are_looked_at_by_one_daemon_set_for_their_own_drivers() -> None:
    (spec,) = sets(driver_objects({"w1": "ubuntu24.04", "w2": "rocky9.4", "w3": "rocky9.4"})).values()
    assert left_out(spec) == []
    systems = {"w1": "ubuntu24.04", "w2": "rocky9.4", "w3": "debian12", "w4": "ubuntu22.04"}
    found = [left_out(spec) for spec in sets(driver_objects(systems)).values()]
    assert [[name for name in systems if name not in names] for names in found] == [["w2", "w3", "w4"], ["w1"]]


def test_where_all_nodes_run_one_system_a_new_one_is_served_at_once() -> None:
    (spec,) = sets(driver_objects({"w1": "ubuntu24.04", "w2": "ubuntu24.04"})).values()
    assert left_out(spec) == []
    (spec,) = sets(driver_objects(None, "{enabled: true, system: ubuntu24.04}")).values()
    assert left_out(spec) == []


def test_no_driver_is_exchanged_by_itself() -> None:
    for one in driver_objects({"w1": "ubuntu24.04"}):
        if one.kind == "DaemonSet":
            assert one.body["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_systems_without_an_image_get_no_driver_but_for_an_image_of_your_own() -> None:
    assert sets(driver_objects({"w1": "debian12"})) == {}
    assert sets(driver_objects({})) == {}, "no node has joined yet"
    own = "images: {nvidia-driver-debian12: 'r.example:5000/driver:570.195.03-debian12'}\n"
    ((name, spec),) = sets(driver_objects({"w1": "debian12"}, more=own)).items()
    assert (name, env(spec)["WANTED"]) == ("nvidia-driver-debian12", "570.195.03")
    assert spec["containers"][0]["image"] == "r.example:5000/driver:570.195.03-debian12"


def test_an_image_may_be_held_by_its_digest() -> None:
    reference = f"r.example:5000/driver:570.195.03-debian12@sha256:{'0' * 64}"
    more = f"images: {{nvidia-driver-debian12: '{reference}'}}\n"
    (spec,) = sets(driver_objects({"w1": "debian12"}, more=more)).values()
    assert (spec["containers"][0]["image"], env(spec)["WANTED"]) == (reference, "570.195.03")


def test_another_version_is_another_tag_of_the_same_image() -> None:
    (spec,) = sets(driver_objects({"w1": "ubuntu24.04"}, "{enabled: true, version: 570.195.03}")).values()
    assert spec["containers"][0]["image"] == "nvcr.io/nvidia/driver:570.195.03-ubuntu24.04"
    assert env(spec)["WANTED"] == "570.195.03"


@pytest.mark.parametrize(
    ("systems", "settings", "more", "message"),
    [
        (None, "{enabled: true}", "", "there is no cluster to ask for the systems of its nodes: set gpu-driver.system"),
        ({}, "{enabled: true, system: debian12}", "", "there is no driver image for debian12"),
        (
            {"w1": "ubuntu24.04"},
            "{enabled: true}",
            "images: {nvidia-driver-ubuntu24.04: 'r.example/driver:latest'}",
            "the tag of r.example/driver:latest is not VERSION-ubuntu24.04",
        ),
    ],
)
def test_what_cannot_work_is_refused(systems: Mapping[str, str] | None, settings: str, more: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        driver_objects(systems, settings, more)


def test_off_asks_no_cluster_and_renders_nothing() -> None:
    def asked() -> Mapping[str, str]:
        raise AssertionError

    for settings in ("{}", "{enabled: false, system: ubuntu24.04}"):
        files = {LAYOUT: MIXED, SERVICES: f"{LEAST}gpu-driver: {settings}\n"}
        inputs = RenderInputs("pai", NAMESPACE, JOBS_NAMESPACE, "1.2.3", files, systems=asked)
        assert Renderer(inputs).sealed("gpu-driver") == []
        assert Renderer(inputs).sealed("device-plugin") != []


@pytest.mark.parametrize("service", ["device-plugin", "dra-driver"])
def test_the_others_look_where_the_driver_is(service: str) -> None:
    more = "device-plugin: {enabled: false}\ndra-driver: {enabled: true}\n" if service == "dra-driver" else ""
    for settings, root in (("{enabled: true}", "/run/nvidia/driver"), ("{enabled: false}", "/")):
        (spec,) = sets(driver_objects({}, settings, more, service)).values()
        assert env_value(spec, "NVIDIA_DRIVER_ROOT") == root
        (volume,) = [one for one in spec["volumes"] if one["name"] == "driver"]
        assert volume["hostPath"]["path"] == root
        (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "driver"]
        if root != "/":
            assert mount["mountPropagation"] == "HostToContainer", "the driver's container mounts it later"


@pytest.mark.parametrize(
    ("systems", "root"),
    [
        ({"w1": "debian12", "w2": "rocky9.4"}, "/"),
        ({"w1": "debian12", "w2": "ubuntu24.04"}, "/run/nvidia/driver"),
        ({"w1": "debian12", "elsewhere": "ubuntu24.04"}, "/"),
        (None, "/run/nvidia/driver"),
    ],
)
def test_where_no_system_has_an_image_drivers_are_where_they_were(systems: Mapping[str, str] | None, root: str) -> None:
    (spec,) = sets(driver_objects(systems, service="device-plugin")).values()
    assert env_value(spec, "NVIDIA_DRIVER_ROOT") == root


def test_systems_of_nodes_with_other_gpus_do_not_count() -> None:
    files = {LAYOUT: layout("w1"), SERVICES: f"{LEAST}gpu-driver: {{enabled: true}}\n"}
    files[LAYOUT] = files[LAYOUT].replace(
        "machine-list:",
        (
            "  amd: {mem: 220Gi, cpu: {vcore: 24}, computing-device: {type: amd.com/gpu, model: MI50, count: 8}}\n"
            "machine-list:\n  - {hostname: a1, hostip: 10.0.0.9, machine-type: amd, pai-worker: 'true'}"
        ),
    )
    systems = {"w1": "rocky9.4", "a1": "ubuntu24.04"}
    inputs = RenderInputs("pai", NAMESPACE, JOBS_NAMESPACE, "1.2.3", files, systems=lambda: systems)
    spec = sets(Renderer(inputs).sealed("device-plugin"))["nvidia-device-plugin"]
    assert env_value(spec, "NVIDIA_DRIVER_ROOT") == "/"


def env_value(spec: dict[str, Any], name: str) -> str:
    (value,) = [one["value"] for one in spec["containers"][0]["env"] if one["name"] == name]
    return str(value)


# --- what nodes run


@pytest.mark.parametrize(
    ("os_image", "system"),
    [
        ("Ubuntu 24.04.1 LTS", "ubuntu24.04"),
        ("Ubuntu 22.04 LTS", "ubuntu22.04"),
        ("Ubuntu 24.04", "ubuntu24.04"),
        ("Debian GNU/Linux 12 (bookworm)", "debian12"),
        ("Debian GNU/Linux trixie/sid", "debian"),
        ("Red Hat Enterprise Linux 9.4 (Plow)", "rhel9.4"),
        ("Rocky Linux 9.4 (Blue Onyx)", "rocky9.4"),
        ("AlmaLinux 9.4 (Seafoam Ocelot)", "almalinux9.4"),
        ("Amazon Linux 2023.5.20240722", "amzn2023"),
        ("Talos (v1.7.6)", "talos"),
        ("", "unknown"),
        ("12", "12"),
    ],
)
def test_a_system_is_named_as_its_images_are(os_image: str, system: str) -> None:
    assert system_named(os_image) == system


def node(name: str, os_image: str = "Ubuntu 24.04.1 LTS", gpus: int = 0, **labels: str) -> dict[str, Any]:
    labels = labels or {"paictl.io/devices": "nvidia.com"}
    status = {"nodeInfo": {"osImage": os_image}, "allocatable": {"nvidia.com/gpu": str(gpus)}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def pod(on: str, look: dict[str, Any], driver: dict[str, Any] | None = None, **about: Any) -> dict[str, Any]:
    labels = {"paictl.io/service": "gpu-driver", "paictl.io/system": about.pop("system", "ubuntu24.04")}
    status = {
        "initContainerStatuses": [{"name": "look", **look}],
        "containerStatuses": [{"name": "driver", "ready": False, **(driver or {})}],
    }
    return {"metadata": {"name": f"pod-{on}", "labels": labels, **about}, "spec": {"nodeName": on}, "status": status}


def ended(message: str, code: int = 0) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message}}


def drivers(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> dict[str, NodeDriver]:
    space = f"/api/v1/namespaces/{NAMESPACE}/pods"
    objects = {f"/api/v1/nodes/{one['metadata']['name']}": one for one in nodes}
    objects |= {f"{space}/{number}": one for number, one in enumerate(pods)}
    for one in driver_objects({"w1": "ubuntu24.04"}):
        if one.kind == "DaemonSet":
            labels = {**one.body["metadata"]["labels"], "paictl.io/service": "gpu-driver"}
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{one.name}"
            objects[path] = {**one.body, "metadata": {**one.body["metadata"], "labels": labels}}
    return {one.node: one for one in drivers_of(FakeKube(objects))}


def test_each_node_says_which_driver_it_runs() -> None:
    ready = {"ready": True, "state": {"running": {}}}
    crash = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended("Could not\x1b unload", 1)}
    found = drivers(
        [node(name) for name in ("host", "ours", "old", "new", "crash", "wait", "busy", "mute", "pull")]
        + [node("cpu", more="yes"), node("deb", "Debian GNU/Linux 12 (bookworm)"), node("none")]
        + [node("rocky", "Rocky Linux 9.4 (Blue Onyx)", gpus=8)],
        [
            pod("host", {"state": ended("host 570.86.10")}, ready),
            pod("ours", {"state": ended(f"install {WANTED}")}, ready),
            pod("old", {"state": ended("replace 550.1 570.195.03")}, ready),
            pod("new", {"state": ended(f"install {WANTED}")}),
            pod("crash", {"state": ended(f"install {WANTED}")}, crash),
            pod("wait", {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended("nouveau holds", 1)}),
            pod("busy", {"state": {"waiting": {}}, "lastState": ended("driver 570.195.03 is in use and stays: …", 1)}),
            pod("mute", {"state": {"running": {}}}),
            pod("pull", {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}),
        ],
    )
    none, service = DriverSource.NONE, DriverSource.SERVICE
    assert "cpu" not in found, "it has no GPUs"
    assert (found["host"].source, found["host"].version) == (DriverSource.HOST, "570.86.10")
    assert (found["ours"].source, found["ours"].version, found["ours"].outdated) == (service, WANTED, False)
    assert (found["old"].version, found["old"].wanted, found["old"].outdated) == ("570.195.03", WANTED, True)
    assert (found["new"].source, found["new"].reason) == (none, f"{WANTED} is being installed")
    assert (found["crash"].source, found["crash"].reason) == (none, "Could not unload")
    assert (found["wait"].source, found["wait"].reason) == (none, "nouveau holds")
    assert (found["busy"].version, found["busy"].outdated, found["busy"].pod) == ("570.195.03", True, "pod-busy")
    assert found["mute"].reason == "its pod is starting"
    assert found["pull"].reason == "no such image"
    assert found["none"].reason == "no pod of the service runs there"
    assert found["deb"].reason.startswith("there is no driver image for debian12: install a driver on the machine")
    assert (found["rocky"].source, found["rocky"].version) == (DriverSource.HOST, ""), "its devices work"


def test_of_two_pods_on_a_node_the_one_that_stays_and_fits_counts() -> None:
    right = pod("w1", {"state": ended(f"install {WANTED}")}, {"ready": True})
    wrong = pod("w1", {"state": {"waiting": {}}, "lastState": ended("this machine runs", 1)}, system="ubuntu22.04")
    going = pod("w1", {"state": ended("install 1.2")}, {"ready": True}, deletionTimestamp="now")
    for pods in ([right, wrong, going], [going, wrong, right]):
        assert drivers([node("w1")], pods)["w1"].version == WANTED


def test_systems_are_those_of_all_nodes() -> None:
    server = FakeKube({"/api/v1/nodes/a": node("a"), "/api/v1/nodes/b": node("b", "Debian GNU/Linux 12 (bookworm)")})
    assert systems_of(server) == {"a": "ubuntu24.04", "b": "debian12"}


def test_a_pod_of_an_older_template_is_as_good_where_pods_are_exchanged_by_hand(catalogue: Catalogue) -> None:
    body = by_name(catalogue["all options"]["gpu-driver"], "DaemonSet", "nvidia-driver-ubuntu22-04")
    status = {"desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberAvailable": 2, "observedGeneration": 2}
    live = {**body, "metadata": {**body["metadata"], "generation": 2}, "status": status}
    assert is_ready(live)
    assert not is_ready({**live, "status": {**status, "numberAvailable": 1}})
    assert not is_ready({**live, "status": {**status, "observedGeneration": 1}})
    rolling = {**live["spec"], "updateStrategy": {"type": "RollingUpdate"}}
    assert not is_ready({**live, "spec": rolling})


class WithoutLogs(FakeKube):
    """An API server whose kubelets have no logs any more."""

    def text(self, path: str, query: Mapping[str, object] | None = None, timeout: float = 0.0) -> str:
        del path, query, timeout
        return ""


def not_started(service: str, daemon_set: dict[str, Any], pods: list[dict[str, Any]], available: int) -> str:
    """Why a DaemonSet with a pod on each node is not ready."""
    wanted = len([one for one in pods if one["metadata"]["labels"]["paictl.io/service"] == service])
    status = {"desiredNumberScheduled": wanted, "updatedNumberScheduled": wanted, "numberAvailable": available}
    about = {**daemon_set["metadata"], "namespace": NAMESPACE, "uid": "1"}
    live = {**daemon_set, "metadata": about, "status": status}
    server = WithoutLogs({f"/api/v1/pods/{number}": one for number, one in enumerate(pods)})
    return Observer(server).reason(service, [live])


def placed(one: dict[str, Any], daemon_set: dict[str, Any], *, ready: bool, **labels: str) -> dict[str, Any]:
    """A pod of a DaemonSet, with an identity of its own."""
    labels = {**one["metadata"]["labels"], **daemon_set["spec"]["selector"]["matchLabels"], **labels}
    about = {**one["metadata"], "labels": labels, "namespace": NAMESPACE, "uid": one["metadata"]["name"]}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {**one, "metadata": about, "status": {**one["status"], "conditions": conditions}}


@pytest.mark.parametrize(
    ("look", "started"),
    [
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended("nouveau holds the GPUs", 1)}, True),
        ({"state": ended("nouveau holds the GPUs", 1)}, True),
        ({"state": {"running": {}}, "lastState": ended("nouveau holds the GPUs", 1)}, True),
        ({"state": {"waiting": {"reason": "ImagePullBackOff"}}}, False),
        ({"state": {"running": {}}}, False),
        ({"state": {"waiting": {}}, "lastState": ended("", 137)}, False),
        ({"state": ended(f"install {WANTED}"), "lastState": ended("nouveau holds the GPUs", 1)}, False),
    ],
)
def test_a_machine_that_refuses_the_driver_does_not_hold_up_the_services_after_it(
    look: dict[str, Any], started: bool
) -> None:
    (drivers_set,) = [one.body for one in driver_objects({"w1": "ubuntu24.04"}) if one.kind == "DaemonSet"]
    objects = driver_objects({"w1": "ubuntu24.04"}, service="device-plugin")
    (plugin_set,) = [one.body for one in objects if one.kind == "DaemonSet"]
    good = placed(pod("w1", {"state": ended(f"install {WANTED}")}, {"ready": True}), drivers_set, ready=True)
    waits = placed(pod("w2", look), drivers_set, ready=False)
    assert (not_started("gpu-driver", drivers_set, [good, waits], 1) == "") == started
    assert not_started("gpu-driver", drivers_set, [good, waits], 0) != "", "the other one has still to come"
    plugin = {"paictl.io/service": "device-plugin"}
    plugins = [placed(pod(name, {}), plugin_set, ready=name == "w1", **plugin) for name in ("w1", "w2")]
    assert (not_started("device-plugin", plugin_set, [good, waits, *plugins], 1) == "") == started
    assert not_started("device-plugin", plugin_set, [good, waits, *plugins], 0) != ""
    assert not_started("device-plugin", plugin_set, plugins, 1) != "", "no driver was refused"


def test_nodes_with_the_same_driver_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    service = DriverSource.SERVICE
    many = [NodeDriver(f"n{number:02}", service, WANTED, WANTED) for number in range(10)]
    say_drivers(
        [
            *many,
            NodeDriver("own", DriverSource.HOST, "570.1"),
            NodeDriver("gone", DriverSource.NONE, reason="no image"),
            NodeDriver("old1", service, "570.2", WANTED, "", "pod-1"),
            NodeDriver("old2", service, "570.2", WANTED),
        ]
    )
    lines = capsys.readouterr().err.splitlines()
    some = "n00, n01, n02, n03, n04, n05, n06, n07 and 2 more"
    assert f"GPU driver of {some}: {WANTED}, installed by this service" in lines
    assert "GPU driver of own: 570.1, the machine's own, which is left alone" in lines
    assert "warning: GPU driver of gone: none: no image" in lines
    assert f"warning: GPU driver of old1, old2: 570.2, not {WANTED} yet" in lines
    assert [one.strip().split()[0] for one in lines[-3:]] == ["paictl", "kubectl", "paictl"]
    assert lines[-2].strip() == "kubectl -n paictl-system delete pod pod-1"
    say_drivers(many[:1])
    assert len(capsys.readouterr().err.splitlines()) == 1
