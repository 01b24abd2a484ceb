"""All that a job needs on a control plane: its custom resource, the extender behind kube-scheduler, the controller."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from paictl.cluster.interface import FOREVER, Cluster, JobRequest
from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.cluster.kubernetes.paijob.names import SELECTOR
from paictl.resources import resource_folder
from paictl.scheduler.wire import GATE
from paictl.units import Millis
from tests.e2e_kube.accounts import PAICTL, uninstall
from tests.e2e_kube.controlplane import HOST, ControlPlane, Program, answers, free_ports
from tests.e2e_kube.gates import STOCK, Placer
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, until
from tests.e2e_kube.rig import Rig, nodes_of
from tests.e2e_kube.stages import END

SPACE = "paictl-jobs"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/paijobs.paictl.io"
JOBS = f"/apis/paictl.io/v1alpha1/namespaces/{SPACE}/paijobs"
WORKS = f"/apis/batch/v1/namespaces/{SPACE}/jobs"
HIVED: Mapping[str, Any] = {
    "physicalCluster": {
        "skuTypes": {"GPU": {"gpu": 1, "cpu": 4, "memory": "8192Mi"}},
        "cellTypes": {
            "NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 8},
        },
        "physicalCells": [{"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{i}"} for i in range(8)]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 4}]},
        "B": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 4}]},
    },
}


class JobRig:
    """The controller beside an extender and a kube-scheduler; nodes are the caller's."""

    def __init__(self, plane: ControlPlane, api: KubeApi, hived: Mapping[str, Any], folder: Path) -> None:
        self.plane = plane
        self.api = api
        self.rig = Rig(plane, api, hived, folder)
        self.port = free_ports(1)[0]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self, **scheduler: Any) -> None:
        """All of it, once nodes are there; `scheduler` changes kube-scheduler's configuration."""
        self.rig.install()
        install_resource(self.api)
        with contextlib.suppress(ApiError):  # it already exists
            self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        self.rig.start_extender()
        names = ("hivedscheduler", "default-scheduler")  # the second for pods of services
        self.rig.start_scheduler(profiles=[{"schedulerName": name} for name in names], **scheduler)
        self.start_controller()

    def start_controller(self, *words: str, wait: bool = True) -> Program:
        """Start the controller, or start it again."""
        program = self.plane.run(
            "controller",
            [
                *PAICTL,
                "controller",
                "serve",
                "--kubeconfig",
                str(self.plane.kubeconfig),
                "--context",
                "x",
                "--listen",
                f"{HOST}:{self.port}",
                *words,
            ],
        )
        if wait:
            program.wait_until(lambda: answers(f"{self.url}/readyz"))
        return program

    def jobs(self) -> list[Json]:
        """The `PaiJob`s."""
        found: list[Json] = self.api.get(JOBS)["items"]
        return found

    def works(self) -> list[Json]:
        """Their Jobs."""
        found: list[Json] = self.api.get(WORKS)["items"]
        return found

    def forget_jobs(self) -> None:
        """No job is left, nor a pod of one."""
        for path in (JOBS, WORKS, f"/api/v1/namespaces/{SPACE}/pods"):
            self.api.call("DELETE", f"{path}?propagationPolicy=Background")
        # Kubernetes would delete them, too, but half a minute late while the custom resource is new to it
        self.api.call("DELETE", f"/api/v1/namespaces/{SPACE}/secrets?labelSelector={SELECTOR}")
        until(lambda: not (self.jobs() or self.works() or self.api.pods(SPACE)), 60, "all jobs are gone")

    def stop(self) -> None:
        """The controller, kube-scheduler and the extender."""
        if "controller" in self.plane.programs:
            self.plane.programs["controller"].stop()
        self.rig.stop()


def install_resource(api: KubeApi) -> None:
    """The custom resource, as the service frameworkcontroller has it."""
    template = resource_folder("templates") / "frameworkcontroller" / "crd.yaml.j2"
    api.apply(yaml.safe_load(template.read_text(encoding="utf-8")), CRD)
    until(lambda: "True" in [one["status"] for one in _conditions(api) if one["type"] == "Established"], 20, "the CRD")


