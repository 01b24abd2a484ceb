"""Fetching the record of decisions from the pod that leads, with an API server and a door that the test plays."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import certifi
import pytest

from paictl.cluster.kubernetes import decisions
from paictl.cluster.kubernetes.decisions import read_doors
from paictl.cluster.values import ClusterError
from paictl.remote.kube.client import KubeError, NoAnswerError

SPACE = "/api/v1/namespaces/paictl-system"
DEPLOYMENT = "/apis/apps/v1/namespaces/paictl-system/deployments/hivedscheduler-placer"


class Server:
    """Objects by path; the door answers each connection with the next of some replies."""

    where = "test"

    def __init__(self, objects: Mapping[str, Any], *replies: str | Exception) -> None:
        self.objects = {f"{SPACE}/pods": {"items": [{"metadata": {"name": "placer-1"}}]}, **objects}
        self.replies = list(replies)
        self.asked: list[str] = []
        self.posted: list[str] = []

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        if query is not None:
            assert query == {"labelSelector": "app.kubernetes.io/name=hivedscheduler-placer,paictl.io/leader=true"}
        if path not in self.objects:
            raise KubeError("not found", status=404, reason="NotFound")
        return self.objects[path]

    def request(self, method: str, path: str, _body: object) -> Any:
        self.posted.append(f"{method} {path}")
        return {"status": {"token": "t0ken"}}

    def dial(self, _client: object, namespace: str, pod: str, port: int) -> socket.socket:
        assert (namespace, pod, port) == ("paictl-system", "placer-1", 30096)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        ours, theirs = socket.socketpair()

        def answer() -> None:
            with theirs:
                self.asked.append(theirs.recv(65536).decode("latin-1"))
                theirs.sendall(reply.encode())

        threading.Thread(target=answer, daemon=True).start()
        return ours


def reply(status: str, body: str = "", *headers: str) -> str:
    return "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", body))


def read(monkeypatch: pytest.MonkeyPatch, server: Server) -> dict[str, bytes]:
    monkeypatch.setattr(decisions, "dial", server.dial)
    monkeypatch.setattr("paictl.cluster.kubernetes.decisions.time.sleep", lambda _seconds: None)
    return read_doors(server)  # type: ignore[arg-type]


def test_without_tls_the_record_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({DEPLOYMENT: {}}, reply("200 OK", '{"format": 1}'), reply("200 OK", "up 1"), reply("503 No", "ill"))
    files = {"decisions.json": b'{"format": 1}', "metrics.txt": b"up 1", "readyz.txt": b"ill"}
    assert read(monkeypatch, server) == {f"hivedscheduler-placer/{name}": body for name, body in files.items()}
    assert server.asked[0].startswith("GET /v1/inspect/decisions HTTP/1.1\r\n")
    assert "authorization" not in server.asked[0].lower()
    assert server.posted == []


def test_who_was_asked_a_moment_ago_is_asked_again_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server({DEPLOYMENT: {}}, reply("429 Busy", "", "Retry-After: 19"), *[reply("200 OK", "{}")] * 3)
    assert read(monkeypatch, server)["hivedscheduler-placer/decisions.json"] == b"{}"
    forever = Server({DEPLOYMENT: {}}, reply("429 Busy", '"ask again"', "Retry-After: 500"))
    with pytest.raises(ClusterError, match="ask again"):
        read(monkeypatch, forever)


def test_a_cluster_without_a_scheduler_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, Server({})) == {}


LEAST: dict[str, Any] = {DEPLOYMENT: {}, f"{SPACE}/secrets/hivedscheduler-placer-tls": {"data": {"ca.crt": "eA=="}}}
NO_LEADER: dict[str, Any] = {DEPLOYMENT: {}, f"{SPACE}/pods": {"items": []}}


@pytest.mark.parametrize(
    ("server", "message", "hint"),
    [
        (Server(NO_LEADER), "no pod of hivedscheduler-placer leads", "service status"),
        (Server({DEPLOYMENT: {}}, reply("404 Not Found")), "a version that records no decisions", "service refresh"),
        (Server({DEPLOYMENT: {}}, reply("403 Forbidden", '"may not"')), "placer-1 did not return.*may", None),
        (Server({DEPLOYMENT: {}}, reply("503 Away")), "placer-1 did not return its record.*503", None),
        (Server({DEPLOYMENT: {}}, "nonsense"), "placer-1 did not return its record", None),
        (Server({DEPLOYMENT: {}}, ""), "placer-1 did not return its record", None),
        (Server(LEAST), "hivedscheduler-placer-tls holds no certificate authority", None),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(
    server: Server, message: str, hint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match=message) as error:
        read(monkeypatch, server)
    assert hint is None or hint in str(error.value.hint)


def test_a_record_beyond_all_bounds_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MOST_BYTES", 10)
    with pytest.raises(ClusterError, match="too large"):
        read(monkeypatch, Server({DEPLOYMENT: {}}, reply("200 OK", "x" * 11)))


def test_a_pod_that_cannot_be_reached_is_as_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoAnswerError):
        read(monkeypatch, Server({DEPLOYMENT: {}}, NoAnswerError("port 30096", where="test")))


def test_the_reader_account_of_an_older_service_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = base64.b64encode(_authority()).decode()
    server = Server({**LEAST, f"{SPACE}/secrets/hivedscheduler-placer-tls": {"data": {"ca.crt": authority}}})
    with pytest.raises(ClusterError, match="hivedscheduler-placer-reader is missing") as error:
        read(monkeypatch, server)
    assert "service refresh" in str(error.value.hint)
    server.objects[f"{SPACE}/serviceaccounts/hivedscheduler-placer-reader"] = {}
    server.replies = ["plain text instead of TLS"]
    with pytest.raises(ClusterError, match="placer-1 did not return its record"):
        read(monkeypatch, server)
    assert server.posted == [f"POST {SPACE}/serviceaccounts/hivedscheduler-placer-reader/token"]
    assert "t0ken" not in "".join(server.asked), "no token without encryption"


def _authority() -> bytes:
    text = Path(certifi.where()).read_text(encoding="utf-8")
    end = "-----END CERTIFICATE-----"
    return (text[text.index("-----BEGIN") : text.index(end)] + end + "\n").encode()
