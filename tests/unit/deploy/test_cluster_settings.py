"""Keys of `deploy:` that change on a running cluster: every one takes effect or is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from paictl.deploy.cluster_settings import KEYS, Effect, KeyRule, changed_sections, notes_of, refuse_fixed
from paictl.deploy.control_plane import AuditLog, TokenProvider
from paictl.deploy.desired import MARK, OWNED, Desired
from paictl.deploy.downloads import Proxies, RegistryAccount
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Deployment
from paictl.deploy.kubeadm import changed_configuration
from paictl.deploy.phases import planned
from paictl.deploy.settings import DeploySettings, LoginSettings
from paictl.deploy.site import DeployError
from paictl.deploy.storage_class import StorageClass
from tests.conftest import ROOT
from tests.unit.deploy.loading import load
from tests.unit.deploy.preflight.test_checks import facts
from tests.unit.deploy.test_inventory import made

SCHEMA = json.loads((ROOT / "schemas/config.schema.json").read_text(encoding="utf-8"))
ANOTHER: Mapping[str, Any] = {
    "cluster": "other",
    "version": "v1.36.0",
    "artifacts": "/elsewhere",
    "repository": "mirror.example/k8s",
    "mirrors": {"docker.io": ("https://m.example",)},
    "insecure": ("10.0.0.5:5000",),
    "accounts": {"r.example": RegistryAccount("bo", "kelp")},
    "proxies": Proxies("http://p.example:3128"),
    "api_address": "10.77.0.99",
    "endpoint": "balancer.example:6443",
    "login": LoginSettings("deploy", "x", port=2222),
    "network": "flannel",
    "closed_ports": (22,),
    "exempt_namespaces": ("monitoring",),
    "pods": "10.99.0.0/16",
    "services": "10.98.0.0/16",
    "domain": "pai.local",
    "proxy_mode": "iptables",
    "swap_allowed": True,
    "jobs_on_masters": True,
    "offline": True,
    "ignored_checks": ("Mem",),
    "encrypts": False,
    "audit": AuditLog(enabled=False),
    "gates": {"WatchList": True},
    "oidc": TokenProvider("https://id.example", "kubernetes"),
    "storage_class": StorageClass(),
    "node_dns": True,
    "driver_by_service": True,
    "pod_security": {"research": "restricted"},
    "etcd": {"quota-backend-bytes": 1},
    "api_server": {"profiling": True},
    "kubelet": {"maxPods": 50},
    "kube_proxy": {"metricsBindAddress": "0.0.0.0:1"},
    "containerd": {"restrict_oom_score_adj": True},
}
"""Another value of each field of `DeploySettings` than the one a cluster began with."""


def running(deployment: Deployment) -> dict[str, HostFacts]:
    """The hosts of a cluster that runs as a deployment says."""
    settings, notes = deployment.settings, notes_of(deployment)
    found = {}
    for one in deployment.machines:
        master = one in deployment.masters
        cluster = {
            "pods": settings.pods,
            "services": settings.services,
            "domain": settings.domain,
            "repository": settings.repository,
            "endpoint": deployment.endpoint,
        }
        values = {
            "begun": settings.cluster,
            "done": settings.cluster,
            "kubernetes": ["/etc/kubernetes/kubelet.conf"],
            "settings": notes[one.name],
            "cluster": cluster if master else dict.fromkeys(cluster, ""),
            "units": {"containerd": "active", "paictl-network": "active"},
            "differences": {},
            "network": "",
            "encryption": {
                "used": settings.encrypts and master,
                "writer": "key1" if settings.encrypts else "",
                "written": "key1" if settings.encrypts else "",
            },
            "host": facts("debian", {"others": {"cni": ["/etc/cni/net.d/10-paictl.conflist"]}}),
        }
        found[one.name] = HostFacts(one, values)
    return found


def site(before: Deployment, after: Deployment) -> Any:
    """A cluster that began as `before`, looked at for `after`."""
    desired = SimpleNamespace(deployment=after, version="v1.37.1", images=(), units=lambda _: ["paictl-network"])
    return SimpleNamespace(
        desired=desired, facts=running(before), machines=after.machines, cluster=after.settings.cluster
    )


def changed(deployment: Deployment, **values: Any) -> Deployment:
    return replace(deployment, settings=replace(deployment.settings, **values))


def test_every_key_of_the_schema_and_every_setting_is_in_the_table() -> None:
    ours = {rule.key for rule in KEYS if "." not in rule.key}
    assert ours == set(SCHEMA["properties"]["deploy"]["properties"])
    assert {name for rule in KEYS for name in rule.fields} == {one.name for one in fields(DeploySettings)} - {"notes"}
    assert set(ANOTHER) == {name for rule in KEYS for name in rule.fields}
    assert all(rule.section for rule in KEYS if rule.effect is Effect.NOTED)
    assert all(rule.fact and rule.advice for rule in KEYS if rule.effect is Effect.FIXED)


@pytest.mark.parametrize(
    "rule", [one for one in KEYS if one.effect is Effect.FIXED and one.fact != "version"], ids=lambda one: one.key
)
def test_what_a_running_cluster_keeps_is_refused_by_its_key_with_both_values(tmp_path: Path, rule: KeyRule) -> None:
    before = made(tmp_path)
    for name in rule.fields:
        with pytest.raises(DeployError) as caught:
            refuse_fixed(site(before, changed(before, **{name: ANOTHER[name]})))
        said = str(caught.value)
        assert rule.key in said
        assert str(ANOTHER[name]) in said
        assert rule.advice in said


@pytest.mark.parametrize("rule", [one for one in KEYS if one.effect is Effect.NOTED], ids=lambda one: one.key)
def test_what_can_be_changed_is_planned_with_both_values(tmp_path: Path, rule: KeyRule) -> None:
    """Edits of kubelet, api_server_arguments and proxy_mode were once "as it shall be"."""
    before = made(tmp_path)
    for name in rule.fields:
        after = changed(before, **{name: ANOTHER[name]})
        changes = [one for one in planned(site(before, after)) if one.phase == "settings"]
        assert changes, name
        assert any(rule.section in line for one in changes for line in one.what)
        assert all(" -> " in line for one in changes for line in one.what)


@pytest.mark.parametrize("rule", [one for one in KEYS if one.effect is Effect.FILES], ids=lambda one: one.key)
def test_what_files_have_makes_other_files_or_is_the_place_of_artifacts(tmp_path: Path, rule: KeyRule) -> None:
    before = made(tmp_path)
    for name in rule.fields:
        if name == "artifacts":  # their content is compared by hash, wherever they lie
            continue
        both = []
        for deployment in (before, changed(before, **{name: ANOTHER[name]})):
            artifacts: Any = SimpleNamespace(where="", need=lambda _: SimpleNamespace(version="2.4.2"))
            both.append(Desired(deployment, artifacts, "v1.37.1", ()).files(deployment.first))
        assert both[0] != both[1], name


def test_nothing_is_planned_where_nothing_changed(tmp_path: Path) -> None:
    before = made(tmp_path)
    refuse_fixed(site(before, before))
    assert [one for one in planned(site(before, before)) if one.phase == "settings"] == []


def test_a_key_that_was_taken_out_is_a_change(tmp_path: Path) -> None:
    before = changed(made(tmp_path), kubelet={"maxPods": 50, "evictionHard": {"memory.available": "5%"}})
    after = changed(before, kubelet={"maxPods": 60})
    found = changed_sections(after, running(before)["w1"])
    assert found == {"kubelet": ['evictionHard: {"memory.available": "5%"} -> -', "maxPods: 50 -> 60"]}


def test_a_cluster_of_an_older_paictl_gets_its_settings_once(tmp_path: Path) -> None:
    before = made(tmp_path)
    one = running(before)["m1"]
    old = HostFacts(one.machine, {**one.values, "settings": ""})
    assert set(changed_sections(before, old)) >= {"kubelet", "kube_proxy", "api_server_arguments", "etcd_arguments"}


def test_what_the_cluster_keeps_from_now_on_has_no_place_for_secrets(tmp_path: Path) -> None:
    after = changed(made(tmp_path), api_server={"profiling": False})
    parts = list(yaml.safe_load_all(changed_configuration(after, "v1.37.1", ())))
    assert [one["kind"] for one in parts] == [
        "InitConfiguration",
        "ClusterConfiguration",
        "KubeletConfiguration",
        "KubeProxyConfiguration",
    ]
    assert "certificateKey" not in parts[0]
    assert {"name": "profiling", "value": "false"} in parts[1]["apiServer"]["extraArgs"]


def test_a_registry_without_mirrors_any_more_loses_its_file(tmp_path: Path) -> None:
    host = load("module_utils/paictl_host.py")
    ours, theirs = tmp_path / "docker.io/hosts.toml", tmp_path / "own.example/hosts.toml"
    for path, content in ((ours, f"{MARK}\nserver = 'x'\n"), (theirs, "server = 'y'\n")):
        path.parent.mkdir()
        path.write_text(content)
    pattern = str(tmp_path / "*/hosts.toml")
    assert host.left_files([], [pattern]) == [str(ours)]
    assert host.left_files([{"path": str(ours)}], [pattern]) == []
    assert host.MARK == MARK
    assert OWNED


def test_a_section_noted_as_null_is_applied_anew_and_the_others_are_not(tmp_path: Path) -> None:
    """What an apply that was interrupted has left: only what it was changing is unknown."""
    deployment = made(tmp_path)
    first = deployment.first
    facts = running(deployment)[first.name]
    note = {**json.loads(facts.values["settings"]), "pod_security": None}
    facts = HostFacts(first, {**facts.values, "settings": json.dumps(note)})
    assert changed_sections(deployment, facts) == {"pod_security": ["the previously applied value is unknown"]}
