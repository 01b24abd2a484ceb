"""A registry that asks for a password, on a dev box where hosts do not reach it, and the proxy that they need."""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import bcrypt

from tools.hosts.debs import unpacked
from tools.hosts.lab import Lab
from tools.hosts.network import Network
from tools.hosts.shell import wait_until

PORT = 5000
PROXY_PORT = 3128
_LOCAL = "127.0.0.1"


class Registry:
    """Debian's docker-registry with some users, on loopback of the dev box."""

    def __init__(self, lab: Lab, users: Mapping[str, str]) -> None:
        self._lab = lab
        self._user, self._password = next(iter(users.items()))

    def push(self, archive: Path, name: str, tag: str = "1") -> None:
        """Push the image of an OCI archive as ``name:tag``."""
        with tarfile.open(archive) as packed:
            files = {one.name: packed.extractfile(one).read() for one in packed if one.isfile()}  # type: ignore[union-attr]
        index = json.loads(files["index.json"])["manifests"][0]
        manifest = files[_path_of(index["digest"])]
        parts = json.loads(manifest)
        for one in (parts["config"], *parts["layers"]):
            status, where = self.ask("POST", f"/v2/{name}/blobs/uploads/")
            assert status == http.client.ACCEPTED
            place = f"{urlsplit(where).path}?{urlsplit(where).query}&digest={one['digest']}"
            assert self.ask("PUT", place, files[_path_of(one["digest"])])[0] == http.client.CREATED
        status, _ = self.ask("PUT", f"/v2/{name}/manifests/{tag}", manifest, parts["mediaType"])
        assert status == http.client.CREATED

    def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/octet-stream", *, known: bool = True
    ) -> tuple[int, str]:
        """Status and `Location` of an answer; as nobody unless `known`."""
        headers = {"Content-Type": kind, "Content-Length": str(len(body))}
        if known:
            headers["Authorization"] = _basic(self._user, self._password)
        with self._lab.network.entered():
            connection = http.client.HTTPConnection(_LOCAL, PORT, timeout=20)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
        return answer.status, answer.getheader("Location") or ""


@contextmanager
def registry(lab: Lab, folder: Path, users: Mapping[str, str], listen: str = _LOCAL) -> Iterator[Registry]:
    """A registry with these users and their passwords, until the end of the block."""
    folder.mkdir(exist_ok=True)
    lines = [f"{name}:{bcrypt.hashpw(word.encode(), bcrypt.gensalt(4)).decode()}\n" for name, word in users.items()]
    (folder / "htpasswd").write_text("".join(lines))
    (folder / "config.yml").write_text(
        json.dumps(
            {
                "version": 0.1,
                "log": {"level": "warn"},
                "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
                "http": {"addr": f"{listen}:{PORT}"},
                "auth": {"htpasswd": {"realm": "lab", "path": str(folder / "htpasswd")}},
            }
        )
    )
    program = unpacked(["docker-registry"]) / "usr/bin/docker-registry"
    words = [*lab.network.inside(), str(program), "serve", str(folder / "config.yml")]
    made = Registry(lab, users)

    def answers() -> bool:
        try:
            return made.ask("GET", "/v2/")[0] == http.client.OK
        except OSError:
            return False

    with (folder / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as running:
        try:
            wait_until(answers, "the registry", seconds=30)
            yield made
        finally:
            running.terminate()


@contextmanager
def proxy(lab: Lab, user: str, password: str) -> Iterator[set[str]]:
    """A proxy on the dev box for one user that knows every name as the registry; the names that it was asked for."""
    names: set[str] = set()

    class Handler(_Forward):
        network = lab.network
        wanted = _basic(user, password)
        asked = names

    with ExitStack() as stack:
        with lab.network.entered():
            server = http.server.ThreadingHTTPServer((lab.network.gateway, PROXY_PORT), Handler)
        stack.callback(server.server_close)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        yield names


class _Forward(http.server.BaseHTTPRequestHandler):
    """Requests with an absolute address go to the registry."""

    network: ClassVar[Network]
    wanted: ClassVar[str]
    asked: ClassVar[set[str]]

    def do_GET(self) -> None:
        if self.headers.get("Proxy-Authorization") != self.wanted:
            self.send_error(http.client.PROXY_AUTHENTICATION_REQUIRED)
            return
        address = urlsplit(self.path)
        self.asked.add(address.netloc)
        kept = {name: value for name, value in self.headers.items() if not name.lower().startswith(("proxy", "conn"))}
        with self.network.entered():
            connection = http.client.HTTPConnection(_LOCAL, PORT, timeout=20)
            connection.request(self.command, f"{address.path}?{address.query}", headers=kept)
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _path_of(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
