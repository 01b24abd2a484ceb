"""Services on a real API server: applied whole or not at all, waited for with reasons, never more deleted than ours.

The services here are those of tests/data/services, whose pods stand on a node that kwok keeps.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from paictl import __version__
from paictl.cluster.interface import ClusterError, ConflictError, ServiceView
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.kubernetes.services import applying, record
from paictl.cluster.kubernetes.services.port import KubeServices
from paictl.cluster.kubernetes.store import VersionStore
from paictl.config.pushing.push import seal_files, secrets_of
from paictl.remote.kube import objects as objects_of_kube
from paictl.remote.kube.client import connect
from tests.conftest import ROOT
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, until

SPACE: Final = "/api/v1/namespaces/paictl-system"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/paictl-system/deployments"
FILE: Final = "services-configuration.yaml"
NODE: Final = "services-node"


class Bench:
    """A cluster with the test's own services, and the files that are pushed."""

    def __init__(self, plane: ControlPlane, api: KubeApi, folder: Path) -> None:
        self.plane, self.api, self.folder = plane, api, folder
        self.client = connect(plane.kubeconfig, "x")
        self.cluster = KubernetesCluster(self.client, "pai")
        shutil.copytree(ROOT / "tests" / "data" / "services", folder, dirs_exist_ok=True)

    def services(self) -> KubeServices:
        """The port, as another process would have it."""
        return KubeServices(self.client, VersionStore(self.client), lambda: "pai", self.folder)

    def push(self, section: str = "", secret: str = "hunter2-correct") -> int:  # noqa: S107 - of a test
        files = {FILE: f"rest-server: {{jwt-secret: {secret}}}\n{section}"}
        versions = self.cluster.configurations()
        sealed = seal_files(files, versions[-1].files if versions else None)
        return self.cluster.push(sealed, "test", secrets=secrets_of(files, sealed)).number

    def view(self, name: str = "web", *, closely: bool = False) -> ServiceView | None:
        return next((one for one in self.services().services(closely=closely) if one.name == name), None)

    def ready(self, name: str = "web") -> ServiceView:
        until(lambda: (self.view(name) or _NOBODY).ready, 60, lambda: f"{self.view(name)}")
        found = self.view(name)
        assert found is not None
        return found

    def start(self, name: str = "web") -> ServiceView:
        self.services().set_service(name, running=True)
        return self.ready(name)

    def data(self, kind: str, name: str = "web") -> Any:
        return self.api.get(f"{SPACE}/{kind}/{name}")["data"]


class _Nobody:
    ready = False


_NOBODY: Final = _Nobody()


@pytest.fixture(scope="module")
def node(api: KubeApi) -> Iterator[str]:
    api.add_nodes([NODE])
    api.await_nodes(1)
    yield NODE
    api.call("DELETE", f"/api/v1/nodes/{NODE}")


