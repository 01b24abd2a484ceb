"""What the doors that lead show of themselves, fetched from their pods: above all, their records of decisions.

The way is that of ``kubectl port-forward``, because network policies let nobody else in: the API server says which pod
it is, and TLS with the service's own authority that it is the scheduler. The token is one for ten minutes of an
account that may only look.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import time
from typing import Any, Final

from paictl.cluster.doors import DOORS, scheduler_host
from paictl.cluster.kubernetes.names import LEADER, NAME, NAMESPACE
from paictl.cluster.values import ClusterError
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.objects import find, path_of
from paictl.remote.kube.podstreams import dial

PATHS: Final = {"decisions.json": "/v1/inspect/decisions", "metrics.txt": "/metrics", "readyz.txt": "/readyz"}
"""What is read, by the file that it becomes."""
PORT: Final = 30096
MOST_BYTES: Final = 64 << 20
"""What a record may be; one of ours is a tenth of it."""
_PATIENCE: Final = 60.0
"""Seconds for which the door may send nothing, or send us away because it was asked a moment ago."""
_TOKEN_SECONDS: Final = 600
"""The shortest life of a token that the API server gives."""


def read_doors(client: KubeClient) -> dict[str, bytes]:
    """Files of ``DOOR/``, one for each of `PATHS`, of each door that leads; empty if the scheduler does not run here.

    Raises `ClusterError` if it runs and shows nothing, `KubeError` and `NoAnswerError` as any request.
    """
    files: dict[str, bytes] = {}
    runs = ""
    for kind, door in DOORS.items():
        if find(client, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{door}") is None:
            continue
        runs = door
        selector = {"labelSelector": f"{NAME}={door},{LEADER}=true"}
        for pod in client.get(path_of(NAMESPACE, "pods"), query=selector)["items"][:1]:
            reader = _DoorReader(client, kind, door, str(pod["metadata"]["name"]))
            files |= {f"{door}/{name}": reader.read(path) for name, path in PATHS.items()}
    if runs and not files:
        raise ClusterError(
            text("no pod of {door} leads, so nothing records decisions", door=runs),
            hint="paictl service status -n hivedscheduler",
        )
    return files


class _DoorReader:
    """The door in a pod, asked with what it takes to be let in."""

    def __init__(self, client: KubeClient, kind: str, door: str, pod: str) -> None:
        self._client = client
        self._pod = pod
        self._host = scheduler_host(NAMESPACE, kind)
        self._context: ssl.SSLContext | None = None
        self._headers: dict[str, str] = {}
        secret = find(client, path_of(NAMESPACE, "secrets", f"{door}-tls"))
        if secret is not None:
            authority = base64.b64decode(str((secret.get("data") or {}).get("ca.crt", ""))).decode("ascii", "replace")
            self._context = _trusting(authority, door)
            self._headers = {"Authorization": f"Bearer {_token(client, door)}"}

    def read(self, path: str) -> bytes:
        """What a path shows; raises `ClusterError` if it shows nothing."""
        until = time.monotonic() + _PATIENCE
        while True:
            status, body, again = self._answer(path)
            if status != 429 or time.monotonic() + again > until:
                break
            time.sleep(again)  # it was asked a moment ago; looking must not keep scheduling waiting
        if status == 404:
            raise ClusterError(
                text("the scheduler in pod {pod} is of a version that records no decisions", pod=self._pod),
                hint="paictl service refresh -n hivedscheduler",
            )
        if status != 200 and path != PATHS["readyz.txt"]:  # which says what is wrong by a 503
            problem = " ".join(body[:300].decode(errors="replace").split()) or str(status)
            raise ClusterError(
                text("pod {pod} did not return its record of decisions: {said}", pod=self._pod, said=problem)
            )
        return body

    def _answer(self, path: str) -> tuple[int, bytes, float]:
        """Status, body, and the seconds after which to ask again."""
        stream: Any = dial(self._client, NAMESPACE, self._pod, PORT)
        stream.settimeout(_PATIENCE)
        connection = http.client.HTTPConnection(self._host, PORT)
        try:
            context = self._context
            connection.sock = stream if context is None else context.wrap_socket(stream, server_hostname=self._host)
            connection.request("GET", path, headers=self._headers)
            reply = connection.getresponse()
            body = reply.read(MOST_BYTES + 1)
            again = reply.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
            raise ClusterError(
                text("pod {pod} did not return its record of decisions: {said}", pod=self._pod, said=problem)
            ) from None
        finally:
            connection.close()
            stream.close()
        if len(body) > MOST_BYTES:
            problem = text("it is too large")
            raise ClusterError(
                text("pod {pod} did not return its record of decisions: {said}", pod=self._pod, said=problem)
            )
        return reply.status, body, float(again) if again.isdecimal() else 1.0


def _trusting(authority: str, door: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise ClusterError(
            text("Secret {name} holds no certificate authority: {error}", name=f"{door}-tls", error=error)
        ) from None
    return context


def _token(client: KubeClient, door: str) -> str:
    """A short-lived token of the account that may look at a door."""
    path = path_of(NAMESPACE, "serviceaccounts", f"{door}-reader")
    if find(client, path) is None:
        raise ClusterError(
            text("the service account {name} is missing", name=f"{door}-reader"),
            hint="paictl service refresh -n hivedscheduler",
        )
    answer: Json = client.request("POST", f"{path}/token", {"spec": {"expirationSeconds": _TOKEN_SECONDS}})
    return str(answer["status"]["token"])
