"""`paictl deploy upgrade` from v1.37.0, which is the same code linked again, to the version that was built."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_hosts.deploying import DevBox
from tools.hosts import artifacts as packing
from tools.hosts.lab import Lab
from tools.hosts.places import versions
from tools.hosts.shell import LabError

OLD = "v1.37.0"
MARK = "paictl.io/cordoned-for"
pytestmark = pytest.mark.skipif(
    not (packing.programs("kubeadm", OLD) / "kubeadm").is_file(),
    reason=f"needs Kubernetes linked as {OLD}: KUBE_STAMP={OLD} tools/kube/build.sh hosts",
)


@pytest.fixture(scope="module")
def box(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> DevBox:
    """One master and one worker with the old version."""
    lab.up(2)
    made = DevBox(lab, tmp_path_factory.mktemp("home"))
    login = f"user: deploy\nssh_key_file_path: {lab.key}\n"
    made.files([1], [2], packing.folder(OLD), login)
    made.paictl("apply", "--yes", "--kubernetes-only")
    made.files([1], [2], packing.folder(), login)
    return made


def nodes(box: DevBox) -> dict[str, Any]:
    """The nodes as the API has them."""
    words = "KUBECONFIG=/etc/kubernetes/admin.conf kubectl get nodes -o json"
    found = json.loads(box.lab.machine(1).execute(["sh", "-c", words]).stdout)
    return {item["metadata"]["name"]: item for item in found["items"]}


def test_what_cannot_be_is_refused_with_the_reason_before_a_host_is_touched(box: DevBox) -> None:
    missing = box.paictl("upgrade", "--yes", "--to", "v1.38.0", codes=(2,))
    assert "Kubernetes v1.38.0 is required, but this is v1.37.1" in missing.stderr
    assert "2 machines" not in missing.stdout
    refused = box.paictl("apply", "--yes", "--kubernetes-only", codes=(1,))  # the files name the new artifacts now
    target = versions()["KUBE_VERSION"]
    assert f"the cluster runs Kubernetes {OLD}, but the artifacts are for {target}" in refused.stderr
    assert f"paictl deploy upgrade --to {target}" in refused.stderr
    assert {one["status"]["nodeInfo"]["kubeletVersion"] for one in nodes(box).values()} == {OLD}


def wait_for_a_mark(box: DevBox, process: subprocess.Popen[bytes]) -> bool:
    """Wait until a node is cordoned by paictl; whether one was before the command or the time ended."""
    end = time.monotonic() + 1500
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(LabError):  # the API of the only master starts again meanwhile
            if any(MARK in one["metadata"].get("annotations", {}) for one in nodes(box).values()):
                return True
        time.sleep(0.3)
    return False


def test_interrupted_while_a_node_is_cordoned_it_is_given_back(box: DevBox) -> None:
    """Ctrl-C as soon as the worker or the master is cordoned."""
    target = versions()["KUBE_VERSION"]
    process = box.start("upgrade", "--yes", "--to", target)
    try:
        assert wait_for_a_mark(box, process), (box.home / "started.log").read_text()[-3000:]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=400) == 130
    finally:
        process.kill()
    for one in nodes(box).values():
        assert MARK not in one["metadata"].get("annotations", {})
        assert not one["spec"].get("unschedulable")


def test_the_second_run_goes_on_to_the_end(box: DevBox) -> None:
    target = versions()["KUBE_VERSION"]
    data = json.loads(box.paictl("upgrade", "--yes", "--to", target, "-o", "json").stdout)
    assert data["resumed"] is True
    assert [one["host"] for one in data["steps"]] == ["h1", "h2"]
    found = nodes(box)
    assert {one["status"]["nodeInfo"]["kubeletVersion"] for one in found.values()} == {target}
    assert not any(one["spec"].get("unschedulable") for one in found.values())
    for machine in box.lab.machines():
        listed = json.loads(machine.execute(["crictl", "images", "-o", "json"]).stdout)["images"]
        pinned = {tag for one in listed if one.get("pinned") for tag in one["repoTags"]}
        assert {tag.rpartition(":")[2] for tag in pinned if "kube-" in tag} == {target}
        assert any(tag.endswith(f":{OLD}") for one in listed for tag in one["repoTags"])  # still there, and free to go
    manifest = box.lab.machine(1).root / "etc/kubernetes/manifests/kube-apiserver.yaml"
    assert f"kube-apiserver:{target}" in Path(manifest).read_text()


def test_a_third_changes_nothing_and_says_so_and_there_is_no_way_back(box: DevBox) -> None:
    target = versions()["KUBE_VERSION"]
    done = box.paictl("upgrade", "--yes", "--to", target)
    assert f"nothing changed: cluster lab is at {target}" in done.stdout
    assert "nothing changed" in box.paictl("apply", "--yes", "--kubernetes-only").stdout
    back = box.paictl("upgrade", "--yes", "--to", OLD, "--artifacts", str(packing.folder(OLD)), codes=(1,))
    assert f"{target} is newer than {OLD}: Kubernetes cannot go back" in back.stderr
