"""Runtime plugins on a real API server: volumes bound to claims, pods that mount them, ports for SSH."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

import pytest

from paictl.cli.job import sessions
from paictl.cluster.accounts import Account
from paictl.cluster.interface import Cluster, ClusterError, JobState, TaskPlace
from paictl.cluster.kubernetes import storages
from paictl.cluster.storages import Credentials, Storage
from paictl.cluster.values import ConflictError
from paictl.frozen import frozen
from paictl.operate.users.accounts import NewUser, add, add_key
from paictl.remote.openssl import key_pair
from paictl.server.serving import ServerSettings, in_background
from paictl.server.tasks.access import site_of
from paictl.workload.fields import JobError
from tests.e2e_kube.controlplane import ControlPlane, free_ports
from tests.e2e_kube.jobrig import SPACE, JobRig, opened, rack_of_jobs, request, role
from tests.e2e_kube.kubeapi import ApiError, KubeApi, until

CLAIM = f"/api/v1/namespaces/{SPACE}/persistentvolumeclaims/storage-data"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
DATA = Storage("data", "nfs", "10.0.0.9:/data", ("A",), options=("nfsvers=4.1",))


@pytest.fixture(scope="module")
def rig(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    with rack_of_jobs(plane, api, tmp_path_factory.mktemp("jobs")) as made:
        yield made


@pytest.fixture
def cluster(rig: JobRig) -> Iterator[Cluster]:
    found = opened(rig.plane)
    yield found
    rig.forget_jobs()
    for storage in found.storages():
        found.remove_storage(storage.name)
    until(lambda: not volumes(rig.api), 30, lambda: str(volumes(rig.api)))  # they go when their claims have


def test_a_pod_mounts_a_volume_that_is_bound_to_its_claim(cluster: Cluster, api: KubeApi) -> None:
    cluster.add_storage(DATA)
    until(lambda: api.get(CLAIM)["status"].get("phase") == "Bound", 30, lambda: str(api.get(CLAIM)))
    plugin = {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["data"]}}
    cluster.submit([request("train", {"worker": role(1)}, extras={"com.microsoft.pai.runtimeplugin": [plugin]})])
    until(lambda: cluster.job("ann~train").state is JobState.RUNNING, 60, lambda: str(cluster.job("ann~train")))
    (pod,) = api.pods(SPACE)
    mounts = {one["name"]: one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["storage-data"] == "/mnt/data"
    claims = [one["persistentVolumeClaim"] for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
    assert claims == [{"claimName": "storage-data"}]


def test_a_storage_that_pods_still_use_can_be_added_again_when_they_have_ended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes keeps a claim while a pod mounts it, and its volume for a moment after the claim."""
    cluster.add_storage(DATA)
    cluster.submit([request("train", {"worker": role(1)}, extras={"storages": [{"name": "data"}]})])
    until(lambda: cluster.job("ann~train").state is JobState.RUNNING, 60, lambda: str(cluster.job("ann~train")))
    cluster.remove_storage("data")
    with monkeypatch.context() as patched:
        patched.setattr(storages, "_DELETION_WAIT", 1.0)
        with pytest.raises(ConflictError, match="persistentvolumes/paictl-storage-data is still being deleted"):
            cluster.add_storage(DATA)
    assert not cluster.storages()
    cluster.stop_job("ann~train")
    cluster.add_storage(DATA)
    assert [storage.name for storage in cluster.storages()] == ["data"]


def test_another_virtual_cluster_is_refused_with_the_field(cluster: Cluster) -> None:
    cluster.add_storage(DATA)
    asked = request("other", {"worker": role(1)}, extras={"storages": [{"name": "data"}]})
    with pytest.raises(JobError, match="virtual cluster B has no storage 'data'") as refused:
        cluster.submit([replace(asked, vc="B")])
    assert refused.value.where == "extras.storages[0].name"
    assert cluster.jobs() == []


