"""Admission policies on a real API server: in a guarded namespace devices are had by asking for them only."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator
from typing import Any

import pytest

from paictl.remote.kube import pods
from paictl.remote.kube.client import connect
from paictl.workload.sku import DEVICES
from tests.e2e_kube.accounts import SPACE, install, printed
from tests.e2e_kube.kubeapi import INFO, ISOLATION, ApiError, Json, KubeApi

GUARDED, OPEN = "guarded", "unguarded"
FIELD = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{ISOLATION}']"}}}
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
RUNTIMES = ("nvidia", "nvidia-cdi", "habana")
PRIORITIES = ("paictl-service", "paictl-test")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def base(**spec: Any) -> Json:
    return {
        "metadata": {"generateName": "p-", "labels": {}, "annotations": {}},
        "spec": {"containers": [{"name": "c", "image": "none"}], "schedulerName": "nobody", **spec},
    }


def asking(**spec: Any) -> Json:
    pod = base(**spec)
    pod["metadata"]["labels"] = {"paictl.io/virtual-cluster": "A"}
    return pod


def container(**fields: Any) -> Json:
    return {"name": "d", "image": "none", **fields}


def host(path: str) -> Json:
    return asking(volumes=[{"name": "v", "hostPath": {"path": path}}])


def annotated(key: str) -> Json:
    pod = asking()
    pod["metadata"]["annotations"] = {key: "0,1"}
    return pod


def limits(amount: str) -> Json:
    return {"resources": {"limits": {amount: "1"}}}


def capability(name: str) -> Json:
    return {"securityContext": {"capabilities": {"add": ["IPC_LOCK", name]}}}


OURS = {"name": VISIBLE, **FIELD}
REFUSED: list[tuple[str, Json]] = [
    ("leave it out, or take it from", base(containers=[container(env=[{"name": VISIBLE, "value": "all"}])])),
    ("leave it out, or take it from", asking(initContainers=[container(env=[{"name": VISIBLE, "value": "0"}])])),
    ("leave it out, or take it from", asking(containers=[container(env=[OURS, {"name": VISIBLE, "value": "0"}])])),
    (
        "leave it out, or take it from",
        asking(
            containers=[
                container(
                    env=[{"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['mine']"}}}]
                )
            ]
        ),
    ),
    *(
        ("use emptyDir with medium Memory", host(path))
        for path in (
            "/dev",
            "/dev/nvidia0",
            "/dev/",
            "//dev",
            "/./dev/nvidiactl",
            "/",
            "/var/run/cdi",
            "/run/cdi/x",
            "/var/run",
            "/etc/cdi",
            "/etc",
            "/var",
            "/run",
        )
    ),
    ("leave out securityContext.privileged", asking(containers=[container(securityContext={"privileged": True})])),
    ("leave out securityContext.privileged", asking(initContainers=[container(securityContext={"privileged": True})])),
    *(
        (
            "divide or watch the GPUs of others",
            asking(**{where: [container(env=[{"name": f"NVIDIA_MIG_{what}_DEVICES", **how}])]}),
        )
        for where, what, how in (
            ("containers", "CONFIG", {"value": "all"}),
            ("containers", "MONITOR", {"value": "all"}),
            ("containers", "CONFIG", FIELD),
            ("initContainers", "CONFIG", {"value": "all"}),
        )
    ),
    *(
        ("leave it out of securityContext.capabilities.add", asking(**{where: [container(**capability(name))]}))
        for where, name in (
            ("containers", "SYS_ADMIN"),
            ("containers", "CAP_SYS_ADMIN"),
            ("containers", "sys_admin"),
            ("containers", "ALL"),
            ("initContainers", "SYS_ADMIN"),
        )
    ),
    ("or leave out runtimeClassName", base(runtimeClassName="nvidia")),
    ("or leave out runtimeClassName", base(runtimeClassName="nvidia-cdi")),
    ("with the name of yours", base(containers=[container(**limits("nvidia.com/gpu"))])),
    ("with the name of yours", base(initContainers=[container(**limits("amd.com/gpu"))])),
    *(
        ("with the name of yours", base(containers=[container(**limits(name))]))
        for name in (
            "nvidia.com/gpu.shared",
            "nvidia.com/mig-1g.5gb",
            "amd.com/cpx_nps4",
            "gpu.intel.com/i915_monitoring",
            "aws.amazon.com/neuroncore",
            *DEVICES,
        )
    ),
    *(
        (
            "leave it out, or take it from",
            base(containers=[container(env=[{"name": f"{maker}_VISIBLE_DEVICES", "value": "all"}])]),
        )
        for maker in ("AMD", "HABANA", "ASCEND")
    ),
    ("or leave out runtimeClassName", base(runtimeClassName="habana")),
    *(
        ("would evict pods of other tenants", base(priorityClassName=name))
        for name in (
            "system-node-critical",
            "system-cluster-critical",
            "paictl-service",
        )
    ),
    ("write 1 or more", asking(terminationGracePeriodSeconds=0)),
    *(
        ("another scheduler would", asking(containers=[container(**limits("nvidia.com/gpu"))], **other))
        for other in (
            {},
            {"schedulerName": "default-scheduler"},
            {"schedulingGates": [{"name": "mine"}]},
        )
    ),
    *(
        FORGED := [
            ("is written by the scheduler", annotated(ISOLATION)),
            ("is written by the scheduler", annotated(INFO)),
            ("the scheduler chooses the node", asking(nodeName="n0")),
        ]
    ),
]
TAKEN: list[Json] = [
    base(),
    base(priorityClassName="paictl-test"),
    base(terminationGracePeriodSeconds=0),
    asking(terminationGracePeriodSeconds=1),
    asking(
        containers=[container(env=[OURS, {"name": "A", "value": "b"}], **limits("nvidia.com/gpu"))],
        schedulerName="hivedscheduler",
    ),
    asking(containers=[container(**limits("nvidia.com/gpu"))], schedulingGates=[{"name": "paictl.io/cells"}]),
    base(containers=[container(**limits("nvidia.com/hostdev"))]),
    asking(runtimeClassName="nvidia", containers=[container(securityContext={"privileged": False})]),
    asking(
        containers=[container(**capability("SYS_PTRACE"), env=[{"name": "NVIDIA_MIG_PROFILE", "value": "1g.10gb"}])]
    ),
    *(host(path) for path in ("/devices", "/data", "/etc/cdirom", "/var/lib/x", "/home/dev")),
]


@pytest.fixture(scope="module")
def spaces(api: KubeApi) -> Iterator[KubeApi]:
    with contextlib.suppress(ApiError):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    made = install(api, [one for one in printed() if one["kind"] in kinds])
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    for name in RUNTIMES:
        with contextlib.suppress(ApiError):
            api.call("POST", classes, {"metadata": {"name": name}, "handler": "nvidia"})
    for name in PRIORITIES:
        with contextlib.suppress(ApiError):
            api.call("POST", CLASSES, {"metadata": {"name": name}, "value": 10})
    for name, labels in ((GUARDED, {"paictl.io/cells": "enabled"}), (OPEN, {})):
        with contextlib.suppress(ApiError):
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    _await_force(api)
    yield api
    for space in (GUARDED, OPEN):  # another module's scheduler would place them
        api.delete_all(space)
    for one in made:
        kind = f"{one['kind'].lower().replace('policy', 'polic')}{'ies' if one['kind'].endswith('Policy') else 's'}"
        kind = {"validatingadmissionpolicbindings": "validatingadmissionpolicybindings"}.get(kind, kind)
        api.call("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}/{one['metadata']['name']}")
    for name in RUNTIMES:
        api.call("DELETE", f"{classes}/{name}")
    for name in PRIORITIES:
        api.call("DELETE", f"{CLASSES}/{name}")


def create(api: KubeApi, pod: Json, space: str = GUARDED) -> Json:
    made: Json = api.call("POST", f"/api/v1/namespaces/{space}/pods", copy.deepcopy(pod))
    return made


def _await_force(api: KubeApi) -> None:
    """A policy is in force a moment after it was made."""
    end = time.monotonic() + 30
    for _, pod in (REFUSED[0], REFUSED[-1]):
        while True:
            try:
                create(api, pod)
            except ApiError:
                break
            assert time.monotonic() < end, "the policies are not in force"
            time.sleep(0.2)


@pytest.mark.parametrize(("words", "pod"), REFUSED)
def test_a_pod_that_takes_devices_is_refused_and_told_what_to_write(spaces: KubeApi, words: str, pod: Json) -> None:
    with pytest.raises(ApiError) as error:
        create(spaces, pod)
    assert error.value.status in (403, 422)
    assert words in str(error.value)


@pytest.mark.parametrize("pod", TAKEN)
def test_any_other_pod_is_taken(spaces: KubeApi, pod: Json) -> None:
    assert create(spaces, pod)["metadata"]["uid"]


@pytest.mark.parametrize("pod", [pod for _, pod in REFUSED[: -len(FORGED)]])
def test_other_namespaces_are_left_alone(spaces: KubeApi, pod: Json) -> None:
    assert create(spaces, pod, OPEN)["metadata"]["uid"]


@pytest.mark.parametrize(("words", "pod"), FORGED)
def test_in_no_namespace_can_a_place_be_invented(spaces: KubeApi, words: str, pod: Json) -> None:
    """The scheduler would take it for one of its own decisions, at the cost of whoever has these devices."""
    with pytest.raises(ApiError, match=words):
        create(spaces, pod, OPEN)


@pytest.mark.parametrize("space", [GUARDED, OPEN])
def test_what_a_running_pod_asked_for_stays(spaces: KubeApi, space: str) -> None:
    made = create(spaces, asking(), space)
    path = f"/api/v1/namespaces/{space}/pods/{made['metadata']['name']}"
    spaces.patch(path, {"metadata": {"labels": {"paictl.io/priority": "1"}}})
    binding = {"metadata": {"name": made["metadata"]["name"]}, "target": {"kind": "Node", "name": "n0"}}
    spaces.call("POST", f"{path}/binding", binding)
    for change in (
        {"labels": {"paictl.io/virtual-cluster": "B"}},
        {"labels": {"paictl.io/priority": None}},
        {"annotations": {"hivedscheduler.microsoft.com/pod-scheduling-spec": "{}"}},
        {"annotations": {"paictl.io/checkpoint-every": "1s"}},
        {"annotations": {"paictl.io/saves-on-sigterm": "true"}},
    ):
        with pytest.raises(ApiError, match="create a new pod"):
            spaces.patch(path, {"metadata": change})
    spaces.patch(path, {"metadata": {"labels": {"mine": "x"}}})


def test_what_a_pinned_pod_asked_for_stays(spaces: KubeApi) -> None:
    """It holds its devices before it is bound; if it could not be read after a restart, they would be given away."""
    made = create(spaces, asking())
    path = f"/api/v1/namespaces/{GUARDED}/pods/{made['metadata']['name']}"
    spaces.patch(f"{path}/status", {"metadata": {"annotations": {INFO: "{}"}}})
    for change in ({"paictl.io/priority": "x"}, {"paictl.io/virtual-cluster": None}):
        with pytest.raises(ApiError, match="create a new pod"):
            spaces.patch(path, {"metadata": {"labels": change}})


@pytest.mark.parametrize("space", [GUARDED, OPEN])
def test_annotations_of_the_scheduler_are_changed_by_nobody_else(spaces: KubeApi, space: str) -> None:
    """A container that is started again would read its devices from what its owner has written."""
    made = create(spaces, asking(), space)
    path = f"/api/v1/namespaces/{space}/pods/{made['metadata']['name']}"
    for key in (ISOLATION, INFO):
        with pytest.raises(ApiError, match="is written by the scheduler"):
            spaces.patch(path, {"metadata": {"annotations": {key: "0,1,2,3"}}})
    spaces.patch(path, {"metadata": {"annotations": {"mine": "x"}}})


@pytest.mark.parametrize("space", [GUARDED, OPEN])
@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {f"l{number}": "x" for number in range(101)}}},
        {"metadata": {"finalizers": [f"example.org/f{number}" for number in range(21)]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "K" * 1000, "name": "n", "uid": "u"}]}},
        {"spec": {"tolerations": [{"key": f"k{number}", "operator": "Exists"} for number in range(101)]}},
        {"spec": {"containers": [{"name": "c", "image": "i" * 1001}]}},
    ],
)
def test_a_pod_with_its_devices_is_not_filled_up(spaces: KubeApi, space: str, change: Json) -> None:
    """At the limit of etcd the API server refuses each change, that of an eviction, too."""
    path = placed(spaces, space)
    patch = "application/strategic-merge-patch+json"
    with pytest.raises(ApiError, match="too large to be evicted"):
        spaces.call("PATCH", path, change, patch)
    spaces.call("PATCH", path, {"spec": {"containers": [{"name": "c", "image": "other"}]}}, patch)


def test_a_pod_that_was_large_before_it_had_its_devices_can_be_changed(spaces: KubeApi) -> None:
    """Kubernetes' own controllers do that, too: they take their finalizers away."""
    pod = asking(initContainers=[container()])
    pod["metadata"]["labels"] |= {f"l{number}": "x" for number in range(150)}
    path = placed(spaces, GUARDED, pod)
    spaces.patch(path, {"metadata": {"annotations": {"mine": "x"}, "labels": {"l1": "y"}}})
    with pytest.raises(ApiError, match="too large to be evicted"):
        spaces.patch(path, {"metadata": {"labels": {"one": "more"}}})


