"""Who may do what: the roles of people as objects of RBAC, and which protections between tenants are in force.

What each role of a person may do, `docs/access.md` says in words. Of protections the API server says what it has, now:
nothing here tries anything, and whether the pod network obeys its NetworkPolicies only `deploy verify` finds out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from paictl.cluster.access import AccessRequest, AccessRole, GivenAccess
from paictl.cluster.doors import DOORS, GUARDED
from paictl.cluster.kubernetes.names import (
    ACCESS_ROLE,
    GROUP,
    JOBS_NAMESPACE,
    NAMESPACE,
    OURS,
    PART_OF,
    RBAC,
    SCHEDULER,
    access_binding,
    labels,
)
from paictl.cluster.kubernetes.names import NAME as NAME_LABEL
from paictl.cluster.pods.times import read_time
from paictl.cluster.values import NETWORK_POLICIES, Protection
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import FORBIDDEN, find
from paictl.scheduler.wire import BIND_INFO, GRANTED
from paictl.units import rfc3339

EVERYTHING: Final = "cluster-admin"
"""The ClusterRole of Kubernetes' own that may do everything."""
SELECTOR: Final = f"{NAME_LABEL}=access,{PART_OF}={OURS}"
_UNTIL: Final = "paictl.io/access-until"
_GROUPS: Final = "paictl.io/access-groups"
_API: Final = "rbac.authorization.k8s.io"
_ACCOUNT: Final = "system:serviceaccount"
_ANY_TIME: Final = datetime.fromtimestamp(0, UTC)

_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "update", "patch", "delete", "deletecollection")


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


_WORKLOADS: Final = (
    ("apps", ("deployments", "replicasets", "statefulsets")),
    ("batch", ("jobs", "cronjobs")),
    ("policy", ("poddisruptionbudgets",)),
)
_VIEW: Final = (
    _rule(
        "",
        (
            "configmaps",
            "events",
            "limitranges",
            "persistentvolumeclaims",
            "pods",
            "pods/log",
            "pods/status",
            "resourcequotas",
            "services",
        ),
        _READ,
    ),
    *(_rule(group, kinds, _READ) for group, kinds in _WORKLOADS),
    _rule("events.k8s.io", ("events",), _READ),
    _rule("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates"), _READ),
    _rule(GROUP, ("paijobs",), _READ),
)
_RULES: Final[Mapping[AccessRole, tuple[Json, ...]]] = {
    AccessRole.VIEW: _VIEW,
    # Left out on purpose: what goes round the admission policies (pods/binding, pods/ephemeralcontainers, pods/status,
    # claims of devices), what reaches others (Services may have externalIPs), and what outlasts the role: a Secret can
    # ask for a token of a service account that never expires.
    AccessRole.TENANT: (
        *_VIEW,
        _rule("", ("configmaps", "persistentvolumeclaims", "pods"), _WRITE),
        _rule("", ("secrets",), _READ),
        _rule("", ("pods/attach", "pods/exec", "pods/portforward"), ("get", "create")),
        _rule("", ("pods/eviction",), ("create",)),
        *(_rule(group, kinds, _WRITE) for group, kinds in _WORKLOADS),
    ),
    AccessRole.OPERATOR: (
        _rule("", ("events", "namespaces", "nodes", "pods", "pods/log"), _READ),
        _rule("", ("nodes",), ("patch",)),
        _rule("apps", ("daemonsets", "deployments", "statefulsets"), _READ),
        _rule("batch", ("jobs",), _READ),
        _rule("resource.k8s.io", ("deviceclasses", "resourceclaims", "resourceslices"), _READ),
        _rule(GROUP, ("paijobs",), (*_READ, "patch")),
    ),
}
_OPERATOR_SYSTEM: Final = "operator-system"
"""What an operator may do in paictl's own namespace alone."""
_SYSTEM_RULES: Final = (
    _rule("", ("configmaps",), _READ),
    _rule(GROUP, ("usagebooks",), _READ),
)


def cluster_roles(role: AccessRole) -> list[Json]:
    """The ClusterRoles that a role needs; none for `ADMIN`, whose role every cluster has."""
    if role is AccessRole.ADMIN:
        return []
    rules = {role.value: _RULES[role]}
    if role is AccessRole.OPERATOR:
        rules[_OPERATOR_SYSTEM] = _SYSTEM_RULES
    return [
        {
            "apiVersion": f"{_API}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": _role_name(name), "labels": labels("access")},
            "rules": list(which),
        }
        for name, which in rules.items()
    ]


