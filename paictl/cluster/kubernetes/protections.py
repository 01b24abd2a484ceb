"""Which protections between tenants are in force.

The API server says it, now. Nothing here tries anything: whether the pod network obeys its NetworkPolicies is found out
by `deploy verify` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from paictl.cluster.doors import DOORS, GUARDED
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE, SCHEDULER
from paictl.cluster.values import NETWORK_POLICIES, Protection
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import FORBIDDEN, find
from paictl.scheduler.wire import BIND_INFO

ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_POLICIES: Final = ("hivedscheduler-devices", "hivedscheduler-annotations", "hivedscheduler-deletions")
_START: Final = "paictl service refresh -n hivedscheduler --take-over"


def protections(client: KubeClient) -> tuple[Protection, ...]:
    """What protects tenants from each other, each in force or not and why; empty where no scheduler is installed.

    What may not be read counts as not in force, and says so. Raises `KubeError` if the API does not answer.
    """
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    deployments = {name: _find(client, f"{path}/{name}") for name in DOORS.values()}
    there = {name: deployment for name, deployment in deployments.items() if deployment is not None}
    if not there:
        return ()
    # beside the extender runs a kube-scheduler of its own
    fenced = [*there, SCHEDULER] if DOORS["extender"] in there else list(there)
    return (
        *(_protection(name, partial(_policy, client, name)) for name in _POLICIES),
        _protection("pod-security", lambda: _jobs_namespace(client)),
        _protection("mutual-tls", lambda: next(filter(None, map(_mutual_tls, there.values())), "")),
        _protection(NETWORK_POLICIES, lambda: _network_policies(client, fenced)),
    )


def uncounted(client: KubeClient) -> list[str]:
    """Namespaces whose pods hold devices that the placer would ignore, because no policy protects what they say.

    Raises `KubeError` if the API does not answer or does not show the pods.
    """
    holding = {
        str(pod["metadata"]["namespace"])
        for _, page in client.list("/api/v1/pods", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
        for pod in page
        if BIND_INFO in (pod["metadata"].get("annotations") or {}) and (pod.get("spec") or {}).get("nodeName")
    }
    selector = {"labelSelector": ",".join(f"{key}={value}" for key, value in GUARDED.items())}
    guarded = {
        str(namespace["metadata"]["name"])
        for _, page in client.list("/api/v1/namespaces", selector)
        for namespace in page
    }
    return sorted(holding - guarded)


def _protection(name: str, lack: Callable[[], str]) -> Protection:
    try:
        why = lack()
    except KubeError as error:
        if error.status != FORBIDDEN:
            raise
        why = text("you may not read it: {why}", why=error.message)
    return Protection(name, not why, why)


def _find(client: KubeClient, path: str) -> Json | None:
    """An object; None if it is not there or nobody here may read it, as users without rights on the services."""
    try:
        return find(client, path)
    except KubeError as error:
        if error.status != FORBIDDEN:
            raise
        return None


def _policy(client: KubeClient, name: str) -> str:
    """Why an admission policy refuses nothing; empty if it does."""
    policy = find(client, f"{_ADMISSION}/validatingadmissionpolicies/{name}")
    if policy is None:
        return text("the policy does not exist; set admission-policies: true, then {command}", command=_START)
    if not (policy.get("spec") or {}).get("validations"):
        return text("the policy has no validations: {command}", command=_START)
    binding = find(client, f"{_ADMISSION}/validatingadmissionpolicybindings/{name}")
    spec: Mapping[str, object] = (binding or {}).get("spec") or {}
    if spec.get("policyName") != name:
        return text("no binding puts the policy in force: {command}", command=_START)
    actions = spec.get("validationActions")
    if not isinstance(actions, list) or "Deny" not in actions:
        return text("its binding only warns and does not deny: {command}", command=_START)
    return ""


def _jobs_namespace(client: KubeClient) -> str:
    """Why pods of jobs may do more than Pod Security's level baseline allows; empty if they may not."""
    space = find(client, f"/api/v1/namespaces/{JOBS_NAMESPACE}")
    if space is None:
        return text("namespace {name} does not exist", name=JOBS_NAMESPACE)
    labels = space["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in GUARDED.items()):
        return text(
            "namespace {name} lacks the label {label}: the device policy does not apply there",
            name=JOBS_NAMESPACE,
            label="paictl.io/cells=enabled",
        )
    level = labels.get(ENFORCE, "privileged")
    if level not in ("baseline", "restricted"):
        return text("namespace {name} enforces {level}, not baseline", name=JOBS_NAMESPACE, level=level)
    return ""


def _mutual_tls(scheduler: Json) -> str:
    """Why the scheduler answers callers without a certificate; empty if it does not."""
    containers = scheduler["spec"]["template"]["spec"]["containers"]
    words = [
        str(word)
        for container in containers
        for word in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
    if any(word.partition("=")[0] == "--tls-client-ca" for word in words):
        return ""
    return text("the scheduler does not ask callers for a certificate; set tls: true, then {command}", command=_START)


def _network_policies(client: KubeClient, fenced: Iterable[str]) -> str:
    """Which pods of the scheduler no NetworkPolicy closes; empty if all are."""
    path = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
    missing = [name for name in fenced if find(client, f"{path}/{name}") is None]
    if not missing:
        return ""
    return text("missing: {names}; {command}", names=", ".join(missing), command=_START)
