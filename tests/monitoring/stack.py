"""The monitoring services beside a real control plane: rendered from a configuration, run as their pods would be.

Their programs are processes. The API server knows of them by pods that kwok imagines on nodes at 127.0.0.1: pods of the
rendered templates, but for the ports, which are those of the processes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.e2e_kube.accounts import SPACE, install, token
from tests.e2e_kube.controlplane import HOST, Program, answers, free_ports
from tests.e2e_kube.jobrig import JobRig
from tests.e2e_kube.kubeapi import Json, until
from tests.monitoring.container import contained
from tests.monitoring.hook import Hook
from tests.monitoring.programs import program
from tests.unit.cluster.catalogue import (
    KINDS_WITH_PODS,
    LAYOUT,
    LEAST,
    MIXED,
    SERVICES,
    by_name,
    objects,
    rendered,
)

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Stack:
    """Addresses of what runs, and what it says."""

    def __init__(self, rig: JobRig, hook: Hook, folder: Path) -> None:
        self.rig, self.plane, self.api = rig, rig.plane, rig.api
        self.folder = folder
        self.ports = dict(zip(("prometheus", "alertmanager", "node-exporter"), free_ports(3), strict=True))
        self.pods: list[str] = []
        self.rendered = rendered({LAYOUT: MIXED, SERVICES: self._settings(hook)})

    def _settings(self, hook: Hook) -> str:
        """A look a second, and every alert on to the hook."""
        routes = [{"receiver": "hook", "group_wait": "0s", "group_interval": "1s"}]
        own = {
            "prometheus": {"scrape_interval": 1},
            "hivedscheduler": {"tls": False},  # as the rig starts it
            "node-exporter": {"port": self.ports["node-exporter"]},
            "alert-manager": {
                "port": self.ports["alertmanager"],
                "customized-routes": {"routes": routes},
                "customized-receivers": [{"name": "hook", "actions": {"webhook": {"url": hook.url}}}],
            },
        }
        return yaml.safe_dump({**yaml.safe_load(LEAST), **own})

    def start(self) -> None:
        """Pods of what runs already and of what is started here; all three answer."""
        self._no_other_pods()
        self._pods()
        self._contained("node-exporter", "node-exporter", {}, host="/host", ready="/")
        secret = by_name(self.rendered["alert-manager"], "Secret", "alert-manager")
        self._contained(
            "alertmanager",
            "alert-manager",
            {
                "/etc/alertmanager/alertmanager.yml": base64.b64decode(secret["data"]["alertmanager.yml"]),
            },
            data="/alertmanager",
            ready="/-/ready",
        )
        self._start_prometheus()

    def stop(self) -> None:
        for name in self.ports:
            if name in self.plane.programs:
                self.plane.programs[name].stop()
        for name in self.pods:
            self.api.delete(name, SPACE)

    def _no_other_pods(self) -> None:
        """Those that the rig's manifests make have addresses that kwok thinks of: nobody is to be asked there."""
        self.api.call("DELETE", f"/apis/apps/v1/namespaces/{SPACE}/deployments?propagationPolicy=Background")
        until(lambda: not self.api.pods(SPACE), 60, "the pods of Deployments are gone")

    def _pods(self) -> None:
        """A pod each of the extender, the controller, Alertmanager and node-exporter."""
        space = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}
        self.api.patch(f"/api/v1/namespaces/{SPACE}", space)  # node-exporter's sees the host
        ports = {
            "hivedscheduler-extender": self.rig.rig.port,
            "frameworkcontroller": self.rig.port,
            "alert-manager": self.ports["alertmanager"],
            "node-exporter": self.ports["node-exporter"],
        }
        made = {
            body["metadata"]["name"]: body["spec"]["template"] for _, body in objects(self.rendered, *KINDS_WITH_PODS)
        }
        for name, port in ports.items():
            self.api.create(_pod(name, made[name], port))
            self.pods.append(name)
        until(lambda: all(map(self._has_address, ports)), 60, "pods have addresses")

    def _has_address(self, name: str) -> bool:
        pod = self.api.pod(name, SPACE)
        return pod is not None and pod["status"].get("podIP") == HOST

    def _start_prometheus(self) -> None:
        """With the rights and the token of its account, and the files of its ConfigMap, but for the seconds in them."""
        found = self.rendered["prometheus"]
        wanted = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
        install(self.api, [one.body for one in found if one.kind in wanted])
        data = by_name(found, "ConfigMap", "prometheus")["data"]
        files: dict[str, str | bytes] = {f"/etc/prometheus/{name}": text for name, text in data.items()}
        port = self.ports["prometheus"]
        files["/etc/prometheus/prometheus.yml"] = data["prometheus.yml"].replace("127.0.0.1:9090", f"{HOST}:{port}")
        files["/etc/prometheus/rules.yml"] = re.sub(r"for: \S+", "for: 1s", data["rules.yml"])
        files["/etc/hosts"] = f"{HOST} alert-manager.{SPACE}.svc\n"
        files[f"{ACCOUNT}/token"] = token(self.api, "prometheus")
        files[f"{ACCOUNT}/ca.crt"] = (self.plane.folder / "ca.crt").read_bytes()
        self._contained("prometheus", "prometheus", files, data="/prometheus", ready="/-/ready")

    def _contained(
        self, name: str, workload: str, files: dict[str, str | bytes], *, ready: str, data: str = "", host: str = ""
    ) -> None:
        """Start a program with the options of its pod, but for the address; and wait until it answers."""
        (spec,) = (
            body["spec"]["template"]["spec"]
            for _, body in objects(self.rendered, *KINDS_WITH_PODS)
            if body["metadata"]["name"] == workload
        )
        address = f"{HOST}:{self.ports[name]}"
        words = [
            re.sub(r"^--web.listen-address=.*", f"--web.listen-address={address}", word)
            for word in spec["containers"][0]["args"]
        ]
        told = {"KUBERNETES_SERVICE_HOST": HOST, "KUBERNETES_SERVICE_PORT": str(self.plane.ports["api"])}
        line = contained(program(name), words, self.folder / name, files, data=data, host=host)
        self.plane.programs[name] = Program(name, line, self.folder / f"{name}.log", told)
        self.plane.programs[name].start()
        self.plane.programs[name].wait_until(lambda: answers(f"http://{address}{ready}"))

    def ask(self, name: str, path: str, **query: str) -> Any:
        """What a program answers to a GET, as JSON."""
        url = f"http://{HOST}:{self.ports[name]}{path}?{urllib.parse.urlencode(query)}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=20) as reply:
            return json.load(reply)

    def targets(self) -> dict[str, Json]:
        """What Prometheus looks at, by job."""
        found = self.ask("prometheus", "/api/v1/targets", state="active")["data"]["activeTargets"]
        return {one["labels"]["job"]: one for one in found}


def _pod(name: str, template: Json, port: int) -> Json:
    """A pod as its template has it for Prometheus: labels, and names of ports; at the port of a process."""
    labels = {**template["metadata"]["labels"], "app.kubernetes.io/part-of": "paictl"}
    named = [
        {
            "name": container["name"],
            "image": "none",
            "ports": [{"name": one["name"], "containerPort": port} for one in container.get("ports", ())],
        }
        for container in template["spec"]["containers"]
    ]
    spec = {"nodeName": "n0", "hostNetwork": True, "containers": named, "tolerations": [{"operator": "Exists"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": SPACE, "labels": labels},
        "spec": spec,
    }


@contextlib.contextmanager
def stack(rig: JobRig, hook: Hook, folder: Path) -> Iterator[Stack]:
    """It runs inside the block."""
    made = Stack(rig, hook, folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
