"""Configurations that every template has to cope with, and what is rendered from them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.manifests.context import Renderer, RenderInputs
from paictl.cluster.manifests.templating import Manifest
from paictl.cluster.presets import preset_files
from paictl.config.pushing.push import seal_files, secrets_of
from tests.conftest import ROOT

Json = dict[str, Any]

LAYOUT, SERVICES = "layout.yaml", "services-configuration.yaml"
TEMPLATES = ROOT / "templates"

NO_DEVICES = """\
machine-sku:
  plain: {mem: 8Gi, cpu: {vcore: 4}}
machine-list:
  - {hostname: only, hostip: 10.0.0.1, machine-type: plain, pai-master: "true", pai-worker: "true"}
"""
MIXED = """\
machine-sku:
  plain: {mem: 60Gi, cpu: {vcore: 24}}
  nv: {mem: 220Gi, cpu: {vcore: 24}, computing-device: {type: nvidia.com/gpu, model: A100, count: 8}}
  amd: {mem: 220Gi, cpu: {vcore: 24}, computing-device: {type: amd.com/gpu, model: MI210, count: 8}}
  npu: {mem: 220Gi, cpu: {vcore: 24}, computing-device: {type: huawei.com/npu, model: N910, count: 8}}
machine-list:
  - {hostname: m0, hostip: 10.0.0.1, machine-type: plain, pai-master: "true"}
  - hostname: w-1.lab
    hostip: 10.0.0.2
    machine-type: nv
    pai-worker: "true"
    taints: ["paictl.io/jobs:NoSchedule", "owner=lab-2:PreferNoSchedule"]
  - {hostname: w2, hostip: 10.0.0.3, machine-type: amd, pai-worker: "true"}
  - {hostname: w3, hostip: 10.0.0.4, machine-type: npu, pai-worker: "true"}
