"""What tasks serve, through the proxy: who may come in, what passes between browser and task, and what never does."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import Cluster, TaskPlace, UnreachableError
from paictl.operate.users.tokens import TokenKind, caller_of, issue
from paictl.server import workers
from paictl.server.app import ServerApp
from paictl.server.calls import Call
from paictl.server.routing import Router
from paictl.server.serving import routes
from paictl.server.tasks import access, proxy
from paictl.server.tasks.access import TaskAddress, TaskSite
from paictl.server.tasks.proxy import TaskProxy
from tests.unit.server.conftest import Server, occupied, queued
from tests.unit.server.test_api import submit

OPEN: list[asyncio.StreamWriter] = []
END = b"0\r\n\r\n"
LARGE = 64 << 20
"""Bytes of an answer that no buffers hold."""
DIAL = EmbeddedCluster.dial
SITE = TaskSite("http", "tasks.test")
PATIENCE = 20.0
"""Seconds that something may take on a busy machine."""
DESK = TaskAddress("ann", "one", "worker", 0, 8888)


class Upstream:
    """What a task runs: says what it was asked, echoes on a WebSocket; `asked` are the heads of its requests."""

    def __init__(self, path: Path) -> None:
        self.asked: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as file:
            while head := b"".join(
                itertools.takewhile(bool, iter(lambda: file.readline().replace(b"\r\n", b"\n"), b"\n"))
            ).decode():  # at the end there are only empty ones
                if not head.strip():
                    return
                self.asked.append(head)
                if "upgrade: websocket" in head.lower():
                    connection.sendall(b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
                    while data := file.read1(100):
                        connection.sendall(data.upper())
                    return
                self._plain(connection, head, file.read(_length(head)))

    def _plain(self, connection: socket.socket, head: str, body: bytes) -> None:
        if head.startswith("GET /gone"):
            raise ValueError
        if head.startswith("GET /cookies"):
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nSet-Cookie: own=1; Path=/\r\nSet-Cookie: far=1; Domain=tasks.test\r\n"
                b"Set-Cookie: paictl_task=x\r\n"
                b'Set-Cookie: __Host-paictl=x; Path=/; Secure\r\nClear-Site-Data: "*"\r\n'
                b"Content-Length: 2\r\n\r\nok"
            )
        elif head.startswith("GET /endless"):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            connection.recv(1)
        elif head.startswith("GET /large"):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE + bytes(LARGE))
        elif head.startswith("GET /stream"):
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n" + END)
        else:
            answer = f"{' '.join(head.split()[:2])} {len(body)}".encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(answer), answer))

    def close(self) -> None:
        self._socket.close()


def _length(head: str) -> int:
    found = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
    return int(found[0].partition(":")[2]) if found else 0


@dataclass
class Rig:
    """The proxy in front of a task of ann's job `one`."""

    server: Server
    upstream: Upstream
    proxy: TaskProxy

    def ask(self, *requests: bytes, more: bytes = b"", until: bytes = b"") -> bytes:
        """What comes back on one connection; with `until` the rest is asked only when that has come."""

        async def exchange(port: int) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            found = b""
            for request in requests:
                writer.write(request)
            while more and until not in found and (piece := await reader.read(4096)):
                found += piece
            writer.write(more)
            if not more:
                found = await _until_silent(reader, found, len(requests))
            else:
                found += await asyncio.wait_for(reader.read(4096), PATIENCE)
            writer.close()
            await writer.wait_closed()
            return found

        return self.run(exchange)

    def run(self, act: Callable[[int], Awaitable[bytes]]) -> bytes:
        async def running() -> bytes:
            listening = await self.proxy.start("127.0.0.1", 0)
            try:
                return await asyncio.wait_for(act(listening.sockets[0].getsockname()[1]), 3 * PATIENCE)
            finally:
                while OPEN:
                    OPEN.pop().close()
                listening.close()
                await self.proxy.end()

        return self.server.loop.run_until_complete(running())

    def cookie(self, user: str = "ann", address: TaskAddress = DESK) -> str:
        users = self.server.cluster.users
        account = users.account(user)
        assert account is not None
        return "paictl_task=" + issue(users, account, TokenKind.TASK, scope=address.word)


