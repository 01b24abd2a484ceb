"""Objects by path: found or not there, made, replaced over the version that was read, deleted."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from paictl.remote.kube.client import Json, KubeClient, KubeError

MANAGER: Final = "paictl"
"""Field manager of what we write."""

NOT_FOUND: Final = 404
CONFLICT: Final = 409


def path_of(namespace: str, kind: str, name: str = "") -> str:
    """The path of an object of the core API in a namespace, or of all of its kind there (`kind`: ``configmaps``)."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/{kind}"
    return f"{path}/{quote(name, safe='')}" if name else path


def find(client: KubeClient, path: str) -> Json | None:
    """An object as it is now, None if there is none."""
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


def delete(client: KubeClient, path: str) -> bool:
    """Delete an object; False if it was not there."""
    try:
        client.request("DELETE", path)
    except KubeError as error:
        if error.status == NOT_FOUND:
            return False
        raise
    return True
