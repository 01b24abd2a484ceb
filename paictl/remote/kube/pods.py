"""What paictl does to pods: bind, evict, delete, annotate, nominate a node, read the log.

Each names the pod by its uid too, so that another pod of the same name is never meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final
from urllib.parse import quote

from paictl.remote.kube.client import MERGE, STRATEGIC, Json, KubeClient, KubeError
from paictl.units import rfc3339

BIND: Final = 5.0
"""Seconds that a binding may take."""
CONTAINER: Final = "main"
_QUIET: Final = 24 * 3600.0
"""Seconds without a byte of a log that is followed."""
_READ: Final = 30.0


class Eviction(Enum):
    """How an eviction was answered."""

    TAKEN = "taken"
    """The pod is being deleted."""
    GONE = "gone"
    """It was not there any more."""
    REFUSED = "refused"
    """A PodDisruptionBudget forbids it now, or the server has another reason: two budgets for one pod, a webhook."""


def pod_path(namespace: str, name: str, part: str = "") -> str:
    """The path of a pod, or of a subresource of it."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    return f"{path}/{part}" if part else path


def get(client: KubeClient, namespace: str, name: str) -> Json | None:
    """A pod as it is now; None if no pod has that name."""
    try:
        return client.get(pod_path(namespace, name))
    except KubeError as error:
        if error.status == 404:
            return None
        raise


def log(
    client: KubeClient, namespace: str, name: str, *, follow: bool = False, lines: int | None = None
) -> Iterator[bytes]:
    """What a container has written, in pieces as they come; with `follow` until it ends, `lines` only the last ones.

    Raises `KubeError` (400: it has not started; 404: the pod is gone) and `NoAnswerError`.
    """
    query: dict[str, object] = {"container": CONTAINER}
    if follow:
        query["follow"] = "true"
    if lines is not None:
        query["tailLines"] = lines
    yield from client.open(pod_path(namespace, name, "log"), query, _QUIET if follow else _READ).chunks()


def bind(
    client: KubeClient, pod: tuple[str, str, str], node: str, annotations: Mapping[str, str], timeout: float = BIND
) -> None:
    """Bind a pod (namespace, name, uid) to a node.

    The server merges the annotations of the binding into the pod in the same transaction: no pod is ever bound without
    them. Raises `KubeError`: 409 if it is bound already or another pod has its name, 404 if it is gone.
    """
    namespace, name, uid = pod
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    client.request("POST", pod_path(namespace, name, "binding"), body, timeout=timeout)


def evict(
    client: KubeClient, namespace: str, name: str, uid: str, *, only_ask: bool = False, grace: int | None = None
) -> tuple[Eviction, str]:
    """Evict a pod through the API, which respects disruption budgets; with the server's reason if refused.

    `only_ask`: a dry run, which changes nothing. `grace`: seconds that the pod gets to terminate; None: those
    of its own specification.
    """
    options = {"preconditions": {"uid": uid}} | ({"dryRun": ["All"]} if only_ask else {})
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options | ({} if grace is None else {"gracePeriodSeconds": grace}),
    }
    path = pod_path(namespace, name, "eviction")
    try:
        try:
            client.request("POST", path, body)
        except KubeError as error:
            if _TOO_LARGE not in error.message:
                raise
            _forget_managers(client, namespace, name, uid)
            client.request("POST", path, body)
    except KubeError as error:
        if error.status in (404, 409):  # gone, or another pod of that name
            return Eviction.GONE, ""
        causes = (error.body.get("details") or {}).get("causes") or ()
        reason = "; ".join(str(cause.get("message")) for cause in causes) or str(error.body.get("message", ""))
        return Eviction.REFUSED, reason or error.message
    return Eviction.TAKEN, ""


def _forget_managers(client: KubeClient, namespace: str, name: str, uid: str) -> None:
    """Make a pod smaller whose owner has filled it up by `managedFields`, of which no policy can tell the size."""
    about = {"uid": uid, "managedFields": [{}]}  # which resets them
    client.request("PATCH", pod_path(namespace, name), {"metadata": about}, kind=MERGE)


