"""How long `paictl service` takes for all services on a real control plane (make kube first).

Run: ``.venv/bin/python tools/bench_services.py``. kwok runs the pods, so that it is paictl, the API server, its
controllers and kube-scheduler that are measured, not images. Wall time, processor time of this process, requests.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.presets import preset_files
from paictl.config.pushing.push import seal_files, secrets_of
from paictl.operate.services import conditions, perform, prepare
from paictl.remote.kube.client import KubeClient, connect
from paictl.service.carry_out import Patience
from paictl.service.plan import Action, ServiceRequest
from tests.e2e_kube.controlplane import control_plane, missing
from tests.e2e_kube.kubeapi import KubeApi
from tests.e2e_kube.test_service_verbs import SCHEDULER

PATIENCE = Patience(deadline=300.0, every=0.2)


def timed(name: str, client: KubeClient, act: Callable[[], object]) -> None:
    """Do something and print its row."""
    began, work, sent = time.perf_counter(), time.process_time(), sum(client.sent.values())
    act()
    wall, busy = time.perf_counter() - began, time.process_time() - work
    print(f"| {name} | {wall:.1f} s | {busy:.2f} s | {sum(client.sent.values()) - sent} |")


def main() -> None:
    """Print a table."""
    assert not missing(), "make kube"
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder) / "cp") as plane:
        api = KubeApi(plane)
        api.add_nodes(["master1", "worker1", "worker2"])
        api.await_nodes(3)
        plane.start_scheduler(SCHEDULER)
        client = connect(plane.kubeconfig, "x")
        cluster = KubernetesCluster(client, "pai")
        files = preset_files("lab")
        sealed = seal_files(files)
        cluster.push(sealed, "bench", secrets=secrets_of(files, sealed))

        def run(action: Action) -> None:
            outcomes = perform(cluster, prepare(cluster, ServiceRequest(action)), patience=PATIENCE)
            assert all(one.error is None for one in outcomes), [str(one.error) for one in outcomes if one.error]

        print("| all services | wall | processor | requests |\n| --- | --- | --- | --- |")
        timed("start", client, lambda: run(Action.START))
        timed("start again, all run", client, lambda: run(Action.START))
        timed("status with drift", client, lambda: conditions(cluster, ServiceRequest(Action.REFRESH)))
        timed("refresh, nothing changed", client, lambda: run(Action.REFRESH))
        timed("restart", client, lambda: run(Action.RESTART))
        timed("stop", client, lambda: run(Action.STOP))
        objects = len(api.get("/apis/apps/v1/deployments")["items"])
        print(f"\n{objects} Deployments are left after the stop")
        plane.programs["kube-scheduler"].stop()


if __name__ == "__main__":
    main()
