"""`network: none` on a host: the cluster comes up, says that pods lack a network, and is finished with one."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e_hosts.site import Site, site_of
from tests.e2e_hosts.test_reconfigure import apply, kubectl
from tools.hosts.lab import Lab

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1", reason="takes a minute: PAICTL_E2E_ALL=1 make e2e-hosts"
)
NUMBERS = (1, 2)


def bring_network(site: Site) -> None:
    """What an administrator installs: here a bridge on each host, and routes between them."""
    for number in NUMBERS:
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": f"10.200.{number}.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": "own0", "isGateway": True, "ipMasq": True, "ipam": ipam}
        network = {"cniVersion": "1.0.0", "name": "own", "plugins": [bridge]}
        machine, other = site.lab.machine(number), 3 - number
        machine.execute(["ip", "route", "add", f"10.200.{other}.0/24", "via", site.lab.address(other)])
        (machine.root / "etc/cni/net.d/20-own.conflist").write_text(json.dumps(network))


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and a worker, not deployed yet."""
    lab.up(2)
    bare = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1], [2])
    return replace(bare, deploy={**bare.deploy, "offline": True, "network": "none"}).write()


def test_a_cluster_without_a_network_says_so_until_it_has_one(site: Site) -> None:
    first = apply(site)
    assert first.returncode == 0
    assert "its nodes are not Ready: they wait for a pod network" in first.stdout
    assert "install your own, then apply again" in " ".join(first.stderr.split())
    assert "paictl-pai" in (site.folder / "home/.kube/config").read_text(), "the way in is there to install it"
    verified = site.paictl("deploy", "verify", "-o", "json", *site.files)
    assert verified.returncode == 1
    nodes = [one for one in json.loads(verified.stdout)["findings"] if one["check"] == "node"]
    assert ["no pod network is installed" in one["message"] for one in nodes] == [True, True]
    bring_network(site)
    kubectl(site, "wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    done = apply(site)
    assert "nothing changed: cluster pai is up to date" in done.stdout
    verified = site.paictl("deploy", "verify", "-o", "json", *site.files)
    assert json.loads(verified.stdout)["ok"], verified.stdout
