"""The roles of people as objects of RBAC.

What each role of a person may do is here as objects; `docs/access.md` says the same in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from paictl.cluster.access import AccessRequest, AccessRole, GivenAccess
from paictl.cluster.kubernetes.names import ACCESS_ROLE, GROUP, NAMESPACE, OURS, PART_OF, RBAC, access_binding, labels
from paictl.cluster.kubernetes.names import NAME as NAME_LABEL
from paictl.cluster.pods.times import read_time
from paictl.remote.kube.client import Json
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