async def _opened(port: int, what: bytes, host: str = "127.0.0.1") -> asyncio.StreamReader:
    """A connection from an address of this machine on which something was sent; it is open until the loop ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    writer.write(what)
    OPEN.append(writer)
    return reader


async def _head(reader: asyncio.StreamReader) -> str:
    return (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).decode()


async def _ends(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side hangs up."""
    with contextlib.suppress(ConnectionResetError):
        await asyncio.wait_for(reader.read(), PATIENCE)
    return True


async def _goes_on(*readers: asyncio.StreamReader) -> bool:
    """Whether nobody hangs up for a while."""
    reading = [asyncio.ensure_future(reader.read()) for reader in readers]
    ended, left = await asyncio.wait(reading, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
    for one in left:
        one.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    return not ended


async def _until(condition: Callable[[], object]) -> None:
    """Wait for something of which nobody hears; `Rig.run` ends what never comes."""
    while not condition():
        await asyncio.sleep(0.01)


async def _to_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    found = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    return found


async def _until_silent(reader: asyncio.StreamReader, found: bytes, answers: int) -> bytes:
    while found.count(b"HTTP/1.1 ") < answers or not _whole(found):
        piece = await asyncio.wait_for(reader.read(4096), PATIENCE)
        if not piece:
            break
        found += piece
    return found


def _whole(found: bytes) -> bool:
    head, _, body = found.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        return body.endswith(END)
    return len(body) >= _length(head.decode())


def request(path: str = "/", *rows: str, method: str = "GET", label: str = DESK.label, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {label}.tasks.test:9187", *rows]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture(scope="module")
def common(shared: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    path = tmp_path_factory.mktemp("task") / "port"
    upstream = Upstream(path)

    def dial(_: EmbeddedCluster, key: str, task: TaskPlace, port: int) -> socket.socket:
        assert (key, str(task), port) == ("ann~one", "worker:0", 8888)
        found = socket.socket(socket.AF_UNIX)
        found.connect(str(path))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedCluster, "dial", dial)
        submit(shared, "one")
        yield Rig(shared, upstream, TaskProxy(shared.workers, SITE))
    upstream.close()


@pytest.fixture
def rig(common: Rig) -> Rig:
    common.upstream.asked.clear()
    return Rig(common.server, common.upstream, TaskProxy(common.server.workers, SITE))


def test_only_the_owner_and_administrators_come_in(rig: Rig) -> None:
    assert b"401" in rig.ask(request()).splitlines()[0]
    assert b"401" in rig.ask(request("/", "Cookie: paictl_task=pai-x.y")).splitlines()[0]
    for user, status in (("ann", b"200"), ("root", b"200"), ("bob", b"403")):
        assert status in rig.ask(request("/", f"Cookie: {rig.cookie(user)}")).splitlines()[0], user
    assert len(rig.upstream.asked) == 2


def test_a_cookie_opens_the_host_of_its_own_task_alone_and_never_the_portal(rig: Rig) -> None:
    other = TaskAddress("ann", "one", "worker", 0, 9999)
    cookie = rig.cookie(address=other)
    assert b"401" in rig.ask(request("/", f"Cookie: {cookie}")).splitlines()[0]
    token = rig.cookie().partition("=")[2]
    assert caller_of(rig.server.cluster.users, token) is None
    assert rig.server.ask("GET", "/api/v2/jobs", token=token).status == 401
    portal = rig.server.session("ann").partition("=")[2]
    assert b"401" in rig.ask(request("/", f"Cookie: paictl_task={portal}")).splitlines()[0]
    assert b"404" in rig.ask(request("/", f"Cookie: {rig.cookie()}", label="f" * 23)).splitlines()[0]


def test_the_portal_s_page_leads_to_the_host_by_a_ticket_that_works_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.server, "app", ServerApp(rig.server.workers, Router(routes(tasks=SITE))))
    path = "/jobs/ann/one/open/worker/0/8888"
    assert rig.server.ask("GET", path, cookie=rig.server.session("bob")).status == 403
    reply = rig.server.ask("GET", path, cookie=rig.server.session("ann"))
    where = reply.header("location")
    assert (reply.status, where.partition("?")[0]) == (303, f"http://{DESK.label}.tasks.test/.paictl/enter")
    entered = rig.ask(request(where.removeprefix(f"http://{DESK.label}.tasks.test"))).decode()
    assert entered.startswith("HTTP/1.1 303")
    cookie = next(line for line in entered.splitlines() if line.lower().startswith("set-cookie")).split(": ", 1)[1]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(cookie.split("; "))
    assert "domain" not in cookie.lower()
    assert b"200" in rig.ask(request("/", f"Cookie: {cookie.partition(';')[0]}")).splitlines()[0]
    again = rig.ask(request(where.removeprefix(f"http://{DESK.label}.tasks.test")))
    assert b"401" in again.splitlines()[0], "a ticket from the history of a browser is worth nothing"
    users = rig.server.cluster.users
    assert b"401" in rig.ask(request("/", f"Cookie: paictl_task={where.partition('=')[2]}")).splitlines()[0]
    assert [one.kind for one in users.tokens("ann")].count("ticket") == 0


def test_who_signs_out_of_the_portal_is_out_of_the_tasks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "TRUSTED", 0.0)
    cookie = rig.cookie()
    assert b"200" in rig.ask(request("/", f"Cookie: {cookie}")).splitlines()[0]
    session = rig.server.session("ann")
    page = rig.server.ask("GET", "/jobs", cookie=session).text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    assert rig.server.form("/sign-out", {"csrf": csrf}, cookie=session).status == 303
    assert b"401" in rig.ask(request("/", f"Cookie: {cookie}")).splitlines()[0]