def _conditions(api: KubeApi) -> list[Json]:
    found: list[Json] = api.get(CRD).get("status", {}).get("conditions") or []
    return found


@contextlib.contextmanager
def job_rig(
    plane: ControlPlane, api: KubeApi, hived: Mapping[str, Any], folder: Path, **scheduler: object
) -> Iterator[JobRig]:
    """All of it runs inside the block, nodes are the caller's; no job is left behind."""
    made = JobRig(plane, api, hived, folder)
    try:
        made.start(**scheduler)
        yield made
        made.forget_jobs()
    finally:
        made.stop()


@contextlib.contextmanager
def gated_jobs(plane: ControlPlane, api: KubeApi, hived: Mapping[str, Any], folder: Path) -> Iterator[JobRig]:
    """As `job_rig` behind the gates: the placer beside a stock kube-scheduler, and the controller."""
    made, placer = JobRig(plane, api, hived, folder / "jobs"), Placer(plane, api, hived, folder / "placer")
    try:
        with contextlib.suppress(ApiError):  # it already exists
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        api.patch(f"/api/v1/namespaces/{SPACE}", {"metadata": {"labels": {GATE: "enabled"}}})
        placer.install("--no-policy")
        install_resource(api)
        plane.start_scheduler(json.dumps(STOCK))
        placer.start()
        made.start_controller("--door", "gates")
        yield made
        made.forget_jobs()
    finally:
        made.stop()
        placer.stop()
        uninstall(api, placer.objects)
        api.patch(f"/api/v1/namespaces/{SPACE}", {"metadata": {"labels": {GATE: None}}})


@contextlib.contextmanager
def rack_of_jobs(plane: ControlPlane, api: KubeApi, folder: Path, *, gates: bool = False) -> Iterator[JobRig]:
    """The same by either door with the nodes of `HIVED`, which is the cluster's configuration."""
    names = nodes_of(HIVED)
    api.add_nodes(names)
    api.await_nodes(len(names))
    try:
        with (gated_jobs if gates else job_rig)(plane, api, HIVED, folder) as made:
            opened(plane).push(files(), "for jobs", base=None)
            yield made
    finally:
        api.call("DELETE", "/api/v1/nodes")


def opened(plane: ControlPlane) -> Cluster:
    return open_pinned(pin("real", str(plane.kubeconfig), "x"))


def files() -> dict[str, str]:
    hived = yaml.safe_dump(dict(HIVED), sort_keys=False)
    return {"services-configuration.yaml": yaml.safe_dump({"hivedscheduler": {"config": hived}})}


def role(gpu: int = 1, instances: int = 1, **more: object) -> Json:
    return {
        "instances": instances,
        "dockerImage": "image",
        "commands": ["sleep 1h"],
        "resourcePerInstance": {"gpu": gpu, "cpu": 1, "memoryMB": 512},
        **more,
    }


def request(
    name: str,
    roles: Mapping[str, Json],
    *,
    vc: str = "A",
    priority: str = "test",
    gang: bool = True,
    seconds: float | None = None,
    **more: object,
) -> JobRequest:
    data = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "taskRoles": dict(roles),
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "defaults": {"virtualCluster": vc},
        "extras": {"gangAllocation": gang},
        **more,
    }
    return JobRequest("ann", data, None, priority, FOREVER if seconds is None else Millis(int(seconds * 1000)))


def finish(api: KubeApi, pod: str, code: str) -> None:
    """Let a pod end with an exit code."""
    api.patch(f"/api/v1/namespaces/{SPACE}/pods/{pod}", {"metadata": {"annotations": {END: code}}})


def live(api: KubeApi) -> list[str]:
    """The pods that go on."""
    found = api.pods(SPACE)
    return [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] not in ("Succeeded", "Failed")]