def test_a_share_of_smb_is_made_as_its_driver_takes_it(cluster: Cluster, api: KubeApi) -> None:
    """The API server validates volume and secret; there is no SMB server here to mount from."""
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "smb.csi.k8s.io"}, "spec": {}}
    api.call("POST", DRIVERS, body)
    try:
        cluster.add_storage(Storage("home", "smb", "//files/home", ("*",)), Credentials("pai", "geheim-7"))
        assert [one.name for one in cluster.storages()] == ["home"]
        secrets = api.get(f"/api/v1/namespaces/{SPACE}/secrets")["items"]
        assert not [one for one in secrets if one["metadata"]["name"] == "storage-home"]
        cluster.remove_storage("home")
        with pytest.raises(ApiError):
            api.get("/api/v1/namespaces/paictl-system/secrets/storage-home")
    finally:
        with contextlib.suppress(ApiError):
            api.call("DELETE", f"{DRIVERS}/smb.csi.k8s.io")


def test_a_paijob_made_by_hand_gets_no_storage_of_another_tenant(cluster: Cluster, rig: JobRig) -> None:
    """`kubectl apply` asks nobody; the controller does."""
    cluster.add_storage(replace(DATA, vcs=("A", "B")))
    asked = request("sly", {"worker": role(1)}, extras={"storages": [{"name": "data"}]})
    rig.plane.programs["controller"].stop()
    try:
        cluster.submit([replace(asked, vc="B")])
        cluster.grant_storage("data", (), ("B",))
    finally:
        rig.start_controller()
    until(lambda: cluster.job("ann~sly").state is JobState.FAILED, 60, lambda: str(cluster.job("ann~sly")))
    assert "virtual cluster B has no storage 'data'" in cluster.job("ann~sly").reason


def test_tasks_get_ports_for_ssh_on_the_nodes_and_give_them_back(cluster: Cluster, api: KubeApi) -> None:
    """The API server takes the keys and gives the ports; the server runs in tests/unit/controller/test_ssh.py."""
    cluster.users.put_account(Account("ann"))
    try:
        add_key(cluster.users, "ann", f"{key_pair().public} laptop")
        plugin = {"plugin": "ssh", "parameters": {"jobssh": True, "userssh": {"type": "custom"}}}
        cluster.submit([request("door", {"worker": role(1, 2)}, extras={"com.microsoft.pai.runtimeplugin": [plugin]})])
        until(lambda: cluster.job("ann~door").state is JobState.RUNNING, 60, lambda: str(cluster.job("ann~door")))
        addresses = [cluster.ssh_address("ann~door", TaskPlace("worker", index)) for index in range(2)]
        ports = {one.port for one in addresses if one is not None}
        assert len(ports) == 2
        assert all(30000 <= port < 32768 for port in ports)
        assert all(one is not None and one.host_key.startswith("ssh-rsa ") for one in addresses)
        cluster.stop_job("ann~door")
        until(lambda: not nodeports(api), 60, lambda: str(nodeports(api)))
    finally:
        cluster.users.remove_account("ann")


def volumes(api: KubeApi) -> list[str]:
    found = api.get("/api/v1/persistentvolumes")["items"]
    return [one["metadata"]["name"] for one in found if one["metadata"]["name"].startswith("paictl-storage-")]


def nodeports(api: KubeApi) -> list[str]:
    found = api.get(f"/api/v1/namespaces/{SPACE}/services")["items"]
    return [one["metadata"]["name"] for one in found if one["spec"]["type"] == "NodePort"]


BOARD = {"plugin": "tensorboard", "parameters": {"port": 6006, "logdir": {"logs": "/mnt/logs"}}}


@pytest.fixture
def served(cluster: Cluster) -> Cluster:
    """A job whose task serves a TensorBoard, as kwok plays it."""
    cluster.submit([request("seen", {"worker": role(1)}, extras={"com.microsoft.pai.runtimeplugin": [BOARD]})])
    until(lambda: cluster.job("ann~seen").state is JobState.RUNNING, 60, lambda: str(cluster.job("ann~seen")))
    return cluster


