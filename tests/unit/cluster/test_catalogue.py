"""Templates of all services: they render, ask for few rights, are hardened, and name images that exist."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.config.linting.validate import validate
from paictl.config.models.services import load_images
from paictl.config.reading.load import load_memory
from tests.conftest import ROOT
from tests.unit.cluster.catalogue import (
    KINDS_WITH_PODS,
    LAYOUT,
    LEAST,
    MIXED,
    SERVICES,
    TEMPLATES,
    Catalogue,
    all_pods,
    by_name,
    containers,
    corpus_files,
    everywhere,
    objects,
    pods,
    renderer,
    service_names,
)

ROOT_NEEDED = {
    "nvidia-device-plugin": "the kubelet's socket for device plugins belongs to root",
    "amd-device-plugin": "the kubelet's socket for device plugins belongs to root",
    "nvidia-dra-driver": "the kubelet's socket for DRA drivers belongs to root",
    "nvidia-driver-ubuntu22-04": "it loads kernel modules",
    "nvidia-driver-ubuntu24-04": "it loads kernel modules",
    "job-exporter": "the kubelet's socket for resources of pods belongs to root",
}
"""Pods that run as root, and why."""
ADDED = {"job-exporter": {"SYS_ADMIN"}}
"""Capabilities beyond none."""


# --- all of them render


def test_every_setting_with_a_default_is_in_its_own_section_of_the_schema() -> None:
    """A setting in another section would be reported as unknown, and a secret there would not be sealed."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names)), f"a key is there twice among {', '.join(names)}"
        return dict(pairs)

    def unknown(settings: dict[str, Any], known: dict[str, Any], path: str) -> Iterator[str]:
        for key, value in settings.items():
            if key not in known:
                yield f"{path}.{key}"
            elif isinstance(value, dict) and "properties" in known[key]:
                yield from unknown(value, known[key]["properties"], f"{path}.{key}")

    path = ROOT / "schemas" / "services-configuration.schema.json"
    sections = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)["properties"]
    for defaults in TEMPLATES.glob("*/defaults.yaml"):
        name = defaults.parent.name
        settings = yaml.safe_load(defaults.read_text(encoding="utf-8")) or {}
        assert list(unknown(settings, sections[name]["properties"], name)) == []
    assert sections["alert-manager"]["properties"]["extra-receivers"]["x-secret"] is True
    assert sections["grafana"]["properties"]["admin-password"]["x-secret"] is True


def test_every_service_has_objects_somewhere(catalogue: Catalogue) -> None:
    assert {service for service, _ in everywhere(catalogue)} == set(service_names())
    assert len(service_names()) == 13


def test_no_object_is_there_twice(catalogue: Catalogue) -> None:
    for name, services in catalogue.items():
        keys = [
            (one.api_version, one.kind, one.body["metadata"].get("namespace", ""), one.name)
            for found in services.values()
            for one in found
        ]
        assert len(keys) == len(set(keys)), name


def test_no_sentence_ends_at_a_comma(catalogue: Catalogue) -> None:
    """In ``{description: Milliseconds, at most}`` YAML sees a second key, which the API server refuses."""
    cut = [f"{service}: {key}" for service, body in everywhere(catalogue) for key in _keys_without_value(body)]
    assert cut == []


