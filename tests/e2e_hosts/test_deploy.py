"""`paictl deploy` on bare hosts: interrupted in every phase and gone on with, again unchanged, tried, taken down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

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
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "mine",
    "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}],
}
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


def _in_check(box: DevBox) -> dict[str, dict[str, list[str]]]:
    """Every playbook with --check: the tasks that would change something, by host; and nothing was changed."""
    before = {machine.name: _marks(machine.root) for machine in box.lab.machines()}
    files = [str(box.home / name) for name in ("master.csv", "worker.csv", "config.yaml")]
    words = [*box.lab.network.inside(), sys.executable, "-m", "tests.e2e_hosts.in_check", *files, str(box.home / "run")]
    done = subprocess.run(words, env=box.environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert {machine.name: _marks(machine.root) for machine in box.lab.machines()} == before
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return found


def _marks(root: Path) -> set[tuple[str, int, int, int]]:
    """Every file that a deployment could touch, with mode, size and time; not what running programs write."""
    places = [root / name for name in ("etc", "usr/local", "opt", "root", "var/lib/paictl", "var/lib/kubelet/pki")]
    marks = set[tuple[str, int, int, int]]()
    for path in [path for place in places for path in [place, *place.rglob("*")]]:
        with suppress(FileNotFoundError):  # a folder that is not there, or a file that was only for a moment
            one = path.lstat()
            marks.add((str(path), one.st_mode, one.st_size, one.st_mtime_ns))
    return marks


def test_with_check_bare_hosts_stay_as_they_are(box: DevBox) -> None:
    would = _in_check(box)
    assert would["artifacts"] == {name: ["Put programs in their places"] for name in ("h1", "h2", "h3")}
    assert "Write configuration and units" in would["runtime"]["h2"]
    assert would["control_plane"]["h1"] == ["Begin the cluster"]


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
    obeyed = {one["node"]: one["verdict"] for one in data["findings"] if one["check"] == "network-policies-enforced"}
    assert obeyed == {"h1": "warning", "h2": "warning", "h3": "warning"}  # the bridge network has nobody to do it
    closed = {(one["check"], one["node"]): one["verdict"] for one in data["findings"] if "hosts-closed" in one["check"]}
    assert len(closed) == 6  # each node's pod tries the kubelet of its own node and of another
    assert set(closed.values()) == {"ok"}


def test_a_second_apply_changes_nothing_and_says_so(box: DevBox) -> None:
    before = {machine.name: _stamps(machine.root) for machine in box.lab.machines()}
    done = box.paictl("apply", "--yes", "--kubernetes-only")
    assert "nothing changed: cluster lab is up to date" in done.stdout
    assert {machine.name: _stamps(machine.root) for machine in box.lab.machines()} == before
    assert json.loads(box.paictl("plan", "--format", "json").stdout)["changes"] == []
    would = _in_check(box)
    assert {host: tasks for hosts in would.values() for host, tasks in hosts.items() if tasks} == {}
    assert set(would["runtime"]) == {"h1", "h2", "h3"}


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
    dump = first.execute(
        [
            "sh",
            "-c",
            "KUBECONFIG=/etc/kubernetes/admin.conf kubectl get all,cm,secrets,nodes -A -o yaml",
        ]
    ).stdout
    assert "kube-apiserver-h1" in dump
    assert PASSWORD not in dump
    for machine in box.lab.machines():
        said = machine.execute(["sh", "-c", f"grep -rl {PASSWORD} /etc /var/lib/paictl /var/log /run /home || true"])
        assert said.stdout.split() == []


LAYOUT = """machine-sku:
  box: {{mem: 8Gi, cpu: {{vcore: 2}}}}
machine-list:
  - {{hostname: h1, hostip: {0}, machine-type: box, pai-master: "true"}}
  - hostname: h2
    hostip: {1}
    machine-type: box
    pai-worker: "true"
  - hostname: h3
    hostip: {2}
    machine-type: box
    pai-worker: "true"
"""
HIVED = """hivedscheduler:
  config: |
    physicalCluster:
      skuTypes:
        box: {gpu: 0, cpu: 1, memory: 1024Mi}
      cellTypes:
        NODE: {childCellType: box, childCellNumber: 1, isNodeLevel: true}
        POOL:
          childCellType: NODE
          childCellNumber: 2
      physicalCells:
      - cellType: POOL
        cellChildren:
        - cellAddress: h2
        - cellAddress: h3
    virtualClusters:
      default:
        virtualCells:
        - cellType: POOL.NODE
          cellNumber: 2
