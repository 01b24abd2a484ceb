"""The hosts themselves: users, faults and their end, and that the artifacts make a cluster that works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.e2e_hosts import kubeadm
from tools.hosts.artifacts import BUSYBOX
from tools.hosts.lab import Lab, sweep
from tools.hosts.machine import CGROUPS, GROUP
from tools.hosts.places import versions
from tools.hosts.shell import LabError, wait_until


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Lab:
    lab.up(3)
    return lab


def test_deploy_comes_in_by_key_and_is_root_without_a_password(hosts: Lab) -> None:
    assert hosts.ssh(1, "hostname").strip() == "h1"
    assert hosts.ssh(2, "sudo", "-n", "id", "-u").strip() == "0"


def test_ops_has_a_password_for_login_and_sudo(hosts: Lab) -> None:
    refused = hosts.run(hosts.ssh_words(1, "true", user="ops"), check=False)
    assert refused.returncode == 255  # the key is deploy's
    done = hosts.machine(1).execute(["runuser", "-u", "ops", "--", "sudo", "-S", "-p", "", "id", "-u"], text="ops-pw\n")
    assert done.stdout.strip() == "0"
    without = hosts.machine(1).execute(["runuser", "-u", "ops", "--", "sudo", "-n", "-k", "true"], check=False)
    assert without.returncode == 1


def test_hosts_reach_each_other_by_name_and_nothing_else(hosts: Lab) -> None:
    assert "SSH-2.0" in hosts.ssh(1, "bash", "-c", "'exec 3<>/dev/tcp/h2/22; head -1 <&3'")
    with pytest.raises(LabError):
        hosts.ssh(1, "timeout", "3", "bash", "-c", "'exec 3<>/dev/tcp/192.0.2.1/443'")


def test_a_cut_cable_a_frozen_host_and_a_power_cut_end_again(hosts: Lab) -> None:
    machine = hosts.machine(3)
    (machine.root / "root/kept").write_text("kept")
    faults: list[tuple[Callable[[], None], Callable[[], None]]] = [
        (lambda: hosts.network.cut(3), lambda: hosts.network.heal(3)),
        (lambda: hosts.network.drop(3), lambda: hosts.network.heal(3)),
        (machine.freeze, machine.thaw),
        (machine.kill, lambda: hosts.start(3)),
    ]
    for begin, end in faults:
        begin()
        assert not hosts.network.speaks(3, 22, "SSH")
        end()
        wait_until(lambda: hosts.network.speaks(3, 22, "SSH"), "h3 answers again")
    assert (machine.root / "root/kept").read_text() == "kept"


def test_reset_gives_a_new_machine_and_rekey_another_key(hosts: Lab) -> None:
    first = hosts.machine(3).host_key
    (hosts.machine(3).root / "root/lost").write_text("lost")
    hosts.reset(3)
    second = hosts.machine(3).host_key
    hosts.machine(3).rekey()
    assert len({first, second, hosts.machine(3).host_key}) == 3
    assert not (hosts.machine(3).root / "root/lost").exists()
    with pytest.raises(LabError, match="Host key verification failed"):
        hosts.ssh(3, "true")
    hosts.trust()
    assert hosts.ssh(3, "hostname").strip() == "h3"


def test_a_disk_is_full_and_a_clock_off(hosts: Lab) -> None:
    machine = hosts.machine(3)
    machine.fill("/srv/full")
    assert machine.execute(["sh", "-c", "echo x > /srv/full/x"], check=False).returncode != 0
    machine.unfill("/srv/full")
    machine.execute(["sh", "-c", "echo x > /srv/full/x"])
    machine.clock(300)
    assert abs(int(hosts.ssh(3, "date", "+%s")) - time.time() - 300) < 30
    machine.clock(0)
    assert abs(int(hosts.ssh(3, "sudo", "date", "+%s")) - time.time()) < 30


def test_what_a_killed_run_left_is_swept() -> None:
    name = f"killed-{os.getpid()}"
    script = f"""
        import os, signal
        from tools.hosts.lab import Lab
        Lab({name!r}, owner=os.getpid()).up(1)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=False)
    left = Lab(name)
    assert left.machine(1).leader() is not None
    assert name in sweep()
    assert left.machine(1).leader() is None
    assert not left.folder.exists()
    assert not left.network.path.exists()
    assert not list(CGROUPS.glob(f"*/{GROUP}/{name}"))
    assert name not in Path("/proc/mounts").read_text()


@pytest.fixture(scope="module")
def cluster(hosts: Lab, artifacts: Path) -> Path:
    """One control plane and two workers, by kubeadm; the kubeconfig."""
    machines = [hosts.machine(number) for number in (1, 2, 3)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda machine: kubeadm.install(machine, artifacts), machines))
        kubeadm.routes(hosts)
        kubeconfig = hosts.folder / "admin.conf"
        kubeconfig.write_text(kubeadm.init(machines[0], versions()["KUBE_VERSION"]))
        list(pool.map(lambda machine: kubeadm.join(machine, machines[0]), machines[1:]))
    return kubeconfig


def test_the_artifacts_make_a_cluster_that_runs_pods(hosts: Lab, artifacts: Path, cluster: Path) -> None:
    def kubectl(*words: str, text: str | None = None) -> str:
        command = [str(artifacts / "kubectl"), f"--kubeconfig={cluster}", *words]
        return hosts.run(command, text=text, seconds=200).stdout

    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=180s")
    kubectl("-n", "kube-system", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=180s")
    kubectl("apply", "-f", "-", text=json.dumps(_web()))
    kubectl("rollout", "status", "daemonset/web", "--timeout=120s")
    pods: list[dict[str, Any]] = json.loads(kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"h1", "h2", "h3"}
    for pod in pods:
        said = kubectl("exec", pod["metadata"]["name"], "--", "wget", "-qO-", "http://web.default.svc.cluster.local")
        assert said.strip() in {"h1", "h2", "h3"}
    assert hosts.run(["curl", "-s", f"http://{hosts.address(2)}:30080"]).stdout.strip() in {"h1", "h2", "h3"}


def _web() -> object:
    """A pod on each node that says the node's name, and a service."""
    script = "mkdir /w; echo $NODE > /w/index.html; exec httpd -f -p 8080 -h /w"
    container = {
        "name": "web", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "readinessProbe": {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1},
    }  # fmt: skip
    pod = {"containers": [container], "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}
    labels = {"app": "web"}
    daemons = {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }  # fmt: skip
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {
            "type": "NodePort", "selector": labels, "ports": [{"port": 80, "targetPort": 8080, "nodePort": 30080}],
        },
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "List", "items": [daemons, service]}
