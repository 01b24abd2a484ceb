"""The server as a process: slow senders, a kill at any moment, another cluster in the same folder, TLS, the log."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.routing import Router
from uvicorn.server import ServerState

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.errors import PaictlError
from paictl.operate.users.accounts import NewUser, add
from paictl.server.serving import ServerSettings, check, networks_of, serve
from paictl.serving import connections
from tests.contract.conftest import embedded
from tests.strangers import unfinished
from tests.unit.server.conftest import PASSWORD
from tests.unit.server.process import Served, served, start
from tests.unit.server.test_api import JOB


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
        folder = tmp_path_factory.mktemp("served")
        users = embedded(folder).cluster.users
        add(users, NewUser("ann", PASSWORD, vcs=("vc1",)))
    return folder / "state"


@pytest.fixture(scope="module")
def server(state: Path) -> Iterator[Served]:
    with served(state) as found:
        yield found


def sign_in(server: Served) -> str:
    form = urlencode({"username": "ann", "password": PASSWORD}).encode()
    media = "application/x-www-form-urlencoded"
    status, body = server.ask("POST", "/api/v2/authn/basic/login", form, content_type=media)
    assert status == 200, body
    return body.decode().partition('"token":"')[2].partition('"')[0]


def test_senders_without_end_do_not_keep_others_waiting(server: Served) -> None:
    heads = [server.raw(b"GET /api/v2/info HTTP/1.1\r\nHost: a\r\nX-A: ") for _ in range(100)]
    silent = [server.raw(b"") for _ in range(100)]
    bodies = [
        server.raw(b"POST /api/v2/authn/basic/login HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\nuser")
        for _ in range(20)
    ]
    assert server.ask("GET", "/api/v2/info")[0] == 200
    assert sign_in(server)
    for one in (*heads, *silent, *bodies):
        one.close()


BODY = b"POST /api/v2/authn/basic/login HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\na"
HEAD = b"GET /api/v2/info HTTP/1.1\r\nHost: a\r\nX-A: "


@pytest.mark.parametrize("data", [BODY, HEAD, b""], ids=["bodies", "heads", "silent"])
def test_a_stranger_with_all_connections_keeps_no_user_out(server: Served, data: bytes) -> None:
    token = sign_in(server)
    with unfinished(server.port, data, connections.CONNECTIONS):
        for number in range(20):
            status, body = server.ask("GET", "/api/v2/jobs?limit=1", authorization=f"Bearer {token}")
            assert (number, status) == (number, 200), body
        assert sign_in(server)


class EndingLater(asyncio.Transport):
    """A connection of which the loop reports the end some time after it was given up."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 80)})
        self.gone = False

    def is_closing(self) -> bool:
        return self.gone

    def abort(self) -> None:
        self.gone = True


def test_connections_that_were_given_up_count_no_longer() -> None:
    """Or each new one of a burst would search them all, and users would wait behind the burst."""

    async def burst() -> tuple[int, int]:
        state, loop = ServerState(), asyncio.get_running_loop()
        made = [EndingLater() for _ in range(2 * connections.CONNECTIONS)]
        for transport in made:
            connections.PatientProtocol(settings, state, app_state={}, _loop=loop).connection_made(transport)
        return len(state.connections), sum(not transport.gone for transport in made)

    settings = connections.serving(Router([]), "127.0.0.1", 0)
    counted, alive = asyncio.run(burst())
    assert counted == alive <= connections.PER_ADDRESS


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET /api/v2/info\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /api/v2/info HTTP/1.1\r\nHost: a\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=range(6),
)
def test_nonsense_on_the_wire_is_refused_and_the_server_lives(server: Served, data: bytes) -> None:
    connection = server.raw(b"")
    try:
        connection.sendall(data)
        connection.settimeout(60)
        answer = connection.recv(100)
    except ConnectionError:
        answer = b""
    finally:
        connection.close()
    assert b" 200 " not in answer
    assert server.ask("GET", "/health")[0] == 200