@pytest.fixture
def bench(
    plane: ControlPlane, api: KubeApi, tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """Nothing of the tests before is left; the first version is pushed."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    made = Bench(plane, api, tmp_path)
    assert node == NODE
    made.push()
    yield made
    for name in ("web", "store"):
        made.services().wipe_service(name, with_data=True)
    for kind in ("configmaps", "secrets"):
        api.call("DELETE", f"{SPACE}/{kind}?labelSelector=app.kubernetes.io/name=configuration")
    until(lambda: not api.get(f"{SPACE}/pods?labelSelector=paictl.io/service")["items"], 30, "no pods")


def objects(api: KubeApi, path: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in api.get(f"{path}?labelSelector=paictl.io/service=web")["items"]}


def test_a_service_is_applied_labelled_and_gets_ready(bench: Bench, api: KubeApi) -> None:
    assert bench.view() is None
    view = bench.start()
    assert (view.running, view.ready, view.loaded, view.version) == (True, True, 1, __version__)
    assert bench.api.get(f"{SPACE}/configmaps/web")["data"] == {"greeting": "hello"}
    about = objects(api, DEPLOYMENTS)["web"]["metadata"]
    assert about["labels"] == {
        "app.kubernetes.io/name": "web",
        "app.kubernetes.io/part-of": "paictl",
        "app.kubernetes.io/managed-by": "paictl",
        "app.kubernetes.io/version": __version__,
        "paictl.io/service": "web",
    }
    assert len(about["annotations"]["paictl.io/input-hash"]) == 32
    assert {one["manager"] for one in about["managedFields"]} >= {"paictl"}
    assert "aHVudGVyMi1jb3JyZWN0" in str(bench.data("secrets"))


def test_refused_by_the_server_means_that_nothing_is_applied(bench: Bench, api: KubeApi) -> None:
    bench.push("web: {replicas: -1}\n")
    with pytest.raises(ClusterError) as caught:
        bench.services().set_service("web", running=True)
    assert "Deployment paictl-system/web" in str(caught.value)
    assert "nothing was applied" in str(caught.value)
    for path in (DEPLOYMENTS, f"{SPACE}/configmaps", f"{SPACE}/secrets"):
        assert objects(api, path) == {}
    assert bench.view() is None


def test_nothing_changed_nothing_done_and_what_is_too_much_goes(bench: Bench, api: KubeApi) -> None:
    bench.push("web: {more: true}\n")
    bench.start()
    assert set(objects(api, f"{SPACE}/configmaps")) == {"web", "web-more"}
    stranger = {"metadata": {"name": "stranger"}, "data": {}}
    api.call("POST", f"{SPACE}/configmaps", stranger)
    before = objects(api, DEPLOYMENTS)["web"]["metadata"]["generation"]
    view = bench.view(closely=True)
    assert view is not None
    assert (view.changed, view.stale) == (False, ())
    bench.push("web: {more: true}\ngrafana: {port: 3001}\n")
    assert getattr(bench.view(closely=True), "changed", None) is False, "another service's setting"
    bench.services().refresh_service("web")
    assert objects(api, DEPLOYMENTS)["web"]["metadata"]["generation"] == before
    bench.push("web: {more: false}\n")
    view = bench.view(closely=True)
    assert view is not None
    assert (view.changed, view.stale) == (True, ("ConfigMap paictl-system/web-more",))
    bench.services().refresh_service("web")
    assert bench.ready().loaded == 4
    assert set(objects(api, f"{SPACE}/configmaps")) == {"web"}
    assert api.get(f"{SPACE}/configmaps/stranger")
    api.call("DELETE", f"{SPACE}/configmaps/stranger")


def test_a_secret_that_changed_changes_the_service_and_its_hash_does_not_tell_it(bench: Bench) -> None:
    bench.start()
    bench.push("", "hunter3-correct")
    assert getattr(bench.view(closely=True), "changed", None) is True
    bench.services().refresh_service("web")
    bench.ready()
    assert "aHVudGVyMy1jb3JyZWN0" in str(bench.data("secrets"))


def test_what_somebody_edits_is_drift_and_taking_it_back_has_to_be_wished(bench: Bench, api: KubeApi) -> None:
    bench.start()
    services = bench.services()
    assert services.drift("web") == []
    patch = {"data": {"greeting": "edited"}}
    api.call("PATCH", f"{SPACE}/configmaps/web?fieldManager=kubectl-edit", patch, "application/merge-patch+json")
    api.call("PATCH", f"{SPACE}/secrets/web?fieldManager=x", {"data": {"key": "YQ=="}}, "application/merge-patch+json")
    assert services.drift("web") == [
        "ConfigMap paictl-system/web: data.greeting is 'edited', applied was 'hello'",
        "Secret paictl-system/web: data.key",
    ]
    with pytest.raises(ConflictError) as caught:
        services.set_service("web", running=True)
    assert "data.greeting belongs to kubectl-edit" in str(caught.value)
    assert "--take-over" in str(caught.value.hint)
    assert bench.data("configmaps") == {"greeting": "edited"}
    services.refresh_service("web", take_over=True)
    assert services.drift("web") == []
    api.call("DELETE", f"{SPACE}/configmaps/web")
    assert services.drift("web") == ["ConfigMap paictl-system/web: is gone"]


def test_what_somebody_adds_is_drift_and_is_taken_out_again(bench: Bench, api: KubeApi) -> None:
    bench.start()
    services, merge = bench.services(), "application/merge-patch+json"
    strategic = "application/strategic-merge-patch+json"
    main = api.get(f"{DEPLOYMENTS}/web")["spec"]["template"]["spec"]["containers"][0]["name"]
    added = [{"name": name, "value": "bar"} for name in ("FOO", "LD_PRELOAD")]
    spec = {"template": {"spec": {"containers": [{"name": main, "env": added}]}}}
    api.call("PATCH", f"{DEPLOYMENTS}/web?fieldManager=kubectl-set", {"spec": spec}, strategic)
    api.call("PATCH", f"{SPACE}/configmaps/web?fieldManager=kubectl-edit", {"data": {"a.b": "1"}}, merge)
    api.call("PATCH", f"{SPACE}/secrets/web?fieldManager=kubectl-edit", {"data": {"mine": "YQ=="}}, merge)
    about = {"metadata": {"annotations": {"example.org/note": "of an administrator"}}}
    api.call("PATCH", f"{DEPLOYMENTS}/web?fieldManager=kubectl-annotate", about, merge)
    lines = services.drift("web")
    assert "ConfigMap paictl-system/web: data[a.b] was added by kubectl-edit" in lines
    assert "Secret paictl-system/web: data.mine was added by kubectl-edit" in lines
    named = " ".join(line for line in lines if line.startswith("Deployment"))
    assert "added by kubectl-set" in named
    assert "annotations" not in named
    services.refresh_service("web", take_over=True)
    assert services.drift("web") == []
    assert set(bench.data("secrets")) == {"key"}
    live = api.get(f"{DEPLOYMENTS}/web")
    assert not {"FOO", "LD_PRELOAD"} & {
        one["name"] for one in live["spec"]["template"]["spec"]["containers"][0].get("env", ())
    }
    assert live["metadata"]["annotations"]["example.org/note"]


def test_stop_takes_away_what_runs_and_nothing_else(bench: Bench, api: KubeApi) -> None:
    bench.start()
    for _ in range(2):  # a level, not an edge
        bench.services().set_service("web", running=False)
    until(lambda: not getattr(bench.view(), "running", True), 30, lambda: f"{bench.view()}")
    view = bench.view()
    assert view is not None
    assert (view.ready, view.reason) == (False, "stopped")
    assert objects(api, DEPLOYMENTS) == {}
    assert set(objects(api, f"{SPACE}/configmaps")) == {"web"}
    assert bench.start().ready


def test_a_restart_makes_new_pods_and_leaves_the_rest(bench: Bench, api: KubeApi) -> None:
    bench.start()
    selector = f"{SPACE}/pods?labelSelector=app=web"
    before = {one["metadata"]["uid"] for one in api.get(selector)["items"]}
    bench.services().restart_services(["web"])
    until(lambda: not before & {one["metadata"]["uid"] for one in api.get(selector)["items"]}, 30, "new pods")
    bench.ready()
    assert bench.services().drift("web") == []
    generation = objects(api, DEPLOYMENTS)["web"]["metadata"]["generation"]
    bench.services().refresh_service("web")
    assert objects(api, DEPLOYMENTS)["web"]["metadata"]["generation"] == generation, "no second restart"


def test_why_a_service_is_not_ready(bench: Bench, api: KubeApi) -> None:
    """Pods' status as a kubelet would write it."""
    bench.push("web: {replicas: 0}\n")
    bench.start()
    api.call(
        "PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"type": "none"}}}, "application/merge-patch+json"
    )
    try:
        bench.push("web: {replicas: 1}\n")
        bench.services().refresh_service("web")
        pods = f"{SPACE}/pods?labelSelector=app=web"
        until(lambda: api.get(pods)["items"], 30, "a pod")
        (pod,) = api.get(pods)["items"]
        path = f"{SPACE}/pods/{pod['metadata']['name']}/status"
        for status, words in _TROUBLE:
            api.patch(path, {"status": {"phase": "Pending", "containerStatuses": None, "conditions": None, **status}})
            until(lambda words=words: words in getattr(bench.view(), "reason", ""), 10, lambda: f"{bench.view()}")  # type: ignore[misc]
        (quota,) = ({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}},)
        api.call("POST", f"{SPACE}/resourcequotas", quota)
        until(lambda: api.get(f"{SPACE}/resourcequotas/none")["status"].get("used"), 30, "the quota counts")
        api.delete(pod["metadata"]["name"], "paictl-system")
        until(lambda: "no quota" in getattr(bench.view(), "reason", ""), 30, lambda: f"{bench.view()}")
    finally:
        api.call("DELETE", f"{SPACE}/resourcequotas")
        api.call(
            "PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"type": "kwok"}}}, "application/merge-patch+json"
        )


