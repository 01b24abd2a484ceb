"""The ground that the other tests stand on: nodes become ready, and the client library reads what is there."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path

import pytest
import yaml

from paictl.deploy.storage_class import NAMESPACE, StorageClass, manifest_of
from paictl.errors import PaictlError
from paictl.remote.kube import client as client_module
from paictl.remote.kube import pods
from paictl.remote.kube.client import Json, KubeError, connect
from paictl.remote.kube.events import EventRecorder, NewEvent, PodReference
from paictl.remote.kube.informer import Informer, InformerTimes
from paictl.remote.kube.leases import LeaderElector, LeaseTimes
from tests.e2e_kube.accounts import found, install, uninstall
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.kubeapi import ApiError, KubeApi, hived_pod, until


class Seen:
    """A listener that keeps what it was told."""

    def __init__(self) -> None:
        self.things: dict[str, Json] = {}
        self.ended: list[str] = []
        self.calls = 0

    def changed(self, thing: Json) -> None:
        self.calls += 1
        self.things[thing["metadata"]["name"]] = thing

    def gone(self, key: str, uid: str) -> None:
        self.ended.append(f"{key} {uid}")
        self.things.pop(key.rpartition("/")[2], None)

    def synced(self) -> None:
        pass


def test_nodes_become_ready_and_are_seen(plane: ControlPlane, api: KubeApi) -> None:
    seen = Seen()
    informer = Informer(connect(plane.kubeconfig, "x"), "/api/v1/nodes", seen)
    informer.start()
    assert informer.ready.wait(10)
    names = [f"ground-{i}" for i in range(5)]
    api.add_nodes(names)
    api.await_nodes(5)
    until(lambda: seen.things.keys() >= set(names), 10, "the informer has the nodes")
    informer.stop()
    for name in names:  # other modules count the nodes
        api.call("DELETE", f"/api/v1/nodes/{name}")


def test_a_watch_goes_on_after_the_server_was_away_and_nothing_is_lost(plane: ControlPlane, api: KubeApi) -> None:
    seen = Seen()
    informer = Informer(connect(plane.kubeconfig, "x"), "/api/v1/namespaces/default/pods", seen)
    informer.start()
    assert informer.ready.wait(10)
    api.create(hived_pod("before", {}, scheduler="nobody"))
    until(lambda: "before" in seen.things, 10, "seen")
    plane.programs["kube-apiserver"].kill()
    until(lambda: bool(informer.problem), 10, "noticed")
    plane.start_apiserver()
    api.create(hived_pod("after", {}, scheduler="nobody"))
    api.delete("before")
    until(lambda: "after" in seen.things and "before" not in seen.things, 30, "caught up")
    assert not informer.problem
    informer.stop()
    api.delete_all()


def test_a_silent_connection_is_given_up(plane: ControlPlane, api: KubeApi) -> None:
    seen = Seen()
    times = InformerTimes(silence=2, watch=300, relist=600)
    informer = Informer(connect(plane.kubeconfig, "x"), "/api/v1/namespaces/default/pods", seen, times=times)
    informer.start()
    assert informer.ready.wait(10)
    lists = informer.lists
    until(lambda: informer.lists > lists, 15, "a new list after two silent seconds")
    api.create(hived_pod("late", {}, scheduler="nobody"))
    until(lambda: "late" in seen.things, 10, "seen")
    informer.stop()
    api.delete_all()


def test_a_binding_carries_its_annotations_and_names_one_pod_only(plane: ControlPlane, api: KubeApi) -> None:
    client = connect(plane.kubeconfig, "x")
    uid = api.create(hived_pod("one", {}, scheduler="nobody"))["metadata"]["uid"]
    with pytest.raises(KubeError) as wrong:
        pods.bind(client, ("default", "one", "another-uid"), "ground-0", {"a": "1"})
    assert wrong.value.status == 409
    pods.bind(client, ("default", "one", uid), "ground-0", {"paictl/test": "0,1"})
    found = pods.get(client, "default", "one")
    assert found is not None
    assert found["spec"]["nodeName"] == "ground-0"
    assert found["metadata"]["annotations"]["paictl/test"] == "0,1"
    with pytest.raises(KubeError) as again:
        pods.bind(client, ("default", "one", uid), "ground-1", {})
    assert again.value.status == 409
    assert pods.evict(client, "default", "one", "another-uid")[0] is pods.Eviction.GONE
    assert pods.evict(client, "default", "one", uid)[0] is pods.Eviction.TAKEN
    until(lambda: api.pod("one") is None, 20, "evicted")


def test_an_event_is_one_object_however_often_it_is_told(plane: ControlPlane, api: KubeApi) -> None:
    client, now = connect(plane.kubeconfig, "x"), [0.0]
    event = NewEvent(PodReference("default", "someone", "uid-1"), "Waiting", "no room")
    events = EventRecorder(client, "test", clock=lambda: now[0])
    for _ in range(24 * 360):  # every ten seconds, a whole day
        events.send(event)
        now[0] += 10
    EventRecorder(client, "test").send(event)  # another process
    (found,) = api.events("someone")
    assert found["count"] > 7000
    assert events.sent < 20


def test_one_leads_and_another_takes_over(plane: ControlPlane) -> None:
    client, changes, lock = connect(plane.kubeconfig, "x"), list[tuple[str, str]](), threading.Lock()

    def elector(name: str) -> LeaderElector:
        def note(what: str) -> None:
            with lock:
                changes.append((name, what))

        return LeaderElector(
            client,
            ("default", "test"),
            name,
            gained=lambda: note("gained"),
            lost=lambda: note("lost"),
            terms=LeaseTimes(duration=3, retry=0.3),
        )

    first, second = elector("a"), elector("b")
    first.start()
    until(lambda: first.remaining > 0, 10, "the first leads")
    second.start()
    time.sleep(1)
    assert second.remaining <= 0
    first.stop()  # gives the lease back
    until(lambda: second.remaining > 0, 2.5, "the second leads at once")
    second.stop()
    assert changes[:2] == [("a", "gained"), ("b", "gained")] or ("a", "lost") in changes


def test_what_is_wrong_with_a_kubeconfig_is_said(plane: ControlPlane) -> None:
    with pytest.raises(PaictlError, match="nowhere"):
        connect(plane.kubeconfig, "nowhere")
    with pytest.raises(PaictlError):
        connect(plane.folder / "absent.conf")


def test_a_pod_uses_its_own_credentials(
    plane: ControlPlane, api: KubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token, authority and address as the kubelet gives them to a pod."""
    from kubernetes.config import incluster_config

    account = "/api/v1/namespaces/default/serviceaccounts"
    with contextlib.suppress(ApiError):
        api.call("POST", account, {"metadata": {"name": "someone"}})
    made = api.call("POST", f"{account}/someone/token", {"spec": {"expirationSeconds": 600}})
    (tmp_path / "token").write_text(made["status"]["token"])
    (tmp_path / "ca.crt").write_bytes((plane.folder / "ca.crt").read_bytes())
    monkeypatch.setattr(client_module, "_in_cluster", lambda: True)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    host, _, port = plane.server.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    found = connect()
    assert found.context == "in cluster"
    with pytest.raises(KubeError, match="system:serviceaccount:default:someone") as refused:
        found.get("/api/v1/nodes")
    assert refused.value.status == 403, "known, and without rights"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(PaictlError, match="own credentials cannot be used"):
        connect()


def test_the_objects_of_a_default_storage_class_are_valid(api: KubeApi) -> None:
    """Fields that the API server does not know are errors; the provisioner itself runs in tests/e2e_hosts."""
    objects = [one for one in yaml.safe_load_all(manifest_of(StorageClass("/srv/volumes"))) if one]
    found(objects, "Deployment", "local-path-provisioner")["spec"]["replicas"] = 0
    try:
        applied = install(api, objects)
    finally:
        uninstall(api, objects)
        api.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    assert found(applied, "StorageClass", "local-path")["reclaimPolicy"] == "Delete"
    assert len(applied) == len(objects)
