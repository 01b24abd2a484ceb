"""The kind whose services really run: a cluster that `deploy apply` has made on test hosts (tests/e2e_hosts)."""

from __future__ import annotations

import os
from typing import Any, Final

from paictl.cluster.interface import Cluster
from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.cluster.kubernetes.paijob.names import API_VERSION, PLURAL
from paictl.cluster.presets import preset_files
from paictl.cluster.registry import Pinned
from paictl.config.pushing.push import seal_files, secrets_of
from paictl.remote.kube.client import connect
from tools.hosts.artifacts import BUSYBOX
from tools.hosts.shell import wait_until

HOSTS: Final = "hosts"
KUBECONFIG: Final = os.environ.get("PAICTL_CONTRACT_HOSTS", "")
"""The kubeconfig of such a cluster, whose master1, worker1 and worker2 are those of the preset "lab"."""
IMAGE: Final = BUSYBOX
PATIENCE: Final = 180.0
SERVICES: Final = "services-configuration.yaml"
_STARTED: Final = ("frameworkcontroller", "hivedscheduler", "rest-server")


def why_no_hosts() -> str:
    """The reason why there is no such cluster; empty where there is."""
    return "" if KUBECONFIG else "needs services that really run: make e2e-hosts"


def begin() -> Pinned:
    """Nothing is left of the test before: no job, the preset's virtual clusters, all services running on them."""
    pinned = pin("pai", KUBECONFIG, "paictl-pai")
    _forget_jobs(pinned)
    cluster = open_pinned(pinned)
    stands = cluster.configuration()
    files = {**stands.files, SERVICES: preset_files("lab")[SERVICES]}
    sealed = seal_files(files)
    cluster.push(sealed, "first", base=stands.number, secrets=secrets_of(files, sealed))
    for name in _STARTED:
        cluster.set_service(name, running=True)
    wait_until(lambda: _all_ready(cluster), "the services are ready", seconds=PATIENCE, pause=0.5)
    return pinned


def _all_ready(cluster: Cluster) -> bool:
    ready = {view.name for view in cluster.services() if view.ready}
    return ready >= set(_STARTED)


def _forget_jobs(pinned: Pinned) -> None:
    client = connect(pinned.kubeconfig, pinned.context)
    client.request("DELETE", f"/apis/{API_VERSION}/namespaces/paictl-jobs/{PLURAL}")

    def gone() -> bool:
        pods: list[Any] = client.get("/api/v1/namespaces/paictl-jobs/pods")["items"]
        return not pods

    wait_until(gone, "the jobs before have gone", seconds=PATIENCE, pause=0.5)
