"""A cluster that runs gets another config.yaml or other lists: what takes effect, and what is refused untouched."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paictl.deploy.downloads import REGISTRIES
from tests.e2e_hosts.site import Site, site_of
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

KUBELET = "/var/lib/kubelet/config.yaml"
KUBELET_CONFIG = ("-n", "kube-system", "get", "configmap", "kubelet-config", "-o", "yaml")


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and two workers, deployed."""
    lab.up(3)
    made = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1], [2, 3])
    assert apply(made).returncode == 0
    return made


def apply(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    done = site.paictl("deploy", "apply", "--yes", "--kubernetes-only", *words, *site.files, seconds=1800)
    print(done.stdout[-2000:], done.stderr[-4000:])  # noqa: T201 - shown where a test fails
    return done


def plan(site: Site) -> list[dict[str, Any]]:
    done = site.paictl("deploy", "plan", "--format", "json", *site.files)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["changes"])


def changed(site: Site, **deploy: Any) -> Site:
    """The site with more in its section `deploy:`, its files written."""
    return replace(site, deploy={**site.deploy, **deploy}).write()


def kubectl(site: Site, *words: str) -> str:
    command = ["env", "KUBECONFIG=/etc/kubernetes/admin.conf", "kubectl", *words]
    return site.lab.machine(1).execute(command).stdout


def test_a_second_apply_changes_nothing(site: Site) -> None:
    assert "nothing changed" in apply(site).stdout
    assert plan(site) == []


def test_two_workers_whose_names_are_swapped_are_refused_untouched(site: Site) -> None:
    unit = [site.lab.machine(number).root / "etc/systemd/system/paictl-network.service" for number in (2, 3)]
    before = [path.read_text() for path in unit]
    rows = f"h2,{site.lab.address(3)}\nh3,{site.lab.address(2)}\n"
    (site.folder / "worker.csv").write_text(rows)
    try:
        for verb in (["plan"], ["apply", "--yes", "--kubernetes-only"]):
            done = site.paictl("deploy", *verb, *site.files)
            assert done.returncode == 1
            assert f"h2: {site.lab.address(3)} is the node h3" in done.stderr
            assert "worker.csv:1:1" in done.stderr
            assert "paictl node remove h3" in done.stderr
        check = json.loads(site.paictl("deploy", "check", "-o", "json", *site.files).stdout)
        levels = {host["name"]: host["checks"]["node"]["level"] for host in check["hosts"]}
        assert levels == {"h1": "ok", "h2": "fail", "h3": "fail"}
    finally:
        site.write()
    assert [path.read_text() for path in unit] == before


def test_a_worker_that_has_left_the_list_is_named(site: Site) -> None:
    (site.folder / "worker.csv").write_text(f"h2,{site.lab.address(2)}\n")
    try:
        for words in (["plan"], ["apply", "--yes", "--kubernetes-only"]):
            done = site.paictl("deploy", *words, *site.files)
            assert done.returncode == 0, done.stderr
            assert "h3 is in the cluster, not in the lists" in " ".join(done.stderr.split())
    finally:
        site.write()


def test_settings_take_effect_on_a_running_cluster(site: Site) -> None:
    kubelet = {**site.deploy["kubelet"], "maxPods": 50}
    after = changed(
        site,
        kubelet=kubelet,
        api_server_arguments={"max-requests-inflight": 500},
        proxy_mode="iptables",
        jobs_on_masters=True,
    )
    try:
        lines = [
            line for one in plan(after) if one["phase"] == "settings" and one["host"] == "h1" for line in one["what"]
        ]
        assert "kubelet: maxPods: - -> 50" in lines
        assert any("api_server_arguments: " in line and "max-requests-inflight: - -> 500" in line for line in lines)
        assert "kube_proxy: mode: nftables -> iptables" in lines
        assert "jobs_on_masters: false -> true" in lines
        assert apply(after).returncode == 0
        for machine in site.lab.machines():
            assert "maxPods: 50" in machine.execute(["cat", KUBELET]).stdout
        manifest = site.lab.machine(1).root / "etc/kubernetes/manifests/kube-apiserver.yaml"
        assert "--max-requests-inflight=500" in manifest.read_text()
        capacity = "jsonpath={.items[*].status.capacity.pods}"
        wait_until(lambda: kubectl(site, "get", "nodes", "-o", capacity).split() == ["50"] * 3, "50 pods a node")
        assert "control-plane" not in kubectl(site, "get", "node", "h1", "-o", "jsonpath={.spec.taints}")
        config = kubectl(site, "-n", "kube-system", "get", "cm", "kube-proxy", "-o", "jsonpath={.data.config\\.conf}")
        assert "mode: iptables" in config
        rules = ["iptables-save", "-t", "nat"]
        wait_until(lambda: "KUBE-SERVICES" in site.lab.machine(2).execute(rules).stdout, "iptables rules", seconds=300)
        assert plan(after) == []
        assert "nothing changed" in apply(after).stdout
    finally:
        site.write()