def _container(state: Json, **more: Any) -> Json:
    return {
        "name": "main",
        "image": "paictl:0",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
        **more,
    }


_TROUBLE: Final[tuple[tuple[Json, str], ...]] = (
    (
        {"containerStatuses": [_container({"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}})]},
        "image paictl:0 cannot be pulled: no such host",
    ),
    (
        {
            "containerStatuses": [
                _container(
                    {"waiting": {"reason": "CrashLoopBackOff"}},
                    restartCount=3,
                    lastState={"terminated": {"exitCode": 2, "message": "no configuration\nbye"}},
                )
            ]
        },
        "container main crashes (exit code 2, 3 restarts): no configuration | bye",
    ),
    (
        {
            "containerStatuses": [
                _container({"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}})
            ]
        },
        'something is missing: secret "x" not found',
    ),
    (
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "X", "message": "0/1 nodes"}]},
        "no node can take its pod: 0/1 nodes",
    ),
)


def test_data_are_listed_kept_and_lost_only_when_told(bench: Bench, api: KubeApi) -> None:
    services = bench.services()
    services.set_service("store", running=True)
    things = "/apis/test.paictl.io/v1/namespaces/paictl-system/things"
    api.call("POST", things, {"apiVersion": "test.paictl.io/v1", "kind": "Thing", "metadata": {"name": "second"}})
    assert services.losses("store") == ["2 objects of things.test.paictl.io", "volume paictl-system/store"]
    services.wipe_service("store")
    assert bench.view("store") is None
    assert [one["metadata"]["name"] for one in api.get(things)["items"]] == ["second"]
    assert api.get(f"{SPACE}/persistentvolumeclaims/store")
    services.set_service("store", running=True)
    services.wipe_service("store", with_data=True)
    until(lambda: _absent(api, things), 30, "the definition is gone")
    services.wipe_service("store", with_data=True)  # can be asked again


def _absent(api: KubeApi, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        return error.status == 404
    return False


def test_killed_in_the_middle_it_says_so_and_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after the first object; a process that is killed leaves the same, but holds the service for a while."""
    done: list[str] = []
    real = objects_of_kube.apply

    def apply(client: Any, path: str, body: Json, **options: Any) -> Json:
        if not options.get("dry_run"):
            done.append(path)
            if len(done) == 2:
                raise KeyboardInterrupt
        return real(client, path, body, **options)

    monkeypatch.setattr(applying, "apply", apply)
    with pytest.raises(KeyboardInterrupt):
        bench.services().set_service("web", running=True)
    monkeypatch.undo()
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    view = bench.view()
    assert view is not None
    assert (view.failed, view.ready) == (True, False)
    assert "only in part" in view.reason
    assert bench.start().ready


def test_who_died_holds_a_service_only_for_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "SILENCE", 0.5)
    records = record.Records(bench.client)
    assert records.write(record.ServiceRecord("web", holder="ann@dead 1")) is not None
    assert bench.start().ready


def test_two_administrators_at_once_end_with_one_whole_service(bench: Bench) -> None:
    errors: list[BaseException] = []

    def start() -> None:
        try:
            for _ in range(3):
                bench.services().set_service("web", running=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert bench.ready().loaded == 1
    assert bench.services().drift("web") == []
