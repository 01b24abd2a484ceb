"""Objects by path: found or not there, made, replaced over the version that was read, deleted; and whether one may."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from paictl.remote.kube.client import Json, KubeClient, KubeError

MANAGER: Final = "paictl"
"""Field manager of what we write."""

APPLY: Final = "application/apply-patch+yaml"

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
NOT_FOUND: Final = 404
FORBIDDEN: Final = 403
CONFLICT: Final = 409


def path_of(namespace: str, kind: str, name: str = "") -> str:
    """The path of an object of the core API in a namespace, or of all of its kind there (`kind`: ``configmaps``)."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/{kind}"
    return f"{path}/{quote(name, safe='')}" if name else path


def find(client: KubeClient, path: str) -> Json | None:
    """An object as it is now; None if it does not exist."""
    try:
        return client.get(path)
    except KubeError as error:
        if error.status == NOT_FOUND:
            return None
        raise


def create(client: KubeClient, path: str, body: Json) -> Json | None:
    """Make an object below the path of its kind; None if there is one of that name already."""
    try:
        return client.request("POST", path, body, query={"fieldManager": MANAGER})
    except KubeError as error:
        if error.status == CONFLICT:
            return None
        raise


def replace(client: KubeClient, path: str, body: Json) -> Json | None:
    """Put an object over the version that its `resourceVersion` names; None if that is not the newest any more."""
    try:
        return client.request("PUT", path, body, query={"fieldManager": MANAGER})
    except KubeError as error:
        if error.status in (CONFLICT, NOT_FOUND):
            return None
        raise


def delete(client: KubeClient, path: str, *, version: str = "") -> bool:
    """Delete an object, with `version` only if that is its newest; False if it was not there, or another version."""
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": version}}
    try:
        client.request("DELETE", path, body if version else None)
    except KubeError as error:
        if error.status == NOT_FOUND or (version and error.status == CONFLICT):
            return False
        raise
    return True


def apply(client: KubeClient, path: str, body: Json, *, dry_run: bool = False, force: bool = False) -> Json:
    """Server-side apply: our fields of an object become as `body` says, fields of others stay; it is made if missing.

    Raises `KubeError`: 409 if another manager owns a field with another value, which `force` takes over. A field that
    the server does not know is refused. With `dry_run` the server checks everything and changes nothing.
    """
    query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
    query |= {"dryRun": "All"} if dry_run else {}
    query |= {"force": "true"} if force else {}
    return client.request("PATCH", path, body, query=query, kind=APPLY, timeout=60.0)


def may(client: KubeClient, verb: str, resource: str, group: str = "") -> bool:
    """Whether this account may do something with all objects of a kind; `resource` may be ``claims/status``."""
    name, _, part = resource.partition("/")
    attributes = {"group": group, "resource": name, "verb": verb, **({"subresource": part} if part else {})}
    review = client.request("POST", _REVIEWS, {"spec": {"resourceAttributes": attributes}})
    return bool((review.get("status") or {}).get("allowed"))


def user_of(client: KubeClient) -> str:
    """The user as whom the API server knows us; empty if it does not say, as where a role takes this right away."""
    try:
        review = client.request("POST", _WHO, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    except KubeError:
        return ""
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")
