"""`deploy.node_dns` on hosts: pods ask the cache of their node, it may fail, and it goes when no pod needs it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paictl.deploy.node_dns import ADDRESS, METRICS, UNIT
from tests.e2e_hosts.site import Site, site_of
from tests.e2e_hosts.test_reconfigure import apply, changed, kubectl, plan
from tools.hosts.artifacts import BUSYBOX
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1", reason="takes two minutes: PAICTL_E2E_ALL=1 make e2e-hosts"
)
NAME = "kubernetes.default.svc.cluster.local"
OF_CACHES = ("-n", "kube-system", "get", "pods", "-l", "k8s-app=node-dns")


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and a worker that reach no registry, deployed without a cache."""
    lab.up(2)
    bare = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1], [2])
    made = replace(bare, deploy={**bare.deploy, "offline": True}).write()
    assert apply(made).returncode == 0
    return made


def start(site: Site, name: str) -> None:
    """A pod on the worker that lives on."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": "h2",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": BUSYBOX, "command": ["sleep", "3600"]}],
        },
    }
    command = ["env", "KUBECONFIG=/etc/kubernetes/admin.conf", "kubectl", "apply", "-f", "-"]
    site.lab.machine(1).execute(command, text=json.dumps(pod))
    phase = ("get", "pod", name, "-o", "jsonpath={.status.phase}")
    wait_until(lambda: kubectl(site, *phase) == "Running", f"{name} runs", seconds=90)


def inside(site: Site, name: str, command: str) -> str:
    """What a command in a pod prints, and its exit code in a last line; a command that fails is no error.

    A kubelet that has just started again does not know its pods for a moment.
    """
    words = [
        "env",
        "KUBECONFIG=/etc/kubernetes/admin.conf",
        "kubectl",
        "exec",
        name,
        "--",
        "sh",
        "-c",
        f"{command}; echo $?",
    ]
    said: list[str] = []

    def runs() -> bool:
        done = site.lab.machine(1).execute(words, check=False)
        said.append(done.stdout)
        return done.returncode == 0

    wait_until(runs, f"a command in {name}", seconds=90, pause=0.5)
    return said[-1]


def hits(site: Site, number: int) -> int:
    """How many answers the cache of a host has taken out of its memory."""
    metrics = site.lab.machine(number).execute(["curl", "-sf", f"http://127.0.0.1:{METRICS}/metrics"]).stdout
    return int(sum(float(found) for found in re.findall(r"^coredns_cache_hits_total\{.*\} (\S+)$", metrics, re.M)))


def verified(site: Site) -> list[dict[str, Any]]:
    done = site.paictl("deploy", "verify", "-o", "json", *site.files)
    return [one for one in json.loads(done.stdout)["findings"] if one["check"] == "node-dns"]


def test_the_key_gives_each_node_a_cache_and_pods_ask_it(site: Site) -> None:
    start(site, "before")
    after = changed(site, node_dns=True)
    planned = {(one["phase"], one["host"]): one["what"] for one in plan(after)}
    assert planned["node-dns", "h1"] == [f"DNS cache on each node: {ADDRESS}"]
    assert any("clusterDNS: - -> " in line for line in planned["settings", "h2"])
    assert apply(after).returncode == 0
    assert plan(after) == []
    assert "nothing changed" in apply(after).stdout
    start(site, "after")
    assert f"nameserver {ADDRESS}" in inside(site, "after", "head -2 /etc/resolv.conf | grep nameserver")
    before = hits(site, 2)
    for _ in range(3):
        assert inside(site, "after", f"nslookup {NAME} >/dev/null").split() == ["0"]
    assert hits(site, 2) >= before + 2
    assert inside(site, "before", f"nslookup {NAME} >/dev/null").split() == ["0"]
    assert [(one["node"], one["verdict"]) for one in verified(after)] == [("h1", "ok"), ("h2", "ok")]
    audited = json.loads(after.paictl("deploy", "audit", "-o", "json", *after.files).stdout)
    assert [one for one in audited["findings"] if one["state"] == "fail"] == []


def test_pods_reach_nothing_else_of_it(site: Site) -> None:
    closed = f"echo | nc -w 2 {ADDRESS} {METRICS}"
    wait_until(lambda: inside(site, "after", closed).split()[-1:] == ["1"], "the port is closed", seconds=30)
    assert inside(site, "after", f"echo | nc -w 2 {ADDRESS} 53").split() == ["0"]


def test_names_are_found_while_the_cache_of_a_node_is_away_and_after_it_is_back(site: Site) -> None:
    after = changed(site, node_dns=True)
    started = kubectl(site, *OF_CACHES, "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}")
    assert started.split() == ["0", "0"]
    machine = site.lab.machine(2)
    listens = machine.execute(["ss", "-Hlunp", "src", f"{ADDRESS}:53"]).stdout
    machine.execute(["kill", "-9", *set(re.findall(r"pid=(\d+)", listens))])
    assert inside(site, "after", f"nslookup {NAME} >/dev/null").split() == ["0"]
    counts = (
        *OF_CACHES,
        "--field-selector=spec.nodeName=h2",
        "-o",
        "jsonpath={.items[0].status.containerStatuses[0]['restartCount','ready']}",
    )
    wait_until(lambda: kubectl(site, *counts) == "1 true", "the cache is back", seconds=90)
    machine.execute(["ip", "address", "delete", f"{ADDRESS}/32", "dev", "lo"])
    wait_until(lambda: ADDRESS in machine.execute(["ip", "addr", "show", "lo"]).stdout, "the address is back")
    # a cache that does not run on one node is named by it, and the others are not
    node = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "h1"}}}}}
    kubectl(site, "-n", "kube-system", "patch", "daemonset", "node-dns", "-p", json.dumps(node))
    wait_until(lambda: "h2" not in kubectl(site, *OF_CACHES, "-o", "wide"), "none on h2", seconds=90)
    assert inside(site, "after", f"nslookup {NAME} >/dev/null").split() == ["0"]
    assert [(one["node"], one["verdict"]) for one in verified(after)] == [("h1", "ok"), ("h2", "failed")]
    node["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": None}  # type: ignore[dict-item]
    kubectl(site, "-n", "kube-system", "patch", "daemonset", "node-dns", "-p", json.dumps(node))


def test_a_host_that_was_switched_off_has_its_cache_again(site: Site) -> None:
    machine = site.lab.machine(2)
    machine.kill()
    site.lab.start(2)
    wait_until(lambda: ADDRESS in machine.execute(["ip", "addr", "show", "lo"]).stdout, "the address", seconds=60)
    ask = f"nslookup {NAME} {ADDRESS} >/dev/null"
    wait_until(lambda: inside(site, "after", ask).split() == ["0"], "the cache answers", seconds=180)
    # What the cache has kept for an hour would hide that the cluster's DNS is not reached.
    dns = kubectl(site, "-n", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
    ask = f"nslookup {NAME} {dns} >/dev/null"
    wait_until(lambda: inside(site, "after", ask).split() == ["0"], "the cluster's DNS answers", seconds=90)


def test_without_the_key_it_stays_for_pods_that_use_it_and_goes_then(site: Site) -> None:
    site.write()
    planned = {(one["phase"], one["host"]): one["what"] for one in plan(site)}
    assert planned["node-dns", "h2"] == ["delete the DNS cache of the node, once no running pod uses it"]
    done = apply(site)
    assert done.returncode == 0
    assert "stays for 2 pods: default/after, default/before;" in " ".join(done.stderr.split())
    assert plan(site) == []
    assert inside(site, "after", f"nslookup {NAME} {ADDRESS} >/dev/null").split() == ["0"]
    start(site, "later")
    assert ADDRESS not in inside(site, "later", "cat /etc/resolv.conf")
    kubectl(site, "delete", "pod", "after", "before")
    assert {one["host"] for one in plan(site)} == {"h1", "h2"}
    assert apply(site).returncode == 0
    assert kubectl(site, "-n", "kube-system", "get", "daemonset,configmap", "-o", "name").count("node-dns") == 0
    for machine in site.lab.machines():
        assert ADDRESS not in machine.execute(["ip", "addr", "show", "lo"]).stdout
        assert not (machine.root / f"etc/systemd/system/{UNIT}.service").exists()
    ask = f"nslookup {NAME} >/dev/null"
    wait_until(lambda: inside(site, "later", ask).split() == ["0"], "the cluster's DNS answers", seconds=60)
    assert plan(site) == []


def test_reset_leaves_no_trace_of_it(site: Site) -> None:
    assert apply(changed(site, node_dns=True)).returncode == 0
    done = site.paictl("deploy", "reset", "--cluster-id", "pai", *site.files)
    assert done.returncode == 0, done.stdout + done.stderr
    for machine in site.lab.machines():
        assert ADDRESS not in machine.execute(["ip", "addr", "show", "lo"]).stdout
        assert not (machine.root / f"etc/systemd/system/{UNIT}.service").exists()
