"""Who may ask what, over a real handshake with certificates that paictl has made."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster.doors import scheduler_host
from paictl.cluster.manifests.certificates import CertificateSet, renewed
from paictl.doors.callers import ALLOWED_FOR, REFUSED_FOR, Guard, Reviewer
from paictl.remote.kube.client import NoAnswerError
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Caller, Harness, gang, served

NAME = scheduler_host("paictl-system", "extender")
LOOKS = ("/metrics", "/", "/v1/picture", "/v1/inspect/clusterstatus", "/v1/explain/pods/default/x")
VERBS = ("filter", "bind", "preempt")


@pytest.fixture(scope="module")
def certificates() -> CertificateSet:
    return renewed(None, NAME, time.time())


@pytest.fixture(scope="module")
def files(certificates: CertificateSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ca_crt", "server_crt", "server_key", "client_crt", "client_key"):
        (folder / name).write_text(getattr(certificates, name))
    return folder


def review(token: str, path: str) -> str:
    """`reader` may look at everything."""
    if token == "away":  # noqa: S105
        raise NoAnswerError("connection refused")
    return "" if token == "reader" else f"{token} may not get {path}"  # noqa: S105


@pytest.fixture
def port(harness: Harness, files: Path) -> Iterator[int]:
    with served(harness, Guard(review), files / "server_crt", files / "server_key", files / "ca_crt") as plain:
        yield plain.port


def caller(port: int, files: Path, *, certificate: str = "") -> Caller:
    """A client that checks the server's name, and shows a certificate or none."""
    context = ssl.create_default_context(cafile=files / "ca_crt")
    if certificate:
        context.load_cert_chain(files / f"{certificate}_crt", files / f"{certificate}_key")
    made = Caller.__new__(Caller)
    made.port = port
    made.connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    made.connection.sock = context.wrap_socket(sock, server_hostname=NAME)
    return made


def test_kube_schedulers_certificate_opens_everything(port: int, files: Path, harness: Harness) -> None:
    with caller(port, files, certificate="client") as scheduler:
        made = harness.create(gang("g", 1, 4)[0])
        (node,) = scheduler.filter(made, NODES)["NodeNames"]
        assert scheduler.bind(made, node) == ""
        assert scheduler.call("GET", "/metrics")[0] == 200


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_needs_the_certificate_whatever_token_is_shown(port: int, files: Path, verb: str) -> None:
    with caller(port, files) as stranger:
        for headers in ({}, {"Authorization": "Bearer reader"}):
            status, answer = stranger.call("POST", f"/v1/extender/{verb}", {}, headers)
            assert (status, "client certificate" in answer) == (401, True)


@pytest.mark.parametrize("path", LOOKS)
def test_looking_needs_a_token_with_the_right(port: int, files: Path, path: str) -> None:
    with caller(port, files) as stranger:
        assert stranger.call("GET", path)[0] == 401
        assert stranger.call("GET", path, headers={"Authorization": "Basic reader"})[0] == 401
        assert stranger.call("GET", path, headers={"Authorization": "Bearer mallory"})[0] == 403
        assert stranger.call("GET", path, headers={"Authorization": "Bearer away"})[0] == 503
        assert stranger.call("GET", path, headers={"Authorization": "Bearer reader"})[0] not in (401, 403, 503)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/availablez"])
def test_probes_need_nothing(port: int, files: Path, path: str) -> None:
    with caller(port, files) as kubelet:
        assert kubelet.call("GET", path)[0] == 200


def test_a_certificate_of_another_authority_or_for_servers_is_none(port: int, files: Path, tmp_path: Path) -> None:
    other = renewed(None, NAME, time.time())
    (tmp_path / "ca_crt").write_text((files / "ca_crt").read_text())
    (tmp_path / "other_crt").write_text(other.client_crt)
    (tmp_path / "other_key").write_text(other.client_key)
    for folder, name in ((tmp_path, "other"), (files, "server")):
        with pytest.raises((ssl.SSLError, ConnectionError)), caller(port, folder, certificate=name) as stranger:
            stranger.call("POST", "/v1/extender/filter", {})


class Reviews:
    """The API server's answers about tokens, counted."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, _method: str, path: str, body: Any) -> Any:
        self.asked.append(path.rpartition("/")[2])
        if "token" in body["spec"]:
            good = body["spec"]["token"] in ("ann", "bob")
            return {"status": {"authenticated": good, "user": {"username": body["spec"]["token"], "groups": ["g"]}}}
        spec = body["spec"]
        assert spec["nonResourceAttributes"]["verb"] == "get"
        return {"status": {"allowed": spec["user"] == "ann" and spec["nonResourceAttributes"]["path"] == "/metrics"}}


def test_a_token_is_reviewed_by_path_and_remembered_for_a_while() -> None:
    server, now = Reviews(), [0.0]
    reviewer = Reviewer(server, lambda: now[0])  # type: ignore[arg-type]
    for _ in range(3):
        assert reviewer.refusal("ann", "/metrics") == ""
    assert server.asked == ["tokenreviews", "subjectaccessreviews"]
    assert "may not get the non-resource URL /v1/picture" in reviewer.refusal("ann", "/v1/picture")
    assert "may not" in reviewer.refusal("bob", "/metrics")
    assert "expired" in reviewer.refusal("expired", "/metrics")
    count = len(server.asked)
    now[0] = ALLOWED_FOR + 1
    assert reviewer.refusal("ann", "/metrics") == ""
    assert len(server.asked) == count + 2


def test_a_right_that_was_just_granted_counts_before_a_lost_one_is_forgotten() -> None:
    server, now = Reviews(), [0.0]
    reviewer = Reviewer(server, lambda: now[0])  # type: ignore[arg-type]
    reviewer.refusal("ann", "/metrics")
    reviewer.refusal("bob", "/metrics")
    count = len(server.asked)
    now[0] = REFUSED_FOR - 1
    reviewer.refusal("bob", "/metrics")
    assert len(server.asked) == count, "strangers do not have the API server asked at each try"
    now[0] = REFUSED_FOR + 1
    reviewer.refusal("bob", "/metrics")
    assert len(server.asked) == count + 2, "a refusal is asked about again soon"
    now[0] = ALLOWED_FOR - 1
    assert reviewer.refusal("ann", "/metrics") == ""
    assert len(server.asked) == count + 2, "a permission holds for longer"