rest-server: {default-pai-admin-username: admin, default-pai-admin-password: kelp-forest, jwt-secret: tundra-moss}
"""


def _kubectl(box: DevBox, *words: str) -> str:
    command = ["env", "KUBECONFIG=/etc/kubernetes/admin.conf", "kubectl", *words]
    return str(box.lab.machine(1).execute(command).stdout)


def _push(box: DevBox, hived: str) -> None:
    folder = box.home / "cluster"
    folder.mkdir(exist_ok=True)
    (folder / "layout.yaml").write_text(LAYOUT.format(*map(box.lab.address, (1, 2, 3))))
    (folder / "services-configuration.yaml").write_text(hived)
    box.other("config", "push", "-p", str(folder), "--cluster-id", "lab")


def _known(box: DevBox) -> tuple[bool, ...]:
    """Whether h3 is in the cluster, in layout, cells and worker.csv, and whether it is cordoned."""
    folder = box.home / "pulled"
    box.other("config", "pull", "-o", str(folder), "--force")
    nodes = {one["metadata"]["name"]: one for one in json.loads(_kubectl(box, "get", "nodes", "-o", "json"))["items"]}
    texts = [(folder / name).read_text() for name in ("layout.yaml", "services-configuration.yaml")]
    named = [*(text.count(": h3") == 1 for text in texts), "h3," in (box.home / "worker.csv").read_text()]
    return ("h3" in nodes, *named, bool(nodes.get("h3", {}).get("spec", {}).get("unschedulable")))


IN, OUT = (True, True, True, True, False), (False,) * 5


def test_a_worker_stays_while_a_promise_needs_it(box: DevBox) -> None:
    _push(box, HIVED)
    refused = box.node("remove", "h3", "--yes", codes=(1,))
    assert "2 cells of type NODE are promised (default 2), and 1 would be left: 1 too many" in refused.stderr
    assert _known(box) == IN


def test_a_worker_that_cannot_be_emptied_is_as_it_was(box: DevBox) -> None:
    _push(box, HIVED.replace("cellNumber: 2", "cellNumber: 1"))
    images = json.loads(_kubectl(box, "get", "nodes", "h3", "-o", "json"))["status"]["images"]
    pause = next(name for image in images for name in image["names"] if "/pause:" in name)
    _kubectl(box, "cordon", "h2")
    _kubectl(box, "create", "deployment", "kept", f"--image={pause}")
    _kubectl(box, "rollout", "status", "deployment/kept", "--timeout=180s")
    _kubectl(box, "uncordon", "h2")
    _kubectl(box, "create", "pdb", "kept", "--selector=app=kept", "--min-available=1")
    refused = box.node("remove", "h3", "--yes", "--timeout", "2", codes=(1,))
    assert "default/kept-" in refused.stderr
    assert "disruption budget" in refused.stderr
    assert _known(box) == IN


def test_a_worker_leaves_and_comes_again(box: DevBox) -> None:
    _kubectl(box, "delete", "pdb", "kept")
    box.node("remove", "h3", "--yes")
    assert _known(box) == OUT
    assert not (box.lab.machine(3).root / "etc/kubernetes").exists()
    _kubectl(box, "rollout", "status", "deployment/kept", "--timeout=180s")  # its pod is on h2 now
    _kubectl(box, "delete", "deployment", "kept")
    box.node("add", "h3", "--address", box.lab.address(3))
    assert _known(box) == IN
    assert "already exists" in box.node("add", "h3").stderr


def test_what_was_deleted_after_a_backup_is_back_after_a_restore(box: DevBox) -> None:
    _kubectl(box, "create", "configmap", "kept")
    archive = Path(box.paictl("backup", str(box.home)).stdout.strip())
    assert (archive.parent, archive.stat().st_mode & 0o777) == (box.home, 0o600)
    _kubectl(box, "delete", "configmap", "kept")
    _kubectl(box, "create", "configmap", "later")
    other = box.paictl("restore", str(archive), "--cluster-id", "other", codes=(2,))
    assert "belongs to cluster lab, not other" in other.stderr
    done = box.paictl("restore", str(archive), "--cluster-id", "lab")
    assert "lost: everything written since" in done.stderr
    there = _kubectl(box, "get", "configmaps", "-o", "name").split()
    assert ("configmap/kept" in there, "configmap/later" in there) == (True, False)
    nodes = json.loads(_kubectl(box, "get", "nodes", "-o", "json"))["items"]
    assert [one["metadata"]["name"] for one in nodes if _is_ready(one)] == ["h1", "h2", "h3"]
    data = box.lab.machine(1).root / "var/lib/etcd"
    assert sorted(path.name for path in data.iterdir()) == ["member", "paictl-before"]


def _is_ready(node: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def test_reset_leaves_the_hosts_as_they_were(box: DevBox) -> None:
    refused = box.paictl("reset", "--cluster-id", "other", codes=(2,))
    assert "belongs to cluster lab, not other" in refused.stderr
    done = box.paictl("reset", "--cluster-id", "lab")
    assert "etcd with all configuration" in done.stderr
    for machine in box.lab.machines():
        for path in ("usr/local/bin/kubelet", "etc/kubernetes", "var/lib/paictl", "etc/systemd/system/kubelet.service"):
            assert not (machine.root / path).exists(), f"{machine.name}: {path}"
        assert "cni0" not in machine.execute(["ip", "link"]).stdout
    import yaml

    assert [one["name"] for one in yaml.safe_load((box.home / ".kube/config").read_text())["contexts"]] == ["mine"]
    again = box.paictl("reset", "--yes")
    assert again.stdout.count("already clean") == 3