def test_nothing_of_ours_reaches_the_task(rig: Rig) -> None:
    rows = (
        f"Cookie: own=1; {rig.cookie()}; paictl_session=pai-secret; __Host-paictl=pai-secret; theirs=2",
        "Authorization: Bearer pai-secret",
        "X-CSRF-Token: secret",
        "X-Forwarded-For: 1.2.3.4",
        "X-Own: kept",
        "Connection: keep-alive, X-Hop",
        "X-Hop: gone",
    )
    rig.ask(request("/a?b=c", *rows))
    (head,) = rig.upstream.asked
    assert "secret" not in head
    assert "paictl" not in head
    assert "pai-" not in head
    for gone in ("x-hop", "1.2.3.4", "authorization", "x-csrf"):
        assert gone not in head.lower()
    assert head.startswith("GET /a?b=c HTTP/1.1\n")
    assert "Cookie: own=1; theirs=2" in head
    assert "X-Own: kept" in head


def test_a_task_sets_no_cookie_for_other_hosts_and_none_of_our_names(rig: Rig) -> None:
    answer = rig.ask(request("/cookies", f"Cookie: {rig.cookie()}")).decode()
    assert [line for line in answer.splitlines() if line.lower().startswith("set-cookie")] == [
        "Set-Cookie: own=1; Path=/"
    ]
    assert "clear-site-data" not in answer.lower()
    assert "frame-ancestors 'self'" in answer


def test_requests_with_bodies_streams_and_several_on_a_connection(rig: Rig) -> None:
    cookie = f"Cookie: {rig.cookie()}"
    answers = rig.ask(
        request("/a", cookie, method="POST", body=b"x" * 100_000), request("/stream", cookie), request("/b", cookie)
    )
    assert b"POST /a 100000" in answers
    assert b"abc\r\n" in answers
    assert b"def\r\n" in answers
    assert answers.endswith(b"GET /b 0")


def test_a_websocket_goes_both_ways(rig: Rig) -> None:
    rows = ("Connection: Upgrade", "Upgrade: websocket", f"Cookie: {rig.cookie()}")
    own = f"Origin: http://{DESK.label}.tasks.test:9187"
    assert rig.ask(request("/ws", *rows, own), more=b"hello", until=b"\r\n\r\n").endswith(b"HELLO")
    for foreign in (f"http://{'f' * 24}.tasks.test:9187", "http://tasks.test:9187", "null"):
        answer = rig.ask(request("/ws", *rows, f"Origin: {foreign}"))
        assert b"403" in answer.splitlines()[0], foreign