"""
LEAST = """\
rest-server: {default-pai-admin-username: admin, default-pai-admin-password: admin-password}
"""
ALL_OPTIONS = """\
cluster:
  common: {cluster-id: "odd: name", grafana: "true"}
  docker-registry: {domain: "registry.lab:5000", namespace: pai, username: u, password: "p'w\\"d: #", secret-name: pull}
images: {grafana: "other.lab/g:1"}
rest-server:
  default-pai-admin-username: admin
  default-pai-admin-password: 12345678
  server-port: 8443
  node-port: 31000
  replicas: 2
  tls-names: [pai.lab.example, 10.9.8.7]
  tasks-url: https://*.tasks.lab.example:31001
  tasks-node-port: 31001
authentication:
  oidc: {issuer: "https://id.lab.example", client-id: paictl, client-secret: "oidc p'w", groups: {vision: [default]}}
webportal: {server-port: 443, node-port: null}
hivedscheduler: {delete-after: 30, replicas: 3}
frameworkcontroller: {replicas: 1, keep: 7d}
gpu-driver: {enabled: true, system: ubuntu22.04, version: 570.195.03}
device-plugin: {nvidia: {device-list-strategy: envvar, mig-strategy: mixed}}
node-exporter: {port: 9110}
job-exporter: {port: 9112, interval: 5}
prometheus:
  port: 9099
  node-port: 31001
  scrape_interval: 15
  storage-retention-time: 30d
  storage: {class: "", size: 100Gi}
  customized-alerts: |
    groups:
      - name: own
        rules: [{alert: Own, expr: up == 0, annotations: {summary: "{{ $labels.node }}"}}]
alert-manager:
  port: 9099
  node-port: 31002
  repeat-interval: 1h
  alert-handler:
    email-configs:
      admin-receiver: admin@lab.example
      smtp-host: smtp.lab.example
      smtp-port: 587
      smtp-from: a@lab.example
      smtp-auth-username: "a: b"
      smtp-auth-password: "p'w\\"d: #"
  customized-routes: {routes: [{receiver: chat, matchers: ["severity = critical"]}]}
  customized-receivers:
    - {name: chat, actions: {email-admin: null, webhook: {url: "http://chat.lab.example/hook"}, stop-jobs: null}}
  extra-receivers: |
    - name: more
      webhook_configs: [{url: "http://token@chat.lab.example"}]
grafana: {port: 3001, node-port: 31003, anonymous: false, admin-password: 1234567890}
"""
BEHIND_A_PROXY = """\
rest-server:
  default-pai-admin-username: admin
  default-pai-admin-password: admin-password
  node-port: null
  behind-proxy: [10.0.0.7, 10.1.0.0/16]
prometheus: {storage: {node: m0, path: /datastorage/prometheus}}
device-plugin: {devices: [amd.com/gpu]}
gpu-driver: {enabled: true, kernel-module: open, system: ubuntu24.04}
dra-driver: {enabled: true, driver-root: /run/nvidia/driver, cdi-hook: /usr/bin/nvidia-cdi-hook}
cluster: {common: {node-exporter: "true"}}
"""
OWN_CERTIFICATE = """\
rest-server: {default-pai-admin-username: admin, default-pai-admin-password: admin-password, tls-secret-name: pai-tls}
device-plugin: {enabled: false}
cluster: {common: {grafana: "false", prometheus: "false", alert-manager: "false", node-exporter: "false",
  job-exporter: "false"}}
"""

SYSTEMS = {"m0": "debian12", "w-1.lab": "ubuntu24.04", "w2": "ubuntu22.04"}
"""What nodes of the layouts run."""

CONFIGURATIONS: Mapping[str, Mapping[str, str]] = {
    "preset lab": preset_files("lab"),
    "no devices": {LAYOUT: NO_DEVICES, SERVICES: LEAST},
    "all options": {LAYOUT: MIXED, SERVICES: ALL_OPTIONS},
    "behind a proxy": {LAYOUT: MIXED, SERVICES: BEHIND_A_PROXY},
    "own certificate": {LAYOUT: MIXED, SERVICES: OWN_CERTIFICATE},
}


def service_names() -> list[str]:
    """All services with a description."""
    return sorted(path.parent.name for path in TEMPLATES.glob("*/service.yaml"))


def renderer(files: Mapping[str, str]) -> Renderer:
    """Renders a configuration as it would have been pushed."""
    sealed = seal_files(dict(files))
    secrets = secrets_of(dict(files), sealed)
    inputs = RenderInputs("pai", NAMESPACE, JOBS_NAMESPACE, "1.2.3", sealed, secrets, systems=lambda: SYSTEMS)
    return Renderer(inputs)


def rendered(files: Mapping[str, str]) -> dict[str, list[Manifest]]:
    """The objects of all services."""
    made = renderer(files)
    return {name: made.render(name) for name in service_names()}


Catalogue = dict[str, dict[str, list[Manifest]]]
"""Objects by configuration and service."""


def whole_catalogue() -> Catalogue:
    """What all templates come to, for all configurations that they have to cope with."""
    with pytest.MonkeyPatch.context() as patch:  # not beyond: the result lives as long as all tests
        patch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
        return {name: rendered(files) for name, files in CONFIGURATIONS.items()}


KINDS_WITH_PODS = ("Deployment", "DaemonSet", "StatefulSet", "Job")


def objects(services: Mapping[str, list[Manifest]], *kinds: str) -> Iterator[tuple[str, Json]]:
    """(service, object) of one configuration; of some kinds."""
    for service, found in services.items():
        yield from ((service, one.body) for one in found if not kinds or one.kind in kinds)


def everywhere(catalogue: Catalogue, *kinds: str) -> Iterator[tuple[str, Json]]:
    """(service, object) of all configurations."""
    for services in catalogue.values():
        yield from objects(services, *kinds)


def pods(services: Mapping[str, list[Manifest]]) -> Iterator[tuple[str, Json]]:
    """(name of the workload, pod spec) of one configuration."""
    for _, body in objects(services, *KINDS_WITH_PODS):
        yield body["metadata"]["name"], body["spec"]["template"]["spec"]


def all_pods(catalogue: Catalogue) -> Iterator[tuple[str, Json]]:
    """(name of the workload, pod spec) of all configurations."""
    for services in catalogue.values():
        yield from pods(services)


def containers(spec: Json) -> list[Json]:
    """Of a pod, those that prepare it too."""
    return [*spec.get("initContainers", ()), *spec["containers"]]


def by_name(found: list[Manifest], kind: str, name: str) -> Json:
    """The object of a kind and name."""
    (one,) = [one.body for one in found if (one.kind, one.name) == (kind, name)]
    return one


def alerting(found: Mapping[str, list[Manifest]]) -> Json:
    """What the alert manager reads."""
    secret = by_name(found["alert-manager"], "Secret", "alert-manager")
    config: Json = yaml.safe_load(base64.b64decode(secret["data"]["alertmanager.yml"]))
    return config


def prometheus(found: Mapping[str, list[Manifest]], file: str) -> Json:
    """A file of Prometheus' configuration."""
    config: Json = yaml.safe_load(by_name(found["prometheus"], "ConfigMap", "prometheus")["data"][file])
    return config


def dashboards(found: Mapping[str, list[Manifest]]) -> dict[str, Json]:
    """Grafana's dashboards by file."""
    data = by_name(found["grafana"], "ConfigMap", "grafana-dashboards")["data"]
    return {name: json.loads(text) for name, text in data.items()}


def corpus_files(corpus: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Real settings of services: whole files, and every section of defaults, each with a real layout."""
    layout = (corpus / "layout" / "pai-kubespray.yaml").read_text(encoding="utf-8")
    for path in sorted((corpus / "services").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if path.name.startswith("defaults-"):  # defaults-NAME-NAME.yaml
            twice = path.stem.removeprefix("defaults-")
            section, least = twice[: len(twice) // 2], yaml.safe_load(LEAST)
            own = yaml.safe_load(text)
            whole = least | {section: {**least.get(section, {}), **own} if isinstance(own, dict) else own}
            text = yaml.safe_dump(whole)
        yield path.name, {LAYOUT: layout, SERVICES: text}
