"""Templates service by service: what a setting comes to."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.kubernetes.names import NAMESPACE
from paictl.cluster.kubernetes.services.applying import refuse_rivals
from paictl.cluster.manifests.templating import TemplateError
from paictl.cluster.values import ClusterError
from paictl.controller.manifests import priority_classes
from paictl.server.serving import ServerSettings, check
from paictl.server.tasks.access import site_of
from paictl.workload.job import PRIORITIES
from tests.unit.cluster.catalogue import (
    LAYOUT,
    LEAST,
    MIXED,
    NO_DEVICES,
    SERVICES,
    Catalogue,
    alerting,
    by_name,
    objects,
    prometheus,
    rendered,
    renderer,
)
from tests.unit.cluster.fakekube import FakeKube

# --- secrets


def test_secrets_are_in_secrets_and_arrive_as_they_were_written(catalogue: Catalogue) -> None:
    found = catalogue["all options"]
    grafana = by_name(found["grafana"], "Secret", "grafana")
    assert base64.b64decode(grafana["data"]["admin-password"]) == b"1234567890"
    assert "p'w\"d: #" in alerting(found)["global"].values()
    for service, body in objects(found):
        if body["kind"] != "Secret":
            assert "p'w" not in json.dumps(body), service
            assert "1234567890" not in json.dumps(body), service


# --- service by service


def test_priority_classes_are_those_of_jobs(catalogue: Catalogue) -> None:
    found = {
        one.name: one.body for one in catalogue["no devices"]["cluster-configuration"] if one.kind == "PriorityClass"
    }
    jobs = {name: body["value"] for name, body in found.items() if name != "paictl-service"}
    assert jobs == {f"paictl-{name}": max(value, 0) for name, value in PRIORITIES.items()}
    assert jobs == {body["metadata"]["name"]: body["value"] for body in priority_classes(PRIORITIES)}
    assert all(body["preemptionPolicy"] == "Never" for name, body in found.items() if name in jobs)
    assert found["paictl-service"]["value"] > max(jobs.values())


def test_nodes_get_labels_and_taints_by_the_layout_and_nothing_else(catalogue: Catalogue) -> None:
    nodes = {one.name: one.body for one in catalogue["all options"]["cluster-configuration"] if one.kind == "Node"}
    assert {name: body["metadata"]["labels"] for name, body in nodes.items()} == {
        "m0": {"paictl.io/role": "master", "paictl.io/sku": "plain"},
        "w-1.lab": {"paictl.io/role": "worker", "paictl.io/sku": "nv", "paictl.io/devices": "nvidia.com"},
        "w2": {"paictl.io/role": "worker", "paictl.io/sku": "amd", "paictl.io/devices": "amd.com"},
        "w3": {"paictl.io/role": "worker", "paictl.io/sku": "npu", "paictl.io/devices": "huawei.com"},
    }
    assert {name: body["spec"] for name, body in nodes.items() if "spec" in body} == {
        "w-1.lab": {
            "taints": [
                {"key": "paictl.io/jobs", "effect": "NoSchedule"},
                {"key": "owner", "value": "lab-2", "effect": "PreferNoSchedule"},
            ]
        }
    }
    assert all(body.keys() <= {"apiVersion", "kind", "metadata", "spec"} for body in nodes.values())


@pytest.mark.parametrize(
    ("configuration", "plugins"),
    [
        ("all options", {"nvidia-device-plugin", "amd-device-plugin"}),
        ("behind a proxy", {"amd-device-plugin"}),
        ("no devices", set()),
        ("preset lab", {"nvidia-device-plugin"}),
    ],
)
def test_a_device_plugin_for_each_kind_of_device(catalogue: Catalogue, configuration: str, plugins: set[str]) -> None:
    found = catalogue[configuration]["device-plugin"]
    assert {one.name for one in found if one.kind == "DaemonSet"} == plugins
    labels = {
        value
        for one in catalogue[configuration]["cluster-configuration"]
        if one.kind == "Node"
        for key, value in one.body["metadata"]["labels"].items()
        if key == "paictl.io/devices"
    }
    for one in found:
        if one.kind == "DaemonSet":
            assert one.body["spec"]["template"]["spec"]["nodeSelector"]["paictl.io/devices"] in labels


def test_the_dra_driver_offers_gpus_of_its_own_node_only(catalogue: Catalogue) -> None:
    found = catalogue["behind a proxy"]["dra-driver"]
    (container,) = by_name(found, "DaemonSet", "nvidia-dra-driver")["spec"]["template"]["spec"]["containers"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert (values["NVIDIA_DRIVER_ROOT"], values["NVIDIA_CDI_HOOK_PATH"]) == (
        "/run/nvidia/driver",
        "/usr/bin/nvidia-cdi-hook",
    )
    assert values["IMAGE_NAME"] == container["image"]
    classes = {one.name: one.body["spec"] for one in found if one.kind == "DeviceClass"}
    assert {name: one.get("extendedResourceName") for name, one in classes.items()} == {
        "gpu.nvidia.com": "nvidia.com/gpu",
        "mig.nvidia.com": None,
    }
    policy = by_name(found, "ValidatingAdmissionPolicy", "paictl-dra-driver")["spec"]
    account = by_name(found, "ServiceAccount", "dra-driver")["metadata"]
    (condition,) = policy["matchConditions"]
    assert f"'system:serviceaccount:{account['namespace']}:{account['name']}'" in condition["expression"]
    assert by_name(found, "ValidatingAdmissionPolicyBinding", "paictl-dra-driver")["spec"]["policyName"] == (
        "paictl-dra-driver"
    )


@pytest.mark.parametrize(
    ("plugin", "runs"),
    [
        ("{}", False),
        ("{enabled: null}", False),
        ("{devices: [nvidia.com/gpu]}", False),
        ("{devices: [gpu]}", False),
        ("{enabled: false}", True),
        ("{devices: [amd.com/gpu]}", True),
    ],
)
def test_a_dra_driver_and_a_device_plugin_for_the_same_gpus_are_refused(plugin: str, *, runs: bool) -> None:
    made = renderer({LAYOUT: MIXED, SERVICES: f"{LEAST}device-plugin: {plugin}\ndra-driver: {{enabled: true}}\n"})
    if runs:
        assert "nvidia-device-plugin" not in {one.name for one in made.render("device-plugin")}
        assert by_name(made.render("dra-driver"), "DaemonSet", "nvidia-dra-driver")
    else:
        with pytest.raises(TemplateError, match="would both offer the NVIDIA GPUs"):
            made.render("dra-driver")
    without = renderer({LAYOUT: NO_DEVICES, SERVICES: f"{LEAST}dra-driver: {{enabled: true}}\n"})
    assert without.render("dra-driver") == []


@pytest.mark.parametrize(
    ("service", "rival"),
    [("dra-driver", "nvidia-device-plugin"), ("device-plugin", "nvidia-dra-driver")],
)
def test_what_still_offers_the_same_devices_has_to_go_first(catalogue: Catalogue, service: str, rival: str) -> None:
    configuration = "behind a proxy" if service == "dra-driver" else "preset lab"
    wanted = [one.body for one in catalogue[configuration][service]]
    server = FakeKube({f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/amd-device-plugin": {}})
    refuse_rivals(server, wanted)
    server.objects[f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{rival}"] = {"metadata": {"name": rival}}
    with pytest.raises(ClusterError, match="still offers the same devices; nothing was applied") as caught:
        refuse_rivals(server, wanted)
    other = "device-plugin" if service == "dra-driver" else "dra-driver"
    assert caught.value.hint == f"end it first: paictl service refresh -n {other}"


def test_the_rest_server_never_speaks_clear_text_to_users(catalogue: Catalogue) -> None:
    for name in catalogue:
        deployment = by_name(catalogue[name]["rest-server"], "Deployment", "rest-server")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        proxied = "--behind-proxy" in container["command"]
        assert proxied == (name == "behind a proxy")
        assert ("--tls-cert" in container["command"]) != proxied
        schemes = {container[f"{probe}Probe"]["httpGet"]["scheme"] for probe in ("liveness", "readiness", "startup")}
        assert schemes == {"HTTP" if proxied else "HTTPS"}


def test_its_own_certificate_is_for_all_machines(catalogue: Catalogue) -> None:
    deployment = by_name(catalogue["all options"]["rest-server"], "Deployment", "rest-server")
    (init,) = deployment["spec"]["template"]["spec"]["initContainers"]
    (names,) = [word for word in init["command"] if word.startswith("subjectAltName=")]
    assert {"DNS:w-1.lab", "IP:10.0.0.2", "DNS:pai.lab.example", "IP:10.9.8.7"} <= set(
        names.partition("=")[2].split(",")
    )
    assert (
        "initContainers"
        not in by_name(catalogue["own certificate"]["rest-server"], "Deployment", "rest-server")["spec"]["template"][
            "spec"
        ]
    )


def test_what_tasks_serve_is_reached_at_names_of_its_own_where_the_configuration_says_so(catalogue: Catalogue) -> None:
    whole, plain = catalogue["all options"]["rest-server"], catalogue["own certificate"]["rest-server"]
    deployment = by_name(whole, "Deployment", "rest-server")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    at = container["command"].index("--tasks")
    assert container["command"][at : at + 4] == [
        "--tasks",
        "https://*.tasks.lab.example:31001",
        "--tasks-listen",
        "0.0.0.0:9187",
    ]
    site = site_of(container["command"][at + 1])
    check(ServerSettings("0.0.0.0", 9186, Path(__file__), Path(__file__), tasks=site))  # noqa: S104
    (init,) = deployment["spec"]["template"]["spec"]["initContainers"]
    (names,) = [word for word in init["command"] if word.startswith("subjectAltName=")]
    assert "DNS:*.tasks.lab.example" in names.split(",")
    ports = {one["name"]: one for one in by_name(whole, "Service", "rest-server")["spec"]["ports"]}
    assert (ports["tasks"]["port"], ports["tasks"]["nodePort"]) == (9187, 31001)
    assert {"port": 9187} in by_name(whole, "NetworkPolicy", "rest-server")["spec"]["ingress"][0]["ports"]
    forward = {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]}
    roles = [one.body for one in whole if one.kind == "Role"]
    assert [role["metadata"]["namespace"] for role in roles if forward in role["rules"]] == ["paictl-jobs"]
    assert not [one for one in plain if one.kind == "Role" and forward in one.body["rules"]]
    assert "--tasks" not in str(by_name(plain, "Deployment", "rest-server"))


def test_alerts_go_where_the_configuration_says(catalogue: Catalogue) -> None:
    whole = alerting(catalogue["all options"])
    mail = {"email_configs": [{"to": "admin@lab.example", "send_resolved": True}]}
    assert whole["receivers"] == [
        {"name": "administrator", **mail},
        {"name": "chat", **mail, "webhook_configs": [{"url": "http://chat.lab.example/hook"}]},
        {"name": "more", "webhook_configs": [{"url": "http://token@chat.lab.example"}]},
    ]
    assert whole["route"]["routes"] == [{"receiver": "chat", "matchers": ["severity = critical"]}]
    assert whole["route"]["repeat_interval"] == "1h"
    assert whole["global"]["smtp_smarthost"] == "smtp.lab.example:587"
    assert alerting(catalogue["no devices"])["receivers"] == [{"name": "administrator"}]


def test_who_could_never_look_at_the_charts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    with pytest.raises(TemplateError, match="nobody could look"):
        rendered({LAYOUT: NO_DEVICES, SERVICES: LEAST + "grafana: {anonymous: false}\n"})


@pytest.mark.parametrize(
    ("configuration", "volume"),
    [
        ("all options", {"persistentVolumeClaim": {"claimName": "prometheus"}}),
        ("behind a proxy", {"hostPath": {"path": "/datastorage/prometheus", "type": "Directory"}}),
        ("no devices", {"emptyDir": {"sizeLimit": "20Gi"}}),
    ],
)
def test_where_figures_are_kept(catalogue: Catalogue, configuration: str, volume: dict[str, Any]) -> None:
    found = catalogue[configuration]["prometheus"]
    spec = by_name(found, "Deployment", "prometheus")["spec"]["template"]["spec"]
    (data,) = [one for one in spec["volumes"] if one["name"] == "data"]
    assert data == {"name": "data", **volume}
    claims = [one.body for one in found if one.kind == "PersistentVolumeClaim"]
    assert len(claims) == ("persistentVolumeClaim" in volume)
    if claims:
        assert claims[0]["metadata"]["annotations"] == {"paictl.io/keep": "true"}
        assert claims[0]["spec"]["resources"] == {"requests": {"storage": "100Gi"}}


def test_ports_of_other_services_are_followed(catalogue: Catalogue) -> None:
    found = catalogue["all options"]
    (alerting_to,) = prometheus(found, "prometheus.yml")["alerting"]["alertmanagers"][0]["static_configs"]
    assert alerting_to["targets"] == [f"alert-manager.{NAMESPACE}.svc:9099"]
    source = by_name(found["grafana"], "ConfigMap", "grafana")["data"]["datasource.yml"]
    assert f"http://prometheus.{NAMESPACE}.svc:9099" in source


def test_own_rules_are_beside_ours(catalogue: Catalogue) -> None:
    own = prometheus(catalogue["all options"], "customized.yml")
    assert [rule["alert"] for group in own["groups"] for rule in group["rules"]] == ["Own"]
    assert prometheus(catalogue["no devices"], "customized.yml") == {"groups": []}