def test_a_pod_that_was_filled_up_by_the_fields_of_managers_is_evicted(spaces: KubeApi) -> None:
    """No policy can tell how long these are."""
    path = placed(spaces, GUARDED)
    pod = spaces.get(path)

    def fill(size: int) -> bool:
        """Whether they are kept; if a change makes a pod too large, the API server drops all of them."""
        fields: Json = {"f:metadata": {"f:annotations": {"f:" + "x" * size: {}}}}
        entry: Json = {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
        filled = spaces.patch(path, {"metadata": {"managedFields": [*pod["metadata"]["managedFields"], entry]}})
        return len(str(filled)) > size

    low, high = 0, 1 << 21
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fill(middle) else (low, middle)
    assert low > 1 << 20
    assert fill(low)
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": GUARDED}}
    with pytest.raises(ApiError, match="request is too large"):
        spaces.call("POST", f"{path}/eviction", eviction)
    client = connect(spaces.plane.kubeconfig, "x")
    assert pods.evict(client, GUARDED, name, uid) == (pods.Eviction.TAKEN, "")


def test_a_debugging_container_is_held_to_the_same(spaces: KubeApi) -> None:
    made = create(spaces, asking())
    path = f"/api/v1/namespaces/{GUARDED}/pods/{made['metadata']['name']}/ephemeralcontainers"
    added = container(env=[{"name": VISIBLE, "value": "all"}])
    with pytest.raises(ApiError, match="leave it out, or take it from"):
        spaces.call("PATCH", path, {"spec": {"ephemeralContainers": [added]}}, "application/strategic-merge-patch+json")


def placed(api: KubeApi, space: str = GUARDED, pod: Json | None = None) -> str:
    """The path of a new pod that is bound with devices."""
    made = create(api, pod or asking(), space)
    path = f"/api/v1/namespaces/{space}/pods/{made['metadata']['name']}"
    about = {"name": made["metadata"]["name"], "annotations": {INFO: "{}", ISOLATION: "0"}}
    api.call("POST", f"{path}/binding", {"metadata": about, "target": {"kind": "Node", "name": "n0"}})
    return path


@pytest.fixture
def tenant(spaces: KubeApi) -> Iterator[str]:
    """A user who may do with pods of the guarded namespace what tenants may."""
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{GUARDED}"
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete", "deletecollection"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    ]
    spaces.call("POST", f"{roles}/roles", {"metadata": {"name": "tenant"}, "rules": rules})
    spaces.call(
        "POST",
        f"{roles}/rolebindings",
        {
            "metadata": {"name": "tenant"},
            "subjects": [{"kind": "User", "name": "ann"}],
            "roleRef": {"kind": "Role", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"},
        },
    )
    yield "ann"
    for kind in ("rolebindings", "roles"):
        spaces.call("DELETE", f"{roles}/{kind}/tenant")


AT_ONCE = {"gracePeriodSeconds": 0}


def test_a_pod_is_not_deleted_by_force_while_it_may_run_with_devices(spaces: KubeApi, tenant: str) -> None:
    """Its kubelet gives it the grace period of its specification all the same, and another pod has its devices."""
    path = placed(spaces)
    eviction = {"metadata": {"name": path.rpartition("/")[2]}, "deleteOptions": AT_ONCE}
    for method, where, body in (
        ("DELETE", path, AT_ONCE),
        ("DELETE", f"{path}?gracePeriodSeconds=0", None),
        ("DELETE", path.rpartition("/")[0], AT_ONCE),
        ("POST", f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", **eviction}),
    ):
        with pytest.raises(ApiError, match="cannot be deleted by force"):
            spaces.call(method, where, body, user=tenant)
    assert "deletionTimestamp" not in spaces.get(path)["metadata"]
    spaces.call("DELETE", path, {"gracePeriodSeconds": 1}, user=tenant)
    ended = placed(spaces)
    spaces.patch(f"{ended}/status", {"status": {"phase": "Succeeded"}})
    spaces.call("DELETE", ended, AT_ONCE, user=tenant)
    waiting = create(spaces, asking())["metadata"]["name"]
    spaces.call("DELETE", f"/api/v1/namespaces/{GUARDED}/pods/{waiting}", AT_ONCE, user=tenant)


def test_a_pod_without_a_grace_period_is_forgotten_before_its_kubelet_has_ended_it(spaces: KubeApi) -> None:
    """Why such pods are refused where policies guard the namespace."""
    path = placed(spaces, OPEN, asking(terminationGracePeriodSeconds=0))
    spaces.call("DELETE", path)
    with pytest.raises(ApiError, match="not found"):
        spaces.get(path)


@pytest.fixture
def administrator(spaces: KubeApi) -> Iterator[str]:
    """A person who may do everything by a role."""
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    spaces.call(
        "POST",
        bindings,
        {
            "metadata": {"name": "root"},
            "subjects": [{"kind": "User", "name": "root"}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
        },
    )
    yield "root"
    spaces.call("DELETE", f"{bindings}/root")


def test_administrators_and_controllers_delete_pods_of_lost_nodes(spaces: KubeApi, administrator: str) -> None:
    for user in ("", administrator, "system:serviceaccount:kube-system:pod-garbage-collector"):
        path = placed(spaces)
        spaces.call("DELETE", path, AT_ONCE, user=user)
        with pytest.raises(ApiError, match="404"):
            spaces.get(path)
