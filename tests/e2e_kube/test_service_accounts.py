"""The job controller and the REST server under the accounts that their templates make: no right is missing.

The audit log of the API server is the witness. Both run here beside it; only their tokens are those of the pods.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

from paictl.cluster.interface import FOREVER, Cluster, ClusterError, JobRequest, JobState, NodeChange
from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.operate.users.accounts import bootstrap
from tests.e2e_kube.accounts import PAICTL, Right, calls, install, token
from tests.e2e_kube.controlplane import HOST, ControlPlane, answers, kubeconfig
from tests.e2e_kube.jobrig import JobRig, install_resource
from tests.e2e_kube.kubeapi import Json, KubeApi, until
from tests.unit.cluster.catalogue import NO_DEVICES, rendered

NODE = "accounts-0"
HIVED: Mapping[str, Any] = {
    "physicalCluster": {
        "skuTypes": {"GPU": {"gpu": 1, "cpu": 4, "memory": "8192Mi"}},
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": NODE}],
    },
    "virtualClusters": {"A": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]}},
}
FILES = {
    "layout.yaml": NO_DEVICES,
    "services-configuration.yaml": yaml.safe_dump(
        {
            "hivedscheduler": {"config": yaml.safe_dump(dict(HIVED), sort_keys=False)},
            "rest-server": {"default-pai-admin-username": "admin", "default-pai-admin-password": "admin-password"},
        }
    ),
}
LATE = {Right("", "namespaces", "create")}
"""What is tried where the namespace is missing only, and may be refused where it is there."""


@pytest.fixture(scope="module")
def rig(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    made = JobRig(plane, api, HIVED, tmp_path_factory.mktemp("accounts"))
    try:
        api.add_nodes([NODE])
        api.await_nodes(1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
            services = rendered(FILES)
            opened(plane.kubeconfig).push(FILES, "for accounts", base=None)
        install_resource(api)
        for service in ("cluster-configuration", "frameworkcontroller", "rest-server"):
            install(api, [placed(one.body) for one in services[service] if one.kind not in ("Node", "Deployment")])
        for account in ("frameworkcontroller", "rest-server"):
            authority = plane.folder / "ca.crt"
            kubeconfig(made.rig.conf(account), plane.server, authority, token(api, account))
        made.rig.install()
        made.rig.start_extender()
        made.rig.start_scheduler()
        yield made
        made.forget_jobs()
    finally:
        made.stop()
        api.call("DELETE", f"/api/v1/nodes/{NODE}")


def placed(body: Json) -> Json:
    """An object with the namespace that paictl adds where a template says none."""
    if body["kind"] in ("Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"):
        return body
    return {**body, "metadata": {"namespace": "paictl-system", **body["metadata"]}}


def opened(conf: object) -> Cluster:
    return open_pinned(pin("real", str(conf), "x"))


def forbidden(plane: ControlPlane, account: str, since: int) -> set[Right]:
    return {call.right for call in calls(plane, account, since) if not call.allowed} - LATE


def request(name: str) -> JobRequest:
    role = {
        "instances": 2,
        "dockerImage": "image",
        "commands": ["sleep 1h"],
        "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 512},
    }
    data = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "taskRoles": {"train": role},
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "defaults": {"virtualCluster": "A"},
        "secrets": {"key": "x"},
    }
    return JobRequest("ann", data, None, "test", FOREVER)


def test_both_do_all_their_work_with_the_rights_of_their_accounts(
    rig: JobRig, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    since = plane.audit.stat().st_size
    controller = plane.run(
        "controller",
        [
            *PAICTL,
            "controller",
            "serve",
            "--kubeconfig",
            str(rig.rig.conf("frameworkcontroller")),
            "--context",
            "x",
            "--listen",
            f"{HOST}:{rig.port}",
            "--leader-elect",
        ],
    )
    controller.wait_until(lambda: answers(f"{rig.url}/readyz"))
    server = opened(rig.rig.conf("rest-server"))
    (first, _) = server.submit([request("first"), request("second")])
    until(lambda: server.job(first.key).state is JobState.RUNNING, 60, lambda: str(server.job(first.key)))
    for look in looks(server, first.key):
        with contextlib.suppress(ClusterError):  # whether it may be asked is what the audit log says
            look()
    server.set_node(NODE, NodeChange.CORDON)
    server.set_node(NODE, NodeChange.UNCORDON)
    version = server.configuration()
    server.push({**version.files, "layout.yaml": NO_DEVICES + "# changed\n"}, "by the portal", base=version.number)
    server.stop_job(first.key)
    until(lambda: server.job(first.key).state is JobState.STOPPED, 60, lambda: str(server.job(first.key)))
    assert forbidden(plane, "rest-server", since) == set()
    assert forbidden(plane, "frameworkcontroller", since) == set()


def looks(server: Cluster, key: str) -> Iterator[Callable[[], object]]:
    """All that the REST server and the portal ask."""
    yield lambda: (server.now, server.epoch, server.about())
    yield server.jobs
    yield server.nodes
    yield lambda: server.events(key)
    yield server.configurations
    yield server.picture
    yield lambda: server.impact(FILES)
    yield lambda: server.explain(key)
    yield lambda: server.foresee(request("third"))
    yield server.services
    yield lambda: bootstrap(server)
    yield server.users.accounts
    yield lambda: server.usage(server.now, server.now)
