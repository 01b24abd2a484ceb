"""A server over an embedded cluster, asked through ASGI without a socket; the network is in `test_socket`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.operate.users import passwords
from paictl.operate.users.accounts import NewUser, add
from paictl.server.app import ServerApp
from paictl.server.routing import Router
from paictl.server.serving import routes
from paictl.server.workers import Workers
from tests.contract.conftest import embedded

PASSWORD = "correct horse"  # noqa: S105 - of a test


@dataclass
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def cookies(self) -> dict[str, str]:
        found = (value.partition(";")[0] for key, value in self.headers if key == "set-cookie")
        return {name: value for name, _, value in (pair.partition("=") for pair in found)}


@dataclass
class Server:
    """The application, with a loop of its own."""

    folder: Path
    app: ServerApp
    workers: Workers
    loop: asyncio.AbstractEventLoop
    client: str = "203.0.113.7"
    tokens: dict[str, str] = field(default_factory=dict)
    leaves: bool = False
    """Whether the client closes its connection as soon as the request is sent."""

    @property
    def cluster(self) -> EmbeddedCluster:
        return EmbeddedCluster.at(self.folder)

    def ask(self, method: str, path: str, **options: Any) -> Reply:
        return self.loop.run_until_complete(self._sent(*self._request(method, path, **options)))

    def _request(
        self,
        method: str,
        path: str,
        *,
        token: str = "",
        cookie: str = "",
        body: bytes = b"",
        media: str = "",
        headers: Mapping[str, str] | None = None,
        more: list[tuple[str, str]] | None = None,
        scheme: str = "http",
    ) -> tuple[MutableMapping[str, Any], bytes]:
        address = urlsplit(path)
        raw = [("host", "pai.example"), *(headers or {}).items(), *(more or [])]
        if token:
            raw.append(("authorization", f"Bearer {token}"))
        if cookie:
            raw.append(("cookie", cookie))
        if media:
            raw.append(("content-type", media))
        if body:
            raw.append(("content-length", str(len(body))))
        scope: MutableMapping[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": scheme,
            "path": address.path,
            "raw_path": address.path.encode(),
            "query_string": address.query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in raw],
            "client": (self.client, 5000),
            "server": ("pai.example", 80),
            "root_path": "",
        }
        return scope, body

    async def sent(self, method: str, path: str, token: str, body: bytes = b"") -> Reply:
        """The same inside the loop, for requests at the same time."""
        return await self._sent(*self._request(method, path, token=token, body=body))

    async def _sent(self, scope: MutableMapping[str, Any], body: bytes) -> Reply:
        replied: list[MutableMapping[str, Any]] = []
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if not parts and not self.leaves:
                await asyncio.Event().wait()  # the client waits for its answer
            return parts.pop() if parts else {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            replied.append(message)

        await self.app(scope, receive, send)
        if self.leaves:
            return Reply(0, [], b"")
        start = replied[0]
        headers = [(name.decode(), value.decode("latin-1")) for name, value in start["headers"]]
        return Reply(start["status"], headers, b"".join(one.get("body", b"") for one in replied[1:]))

    def get(self, path: str, user: str = "", **options: Any) -> Reply:
        return self.ask("GET", path, token=self.token(user), **options)

    def send(self, method: str, path: str, data: object, user: str = "", **options: Any) -> Reply:
        """A request with JSON."""
        body = json.dumps(data).encode()
        return self.ask(method, path, token=self.token(user), body=body, media="application/json", **options)

    def form(self, path: str, fields: Mapping[str, str], **options: Any) -> Reply:
        media = "application/x-www-form-urlencoded"
        return self.ask("POST", path, body=urlencode(fields).encode(), media=media, **options)

    def token(self, user: str) -> str:
        """A token of a user, who signs in once."""
        if user and user not in self.tokens:
            reply = self.form("/api/v2/authn/basic/login", {"username": user, "password": PASSWORD})
            assert reply.status == 200, reply.text
            self.tokens[user] = reply.data["token"]
        return self.tokens.get(user, "")

    def session(self, user: str) -> str:
        """The Cookie header of a browser in which a user has signed in."""
        reply = self.form("/sign-in", {"user": user, "password": PASSWORD})
        assert reply.status == 303, reply.text
        return "; ".join(f"{name}={value}" for name, value in reply.cookies.items())


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    monkeypatch.setattr(passwords, "COST", (4, 1, 1))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The cluster of the preset "lab" with root (administrator), ann (vc1) and bob (default)."""
    with serving(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same, once for all tests of a module that change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
        patch.setattr(passwords, "COST", (4, 1, 1))
        with serving(tmp_path_factory.mktemp("shared")) as found:
            yield found


@contextlib.contextmanager
def serving(tmp_path: Path, preset: str = "lab") -> Iterator[Server]:
    contract = embedded(tmp_path, preset)
    users = contract.cluster.users
    for name, admin, vcs in (("root", True, ()), ("ann", False, ("vc1",)), ("bob", False, ("default",))):
        add(users, NewUser(name, PASSWORD, admin, vcs))
    loop = asyncio.new_event_loop()
    folder = tmp_path / "state"
    workers = Workers(lambda: EmbeddedCluster.at(folder), threads=2)
    try:
        yield Server(folder, ServerApp(workers, Router(routes())), workers, loop)
    finally:
        workers.close()
        loop.close()


@contextlib.asynccontextmanager
async def occupied(workers: Workers, threads: int = 2) -> AsyncIterator[None]:
    """All threads work on questions of one sender, until the block ends."""
    begun, release = threading.Semaphore(0), threading.Event()

    def works(_: object) -> bool:
        begun.release()
        return release.wait(60)

    asking = [asyncio.ensure_future(workers.ask(works, "elsewhere")) for _ in range(threads)]
    for _ in asking:
        while not begun.acquire(blocking=False):
            await asyncio.sleep(0.001)
    try:
        yield
    finally:
        release.set()
        await asyncio.gather(*asking)


async def queued(workers: Workers, number: int) -> None:
    """Wait until so many questions are under way or in line."""
    while len(workers._threads._pending) < number:
        await asyncio.sleep(0.001)