def test_a_connection_to_a_port_of_a_task_carries_all_bytes_both_ways(served: Cluster) -> None:
    task, sent = TaskPlace("worker"), bytes(range(256)) * 8_000
    connection = served.dial("ann~seen", task, 7007)
    connection.settimeout(30)
    with connection:
        writing = threading.Thread(target=connection.sendall, args=(sent,))
        writing.start()
        found = b""
        while len(found) < len(sent) and (piece := connection.recv(1 << 16)):
            found += piece
            if len(found) < 1_000_000:
                time.sleep(0.002)  # a slow reader loses nothing
        writing.join()
    assert found == sent
    with served.dial("ann~seen", task, 9999) as closed:
        closed.settimeout(30)
        assert closed.recv(10) == b"", "nothing listens there"
    with pytest.raises(ClusterError, match="no task worker:7"):
        served.dial("ann~seen", TaskPlace("worker", 7), 7007)


def test_a_browser_sees_tensorboard_through_the_portal(served: Cluster) -> None:
    """From the page of the job by a ticket to the task's own host name, through the API server to its port."""
    add(served.users, NewUser("ann", "correct horse", admin=False, vcs=("A",)))
    port = free_ports(1)[0]
    settings = ServerSettings("127.0.0.1", 0, tasks=site_of(f"http://*.localhost:{port}"), tasks_port=port)
    try:
        with in_background(lambda: served, settings=settings) as where:
            session = _post(f"{where}/sign-in", "user=ann&password=correct+horse").headers["Set-Cookie"]
            page = _get(f"{where}/jobs/ann/seen", session)
            assert 'href="/jobs/ann/seen/open/worker/0/tensorboard"' in page.text
            ticket = _get(f"{where}/jobs/ann/seen/open/worker/0/tensorboard", session).headers["Location"]
            host = urlsplit(ticket).netloc
            here = f"http://127.0.0.1:{port}"
            entered = _get(f"{here}/.paictl/enter?{urlsplit(ticket).query}", "", host)
            board = _get(f"{here}/scalars", f"{session}; {entered.headers['Set-Cookie']}", host)
            assert (board.status, board.text) == (200, "board")
            assert _get(f"{here}/", session, host).status == 401
    finally:
        served.users.remove_account("ann")


@frozen
class Reply:
    status: int
    headers: Message
    text: str


def _get(address: str, cookie: str, host: str = "") -> Reply:
    pairs = "; ".join(part.partition(";")[0] for part in cookie.split("; ") if part.startswith("paictl"))
    return _sent("GET", address, "", {"Cookie": pairs, **({"Host": host} if host else {})})


def _post(address: str, form: str) -> Reply:
    return _sent("POST", address, form, {"Content-Type": "application/x-www-form-urlencoded"})


def _sent(method: str, address: str, body: str, rows: Mapping[str, str]) -> Reply:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, dict(rows))
    found = connection.getresponse()
    reply = Reply(found.status, found.headers, found.read().decode())
    connection.close()
    return reply


def test_a_session_has_a_shell_and_gives_its_devices_back(
    cluster: Cluster, rig: JobRig, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, typing = os.pipe()  # nobody types anything
    monkeypatch.setattr("sys.stdin", os.fdopen(reading))
    spec = sessions.session_spec("ubuntu:24.04", 1, 1, 512, "30m", None)
    wishes: dict[str, Any] = {"name": None, "vc": "A", "priority": None, "timeout": 60.0}
    words = ("sh", "-c", 'test -f /tmp/.pai-shells/$$ && echo "idle after $TMOUT"')
    assert sessions.run_session(cluster, "ann", spec, words, keep=False, **wishes) == 0
    out, err = capfd.readouterr()
    assert out == "idle after 1800\n"
    assert "session ann~session-2 asks for 1 devices, 1 CPUs and 512 MiB in virtual cluster A" in err
    assert "paictl job stop ann~session-2" in err
    until(lambda: cluster.job("ann~session-2").state is JobState.STOPPED, 60, lambda: str(cluster.job("ann~session-2")))
    assert sessions.run_session(cluster, "ann", spec, ("true",), keep=True, **wishes) == 0
    assert cluster.job("ann~session-3").state is JobState.RUNNING
    with pytest.raises(JobError, match="no virtual cluster"):
        sessions.run_session(cluster, "ann", spec, (), keep=False, **{**wishes, "vc": "C"})
    assert len(rig.jobs()) == 2
    os.close(typing)