def bindings(request: AccessRequest, until: datetime) -> list[Json]:
    """The bindings that give a person a role, until the end of the certificate only in name."""
    role = request.role
    if role.is_of_namespace:
        return [_binding(request, _role_name(role.value), until, request.namespace)]
    if role is AccessRole.ADMIN:
        return [_binding(request, EVERYTHING, until)]
    return [
        _binding(request, _role_name(role.value), until),
        _binding(request, _role_name(_OPERATOR_SYSTEM), until, NAMESPACE),
    ]


def collection(body: Json) -> str:
    """The path below which an object of RBAC is."""
    space = body["metadata"].get("namespace")
    kind = f"{body['kind'].lower()}s"
    return f"{RBAC}/namespaces/{space}/{kind}" if space else f"{RBAC}/{kind}"


def marks(until: datetime, request: AccessRequest) -> dict[str, str]:
    """The annotations of a binding."""
    return {_UNTIL: rfc3339(until), _GROUPS: json.dumps(list(request.groups))}


def given(body: Json) -> GivenAccess | None:
    """The access that a binding of ours gives; None for one that is damaged."""
    about = body["metadata"]
    notes = about.get("annotations") or {}
    subjects = body.get("subjects") or [{}]
    try:
        role = AccessRole((about.get("labels") or {}).get(ACCESS_ROLE, ""))
        groups = tuple(map(str, json.loads(notes.get(_GROUPS, "[]"))))
    except (ValueError, TypeError):
        return None
    user = str(subjects[0].get("name", ""))
    namespace = str(about.get("namespace", "")) if role.is_of_namespace else ""
    since, until = read_time(about.get("creationTimestamp")), read_time(notes.get(_UNTIL))
    return GivenAccess(user, role, namespace, groups, since, until) if user else None


def is_whole(body: Json) -> bool:
    """Whether a binding of ours gives what its label says, to its user alone: nobody has modified it."""
    access = given(body)
    if access is None:
        return False
    request = AccessRequest(access.user, access.role, access.namespace)
    made = [
        (
            binding["kind"],
            binding["metadata"].get("namespace"),
            binding["metadata"]["name"],
            binding["roleRef"],
            binding["subjects"],
        )
        for binding in bindings(request, _ANY_TIME)
    ]
    about = body["metadata"]
    seen = body["kind"], about.get("namespace"), about["name"], body.get("roleRef"), body.get("subjects")
    return seen in made


def accounts_subject(subject: Json, binding_namespace: str, namespace: str) -> str:
    """The service accounts of a namespace that a subject of a binding is, as a user or group; empty if it is none."""
    kind, name = subject.get("kind"), str(subject.get("name", ""))
    if kind == "ServiceAccount" and (subject.get("namespace") or binding_namespace) == namespace:
        return f"{_ACCOUNT}:{namespace}:{name}"
    if kind == "User" and name.startswith(f"{_ACCOUNT}:{namespace}:"):
        return name
    return name if kind == "Group" and name == f"{_ACCOUNT}s:{namespace}" else ""


def _role_name(name: str) -> str:
    return f"paictl-access-{name}"


def _binding(request: AccessRequest, role: str, until: datetime, namespace: str = "") -> Json:
    about: Json = {
        "name": access_binding(request.role.value, request.user),
        "labels": {**labels("access"), ACCESS_ROLE: request.role.value},
        "annotations": marks(until, request),
    }
    if namespace:
        about["namespace"] = namespace
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": about,
        "roleRef": {"apiGroup": _API, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _API, "kind": "User", "name": request.user}],
    }


def granted(namespaces: Iterable[Json]) -> dict[str, tuple[str, ...]]:
    """The virtual clusters that each namespace may use by its annotation; none that may use none."""
    written = {
        str(space["metadata"]["name"]): str((space["metadata"].get("annotations") or {}).get(GRANTED, ""))
        for space in namespaces
    }
    return {name: tuple(part.strip() for part in vcs.split(",")) for name, vcs in written.items() if vcs}


# --- which protections between tenants are in force


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
