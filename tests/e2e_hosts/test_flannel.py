"""`network: flannel` on hosts: deployed, tried, again unchanged, and gone without a trace."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e_hosts.site import Site, site_of
from tools.hosts.flannel import with_flannel
from tools.hosts.lab import Lab
from tools.hosts.machine import Machine
from tools.hosts.seed import seed

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1",
    reason="builds flannel for minutes: tools/kube/build.sh flannel && PAICTL_E2E_ALL=1 make e2e-hosts",
)
PODS = "10.99.0.0/16"


@pytest.fixture(scope="module")
def bundle(artifacts: Path) -> Path:
    """The artifact folder with flannel's manifest and images."""
    return with_flannel(artifacts)


@pytest.fixture(scope="module")
def lab_seed(bundle: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seed(bundle)


@pytest.fixture(scope="module")
def site(lab: Lab, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and a worker, deployed; they reach no registry."""
    lab.up(2)
    bare = site_of(lab, tmp_path_factory.mktemp("site"), bundle, [1], [2])
    login = {**bare.login, "openpai_kube_network_plugin": "flannel"}
    pods = {"openpai_kubespray_extra_var": {"kube_pods_subnet": PODS}}
    made = replace(bare, login={**login, **pods}, deploy={**bare.deploy, "offline": True}).write()
    done = made.paictl("deploy", "apply", "--yes", "--kubernetes-only", *made.files, seconds=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def _traces(machine: Machine) -> dict[str, str]:
    """What flannel leaves on a machine, by kind: a line each."""
    look = {
        "links": "ip -o link show | grep -E 'flannel|cni0|veth'",
        "routes": "ip route show root 10.99.0.0/16",
        "rules": "iptables-save; ip6tables-save; nft list tables",
        "files": "ls -d /etc/cni/net.d/* /opt/cni/bin/* /run/flannel /var/lib/cni",
    }
    said = {
        kind: machine.execute(["sh", "-c", f"({words}) 2>/dev/null || true"]).stdout for kind, words in look.items()
    }
    rules = [line for line in said["rules"].splitlines() if "flannel" in line.lower() or "CNI-" in line]
    return {**said, "rules": "\n".join(rules)}


def test_pods_on_all_nodes_reach_each_other_by_flannel(site: Site) -> None:
    verified = site.paictl("deploy", "verify", "-o", "json", *site.files)
    data = json.loads(verified.stdout)
    assert data["ok"], [one for one in data["findings"] if one["verdict"] == "failed"]
    checks = {(one["check"], one["node"]) for one in data["findings"]}
    assert {("pod", "h1"), ("dns", "h2"), ("service", "h1"), ("peer:h2", "h1"), ("peer:h1", "h2")} <= checks
    for machine in site.lab.machines():
        found = _traces(machine)
        assert "flannel.1" in found["links"]
        assert "via" in found["routes"]
        assert "FLANNEL-POSTRTG" in found["rules"]
        assert "10-paictl.conflist" not in found["files"]


def test_a_second_apply_changes_nothing(site: Site) -> None:
    done = site.paictl("deploy", "apply", "--yes", "--kubernetes-only", *site.files)
    assert done.returncode == 0, done.stderr
    assert "nothing changed: cluster pai is up to date" in done.stdout


def test_reset_leaves_no_trace_of_it(site: Site) -> None:
    done = site.paictl("deploy", "reset", "--cluster-id", "pai", *site.files)
    assert done.returncode == 0, done.stdout + done.stderr
    nothing = {"links": "", "routes": "", "rules": "", "files": ""}
    assert {machine.name: _traces(machine) for machine in site.lab.machines()} == {"h1": nothing, "h2": nothing}
