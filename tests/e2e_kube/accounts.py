"""What `paictl extender config` prints on the real API server, and what its accounts may do and have done.

The API server's audit log is the witness: it has every call of the accounts that the manifests make.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from tests.conftest import ROOT
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi

PAICTL = [sys.executable, "-m", "paictl"]
SPACE = "paictl-system"
EXTENDER = "hivedscheduler-extender"
SCHEDULER = "hivedscheduler"
PODGROUPS = ("podgroups", "podgroups/status")
"""Resources that API servers have behind feature gates: only `test_podgroups.py` can use the rights to them."""
_HOURS = 4
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
"""The namespace is as strict as Kubernetes can make one: the Deployments' pods must be admitted all the same."""


class Right(NamedTuple):
    """A verb on a resource, as rules and audit events name them."""

    group: str
    resource: str
    verb: str


class Call(NamedTuple):
    """A request of an account, as the API server noted it."""

    right: Right
    namespace: str
    name: str
    allowed: bool


def printed(*words: str) -> list[Json]:
    """The objects of `paictl extender config`."""
    state = {"PAICTL_STATE": f"{tempfile.gettempdir()}/paictl-e2e-{os.getpid()}"}  # keeps the certificates
    text = subprocess.run(
        [*PAICTL, "extender", "config", *words],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | state,
    ).stdout
    return list(yaml.safe_load_all(text))


def install(api: KubeApi, objects: Iterable[Json]) -> list[Json]:
    """Apply objects as `kubectl apply --server-side --validate=strict` does; how the API server has them now."""
    return [api.apply(one, _path(api, one)) for one in objects]


def uninstall(api: KubeApi, objects: Iterable[Json]) -> None:
    """Delete objects that `install` has applied, but for namespaces; what is gone already is no fault."""
    for one in reversed(list(objects)):
        if one["kind"] != "Namespace":
            with contextlib.suppress(ApiError):
                api.call("DELETE", _path(api, one))


def found(objects: Iterable[Json], kind: str, name: str) -> Json:
    """One object of a set."""
    return next(one for one in objects if one["kind"] == kind and one["metadata"]["name"] == name)


def _path(api: KubeApi, thing: Mapping[str, Any]) -> str:
    """The path of an object, by what the API server says about its kind."""
    version, about = thing["apiVersion"], thing["metadata"]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    (kind,) = (one for one in api.get(root)["resources"] if one["kind"] == thing["kind"] and "/" not in one["name"])
    space = f"/namespaces/{about['namespace']}" if kind["namespaced"] else ""
    return f"{root}{space}/{kind['name']}/{about['name']}"


def token(api: KubeApi, account: str) -> str:
    """A token of a service account, as a pod that runs under it gets one."""
    body = {"spec": {"expirationSeconds": _HOURS * 3600}}
    made = api.call("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts/{account}/token", body)
    return str(made["status"]["token"])


def granted(objects: Iterable[Json], account: str) -> set[Right]:
    """Every right that the rules among these objects give an account."""
    return {
        Right(group, resource, verb)
        for one in objects
        if one["kind"] in ("Role", "ClusterRole") and one["metadata"]["name"] in (account, f"{account}-lease")
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def calls(plane: ControlPlane, account: str, since: int = 0) -> Iterator[Call]:
    """What an account has asked the API server, from so many bytes of the audit log on."""
    user = f"system:serviceaccount:{SPACE}:{account}"
    with plane.audit.open("rb") as log:
        log.seek(since)
        for line in log:
            try:
                event = json.loads(line)
            except json.JSONDecodeError:  # the API server was killed while it wrote
                continue
            if event["user"].get("username") != user or "objectRef" not in event:
                continue
            about = event["objectRef"]
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            right = Right(about.get("apiGroup", ""), resource, event["verb"])
            allowed = event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid"
            yield Call(right, about.get("namespace", ""), about.get("name", ""), allowed)


def refused(plane: ControlPlane, objects: Iterable[Json], since: int = 0, *, account: str = EXTENDER) -> set[Right]:
    """What an account (the extender's) asked for without having the right to it.

    An API server that has just been started refuses for a moment what it grants otherwise: it does not know all roles.
    """
    rights = granted(objects, account)
    return {call.right for call in calls(plane, account, since) if not call.allowed} - rights
