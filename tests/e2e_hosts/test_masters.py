"""Three masters: one of them loses its power while 100 jobs are submitted, and none of those is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paictl.cluster.presets import preset_files
from paictl.resources import resource_folder
from tests.conftest import ROOT
from tests.e2e_hosts.site import Site, site_of
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

ADDRESS = "10.77.0.100"
SUBMISSIONS = 100
WORKERS = int(os.environ.get("PAICTL_E2E_WORKERS", "1"))
"""Three make six hosts; one proves the same sooner."""


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three masters that share an address, and workers, deployed."""
    lab.up(3 + WORKERS)
    bare = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1, 2, 3], range(4, 4 + WORKERS))
    made = replace(bare, deploy={**bare.deploy, "api_address": ADDRESS}).write()
    done = made.paictl("deploy", "apply", "--yes", "--kubernetes-only", *made.files, seconds=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def kubectl(site: Site, artifacts: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    kubeconfig = site.folder / "home/.kube/config"

    def call(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(artifacts / "kubectl"), f"--kubeconfig={kubeconfig}", "--context=paictl-pai", *words]
        return site.lab.run(command, check=False, text=text, seconds=120)

    return call


def _holder(lab: Lab) -> int:
    """The master that has the common address."""
    for number in (1, 2, 3):
        machine = lab.machine(number)
        if machine.leader() and ADDRESS in machine.execute(["ip", "-o", "-4", "addr"]).stdout:
            return number
    return 0


def test_no_submission_is_lost_when_a_master_loses_its_power(
    site: Site, kubectl: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    _ready_for_jobs(site, kubectl)
    victim = _holder(site.lab)
    assert victim
    words = [sys.executable, "-m", "tests.e2e_hosts.submitting", "pai", str(SUBMISSIONS)]
    environment = {**os.environ, **site.environment, "PYTHONPATH": str(ROOT)}
    silences: list[str] = []
    with subprocess.Popen(
        [*map(str, site.lab.network.inside()), *words], stdout=subprocess.PIPE, text=True, env=environment
    ) as user:
        assert user.stdout is not None
        for line in user.stdout:
            number, silence, *_ = line.split(maxsplit=2)
            if int(number) == SUBMISSIONS // 4:
                site.lab.machine(victim).kill()
            if int(silence):
                silences.append(line)
    assert user.returncode == 0
    stored = kubectl("get", "paijobs", "--all-namespaces", "-o", "json").stdout
    names = [one["metadata"]["annotations"]["paictl.io/key"] for one in json.loads(stored)["items"]]
    assert sorted(names) == sorted(f"ann~job{number}" for number in range(SUBMISSIONS))
    # The one that was under way, who held the address, and elections of etcd on a machine that has much to do besides.
    assert len(silences) <= SUBMISSIONS // 5, silences
    assert _holder(site.lab) not in (0, victim)
    site.lab.start(victim)


def _ready_for_jobs(site: Site, kubectl: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """What a job needs to be taken: a configuration and the custom resource; nobody has to run it."""
    template = resource_folder("templates") / "frameworkcontroller" / "crd.yaml.j2"
    assert kubectl("apply", "-f", "-", text=template.read_text(encoding="utf-8")).returncode == 0
    assert kubectl("wait", "--for=condition=Established", "crd/paijobs.paictl.io", "--timeout=110s").returncode == 0
    pushed = site.folder / "pushed"
    pushed.mkdir()
    for name, text in preset_files("lab").items():
        (pushed / name).write_text(text)
    done = site.paictl("config", "push", "-p", str(pushed), "--cluster", "pai", "--cluster-id", "pai")
    assert done.returncode == 0, done.stderr


def test_the_master_comes_back(kubectl: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    wait_until(
        lambda: kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=110s").returncode == 0,
        "all nodes are Ready again",
        seconds=900,
    )
    ready = json.loads(kubectl("get", "nodes", "-o", "json").stdout)["items"]
    assert len(ready) == 3 + WORKERS


def test_a_restore_takes_all_masters_back_to_the_same_instant(
    site: Site, kubectl: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert kubectl("create", "configmap", "kept").returncode == 0
    made = site.paictl("deploy", "backup", *site.files, str(site.folder))
    assert made.returncode == 0, made.stderr
    assert kubectl("delete", "configmap", "kept").returncode == 0
    assert kubectl("create", "configmap", "later").returncode == 0
    done = site.paictl("deploy", "restore", made.stdout.strip(), "--cluster-id", "pai", *site.files, seconds=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert kubectl("create", "configmap", "afterwards").returncode == 0
    for number in (1, 2, 3):  # each by itself, not only the one that has the address
        server = f"--server=https://{site.lab.address(number)}:6443"
        there = set(kubectl(server, "get", "configmaps", "-o", "name").stdout.split())
        assert {"configmap/kept", "configmap/afterwards"} <= there
        assert "configmap/later" not in there
        data = site.lab.machine(number).root / "var/lib/etcd"
        assert sorted(path.name for path in data.iterdir()) == ["member", "paictl-before"]
    assert len(json.loads(kubectl("get", "paijobs", "--all-namespaces", "-o", "json").stdout)["items"]) == SUBMISSIONS
    assert _members(kubectl) == {"h1": True, "h2": True, "h3": True}
    assert kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=110s").returncode == 0
    assert _holder(site.lab)


def _members(kubectl: Callable[..., subprocess.CompletedProcess[str]]) -> dict[str, bool]:
    """The members that etcd counts, and whether each votes."""
    keys = [
        f"--{name}=/etc/kubernetes/pki/etcd/{file}"
        for name, file in (("cacert", "ca.crt"), ("cert", "server.crt"), ("key", "server.key"))
    ]
    words = ["exec", "--namespace=kube-system", "etcd-h1", "--", "etcdctl", *keys, "member", "list", "-w", "json"]
    members = json.loads(kubectl(*words).stdout)["members"]
    return {one["name"]: not one.get("isLearner") for one in members}