def test_a_password_never_crosses_a_network_in_clear(tmp_path: Path) -> None:
    broken = tmp_path / "cert.pem"
    broken.write_text("no certificate")
    proxies = networks_of(["10.0.0.0/8"])
    for fine in (
        ServerSettings("127.0.0.1", 1),
        ServerSettings("::1", 1),
        ServerSettings("0.0.0.0", 1, proxies=proxies),  # noqa: S104
    ):
        check(fine)
    for host in ("0.0.0.0", "::", "10.0.0.1", "pai.example"):  # noqa: S104
        with pytest.raises(PaictlError, match="in clear"):
            check(ServerSettings(host, 1))
    with pytest.raises(PaictlError, match="belong together"):
        check(ServerSettings("127.0.0.1", 1, broken))
    with pytest.raises(PaictlError, match="cannot be used"):
        serve(ServerSettings("127.0.0.1", 1, broken, broken), lambda: EmbeddedCluster.at(tmp_path))
    with pytest.raises(PaictlError, match="neither an address"):
        networks_of(["nonsense"])


def test_why_it_cannot_listen_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PaictlError, match=f"^cannot listen on 127.0.0.1:{port}: Address already in use$"):
            serve(ServerSettings("127.0.0.1", port), lambda: EmbeddedCluster.at(tmp_path))
    assert not [record for record in caplog.records if record.levelname == "ERROR"], "uvicorn has nothing to add"


def test_what_is_logged_has_no_secret(state: Path) -> None:
    with served(state) as server:
        token = sign_in(server)
        server.ask("GET", "/api/v2/jobs", authorization=f"Bearer {token}")
        server.ask("GET", f"/{token}")
    said = "".join(server.lines)
    assert "ann GET /api/v2/jobs 200" in said
    assert token not in said
    assert PASSWORD not in said


def test_another_cluster_in_the_same_folder_is_the_one_that_is_asked(tmp_path: Path) -> None:
    contract = embedded(tmp_path)
    state = tmp_path / "state"
    add(contract.cluster.users, NewUser("ann", PASSWORD, vcs=("vc1",)))
    contract.submit("old", vc="vc1")
    with served(state) as server:
        token = sign_in(server)
        assert b"old" in server.ask("GET", "/api/v2/jobs", authorization=f"Bearer {token}")[1]
        EmbeddedCluster.at(state).down()
        assert server.ask("GET", "/health")[0] == 503
        (fresh,) = [embedded(tmp_path)]
        assert fresh.cluster.users.accounts() == []
        assert server.ask("GET", "/api/v2/jobs", authorization=f"Bearer {token}")[0] == 401
        add(fresh.cluster.users, NewUser("ann", PASSWORD, vcs=("vc1",)))
        assert b"old" not in server.ask("GET", "/api/v2/jobs", authorization=f"Bearer {sign_in(server)}")[1]


@pytest.mark.slow  # three starts of a server: a kill needs a process
def test_a_kill_while_jobs_are_submitted_loses_none_and_takes_none_twice(tmp_path: Path) -> None:
    kill_while_submitting(tmp_path, rounds=3, seed=7)


def kill_while_submitting(folder: Path, rounds: int, seed: int) -> None:
    """Submit one job after the other while the server is killed at random moments; whoever got no answer asks again."""
    dice = random.Random(seed)  # noqa: S311
    contract = embedded(folder)
    add(contract.cluster.users, NewUser("ann", PASSWORD, vcs=("vc1",)))
    numbers = itertools.count()
    answered: list[str] = []
    for _ in range(rounds):
        server = start(folder / "state")
        token = sign_in(server)
        deadline = time.monotonic() + dice.uniform(0.0, 0.4)
        pending = ""
        while True:
            pending = pending or f"job{next(numbers)}"
            if time.monotonic() > deadline:
                server.process.kill()  # while the next request is on its way
            try:
                body = JOB.format(name=pending, vc="vc1").encode()
                status, _ = server.ask("POST", "/api/v2/jobs", body, authorization=f"Bearer {token}")
            except (OSError, HTTPException):  # cut in the middle of an answer
                break
            assert status in (202, 409)
            answered.append(pending)
            pending = ""
        server.process.communicate()
        server = start(folder / "state")
        status, _ = server.ask(
            "POST", "/api/v2/jobs", JOB.format(name=pending, vc="vc1").encode(), authorization=f"Bearer {token}"
        )
        assert status in (202, 409)
        answered.append(pending)
        server.kill()
    cluster = EmbeddedCluster.at(folder / "state")
    assert [job.key for job in cluster.jobs()] == [f"ann~{name}" for name in answered]
    assert cluster.stored() == cluster.replayed()
