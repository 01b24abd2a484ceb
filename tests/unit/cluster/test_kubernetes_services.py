"""Services on Kubernetes, the parts that need no server: marks, order, reasons, drift, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.kubernetes.services.applying import Applier, _refusal, workloads_first
from paictl.cluster.kubernetes.services.data import DataKeeper
from paictl.cluster.kubernetes.services.drift import additions, drift_of, removal
from paictl.cluster.kubernetes.services.kinds import Kinds, digest_of, marked, rank_of
from paictl.cluster.kubernetes.services.port import KubeServices
from paictl.cluster.kubernetes.services.record import Item, Records, ServiceRecord, note_images, noted_images
from paictl.cluster.kubernetes.services.workloads import is_ready, why
from paictl.cluster.kubernetes.store import VersionStore
from paictl.cluster.values import ClusterError, ConflictError
from paictl.remote.kube.client import KubeError
from tests.unit.cluster.catalogue import LEAST, SERVICES
from tests.unit.cluster.fakekube import FakeKube

Json = dict[str, Any]


def deployment(**status: Any) -> Json:
    about = {"name": "web", "namespace": "s", "generation": 2, "uid": "w", "annotations": {"paictl.io/input-hash": "h"}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec, "status": status}


def pod(name: str = "web-1", digest: str = "h", **status: Any) -> Json:
    about = {
        "name": name,
        "namespace": "s",
        "uid": name,
        "labels": {"app": "web"},
        "annotations": {"paictl.io/input-hash": digest},
    }
    return {"metadata": about, "spec": {"nodeName": "n"}, "status": {"phase": "Pending", **status}}


def no_log(pod: Json, container: str, before: bool) -> str:  # noqa: ARG001
    return ""


def test_marks_are_on_objects_pods_and_volumes_and_selectors_stay() -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {}}
    spec = {
        "selector": {"matchLabels": {"app": "x"}},
        "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "d"}}],
    }
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}, "spec": spec}
    found = marked(body, "grafana", "1.2", "abc", namespaced=True, restarted="noon")
    assert found["metadata"]["namespace"] == "paictl-system"
    assert found["metadata"]["labels"]["paictl.io/service"] == "grafana"
    assert found["metadata"]["annotations"] == {"paictl.io/input-hash": "abc"}
    assert found["spec"]["template"]["metadata"] == {
        "labels": {"app": "x", "paictl.io/service": "grafana"},
        "annotations": {"paictl.io/input-hash": "abc", "paictl.io/restarted-at": "noon"},
    }
    assert found["spec"]["selector"] == {"matchLabels": {"app": "x"}}
    assert found["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"] == {"paictl.io/service": "grafana"}
    assert "labels" not in body["metadata"], "what was rendered stays as it is"


def test_a_node_is_not_ours_and_gets_no_mark() -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"sku": "v100"}}}
    assert marked(body, "cluster-configuration", "1", "h", namespaced=False) == body


def test_a_hash_tells_content_and_version_and_not_the_order_of_keys() -> None:
    one: Json = {"kind": "A", "data": {"x": "1", "y": "2"}}
    assert digest_of([one], "1") == digest_of([{"data": {"y": "2", "x": "1"}, "kind": "A"}], "1")
    assert len({digest_of([one], "1"), digest_of([one], "2"), digest_of([one, one], "1"), digest_of([], "1")}) == 4


def test_what_others_stand_on_comes_first_and_goes_last() -> None:
    kinds = [
        "Deployment",
        "Thing",
        "ConfigMap",
        "ClusterRoleBinding",
        "ServiceAccount",
        "CustomResourceDefinition",
        "Namespace",
    ]
    assert sorted(kinds, key=rank_of) == list(reversed(kinds))
    assert rank_of("ValidatingWebhookConfiguration") > rank_of("DaemonSet")
    items = [Item(("v1", kind), "", "x") for kind in reversed(kinds)]
    assert [item.group[1] for item in workloads_first(items)] == kinds


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True),
        ({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, False),
        ({}, False),
    ],
)
def test_a_deployment_is_ready_when_all_of_it_is_new_and_available(status: Json, ready: bool) -> None:
    assert is_ready(deployment(**status)) is ready


def test_a_daemon_set_without_nodes_a_job_that_is_complete_and_a_stateful_set() -> None:
    about = {"name": "x", "generation": 1}
    assert is_ready({"kind": "DaemonSet", "metadata": about, "status": {"observedGeneration": 1}})
    late = {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}
    assert not is_ready({"kind": "DaemonSet", "metadata": about, "status": late})
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert is_ready({"kind": "Job", "metadata": about, "status": complete})
    assert not is_ready({"kind": "Job", "metadata": about, "status": {"active": 1}})
    rolling = {
        "observedGeneration": 1,
        "replicas": 1,
        "availableReplicas": 1,
        "updateRevision": "b",
        "currentRevision": "a",
    }
    assert not is_ready({"kind": "StatefulSet", "metadata": about, "spec": {"replicas": 1}, "status": rolling})
    assert is_ready(
        {
            "kind": "StatefulSet",
            "metadata": about,
            "spec": {"replicas": 1},
            "status": {**rolling, "currentRevision": "b"},
        }
    )


def waiting(reason: str, message: str = "", **more: Any) -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "c", "image": "i:1", "state": state, "ready": False, **more}]}


def test_the_reason_is_the_one_that_will_not_mend_itself() -> None:
    crash = waiting("CrashLoopBackOff", restartCount=4, lastState={"terminated": {"exitCode": 1}})
    young = pod("web-0", conditions=[{"type": "PodScheduled", "status": "False", "message": "no room"}])
    pods = [young, pod("web-1", **crash), pod("web-2", **waiting("ErrImagePull", "denied"))]
    log = "\n".join(f"line {number}\x1b[2J" for number in range(9))

    def logged(pod: Json, container: str, before: bool) -> str:
        assert (pod["metadata"]["name"], container, before) == ("web-1", "c", True)
        return log

    assert why(deployment(), pods, [], logged) == "image i:1 cannot be pulled: denied"
    said = why(deployment(), pods[:2], [], logged)
    assert said.startswith("container c crashes (exit code 1, 4 restarts): line 4 [2J | line 5")
    assert "\x1b" not in said, "a program's words move no cursor"
    assert why(deployment(), pods[:1], [], no_log) == "no node can take its pod: no room"
    assert why(deployment(readyReplicas=1), [pod()], [], no_log) == "1 of 2 pods are ready, 1 are being made"
    unseen = {**pod(), "spec": {"schedulerName": "mine"}}
    assert why(deployment(), [unseen], [], no_log) == "no scheduler has looked at its pod yet: does mine run?"


def test_pods_of_before_do_not_speak_for_those_of_now() -> None:
    old = pod("web-0", "old", **waiting("ErrImagePull", "of yesterday"))
    assert "yesterday" not in why(deployment(), [old, pod("web-1")], [], no_log)
    assert "yesterday" in why(deployment(), [old], [], no_log), "there are no others"


def test_what_admission_quota_and_mounts_say() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "message": 'pods "x" is forbidden: exceeded quota: q'}
    assert why(deployment(conditions=[failed]), [], [], no_log).startswith("no quota: ")
    event = {
        "reason": "FailedCreate",
        "message": 'violates PodSecurity "restricted": forbidden',
        "involvedObject": {"uid": "w"},
    }
    assert why(deployment(), [], [event], no_log).startswith("its pods are refused: violates PodSecurity")
    mount = {"reason": "FailedMount", "message": 'secret "s" not found', "involvedObject": {"uid": "web-1"}}
    assert why(deployment(), [pod()], [mount], no_log) == 'something is missing: secret "s" not found'
    killed = {"exitCode": 137, "reason": "OOMKilled"}
    dead: Json = {
        "containerStatuses": [{"name": "c", "state": {"terminated": killed}, "restartCount": 0, "ready": False}]
    }
    assert why(deployment(), [pod(**dead)], [], no_log) == "container c crashes (out of memory, 0 restarts)"


def test_drift_names_fields_and_keeps_secrets() -> None:
    body: Json = {
        "kind": "Deployment",
        "metadata": {"name": "x", "namespace": "s", "labels": {"a.b/c": "1"}},
        "spec": {"containers": [{"name": "main", "image": "i:1"}]},
    }
    live = {
        **body,
        "metadata": {**body["metadata"], "labels": {}, "generation": 7},
        "spec": {"containers": [{"name": "main", "image": "i:2"}]},
        "status": {"x": 1},
    }
    assert drift_of(live, body, body) == [
        "Deployment s/x: metadata.labels[a.b/c] is missing, applied was '1'",
        "Deployment s/x: spec.containers[main].image is 'i:2', applied was 'i:1'",
    ]
    assert drift_of(None, body, body) == ["Deployment s/x: is gone"]
    secret = {"kind": "Secret", "metadata": {"name": "x"}, "data": {"key": "b2xk"}}
    assert drift_of({**secret, "data": {"key": "bmV3"}}, secret, secret) == ["Secret x: data.key"]


def owned(manager: str, fields: Json, **more: str) -> Json:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, **more}


def with_additions() -> Json:
    """A Deployment of ours with two variables, a paused rollout and an annotation of others."""
    named = {name: f'k:{{"name":"{name}"}}' for name in ("main", "OURS", "FOO", "BAR")}

    def env(*names: str) -> Json:
        main: Json = {"f:env": {".": {}, **{named[name]: {".": {}, "f:value": {}} for name in names}}}
        return {"f:template": {"f:spec": {"f:containers": {named["main"]: main}}}}

    theirs = {"f:metadata": {"f:annotations": {"f:x": {}}}, "f:spec": {"f:paused": {}, **env("FOO", "BAR")}}
    managers = [
        owned("paictl", {"f:spec": {"f:replicas": {}, **env("OURS")}}),
        owned("kubectl-set", theirs),
        owned("kube-controller-manager", {"f:spec": {"f:progressDeadlineSeconds": {}}}),
        owned("tool", {"f:status": {"f:x": {}}}, subresource="status"),
    ]
    variables = [{"name": name, "value": "1"} for name in ("FOO", "OURS", "BAR")]
    spec = {
        "replicas": 1,
        "paused": True,
        "progressDeadlineSeconds": 9,
        "template": {"spec": {"containers": [{"name": "main", "env": variables}]}},
    }
    about = {
        "name": "x",
        "namespace": "s",
        "resourceVersion": "7",
        "annotations": {"x": "1"},
        "managedFields": managers,
    }
    return {"kind": "Deployment", "metadata": about, "spec": spec}


def test_what_others_have_added_is_drift_with_who_did_it() -> None:
    live = with_additions()
    assert drift_of(live, live, live) == [
        "Deployment s/x: spec.paused was added by kubectl-set",
        "Deployment s/x: spec.template.spec.containers[main].env[FOO] was added by kubectl-set",
        "Deployment s/x: spec.template.spec.containers[main].env[BAR] was added by kubectl-set",
    ]
    assert additions({**live, "kind": "Node"}) == []  # others have a share in it


def test_text_of_a_secret_is_ours_although_it_is_kept_under_another_name() -> None:
    managers = [owned("paictl", {"f:stringData": {"f:key": {}}}), owned("x", {"f:data": {".": {}, "f:mine": {}}})]
    live: Json = {
        "kind": "Secret",
        "metadata": {"name": "x", "resourceVersion": "1", "managedFields": managers},
        "data": {"key": "YQ==", "mine": "YQ=="},
    }
    assert drift_of(live, live, live) == ["Secret x: data.mine was added by x"]
    assert [one["path"] for one in removal(live)] == ["/metadata/resourceVersion", "/data/mine"]


def test_taking_additions_out_leaves_all_else_in_place() -> None:
    live = with_additions()
    first, *patch = removal(live)
    assert first == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    for step in patch:  # as RFC 6902 says: each on what the one before has left
        *way, last = step["path"].split("/")[1:]
        inner: Any = live
        for key in way:
            inner = inner[int(key)] if isinstance(inner, list) else inner[key]
        del inner[int(last) if isinstance(inner, list) else last]
    main = live["spec"]["template"]["spec"]["containers"][0]
    assert [one["name"] for one in main["env"]] == ["OURS"]
    assert set(live["spec"]) == {"replicas", "progressDeadlineSeconds", "template"}
    assert additions(live) == []
    assert removal(live) == []


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_what_is_the_same_has_no_drift(value: Any) -> None:
    body = {"kind": "X", "metadata": {"name": "x"}, "spec": value}
    assert drift_of({**body, "status": 1}, body, body) == []


def test_a_conflict_says_who_owns_which_field_and_a_refusal_names_each_object() -> None:
    body = {"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "s"}}
    conflict = KubeError("PATCH: conflict", status=409)
    causes = [{"reason": "FieldManagerConflict", "message": 'conflict with "kubectl" using v1', "field": ".data.a"}]
    conflict.body = {"details": {"causes": causes}}
    error = _refusal([(body, conflict)], "nothing was applied")
    assert isinstance(error, ConflictError)
    assert (
        error.message == "fields are managed by others: ConfigMap s/x: .data.a belongs to kubectl; nothing was applied"
    )
    refused = KubeError("PATCH /x: bad", status=422)
    refused.body = {"message": "replicas: must not be negative"}
    error = _refusal([({**body, "metadata": {"name": f"x{n}"}}, refused) for n in range(7)], "nothing was applied")
    assert error.message.startswith("the server refuses ConfigMap x0: replicas: must not be negative; ConfigMap x1")
    assert "and 2 more; nothing was applied" in error.message


def test_a_record_is_not_equal_to_another_state_and_knows_its_kinds() -> None:
    item = Item.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "s"}})
    assert item.label == "Deployment s/a"
    assert ServiceRecord("x", items=(item, item)).groups == {("apps/v1", "Deployment")}


def test_the_images_of_machines_without_a_registry_are_kept_with_the_cluster() -> None:
    kube = FakeKube()
    assert noted_images(kube) is None
    note_images(kube, ["b:1", "a:1", "b:1"])
    assert noted_images(kube.again()) == frozenset({"a:1", "b:1"})
    before, kube.requests = kube.of("configmaps"), []
    note_images(kube, ["a:1", "b:1"])
    assert [method for method, _ in kube.requests] == ["GET"]  # what already exists is not written again
    note_images(kube, ["a:2"])
    assert noted_images(kube) == frozenset({"a:2"})
    assert before.keys() == kube.of("configmaps").keys() == {"paictl-images"}
    note_images(kube, None)
    note_images(kube, None)
    assert noted_images(kube) is None


def test_two_who_note_images_at_once_end_with_one_of_both() -> None:
    kube = FakeKube()
    note_images(kube, ["old:1"])
    other = kube.again()

    def meanwhile(number: int) -> None:
        if number == 1:  # between the read and the write
            note_images(other, ["theirs:1"])

    kube.before, kube.requests = meanwhile, []
    note_images(kube, ["mine:1"])
    assert noted_images(other) == frozenset({"mine:1"})


@pytest.mark.parametrize("data", [{}, {"images": "{"}, {"images": "3"}])
def test_images_that_somebody_has_spoiled_are_an_error_that_says_what_to_do(data: dict[str, str]) -> None:
    kube = FakeKube()
    note_images(kube, ["a:1"])
    kube.of("configmaps")["paictl-images"]["data"] = data
    with pytest.raises(ClusterError, match="cannot be read") as refused:
        noted_images(kube)
    assert "paictl-images" in str(refused.value.where)
    assert "apply the deployment again" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [("MutatingAdmissionPolicy", "gate-policy: false"), ("Gadget", "install the definition of this kind")],
)
def test_a_kind_that_the_version_lacks_is_refused_with_what_to_do(kind: str, remedy: str) -> None:
    kube = FakeKube({"/apis/admissionregistration.k8s.io/v1": {"resources": []}})
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}}
    with pytest.raises(ClusterError, match=f"the server has no kind {kind} of") as refused:
        Applier(kube, Kinds(kube)).check([body], lambda: None)
    assert remedy in str(refused.value.hint)


class Applied:
    """What is applied, in place of a server that takes any kind."""

    def __init__(self) -> None:
        self.seen: list[Json] = []

    def resource(self, body: Json, among: Any = ()) -> Any:  # noqa: ARG002
        return SimpleNamespace(namespaced=True)

    def check(self, objects: list[Json], alive: Callable[[], None], *, take_over: bool) -> None:
        pass

    def apply(self, objects: list[Json], alive: Callable[[], None], *, take_over: bool) -> None:  # noqa: ARG002
        self.seen += objects

    def ours(self, service: str, groups: Any) -> list[Json]:  # noqa: ARG002
        return []


def test_who_waits_for_another_administrator_applies_what_is_newest_then(tmp_path: Path) -> None:
    """It would put an older configuration back: over the one that the other has just pushed and applied."""
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "service.yaml").write_text("prerequisites: []\n")
    (folder / "defaults.yaml").write_text("word: none\n")
    (tmp_path / "images.yaml").write_text("{}\n")
    (folder / "map.yaml.j2").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}\ndata: {word: {{ config.word }}}\n"
    )
    kube = FakeKube()

    def push(word: str) -> None:
        KubernetesCluster(kube.again(), "fake").push({SERVICES: f"{LEAST}demo: {{word: {word}}}\n"}, word)

    push("old")
    record, services, applied = "paictl-service-demo", KubeServices(kube, VersionStore(kube), str, tmp_path), Applied()
    services._applier = applied  # type: ignore[assignment]

    def before(number: int) -> None:
        if kube.requests[number] == ("GET", f"/api/v1/namespaces/paictl-system/configmaps/{record}"):
            kube.before = lambda _: None
            push("new")  # while this one waits for its turn

    kube.before = before
    services.refresh_service("demo")
    assert [one["data"]["word"] for one in applied.seen] == ["new"]
    assert services.loaded("demo") == 2


@pytest.mark.parametrize(
    ("state", "running", "failed", "reason"),
    [
        ("applying", False, True, "was applied only in part, by somebody"),
        ("stopped", False, False, "stopped"),
        ("running", False, True, "is gone: Deployment paictl-system/demo"),
    ],
)
def test_a_service_is_seen_as_it_was_left(state: str, running: bool, failed: bool, reason: str) -> None:
    kube = FakeKube({"/api/v1/namespaces/paictl-system": {"metadata": {"name": "paictl-system"}}})
    item = Item(("apps/v1", "Deployment"), "paictl-system", "demo")
    with Records(kube).held("demo") as held:
        held.note(state=state, since="2026-11-22T05:00:00Z", items=(item,))
    (view,) = KubeServices(kube, VersionStore(kube), str).services()
    assert (view.name, view.running, view.failed, view.ready) == ("demo", running, failed, False)
    assert view.reason == reason


def test_the_data_that_paictl_keeps_of_a_service_is_counted_and_destroyed() -> None:
    kube = FakeKube()
    for word in ("old", "new"):
        KubernetesCluster(kube.again(), "fake").push({SERVICES: LEAST, "word": word}, word)
    applied: Any = SimpleNamespace(ours=lambda *_: [])
    keeper, record = DataKeeper(kube, Kinds(kube), applied), ServiceRecord("cluster-configuration")
    assert keeper.lines(record) == ["2 versions of the configuration"]
    keeper.destroy(record)
    assert keeper.lines(record) == []
    assert list(kube.of("configmaps")) == []


def test_a_first_start_that_is_refused_leaves_no_record_and_others_are_kept() -> None:
    kube = FakeKube({"/api/v1/namespaces/paictl-system": {"metadata": {"name": "paictl-system"}}})
    records = Records(kube)
    with pytest.raises(ClusterError, match="refused"), records.held("grafana"):
        raise ClusterError("refused")
    assert records.get("grafana") is None
    assert list(kube.of("configmaps")) == []
    with records.held("grafana") as held:
        held.note(state="stopped", since="2026-11-22T05:00:00Z")
    with pytest.raises(ClusterError, match="refused"), records.held("grafana"):
        raise ClusterError("refused")
    assert records.get("grafana") == ServiceRecord("grafana", since="2026-11-22T05:00:00Z")


def test_a_priority_class_that_somebody_made_with_another_value_is_drift() -> None:
    """The server refuses each dry run that changes a value."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "paictl-oppo"},
        "value": 0,
    }
    live = {**body, "value": -1}

    class Immutable(FakeKube):
        def request(self, method: str, path: str, body: Any = None, **_: Any) -> Json:
            if method != "PATCH":
                return super().request(method, path, body)
            if path in self.objects and body["value"] != self.objects[path]["value"]:
                raise KubeError("value: Forbidden: may not be changed in an update", status=422)
            return {**body, "metadata": {**body["metadata"], "creationTimestamp": "now"}}

    group = "/apis/scheduling.k8s.io/v1"
    kinds: Json = {"resources": [{"kind": "PriorityClass", "name": "priorityclasses", "namespaced": False}]}
    client = Immutable({group: kinds, f"{group}/priorityclasses/paictl-oppo": live})
    applier = Applier(client, Kinds(client))
    applier.check([body], lambda: None)
    applier.check([{name: field for name, field in body.items() if name != "value"}], lambda: None)
    drift = drift_of(applier.live(Item.of(body)), applier.dry(body) or {}, body)
    assert drift == ["PriorityClass paictl-oppo: value is -1, applied was 0"]
