"""Which devices a container sees, on hosts with kubelet, containerd and a driver of DRA, by both doors.

The driver sets a variable for each device; the container prints them, and they are those of the pod's cells.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.scheduler.wire import GATE, SCHEDULING_SPEC
from tests.conftest import ROOT
from tests.e2e_hosts.book import ISOLATION
from tests.e2e_hosts.site import Site, site_of
from tools.hosts.artifacts import BUSYBOX, programs
from tools.hosts.gpu import drive
from tools.hosts.lab import Lab
from tools.hosts.shell import LabError, wait_until

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1",
    reason="builds a driver of DRA: tools/kube/build.sh dradriver && PAICTL_E2E_ALL=1 make e2e-hosts",
)
Json = dict[str, Any]
DEVICES = 8
PODS = int(os.environ.get("PAICTL_CONTAINERS", "40"))
"""Containers that are looked into, by each door; 500 take some ten minutes."""
CLASS = "gpu.nvidia.com"
CELLS: Json = {
    "physicalCluster": {
        "cellTypes": {
            "SWITCH": {"childCellType": "GPU", "childCellNumber": 4},
            "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 2},
        },
        "physicalCells": [{"cellType": "RACK", "cellChildren": [{"cellAddress": "h2"}, {"cellAddress": "h3"}]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 1}]},
        "B": {"virtualCells": [{"cellType": "RACK.NODE.SWITCH", "cellNumber": 2}]},
    },
}


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and two workers with eight devices each."""
    lab.up(3)
    made = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1], [2, 3])
    done = made.paictl("deploy", "apply", "--yes", "--kubernetes-only", *made.files, seconds=900)
    assert done.returncode == 0, done.stderr
    admin = (lab.machine(1).root / "etc/kubernetes/admin.conf").read_text()
    for number in (2, 3):
        drive(lab.machine(number), programs("dradriver") / "dra-driver", admin, DEVICES)
    (made.folder / "admin.conf").write_text(admin)
    (made.folder / "hivedscheduler.yaml").write_text(yaml.safe_dump(CELLS, sort_keys=False))
    selector = {"cel": {"expression": f"device.driver == '{CLASS}'"}}
    spec = {"selectors": [selector], "extendedResourceName": "nvidia.com/gpu"}
    apply(made, {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": spec})
    wait_until(lambda: len(items(made, "resourceslices")) == 2, "the devices of both workers", seconds=60)
    return made


def kubectl(site: Site, *words: str, text: str | None = None) -> str:
    program = programs("kubectl") / "kubectl"
    return site.lab.run([program, "--kubeconfig", site.folder / "admin.conf", *words], text=text).stdout


def apply(site: Site, *objects: Json) -> None:
    kubectl(site, "apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def items(site: Site, kind: str) -> list[Json]:
    found: list[Json] = json.loads(kubectl(site, "get", kind, "-o", "json"))["items"]
    return found


@pytest.fixture(params=["extender", "gates"])
def door(site: Site, request: pytest.FixtureRequest) -> Iterator[str]:
    """One of the doors runs on the dev box; the extender with a kube-scheduler of its own."""
    port = _free_port()
    words = ["--config", "hivedscheduler.yaml", "--kubeconfig", "admin.conf", "--listen", f"127.0.0.1:{port}"]
    verb = "extender" if request.param == "extender" else "placer"
    processes = [_start(site, "door", [sys.executable, "-m", "paictl", verb, "serve", *words, "--devices", "claims"])]
    labels = [f"{GATE}=enabled"] if verb == "placer" else [f"{GATE}-"]
    kubectl(site, "label", "namespace", "default", "--overwrite", *labels)
    if verb == "extender":
        printed = site.paictl("extender", "config", "--scheduler-only", "--no-tls", "--devices", "claims").stdout
        config = yaml.safe_load(printed)
        config["clientConnection"] = {"kubeconfig": str(site.folder / "admin.conf"), "qps": 100, "burst": 200}
        config["leaderElection"] = {"leaderElect": False}
        config["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}/v1/extender"
        (site.folder / "scheduler.yaml").write_text(yaml.safe_dump(config))
        program = programs("kube-scheduler") / "kube-scheduler"
        more = ["--secure-port", "0", "--config", str(site.folder / "scheduler.yaml")]
        processes.append(_start(site, "scheduler", [str(program), *more]))
    try:
        yield str(request.param)
    finally:
        for process in processes:
            process.terminate()
            process.wait(20)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _start(site: Site, name: str, words: list[str]) -> subprocess.Popen[bytes]:
    inside = [str(word) for word in (*site.lab.network.inside(), *words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (site.folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(inside, cwd=site.folder, env=environment, stdout=log, stderr=log)


def gang(door: str, name: str, pods: int, devices: int, vc: str, priority: int) -> list[Json]:
    """Pods of one gang that print what they see and end; claims behind the gates, plain pods for the extender."""
    spec = {
        "virtualCluster": vc, "priority": priority, "leafCellNumber": devices,
        "affinityGroup": {"name": f"default/{name}", "members": [{"podNumber": pods, "leafCellNumber": devices}]},
    }  # fmt: skip
    container: Json = {"name": "c", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["env"]}
    more: Json = {}
    if door == "gates":
        container["resources"] = {"claims": [{"name": "devices"}]}
        more["schedulingGates"] = [{"name": "paictl.io/cells"}]
        more["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": f"devices-{devices}"}]
    else:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(devices)}}
        more["schedulerName"] = "hivedscheduler"
    noted = {SCHEDULING_SPEC: json.dumps(spec)}
    return [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"{name}-{i}", "labels": {"gang": name}, "annotations": noted},
            "spec": {"restartPolicy": "Never", "containers": [container], **more},
        }
        for i in range(pods)
    ]  # fmt: skip


def template(devices: int) -> Json:
    request = {"name": "devices", "exactly": {"deviceClassName": CLASS, "count": devices}}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": f"devices-{devices}"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }  # fmt: skip


def test_each_container_sees_the_devices_of_its_cells_and_no_others(site: Site, door: str) -> None:
    apply(site, *(template(count) for count in (1, 2, 4, 8)))
    dice = random.Random(17)  # noqa: S311
    number, seen = 0, 0
    while seen < PODS:
        made: list[Json] = []
        while len(made) < 12:
            number += 1
            pods, devices = dice.choice([(1, 1), (1, 2), (2, 2), (3, 1), (2, 4), (1, 4), (1, 8), (4, 1)])
            vc = "A" if devices == 8 else dice.choice("AB")
            made += gang(door, f"{door}-{number}", pods, devices, vc, dice.choice([-1, 0, 5]))
        apply(site, *made)
        seen += _check(site, {pod["metadata"]["name"] for pod in made})
        kubectl(site, "delete", "pods", "--all", "--wait=false")
        wait_until(lambda: not items(site, "pods"), "they are gone", seconds=120)
    wait_until(lambda: not _held(site), "no claim is left over", seconds=60)


def _check(site: Site, names: set[str]) -> int:
    """Wait until pods have ended, and compare what each saw with its annotation; evicted ones have nothing to say."""

    def ended() -> bool:
        here = [pod for pod in items(site, "pods") if pod["metadata"]["name"] in names]
        return all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in here)

    try:
        wait_until(ended, "pods end", seconds=240, pause=0.5)
    except LabError as error:
        log = (site.folder / "door.log").read_text()[-3000:]
        raise AssertionError(f"{error}\n{kubectl(site, 'get', 'pods,events')[-6000:]}\n{log}") from None
    checked = 0
    for pod in items(site, "pods"):
        if pod["status"]["phase"] != "Succeeded":
            continue
        shown = kubectl(site, "logs", pod["metadata"]["name"])
        own = {int(part) for part in pod["metadata"]["annotations"][ISOLATION].split(",")}
        assert set(map(int, re.findall(r"^GPU_(\d+)=here$", shown, re.MULTILINE))) == own, pod["metadata"]["name"]
        checked += 1
    return checked


def _held(site: Site) -> list[str]:
    return [
        claim["metadata"]["name"]
        for claim in items(site, "resourceclaims")
        if (claim.get("status") or {}).get("allocation")
    ]