def delete(client: KubeClient, namespace: str, name: str, uid: str, grace: int | None = None) -> bool:
    """Delete a pod with `grace` seconds for its end (None: its own grace period); whether it was there."""
    seconds = {} if grace is None else {"gracePeriodSeconds": grace}
    try:
        client.request("DELETE", pod_path(namespace, name), {"preconditions": {"uid": uid}} | seconds)
    except KubeError as error:
        if error.status in (404, 409):
            return False
        raise
    return True


_TOO_LARGE: Final = "request is too large"
"""What etcd refuses: an object of more than 1.5 MiB."""
_OF_ONE_POD: Final = ("failed calling webhook", "denied the request", _TOO_LARGE)
"""What is said about one pod with any status: a webhook that denies chooses it, and mostly 500 if it failed itself."""


def is_refusal(error: KubeError) -> bool:
    """Whether the API server refuses to change this one pod (a policy, annotations that are too long): others are not
    concerned. It reports as faults of its own that a webhook, perhaps of one tenant, is down, and what etcd refuses.
    """
    refused = 400 <= error.status < 500 and error.status != 429
    return refused or any(words in error.message for words in _OF_ONE_POD)


MEMBER_LOST: Final = "MemberLost"
"""Reason of the condition DisruptionTarget of a pod that is to be replaced alone."""


def lose(client: KubeClient, pod: tuple[str, str, str], message: str, *, dead: bool, grace: int | None) -> bool:
    """Delete a pod (namespace, name, uid) that its gang replaces, with the reason in its status; whether it was there.

    With `dead` nothing on its node will end it: it has failed, and goes at once as with the pod garbage collector.
    Otherwise it has `grace` seconds, None for as many as it asks for.
    """
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": MEMBER_LOST,
        "message": message,
        "lastTransitionTime": rfc3339(datetime.now(UTC).replace(microsecond=0)),
    }
    status: Json = {"conditions": [target]}
    if dead:
        status |= {"phase": "Failed", "reason": MEMBER_LOST, "message": message}
    body = {"metadata": {"uid": pod[2]}, "status": status}
    return _tell(client, pod, "status", body, STRATEGIC) and delete(client, *pod, grace=0 if dead else grace)


def annotate(client: KubeClient, pod: tuple[str, str, str], annotations: Mapping[str, str]) -> bool:
    """Set annotations of a pod (namespace, name, uid), if that is not refused; whether it was there."""
    return _tell(client, pod, "", {"metadata": {"uid": pod[2], "annotations": dict(annotations)}})


def label(client: KubeClient, pod: tuple[str, str, str], labels: Mapping[str, str | None]) -> bool:
    """Set labels of a pod (namespace, name, uid), None takes one away; whether it was there."""
    return _patch(client, pod, "", {"metadata": {"uid": pod[2], "labels": dict(labels)}})


def nominate(client: KubeClient, pod: tuple[str, str, str], node: str) -> bool:
    """Say where a pod will run once others have gone, so that kube-scheduler keeps room there; whether it was there."""
    return _tell(client, pod, "status", {"metadata": {"uid": pod[2]}, "status": {"nominatedNodeName": node}})


def note_condition(client: KubeClient, pod: tuple[str, str, str], condition: Mapping[str, str]) -> bool:
    """Write a condition of a pod, in place of the one of its type; whether the pod was there."""
    body = {"metadata": {"uid": pod[2]}, "status": {"conditions": [dict(condition)]}}
    return _patch(client, pod, "status", body, STRATEGIC)


def _tell(client: KubeClient, pod: tuple[str, str, str], part: str, body: Json, kind: str = MERGE) -> bool:
    """Write what others should know, and what nothing depends on: a pod whose owner has filled it up is passed over."""
    try:
        return _patch(client, pod, part, body, kind)
    except KubeError as error:
        if is_refusal(error):
            return True
        raise


def _patch(client: KubeClient, pod: tuple[str, str, str], part: str, body: Json, kind: str = MERGE) -> bool:
    namespace, name, _ = pod
    try:
        client.request("PATCH", pod_path(namespace, name, part), body, kind=kind)
    except KubeError as error:
        if error.status in (404, 409):
            return False
        raise
    return True