def test_a_websocket_ends_when_its_user_may_not_come_in_any_more(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "RECHECK", 0.05)
    monkeypatch.setattr(proxy, "TRUSTED", 0.0)
    cookie = rig.cookie()

    async def act(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/ws", "Connection: Upgrade", "Upgrade: websocket", f"Cookie: {cookie}"))
        await reader.readuntil(b"\r\n\r\n")
        users = rig.server.cluster.users
        users.remove_tokens([one.digest for one in users.tokens("ann")])
        return await _to_the_end(reader, writer)

    assert rig.run(act) == b""


def test_an_answer_without_end_ends_when_its_user_may_not_come_in_any_more(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "RECHECK", 0.05)
    monkeypatch.setattr(proxy, "TRUSTED", 0.0)
    cookie = rig.cookie()

    async def act(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/endless", f"Cookie: {cookie}"))
        await reader.readuntil(b"data: 1")
        users = rig.server.cluster.users
        users.remove_tokens([one.digest for one in users.tokens("ann")])
        return await asyncio.wait_for(_to_the_end(reader, writer), 30)

    assert b"data" not in rig.run(act)


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Origin": "http://portal.test"}, 403),
    ],
)
def test_pages_of_other_hosts_make_no_requests(rig: Rig, rows: dict[str, str], status: int) -> None:
    """Another task's page is same-site, and the cookie goes along with what it asks."""
    answer = rig.ask(request("/", f"Cookie: {rig.cookie()}", *(f"{key}: {value}" for key, value in rows.items())))
    assert int(answer.split()[1]) == status
    if status == 200 and "Origin" not in rows:
        post = rig.ask(
            request("/", f"Cookie: {rig.cookie()}", *(f"{key}: {value}" for key, value in rows.items()), method="POST")
        )
        assert int(post.split()[1]) == (200 if rows["Sec-Fetch-Site"] != "same-site" else 403)


def test_a_port_where_nothing_answers_is_said(rig: Rig) -> None:
    answer = rig.ask(request("/gone", f"Cookie: {rig.cookie()}"))
    assert b"502" in answer.splitlines()[0]
    assert b"nothing answers on this port" in answer


