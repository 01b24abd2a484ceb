"""How requests reach an API server: its address may have a path, and a proxy may stand before it."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from paictl.errors import PaictlError
from paictl.remote.kube import client as client_module
from paictl.remote.kube.client import KubeClient, KubeError, NoAnswerError, connect, route

MANY = 1203
"""Objects of /many: two full pages, and a third one."""
SEEN: list[str] = []
"""Targets of the requests as they stood on the wire."""
SHOWN: list[str | None] = []
"""What they said of who asks."""


class _Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        SEEN.append(self.path)
        SHOWN.append(self.headers["Authorization"])
        moved = self.path.endswith("/moved")
        status, found = self._page() if "/many" in self.path else (302 if moved else 200, {"path": self.path})
        data = json.dumps(found).encode()
        self.send_response(status)
        if moved:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _page(self) -> tuple[int, dict[str, Any]]:
        """Part of a list of `MANY` objects; a token of /many/expired is one that the server no longer knows."""
        asked = urlsplit(self.path)
        query = dict(parse_qsl(asked.query))
        first = int(query.get("continue", 0))
        if first and asked.path.endswith("/expired"):
            return 410, {"kind": "Status", "code": 410, "reason": "Expired", "message": "the token is too old"}
        if first and {"resourceVersion", "resourceVersionMatch"} & query.keys():
            return 400, {"kind": "Status", "code": 400, "message": "resourceVersion is forbidden for continue"}
        after = min(first + int(query["limit"]), MANY)
        about = {"resourceVersion": "7"} | ({"continue": str(after)} if after < MANY else {})
        return 200, {"metadata": about, "items": [{"metadata": {"name": f"p{n}"}} for n in range(first, after)]}

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def client(folder: Path, server: str, proxy: str | None = None) -> KubeClient:
    SEEN.clear()
    SHOWN.clear()
    cluster = {"server": server, **({"proxy-url": proxy} if proxy else {})}
    (folder / "conf").write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return connect(folder / "conf")


def test_in_a_pod_a_kubeconfig_that_is_named_goes_before_the_pod_s_own_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_in_cluster", lambda: True)
    assert client(tmp_path, "https://10.0.0.1:6443").server == "https://10.0.0.1:6443"
    with pytest.raises(PaictlError, match="the pod's own credentials cannot be used"):
        connect()


@pytest.mark.parametrize("prefix", ["", "/", "/k8s/clusters/c-1", "/k8s/clusters/c-1/"])
def test_the_path_of_the_server_stands_before_every_path(tmp_path: Path, address: str, prefix: str) -> None:
    kube = client(tmp_path, f"{address}{prefix}")
    for _ in range(2):
        kube.get("/api/v1/pods", query={"limit": 5})
    assert [f"{prefix.rstrip('/')}/api/v1/pods?limit=5"] * 2 == SEEN


def test_who_asks_is_shown_by_the_token_of_the_kubeconfig(tmp_path: Path, address: str) -> None:
    client(tmp_path, address).get("/api/v1/pods")
    assert SHOWN == ["Bearer t"]


def test_a_proxy_is_told_the_whole_address(tmp_path: Path, address: str) -> None:
    kube = client(tmp_path, "http://apiserver.invalid:6443/k8s", proxy=address)
    kube.get("/api/v1/pods")
    assert SEEN == ["http://apiserver.invalid:6443/k8s/api/v1/pods"]


def test_a_redirect_is_not_followed(tmp_path: Path, address: str) -> None:
    with pytest.raises(KubeError) as caught:
        client(tmp_path, address).get("/moved")
    assert caught.value.status == 302
    assert SEEN == ["/moved"]


@pytest.mark.parametrize("server", ["apiserver:6443", "https://", "ftp://h", "https://h:port"])
def test_what_is_no_address_is_said_at_once(tmp_path: Path, server: str) -> None:
    with pytest.raises(PaictlError) as caught:
        client(tmp_path, server)
    assert "clusters" in str(caught.value.hint)
    assert server.rstrip("/") in str(caught.value.where)


def test_a_list_of_many_pages_is_read_to_its_end(tmp_path: Path, address: str) -> None:
    pages = list(client(tmp_path, address).list("/many", {"labelSelector": "a=b"}))
    assert [f"p{n}" for n in range(MANY)] == [item["metadata"]["name"] for _, items in pages for item in items]
    assert {version for version, _ in pages} == {"7"}
    assert len(SEEN) == 3
    assert all("labelSelector=a%3Db" in path for path in SEEN), "each page is asked for the same objects"


def test_a_list_as_of_a_version_is_read_to_its_end(tmp_path: Path, address: str) -> None:
    pages = client(tmp_path, address).list("/many", {"resourceVersion": "7", "resourceVersionMatch": "Exact"})
    assert sum(len(items) for _, items in pages) == MANY
    assert ["resourceVersion=7&resourceVersionMatch=Exact" in path for path in SEEN] == [True, False, False]


def test_a_list_whose_token_expires_is_an_error_and_not_half_a_list(tmp_path: Path, address: str) -> None:
    pages = client(tmp_path, address).list("/many/expired")
    assert len(next(pages)[1]) == 500
    with pytest.raises(KubeError) as caught:
        next(pages)
    assert caught.value.status == 410


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "this is not a kubeconfig: while parsing a flow sequence"),
        ("word", "this is not a kubeconfig"),
        ("- 1", "this is not a kubeconfig"),
        ("just: text", "Expected key current-context"),
        ("", "no cluster to talk to"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_said_to_be_none(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "conf"
    file.write_text(text)
    with pytest.raises(PaictlError, match=said) as error:
        connect(str(file))
    assert "\n" not in error.value.message
    assert str(file) in f"{error.value.where} {error.value.message}"


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PaictlError, match="no such file") as error:
        connect(str(tmp_path / "conf"))
    assert error.value.hint == "give --kubeconfig and --context"


def _certificate(folder: Path, address: str) -> Path:
    """A certificate for an address that is its own authority, with its key in the same file."""
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=api"]
    name = ["-addext", f"subjectAltName=IP:{address}", "-keyout", "key.pem", "-out", "ca.pem"]
    words = ["openssl", "req", "-x509", *kind, *name]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "ca.pem").read_text())
    return both


@pytest.mark.parametrize(("shown", "works"), [("192.0.2.7", True), ("192.0.2.8", False)])
def test_a_server_is_reached_elsewhere_and_still_has_to_be_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, works: bool
) -> None:
    monkeypatch.setattr("paictl.remote.kube.client._ROUTES", {})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(tmp_path, shown))
    server = "https://192.0.2.7:6443"  # of no machine
    cluster = {"server": server, "certificate-authority": str(tmp_path / "ca.pem")}
    made = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "conf").write_text(yaml.safe_dump(made))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as local:
        local.socket = context.wrap_socket(local.socket, server_side=True)
        thread = threading.Thread(target=local.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            opened: list[int] = []

            def opener() -> str:
                opened.append(1)
                return f"127.0.0.1:{local.server_address[1]}"

            route(server, opener)
            assert opened == []
            client = connect(tmp_path / "conf")
            assert client.server == server
            if works:
                assert client.get("/version") == {"path": "/version"}
            else:
                with pytest.raises(NoAnswerError, match="certificate"):
                    client.get("/version")
            assert opened == [1]
        finally:
            local.shutdown()
            thread.join()


CONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://api.example:6443', %s}}]
users: [{name: u, user: {token: kelp-secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def test_a_server_is_passed_on_as_it_is_reached_without_credentials(tmp_path: Path) -> None:
    authority = "LS0tLS1CRUdJTg=="
    more = f"certificate-authority-data: {authority}, tls-server-name: inner.example, proxy-url: 'http://proxy.example:3128'"
    (tmp_path / "conf").write_text(CONFIG % more)
    assert connect(tmp_path / "conf").cluster_entry() == {
        "server": "https://api.example:6443",
        "certificate-authority-data": authority,
        "tls-server-name": "inner.example",
        "proxy-url": "http://proxy.example:3128",
    }


def test_a_proxy_of_this_shell_or_with_a_password_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").write_text(CONFIG % "proxy-url: 'http://me:kelp-secret@proxy.example:3128'")
    assert connect(tmp_path / "conf").cluster_entry() == {"server": "https://api.example:6443"}
    monkeypatch.setenv("HTTPS_PROXY", "http://mine.example:3128")
    (tmp_path / "conf").write_text(CONFIG % "certificate-authority-data: LS0tLS1CRUdJTg==")
    assert "proxy-url" not in connect(tmp_path / "conf").cluster_entry()


def test_a_server_whose_certificate_nobody_checks_is_not_passed_on(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(CONFIG % "insecure-skip-tls-verify: true")
    with pytest.raises(PaictlError, match="the certificate of the API server is not checked"):
        connect(tmp_path / "conf").cluster_entry()