def _keys_without_value(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (str(key) for key, item in value.items() if item is None and " " in str(key))
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _keys_without_value(item)


def test_real_settings_render(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each section of defaults with the service that reads it, whole files with all."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    done = {}
    for name, files in corpus_files(shared / "corpus"):
        made = renderer(files)
        section = name.removeprefix("defaults-").removesuffix(".yaml")
        own = section[: len(section) // 2]
        wanted = service_names() if not name.startswith("defaults-") else [own, "rest-server"]
        done[name] = sum(len(made.render(service)) for service in wanted if service in service_names())
    assert len(done) == 31
    assert min(done.values()) >= 9


def test_switched_off_means_no_objects(catalogue: Catalogue) -> None:
    off = catalogue["own certificate"]
    plugins = ("device-plugin", "dra-driver", "gpu-driver")
    for service in ("grafana", "prometheus", "alert-manager", "node-exporter", "job-exporter", *plugins):
        assert off[service] == [], service


def test_what_defaults_say_the_schema_knows() -> None:
    least = yaml.safe_load(LEAST)
    for path in sorted(TEMPLATES.glob("*/defaults.yaml")):
        section = {**least.get(path.parent.name, {}), **yaml.safe_load(path.read_text(encoding="utf-8"))}
        text = yaml.safe_dump({**least, path.parent.name: section})
        report = validate(load_memory({LAYOUT: MIXED.encode(), SERVICES: text.encode()}))
        found = {problem.rule: problem.message for problem in report.problems}
        assert not {rule for rule in found if rule.startswith("GEN")}, (path, found)


# --- hardening


def test_pods_run_as_somebody_without_rights_on_a_root_that_they_cannot_write(catalogue: Catalogue) -> None:
    for name, spec in all_pods(catalogue):
        about = spec.get("securityContext", {})
        for container in containers(spec):
            own = container["securityContext"]
            installs = name.startswith("nvidia-driver-") and container["name"] == "driver"  # into its own root
            assert own["readOnlyRootFilesystem"] is not installs, name
            if own.get("privileged"):
                assert installs or name in ("nvidia-device-plugin", "nvidia-dra-driver")
                continue
            assert own["allowPrivilegeEscalation"] is False, name
            assert own["capabilities"]["drop"] == ["ALL"], name
            assert set(own["capabilities"].get("add", ())) <= ADDED.get(name, set()), name
            assert about["seccompProfile"] == {"type": "RuntimeDefault"}, name
        if name not in ROOT_NEEDED:
            assert about["runAsNonRoot"] is True, name
            assert about["runAsUser"] > 0, name


def test_pods_say_what_they_need_and_whether_they_work(catalogue: Catalogue) -> None:
    for name, spec in all_pods(catalogue):
        assert spec.get("priorityClassName"), name
        for container in containers(spec):
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
        for container in spec["containers"]:
            if container.get("ports") and name != "hivedscheduler":
                assert {"livenessProbe", "readinessProbe"} <= container.keys(), name


def test_a_network_policy_lets_in_only_who_has_business_there(catalogue: Catalogue) -> None:
    """For each pod but those in the host's network, which no policy reaches; Prometheus may see what it scrapes."""
    for case, services in catalogue.items():
        policies = {
            one.body["spec"]["podSelector"]["matchLabels"][APP]: one.body["spec"]
            for rendered in services.values()
            for one in rendered
            if one.kind == "NetworkPolicy"
        }
        for _, body in objects(services, *KINDS_WITH_PODS):
            template = body["spec"]["template"]
            name = template["metadata"]["labels"][APP]
            if template["spec"].get("hostNetwork"):
                assert name not in policies
                continue
            there = {port["containerPort"] for one in containers(template["spec"]) for port in one.get("ports", ())}
            rules = policies[name].get("ingress", [])
            assert {port["port"] for rule in rules for port in rule["ports"]} <= there, (case, name)
            everyone = [rule for rule in rules if "from" not in rule]
            assert not everyone or name in ("rest-server", "prometheus", "alert-manager", "grafana"), (case, name)
    scraped = {"hivedscheduler-extender", "frameworkcontroller", "alert-manager", "job-exporter"}
    lab = {
        one.body["spec"]["podSelector"]["matchLabels"][APP]: str(one.body["spec"].get("ingress"))
        for rendered in catalogue["preset lab"].values()
        for one in rendered
        if one.kind == "NetworkPolicy"
    }
    assert {name for name, rules in lab.items() if "'prometheus'" in rules} >= scraped & lab.keys()
    assert "'hivedscheduler'" in lab["hivedscheduler-extender"], "kube-scheduler"


def test_the_host_is_opened_only_to_those_who_look_at_it(catalogue: Catalogue) -> None:
    for name, spec in all_pods(catalogue):
        if spec.get("hostNetwork") or spec.get("hostPID"):
            assert name == "node-exporter" or name.startswith("nvidia-driver-")
        for volume in spec.get("volumes", ()):
            if "hostPath" in volume and name not in ("node-exporter", *ROOT_NEEDED):
                assert (name, volume["hostPath"]["path"]) == ("prometheus", "/datastorage/prometheus")
        for container in spec["containers"]:
            whole = {
                volume["name"] for volume in spec.get("volumes", ()) if volume.get("hostPath", {}).get("path") == "/"
            }
            assert all(one.get("readOnly") for one in container.get("volumeMounts", ()) if one["name"] in whole), name


def test_two_pods_of_a_kind_have_a_disruption_budget(catalogue: Catalogue) -> None:
    for name, services in catalogue.items():
        for service, body in objects(services, "Deployment"):
            budgets = {one.name for one in services[service] if one.kind == "PodDisruptionBudget"}
            if body["spec"].get("replicas", 1) > 1:
                assert body["metadata"]["name"] in budgets, (name, service)


def test_every_mounted_volume_is_there(catalogue: Catalogue) -> None:
    for name, spec in all_pods(catalogue):
        there = {one["name"] for one in spec.get("volumes", ())}
        used = {mount["name"] for container in containers(spec) for mount in container.get("volumeMounts", ())}
        assert used == there, name


def test_objects_that_pods_name_are_there(catalogue: Catalogue) -> None:
    for services in catalogue.values():
        there = {(one.kind, one.name) for found in services.values() for one in found}
        for service, body in objects(services, *KINDS_WITH_PODS):
            spec = body["spec"]["template"]["spec"]
            assert ("ServiceAccount", spec["serviceAccountName"]) in there, service
            for volume in spec.get("volumes", ()):
                if "configMap" in volume:
                    assert ("ConfigMap", volume["configMap"]["name"]) in there, service
                if "secret" in volume and volume["secret"]["secretName"] != "pai-tls":
                    assert ("Secret", volume["secret"]["secretName"]) in there, service
            if spec["priorityClassName"].startswith("paictl-"):
                assert ("PriorityClass", spec["priorityClassName"]) in there, service


def test_services_lead_to_ports_that_pods_have(catalogue: Catalogue) -> None:
    for name, services in catalogue.items():
        made = [body["spec"]["template"] for _, body in objects(services, *KINDS_WITH_PODS)]
        for service, body in objects(services, "Service"):
            wanted = body["spec"]["selector"]["app.kubernetes.io/name"]
            ports = {
                port["name"]
                for template in made
                if template["metadata"]["labels"]["app.kubernetes.io/name"] == wanted
                for container in template["spec"]["containers"]
                for port in container.get("ports", ())
            }
            assert {port["targetPort"] for port in body["spec"]["ports"]} <= ports, (name, service)
            assert body["spec"].get("type", "ClusterIP") in ("ClusterIP", "NodePort")


# --- images


def test_every_image_is_named_in_one_file_and_none_there_is_unused(catalogue: Catalogue) -> None:
    references = {
        (container["image"], name)
        for name, spec in all_pods({key: one for key, one in catalogue.items() if key != "all options"})
        for container in containers(spec)
    }
    known = {f"{one}:1.2.3" if ":" not in one.rpartition("/")[2] else one for one in load_images().values()}
    drivers = {one for name, one in load_images().items() if name.startswith("nvidia-driver-")}  # one for each system
    assert {image for image, _ in references} | drivers == known
    for path in TEMPLATES.glob("*/*.j2"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.match(r"\s*(- )?image: (?!\{\{ image\()", line), (path, line)


def test_a_private_registry_gives_all_images_and_its_password_to_the_accounts(catalogue: Catalogue) -> None:
    found = catalogue["all options"]
    for name, spec in pods(found):
        for container in spec["containers"]:
            assert container["image"].startswith(("registry.lab:5000/pai/", "other.lab/")), name
    run_as = {spec.get("serviceAccountName") for _, spec in pods(found)}
    for service, body in objects(found, "ServiceAccount"):
        if body["metadata"]["namespace"] == NAMESPACE and body["metadata"]["name"] in run_as:
            assert body["imagePullSecrets"] == [{"name": "pull"}], service
    secret = by_name(found["cluster-configuration"], "Secret", "pull")
    login = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
    assert login == {"auths": {"registry.lab:5000": {"auth": base64.b64encode(b"u:p'w\"d: #").decode()}}}


# --- rights

READ = {"get", "list", "watch"}
APP = "app.kubernetes.io/name"
WRITES_OF_THE_CLUSTER = {
    ("hivedscheduler", "", "pods"),
    ("hivedscheduler", "", "pods/binding"),
    ("hivedscheduler", "", "pods/eviction"),
    ("hivedscheduler", "", "pods/status"),
    ("hivedscheduler", "", "events"),
    ("hivedscheduler", "authentication.k8s.io", "tokenreviews"),  # both only ask
    ("hivedscheduler", "authorization.k8s.io", "subjectaccessreviews"),
    ("hivedscheduler", "scheduling.k8s.io", "podgroups/status"),  # a condition of its own
    ("hivedscheduler", "", "nodes"),  # annotations: pods given up there, indexes of devices
    ("rest-server", "", "nodes"),  # cordon
    ("dra-driver", "resource.k8s.io", "resourceslices"),  # those of its node, by an admission policy
    ("frameworkcontroller", "scheduling.k8s.io", "priorityclasses"),
}
"""(service, group, resource) that a service may change in the whole cluster."""


def test_no_right_is_a_wildcard_and_few_reach_beyond_a_namespace(catalogue: Catalogue) -> None:
    for service, body in everywhere(catalogue, "Role", "ClusterRole"):
        for rule in body["rules"]:
            if "nonResourceURLs" in rule:  # what programs of ours show over HTTP; `*` stands for the rest of a path
                assert rule["verbs"] == ["get"], service
                assert "*" not in rule["nonResourceURLs"], service
                continue
            for part in ("apiGroups", "resources", "verbs"):
                assert "*" not in "".join(rule[part]), (service, rule)
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), service
            assert not {"nodes/proxy", "pods/exec", "pods/attach", "serviceaccounts/token"} & set(rule["resources"])
            if body["kind"] == "Role":
                assert body["metadata"]["namespace"] in (NAMESPACE, JOBS_NAMESPACE)
                continue
            assert "secrets" not in rule["resources"], service
            assert "configmaps" not in rule["resources"], service
            for resource in rule["resources"]:
                if set(rule["verbs"]) - READ:
                    assert (service, rule["apiGroups"][0], resource) in WRITES_OF_THE_CLUSTER


def test_secrets_are_listed_in_the_own_namespace_and_by_the_rest_server_only(catalogue: Catalogue) -> None:
    listing = {
        (service, body["metadata"]["namespace"])
        for service, body in everywhere(catalogue, "Role")
        for rule in body["rules"]
        if "secrets" in rule["resources"] and {"list", "watch"} & set(rule["verbs"])
    }
    assert listing == {("rest-server", NAMESPACE)}


def test_who_needs_no_token_has_none(catalogue: Catalogue) -> None:
    for services in catalogue.values():
        for service, body in objects(services, *KINDS_WITH_PODS):
            account = body["spec"]["template"]["spec"]["serviceAccountName"]
            bound = any(
                subject["name"] == account
                for _, binding in objects(services, "RoleBinding", "ClusterRoleBinding")
                for subject in binding["subjects"]
            )
            assert bound == (body["spec"]["template"]["spec"].get("automountServiceAccountToken") is not False), service
