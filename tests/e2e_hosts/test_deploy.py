"""`paictl deploy` on bare hosts: interrupted in every phase and gone on with, again unchanged, tried, taken down."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e_hosts.deploying import PASSWORD, DevBox, interrupt_in
from tools.hosts.lab import Lab

PHASES = ("connect", "facts", "artifacts", "runtime", "control-plane", "network", "join-workers")


@pytest.fixture(scope="module")
def box(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> DevBox:
    """Three bare hosts, signed in to by password, which sudo asks for as well."""
    lab.up(3)
    for machine in lab.machines():
        machine.execute(["chpasswd"], text=f"ops:{PASSWORD}\n")
    home = tmp_path_factory.mktemp("home")
    made = DevBox(lab, home)
    (home / ".kube").mkdir()
    (home / ".kube/config").write_text(json.dumps(OTHER))
    made.files([1], [2, 3], artifacts, f"user: ops\npassword: {PASSWORD}\n")
    return made


OTHER = {
    "apiVersion": "v1", "kind": "Config", "current-context": "mine",
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
    "users": [{"name": "u", "user": {}}], "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}],
}  # fmt: skip
"""The kubeconfig that the user has had before."""


def holders(word: str) -> set[str]:
    """Processes of this machine with a word in their command line or environment, but for pytest and its parents."""
    own, found = {os.getpid(), os.getppid()}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                text = (folder / name).read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if word in text and int(folder.name) not in own:
                found.add(f"{name}: {text[:200]}")
    return found


def test_a_plan_changes_nothing_and_names_every_host(box: DevBox) -> None:
    data = json.loads(box.paictl("plan", "--format", "json").stdout)
    changes = {(one["phase"], one["host"]) for one in data["changes"]}
    assert {("artifacts", "h1"), ("runtime", "h2"), ("control-plane", "h1"), ("join-workers", "h3")} <= changes
    assert ("control-plane", "h2") not in changes
    for machine in box.lab.machines():
        assert not (machine.root / "usr/local/bin/kubeadm").exists()
        assert not (machine.root / "var/lib/paictl").exists()


@pytest.mark.parametrize("phase", PHASES)
def test_interrupted_in_a_phase(box: DevBox, phase: str) -> None:
    how = signal.SIGKILL if PHASES.index(phase) % 2 else signal.SIGINT
    seen: list[str] = []
    code = interrupt_in(box, phase, how, lambda: seen.extend(holders(PASSWORD)))
    assert seen == []
    assert code == (130 if how is signal.SIGINT else -signal.SIGKILL), (box.home / "started.log").read_text()[-3000:]


def test_what_was_interrupted_is_gone_on_with_to_the_end(box: DevBox) -> None:
    done = box.paictl("apply", "--yes", "--kubernetes-only", "-o", "json")
    data = json.loads(done.stdout)
    assert data["resumed"] is True
    assert [one["status"] for one in data["phases"] if one["status"] not in ("done", "skipped")] == []
    assert len([path for path in box.runs() if path.name.endswith("-deploy")]) == 1  # all of it one run


def test_the_cluster_does_its_work(box: DevBox) -> None:
    data = json.loads(box.paictl("verify", "-o", "json").stdout)
    assert data["ok"], [one for one in data["findings"] if one["verdict"] == "failed"]
    checks = {(one["check"], one["node"]) for one in data["findings"]}
    assert {("pod", "h1"), ("dns", "h2"), ("service", "h3"), ("peer:h3", "h2"), ("peer:h1", "h3")} <= checks


def test_a_second_apply_changes_nothing_and_says_so(box: DevBox) -> None:
    before = {machine.name: _stamps(machine.root) for machine in box.lab.machines()}
    done = box.paictl("apply", "--yes", "--kubernetes-only")
    assert "nothing changed: cluster lab is as it shall be" in done.stdout
    assert {machine.name: _stamps(machine.root) for machine in box.lab.machines()} == before
    assert json.loads(box.paictl("plan", "--format", "json").stdout)["changes"] == []


def _stamps(root: Path) -> dict[str, int]:
    folders = ("usr/local/bin", "etc/kubernetes", "etc/containerd", "etc/systemd/system", "var/lib/paictl")
    files = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path): path.stat().st_mtime_ns for path in files}


def test_the_kubeconfig_gets_a_context_and_keeps_its_own(box: DevBox) -> None:
    import yaml

    found = yaml.safe_load((box.home / ".kube/config").read_text())
    assert found["current-context"] == "mine"
    assert [one["name"] for one in found["contexts"]] == ["mine", "paictl-lab"]
    known = json.loads((box.home / "xdg/paictl/clusters.json").read_text())
    assert known["clusters"]["lab"]["context"] == "paictl-lab"
    assert known["current"] == "local"


def test_the_password_is_nowhere(box: DevBox) -> None:
    """Not in runs, logs, states, caches of the dev box, nor on a host, nor in an object of the cluster."""
    kept = [path for path in box.home.rglob("*") if path.is_file() and path.name != "config.yaml"]
    assert len(kept) > 10
    assert [str(path) for path in kept if PASSWORD.encode() in path.read_bytes()] == []
    first = box.lab.machine(1)
    dump = first.execute([
        "sh", "-c", "KUBECONFIG=/etc/kubernetes/admin.conf kubectl get all,cm,secrets,nodes -A -o yaml",
    ]).stdout  # fmt: skip
    assert "kube-apiserver-h1" in dump
    assert PASSWORD not in dump
    for machine in box.lab.machines():
        said = machine.execute(["sh", "-c", f"grep -rl {PASSWORD} /etc /var/lib/paictl /var/log /run /home || true"])
        assert said.stdout.split() == []


def test_reset_leaves_the_hosts_as_they_were(box: DevBox) -> None:
    refused = box.paictl("reset", "--cluster-id", "other", codes=(2,))
    assert "is of cluster lab, not other" in refused.stderr
    done = box.paictl("reset", "--cluster-id", "lab")
    assert "etcd with all configuration" in done.stderr
    for machine in box.lab.machines():
        for path in ("usr/local/bin/kubelet", "etc/kubernetes", "var/lib/paictl", "etc/systemd/system/kubelet.service"):
            assert not (machine.root / path).exists(), f"{machine.name}: {path}"
        assert "cni0" not in machine.execute(["ip", "link"]).stdout
    import yaml

    assert [one["name"] for one in yaml.safe_load((box.home / ".kube/config").read_text())["contexts"]] == ["mine"]
    again = box.paictl("reset", "--yes")
    assert again.stdout.count("was clean already") == 3
