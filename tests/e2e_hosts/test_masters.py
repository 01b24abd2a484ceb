"""Three masters: one of them loses its power while 100 objects are submitted, and none of those is lost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e_hosts.site import Site, site_of
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

ADDRESS = "10.77.0.100"
SUBMISSIONS = 100


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Three masters that share an address, and a worker, deployed."""
    lab.up(4)
    bare = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1, 2, 3], [4])
    made = replace(bare, deploy={**bare.deploy, "api_address": ADDRESS}).write()
    done = made.paictl("deploy", "apply", "--yes", "--kubernetes-only", *made.files, seconds=900)
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
    victim = _holder(site.lab)
    assert victim
    accepted, refused = [], 0
    for number in range(SUBMISSIONS):
        if number == SUBMISSIONS // 4:
            site.lab.machine(victim).kill()

        def submit(name: str = f"submission-{number}") -> bool:
            done = kubectl("--request-timeout=5s", "create", "configmap", name)
            return done.returncode == 0 or "AlreadyExists" in done.stderr

        if not submit():
            refused += 1
            wait_until(submit, "the API takes submissions again", seconds=180)
        accepted.append(f"configmap/submission-{number}")
    stored = kubectl("get", "configmap", "-o", "name").stdout.split()
    assert set(accepted) <= set(stored)
    assert refused <= 2  # the one that was under way, and who held the address
    assert _holder(site.lab) not in (0, victim)
    site.lab.start(victim)


def test_the_master_comes_back(kubectl: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    wait_until(
        lambda: kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s").returncode == 0,
        "all four nodes are Ready again",
        seconds=400,
    )
    ready = json.loads(kubectl("get", "nodes", "-o", "json").stdout)["items"]
    assert len(ready) == 4
