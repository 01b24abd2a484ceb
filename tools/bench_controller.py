"""The job controller at 1,000 running jobs: processor time and requests to the API server, on a real control plane.

    python tools/bench_controller.py [JOBS]

Starts etcd, kube-apiserver, kube-controller-manager and kwok (`make kube`) and the controller as a process; pods are
bound by this script, since the scheduler is not what is measured.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.cluster.interface import FOREVER, JobRequest
from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.cluster.presets import preset_files
from tests.e2e_kube.accounts import PAICTL
from tests.e2e_kube.controlplane import HOST, answers, control_plane, free_ports, missing
from tests.e2e_kube.jobrig import SPACE, install_resource
from tests.e2e_kube.kubeapi import KubeApi, until

QUIET = 20.0
"""Seconds for which nothing happens to the jobs."""


def main(number: int) -> None:
    """Print the figures."""
    if missing():
        sys.exit(f"{', '.join(missing())} not there: make kube")
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder)) as plane:
        api = KubeApi(plane)
        install_resource(api)
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        api.add_nodes(["n0"], pods="5000", cpu="100000", memory="100Ti")
        cluster = open_pinned(pin("real", str(plane.kubeconfig), "x"))
        cluster.push(preset_files("production"), "bench")
        port = free_ports(1)[0]
        words = ["controller", "serve", "--kubeconfig", str(plane.kubeconfig), "--context", "x"]
        program = plane.run("controller", [*PAICTL, *words, "--listen", f"{HOST}:{port}"])
        program.wait_until(lambda: answers(f"http://{HOST}:{port}/readyz"))
        base, sent = program.processor_seconds(), requests(port)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda number: cluster.submit([job(number)]), range(number)))
        until(lambda: len(api.pods(SPACE)) >= number, 900, lambda: f"{len(api.pods(SPACE))} pods")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda pod: bind(api, pod["metadata"]["name"]), api.pods(SPACE)))
        until(lambda: running(port) >= number, 900, lambda: f"{running(port)} jobs run")
        started = (program.processor_seconds() - base) / number, (requests(port) - sent) / number
        base, sent, began = program.processor_seconds(), requests(port), time.monotonic()
        time.sleep(QUIET)
        span = time.monotonic() - began
        load, rate = (program.processor_seconds() - base) / span, (requests(port) - sent) / span
        memory = program.memory() / 2**20
        print(f"controller: start of a job {started[0] * 1000:.1f} ms of processor time, {started[1]:.1f} requests")
        print(f"controller: {number} jobs run: {load:.3f} of a core, {rate:.2f} requests/s, {memory:.0f} MB")


def job(number: int) -> JobRequest:
    """One job of one task that never ends."""
    role = {
        "instances": 1,
        "dockerImage": "i",
        "commands": ["sleep inf"],
        "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 64},
    }
    data = {
        "protocolVersion": 2,
        "name": f"job{number}",
        "type": "job",
        "taskRoles": {"worker": role},
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "image"}],
        "defaults": {"virtualCluster": "vc1"},
    }
    return JobRequest("bench", data, None, "oppo", FOREVER)


def bind(api: KubeApi, name: str) -> None:
    """Do what a scheduler does."""
    body = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"}}
    api.call("POST", f"/api/v1/namespaces/{SPACE}/pods/{name}/binding", body)


def metrics(port: int) -> str:
    """What the controller says about itself."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{HOST}:{port}/metrics", timeout=20) as reply:
        return str(reply.read().decode())


def requests(port: int) -> float:
    """Requests to the API server so far."""
    return sum(
        float(found) for found in re.findall(r"^paictl_controller_requests_total\S* (\S+)$", metrics(port), re.M)
    )


def running(port: int) -> float:
    """Jobs that run."""
    found = re.findall(r'^paictl_controller_jobs\{state="Running"\S* (\S+)$', metrics(port), re.M)
    return sum(map(float, found))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
