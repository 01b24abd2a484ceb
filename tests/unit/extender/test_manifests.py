"""What `paictl extender config` prints."""

from __future__ import annotations

import base64
import math
from dataclasses import asdict
from typing import Any

import pytest
import yaml

from paictl.cluster.kubernetes.names import NAMESPACE
from paictl.cluster.maintenance import NAME as WINDOWS
from paictl.cluster.manifests.certificates import CertificateSet
from paictl.doors.manifests import Choices, objects, scheduler_configuration, to_yaml
from paictl.errors import PaictlError
from paictl.scheduler.wire import ENABLE
from paictl.workload.sku import DEVICES


def made(**choices: Any) -> dict[tuple[str, str], Any]:
    found = objects(Choices(**choices), "1.2.3")
    assert list(yaml.safe_load_all(to_yaml(found))) == found
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_everything_is_there_and_labelled() -> None:
    found = made(hived_config="physicalCluster:\n  a: 1\n")
    kinds = [kind for kind, _ in found]
    assert kinds.index("Namespace") < kinds.index("Deployment")
    for kind in ("ClusterRole", "ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "ServiceAccount"):
        assert kind in kinds
    space = found.pop(("Namespace", "paictl-system"))
    assert "labels" not in space["metadata"], "`service start` owns those, and would find that somebody else does"
    assert all(one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "paictl" for one in found.values())
    assert yaml.safe_load(found["ConfigMap", "hivedscheduler"]["data"]["hivedscheduler.yaml"]) == {
        "physicalCluster": {"a": 1}
    }


def test_permissions_are_no_more_than_what_is_done() -> None:
    """What `paictl.remote.kube` sends for the extender, verb by verb."""
    rules = made(delete_after=math.inf)["ClusterRole", "hivedscheduler-extender"]["rules"]
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted == {
        ("nodes", "list"),
        ("nodes", "watch"),
        ("nodes", "patch"),
        ("pods", "get"),
        ("pods", "list"),
        ("pods", "watch"),
        ("pods", "patch"),
        ("pods/binding", "create"),
        ("pods/eviction", "create"),
        ("pods/status", "patch"),
        ("pods", "delete"),
        ("events", "create"),
        ("events", "get"),
        ("events", "patch"),
        ("poddisruptionbudgets", "list"),
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
        ("namespaces", "list"),
        ("namespaces", "watch"),
        ("podgroups", "list"),
        ("podgroups", "watch"),
        ("podgroups/status", "patch"),
    }
    more = made(delete_after=60)
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]} in more[
        "ClusterRole", "hivedscheduler-extender"
    ]["rules"]
    command = more["Deployment", "hivedscheduler-extender"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[-4:] == ["--delete-after", "60", "--longest-grace", "300"]
    usual = made()["Deployment", "hivedscheduler-extender"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert usual[-4:] == ["--delete-after", "600", "--longest-grace", "300"]


def test_devices_of_every_maker_are_asked_about_and_guarded() -> None:
    found = made()
    config = yaml.safe_load(found["ConfigMap", "hivedscheduler"]["data"]["scheduler.yaml"])
    (extender,) = config["extenders"]
    assert {one["name"] for one in extender["managedResources"]} == {ENABLE, *DEVICES}
    assert [one["name"] for one in extender["managedResources"] if one["ignoredByScheduler"]] == [ENABLE]
    policy = str(found["ValidatingAdmissionPolicy", "hivedscheduler-devices"]["spec"]["validations"])
    assert all(f"'{one}'" in policy for one in DEVICES)


def test_the_choices_reach_where_they_belong() -> None:
    found = made(scheduler_name="gpu", namespace="elsewhere", image="r/p:1", kube_image="k:1", replicas=3)
    config = yaml.safe_load(found["ConfigMap", "hivedscheduler"]["data"]["scheduler.yaml"])
    assert config["profiles"] == [{"schedulerName": "gpu"}]
    assert "elsewhere.svc" in config["extenders"][0]["urlPrefix"]
    assert config["percentageOfNodesToScore"] == 100
    assert "kubeconfig" not in config["clientConnection"], "in a pod its own service account counts"
    extender = found["Deployment", "hivedscheduler-extender"]["spec"]
    assert extender["replicas"] == 3
    assert extender["template"]["spec"]["containers"][0]["image"] == "r/p:1"
    assert "elsewhere/hivedscheduler-extender" in extender["template"]["spec"]["containers"][0]["command"]
    assert scheduler_configuration(Choices(scheduler_name="gpu"))["profiles"] == [{"schedulerName": "gpu"}]


def test_both_show_each_other_certificates_and_keys_are_in_secrets_only() -> None:
    certificates = CertificateSet(*(f"PEM of {name}" for name in CertificateSet.__annotations__))
    found = objects(Choices(), "1.2.3", certificates)
    others = str([one for one in found if one["kind"] != "Secret"])
    for text in asdict(certificates).values():
        assert text not in others
        assert base64.b64encode(text.encode()).decode() not in others
    there = {one["metadata"]["name"]: one["data"] for one in found if one["kind"] == "Secret"}
    assert {name: sorted(data) for name, data in there.items() if name != "hivedscheduler-ca"} == {
        "hivedscheduler-extender-tls": ["ca.crt", "tls.crt", "tls.key"],
        "hivedscheduler-client-tls": ["ca.crt", "tls.crt", "tls.key"],
    }
    mounted = {
        one["metadata"]["name"]: [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
        for one in found
        if one["kind"] == "Deployment"
        for volumes in [one["spec"]["template"]["spec"]["volumes"]]
    }
    assert mounted == {
        "hivedscheduler": ["hivedscheduler-client-tls"],
        "hivedscheduler-extender": ["hivedscheduler-extender-tls"],
    }
    (extender,) = scheduler_configuration(Choices())["extenders"]
    assert extender["urlPrefix"].startswith("https://")
    assert extender["enableHTTPS"] is True


def test_new_certificates_replace_the_pods_and_nothing_else_does() -> None:
    def templates(first: str) -> list[str]:
        certificates = CertificateSet(first, *["x"] * 5)
        found = objects(Choices(), "1.2.3", certificates)
        return [str(one["spec"]["template"]) for one in found if one["kind"] == "Deployment"]

    assert templates("a") == templates("a")
    assert all(one != other for one, other in zip(templates("a"), templates("b"), strict=True))


def test_plain_http_is_a_choice() -> None:
    found = made(tls=False)
    assert not [kind for kind, _ in found if kind == "Secret"]
    (extender,) = scheduler_configuration(Choices(tls=False))["extenders"]
    assert extender["urlPrefix"].startswith("http://")
    assert "--tls-cert" not in str(found["Deployment", "hivedscheduler-extender"])


def test_a_name_that_is_none_is_refused() -> None:
    for choices in (Choices(scheduler_name="A B"), Choices(namespace="x\ny: z")):
        with pytest.raises(PaictlError, match="is not a valid"):
            objects(choices, "1")


def test_the_gates_need_no_kube_scheduler_and_no_configuration_of_one() -> None:
    found = made(door="gates", gate_policy=True, hived_config="physicalCluster:\n  a: 1\n", delete_after=math.inf)
    assert ("Deployment", "hivedscheduler") not in found
    assert not [name for _, name in found if name.startswith("hivedscheduler-extender")]
    assert set(found["ConfigMap", "hivedscheduler-placer"]["data"]) == {"hivedscheduler.yaml"}
    template = found["Deployment", "hivedscheduler-placer"]["spec"]["template"]["spec"]
    (container,) = template["containers"]
    assert container["command"][:3] == ["paictl", "placer", "serve"]
    names = {volume["configMap"]["name"] for volume in template["volumes"] if "configMap" in volume}
    assert names == {"hivedscheduler-placer"}
    rules = found["ClusterRole", "hivedscheduler-placer"]["rules"]
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert ("pods/binding", "create") not in granted
    assert {("pods", "patch"), ("pods", "delete"), ("pods/eviction", "create"), ("namespaces", "watch")} <= granted
    assert ("MutatingAdmissionPolicy", "paictl-cells-gate") in found
    assert ("MutatingAdmissionPolicy", "paictl-cells-gate") not in made(door="gates")


def test_both_doors_share_one_lease() -> None:
    """Two of them at once would give one device twice."""
    leases = set()
    for door, name in (("extender", "hivedscheduler-extender"), ("gates", "hivedscheduler-placer")):
        found = made(door=door)
        command = found["Deployment", name]["spec"]["template"]["spec"]["containers"][0]["command"]
        leases.add(command[command.index("--lease") + 1])
        rules = [one for one in found["Role", f"{name}-lease"]["rules"] if one["resources"] == ["leases"]]
        (rule,) = [one for one in rules if "resourceNames" in one]
        assert f"paictl-system/{rule['resourceNames'][0]}" in leases
    assert leases == {"paictl-system/hivedscheduler-extender"}


@pytest.mark.parametrize(
    ("door", "name"), [("extender", "hivedscheduler-extender"), ("gates", "hivedscheduler-placer")]
)
def test_both_doors_heed_the_windows_that_they_may_read(door: str, name: str) -> None:
    found = made(door=door)
    command = found["Deployment", name]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[command.index("--maintenance") + 1] == NAMESPACE
    (rule,) = [one for one in found["Role", f"{name}-lease"]["rules"] if one["resources"] == ["configmaps"]]
    assert (rule["resourceNames"], set(rule["verbs"])) == ([WINDOWS], {"list", "watch"})
    assert found["Role", f"{name}-lease"]["metadata"]["namespace"] == NAMESPACE


def test_there_is_no_other_door() -> None:
    with pytest.raises(PaictlError, match="window"):
        objects(Choices(door="window"), "1")