def test_strangers_have_no_time_and_garbage_no_answer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "PATIENCE", 0.2)

    async def act(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HT")
        return await _to_the_end(reader, writer)

    assert rig.run(act) == b""
    assert rig.ask(b"\x16\x03\x01 nonsense\r\n\r\n") == b""


def test_an_unfinished_body_of_a_stranger_is_not_waited_for(rig: Rig) -> None:
    answer = rig.ask(request("/", "Content-Length: 1000000", method="POST"))
    assert b"401" in answer.splitlines()[0]
    assert b"connection: close" in answer.lower()
    assert rig.upstream.asked == []


class _Hanging:
    """A `dial` to a dead node, until the block ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[None] = []
        self.end = threading.Event()
        monkeypatch.setattr(EmbeddedCluster, "dial", lambda *_: self._hang())

    def _hang(self) -> socket.socket:
        self.begun.append(None)
        self.end.wait(4 * PATIENCE)
        raise UnreachableError("no answer")

    def __enter__(self) -> _Hanging:
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()


def test_tasks_on_a_dead_node_hold_up_nobody_else(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    token, cookie = rig.server.session("ann").partition("=")[2], rig.cookie()

    async def act(port: int) -> bytes:
        for _ in range(3):  # the server has two threads
            await _opened(port, request("/", f"Cookie: {cookie}"))
        opening = [asyncio.ensure_future(rig.server.workers.ask(opened, "portal")) for _ in range(3)]
        await _until(lambda: len(hanging.begun) == 6)
        try:
            return await asyncio.wait_for(rig.server.workers.ask(lambda _: b"answered", "portal"), PATIENCE)
        finally:
            hanging.end.set()
            await asyncio.gather(*opening, return_exceptions=True)

    def opened(cluster: Cluster) -> object:
        found, path = Router(routes(tasks=SITE)).find("GET", b"/jobs/ann/one/open/worker/0/8888")
        caller = caller_of(cluster.users, token)
        return found.handle(Call(cluster, caller, path))

    with _Hanging(monkeypatch) as hanging:
        assert rig.run(act) == b"answered"


def test_an_account_has_so_many_connections_under_way(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "DIALS_EACH", 2)
    ann, root = rig.cookie(), rig.cookie("root")

    async def act(port: int) -> bytes:
        for _ in range(2):
            await _opened(port, request("/", f"Cookie: {ann}"))
        await _until(lambda: len(hanging.begun) == 2)
        refused = await _head(await _opened(port, request("/", f"Cookie: {ann}")))
        other = await _opened(port, request("/", f"Cookie: {root}"))
        assert await _goes_on(other)
        assert "Retry-After: 1" in refused
        return refused.encode()

    with _Hanging(monkeypatch) as hanging:
        assert b"503" in rig.run(act).splitlines()[0]


def test_the_oldest_stranger_of_the_busiest_address_gives_way(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "STRANGERS", 3)

    async def act(port: int) -> bytes:
        alone = await _opened(port, b"GET", "127.0.0.2")
        first = await _opened(port, b"GET")
        second = await _opened(port, b"GET")
        await _until(lambda: len(rig.proxy._visits) == 3)
        assert "401" in await _head(await _opened(port, request(), "127.0.0.3"))
        assert await _ends(first)
        assert await _goes_on(alone, second)
        return b""

    rig.run(act)


def test_with_all_places_taken_an_idle_visit_gives_way(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "CONNECTIONS", 2)
    cookie = f"Cookie: {rig.cookie()}"

    async def act(port: int) -> bytes:
        idle = await _opened(port, request("/", cookie))
        await _head(idle)
        talking = await _opened(port, request("/ws", "Connection: Upgrade", "Upgrade: websocket", cookie))
        await _head(talking)
        assert "200" in await _head(await _opened(port, request("/", cookie)))
        assert await _ends(idle)
        assert await _goes_on(talking)
        return b""

    rig.run(act)


@pytest.mark.parametrize("path", ["/", f"{access.ENTER}?ticket=pai-x.y"])
def test_strangers_of_one_address_fill_the_queue_for_themselves_alone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    workers = rig.server.workers
    monkeypatch.setattr(workers._threads, "_most", 2 + 4)

    async def act(port: int) -> bytes:
        async with occupied(workers):
            strangers = []
            for number in range(4):
                what = request(path, f"Cookie: paictl_task=pai-x.{number}")
                strangers.append(await _opened(port, what, "127.0.0.2"))
                await queued(workers, 2 + number + 1)
            visitor = await _opened(port, request(path, "Cookie: paictl_task=pai-x.y"), "127.0.0.3")
            assert "503" in await _head(strangers[-1])
        return (await _head(visitor)).encode()

    assert rig.run(act).split()[1] in (b"401", b"403")


def test_an_account_has_so_many_visits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "EACH", 2)
    cookie = f"Cookie: {rig.cookie()}"
    websocket = request("/ws", "Connection: Upgrade", "Upgrade: websocket", cookie)

    async def act(port: int) -> bytes:
        idle = await _opened(port, request("/", cookie))
        await _head(idle)
        for _ in range(2):
            assert "101" in await _head(await _opened(port, websocket))
        assert await _ends(idle)
        assert "200" in await _head(await _opened(port, request("/", f"Cookie: {rig.cookie('root')}")))
        return (await _head(await _opened(port, websocket))).encode()

    refused = rig.run(act)
    assert b"503" in refused.splitlines()[0]
    assert b"Retry-After: 1" in refused


@pytest.mark.parametrize("path", ["/", f"{access.ENTER}?ticket=pai-x.y"])
def test_a_cluster_that_does_not_answer_is_said(rig: Rig, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    def entitled(*_: object) -> None:
        raise UnreachableError("the cluster is away")

    monkeypatch.setattr(access, "entitled", entitled)
    answer = rig.ask(request(path, "Cookie: paictl_task=pai-x.y"))
    assert b"503" in answer.splitlines()[0]
    assert b"the cluster is away" in answer


@pytest.mark.parametrize("error", [UnreachableError("away"), workers.busy()])
def test_a_websocket_outlives_a_cluster_that_does_not_answer(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(proxy, "RECHECK", 0.05)
    monkeypatch.setattr(proxy, "TRUSTED", 0.0)
    cookie, asked = rig.cookie(), list[str]()

    def entitled(*_: object) -> None:
        asked.append("")
        raise error

    async def act(port: int) -> bytes:
        reader = await _opened(port, request("/ws", "Connection: Upgrade", "Upgrade: websocket", f"Cookie: {cookie}"))
        await _head(reader)
        monkeypatch.setattr(access, "entitled", entitled)
        await _until(lambda: len(asked) > 1)
        OPEN[-1].write(b"hello")
        return await asyncio.wait_for(reader.read(10), PATIENCE)

    assert rig.run(act) == b"HELLO"


def test_an_address_that_is_none_is_refused(rig: Rig) -> None:
    assert b"400" in rig.ask(request("//[", f"Cookie: {rig.cookie()}")).splitlines()[0]