def test_settings_that_do_not_work_are_taken_back(site: Site) -> None:
    kubelet = {**site.deploy["kubelet"], "evictionHard": {"nonsense.available": "1%"}}
    try:
        done = apply(changed(site, kubelet=kubelet))
        assert done.returncode != 0
        assert "kubelet does not work with the new settings and has the old ones again" in " ".join(done.stderr.split())
        assert "unsupported eviction signal nonsense.available" in " ".join(done.stderr.split())
        assert "nonsense.available" in kubectl(site, *KUBELET_CONFIG), "stored first, for machines that join"
    finally:
        site.write()
    lines = [line for one in plan(site) if one["host"] == "h1" for line in one["what"]]
    assert lines == ["kubelet: the previously applied value is unknown"], "etcd and the API server are left alone"
    assert apply(site).returncode == 0
    assert plan(site) == []
    assert "nonsense.available" not in kubectl(site, *KUBELET_CONFIG)
    machine = site.lab.machine(1)
    assert "maxPods: 50" not in machine.execute(["cat", KUBELET]).stdout
    assert machine.execute(["systemctl", "is-active", "kubelet"]).stdout.strip() == "active"


def test_a_second_deployment_at_the_same_time_is_kept_out(site: Site) -> None:
    master = site.lab.machine(1)
    lock = master.root / "var/lib/paictl/lock.json"
    after = changed(site, api_server_arguments={"max-requests-inflight": 500})
    try:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(apply, after)
            wait_until(lock.is_file, "the lock", seconds=400)
            second = apply(after)
            assert second.returncode == 1
            assert "has been running deploy apply on this cluster since" in " ".join(second.stderr.split())
            assert running.result().returncode == 0
        assert not lock.exists()
        elsewhere = {
            "id": "a",
            "who": "bo@box-2",
            "command": "deploy apply",
            "since": "2026-01-01T00:00:00Z",
            "box": "box-2",
            "process": "1 a 1",
        }
        lock.write_text(json.dumps(elsewhere))
        refused = apply(site.write())
        assert refused.returncode == 1
        assert "bo@box-2 has been running deploy apply" in " ".join(refused.stderr.split())
        assert "--break-lock" in refused.stderr
        for words in (["certs", "renew", "--yes"], ["reset", "--yes"]):
            done = site.paictl("deploy", *words, *site.files)
            assert done.returncode == 1, done.stdout + done.stderr
            assert "bo@box-2 has been running deploy apply" in " ".join(done.stderr.split())
        assert json.loads(lock.read_text()) == elsewhere
        assert apply(site, "--break-lock").returncode == 0
        assert not lock.exists()
    finally:
        lock.unlink(missing_ok=True)
        site.write()


def test_a_mirror_s_password_is_on_the_hosts_for_root_only(site: Site) -> None:
    after = changed(site, registry_mirrors={"docker.io": ["https://bo:kelp-41@m.example"]})
    hosts = [machine.root / "etc/containerd/certs.d/docker.io/hosts.toml" for machine in site.lab.machines()]
    accounts = [machine.root / REGISTRIES.lstrip("/") for machine in site.lab.machines()]
    try:
        assert apply(after).returncode == 0
        for path, account in zip(hosts, accounts, strict=True):
            assert '"https://m.example"' in path.read_text()
            assert "kelp-41" in account.read_text()
            assert account.stat().st_mode & 0o777 == 0o600
        for machine in site.lab.machines():
            assert "kelp-41" not in machine.execute(["journalctl", "--no-pager"]).stdout
        kept = [path for path in (site.folder / "home/.local/state").rglob("*") if path.is_file()]
        assert len(kept) > 10
        assert [str(path) for path in kept if b"kelp-41" in path.read_bytes()] == []
        assert plan(after) == []
    finally:
        site.write()
    assert apply(site).returncode == 0
    assert [path for path in (*hosts, *accounts) if path.exists()] == []


def test_nothing_that_lets_machines_in_is_left(site: Site) -> None:
    assert "bootstrap-token" not in kubectl(site, "-n", "kube-system", "get", "secrets", "-o", "name")
    for machine in site.lab.machines():
        assert not (machine.root / "run/paictl/discovery.conf").exists()
        assert machine.execute(["sh", "-c", "ls /run/paictl || true"]).stdout.split() == []


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"network": "none"}, "network"),
        ({"image_repository": "mirror.example/k8s"}, "image_repository"),
        ({"api_endpoint": "balancer.example:6443"}, "api_endpoint"),
        ({"cluster_name": "other"}, "cluster_name"),
    ],
)
def test_what_a_running_cluster_keeps_is_refused(site: Site, section: dict[str, str], key: str) -> None:
    after = changed(site, **section)
    try:
        done = after.paictl("deploy", "plan", *site.files)
        assert done.returncode == 1
        assert f"{key} is" in done.stderr
        assert "nothing was changed" in done.stderr
    finally:
        site.write()
