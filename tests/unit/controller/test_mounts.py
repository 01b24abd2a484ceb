"""What pods of jobs get of named storages, and what becomes of a job whose storage is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paictl.cluster.interface import JobState
from paictl.cluster.storages import Storage
from paictl.controller.cache import WORKS
from paictl.remote.kube.client import Json
from paictl.workload.fields import JobError
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import Bench, FakeJobs

HOME = Storage("home", "pvc", "team-home", ("tenanta",), own_folders=True)
DATA = Storage("data", "nfs", "10.0.0.9:/data", ("*",), read_only=True)


@pytest.fixture
def stored(kube: FakeJobs) -> FakeJobs:
    kube.objects["/api/v1/namespaces/paictl-jobs/persistentvolumeclaims/team-home"] = {"metadata": {}}
    for storage in (HOME, DATA):
        cluster(kube).add_storage(storage)
    return kube


def run_controller(kube: FakeJobs) -> None:
    """The controller looks, until it has nothing more to do."""
    bench = Bench(kube)
    for _ in range(3):
        bench.tell()
        bench.look()


def pod_of(kube: FakeJobs, role: str) -> Json:
    works = [one for path, one in kube.objects.items() if path.startswith(f"{WORKS}/")]
    (found,) = [one for one in works if one["metadata"]["annotations"]["paictl.io/role"] == role]
    spec: Json = found["spec"]["template"]["spec"]
    return spec


def own(spec: Json) -> tuple[list[Json], list[Json]]:
    """Volumes and mounts of storages alone."""
    mounts = [one for one in spec["containers"][0]["volumeMounts"] if one["name"].startswith("storage-")]
    return [one for one in spec["volumes"] if one["name"].startswith("storage-")], mounts


def test_each_role_gets_what_is_for_it(stored: FakeJobs) -> None:
    plugin = {
        "plugin": "teamwise_storage",
        "parameters": {"storageConfigNames": ["home"]},
        "taskRoles": ["worker"],
    }
    extras = {
        "storages": [{"name": "data", "mountPath": "/in"}, {"name": "data"}],
        "com.microsoft.pai.runtimeplugin": [plugin],
    }
    cluster(stored).submit([request({"worker": {}, "ps": {}}, extras=extras)])
    run_controller(stored)
    data = [
        {"name": "storage-data", "mountPath": "/in", "readOnly": True},
        {"name": "storage-data", "mountPath": "/mnt/data", "readOnly": True},
    ]
    shared = {"name": "storage-data", "persistentVolumeClaim": {"claimName": "storage-data"}}
    assert own(pod_of(stored, "ps")) == ([shared], data)
    volumes, mounts = own(pod_of(stored, "worker"))
    assert volumes == [shared, {"name": "storage-home", "persistentVolumeClaim": {"claimName": "team-home"}}]
    assert mounts == [*data, {"name": "storage-home", "mountPath": "/mnt/home", "subPath": "ann"}]


def test_a_job_without_storages_has_none_and_nobody_asks_for_the_list(stored: FakeJobs) -> None:
    cluster(stored).submit([request({"worker": {}})])
    begun = len(stored.requests)
    run_controller(stored)
    assert own(pod_of(stored, "worker")) == ([], [])
    assert not any("paictl-storages" in path for _, path in stored.requests[begun:])


def test_who_may_not_use_it_is_refused_when_submitting(stored: FakeJobs) -> None:
    with pytest.raises(JobError, match="virtual cluster tenantb has no storage 'home'"):
        cluster(stored).submit(
            [replace(request({"worker": {}}, extras={"storages": [{"name": "home"}]}), vc="tenantb")]
        )
    assert cluster(stored).jobs() == []


def test_a_job_whose_storage_is_gone_meanwhile_fails_with_the_reason(stored: FakeJobs) -> None:
    cluster(stored).submit([request({"worker": {}}, extras={"storages": [{"name": "data"}]})])
    cluster(stored).remove_storage("data")
    run_controller(stored)
    done = job(stored)
    assert done.state is JobState.FAILED
    assert "no storage 'data'" in done.reason
    assert not any(path.startswith(f"{WORKS}/") for path in stored.objects)
