"""What `paictl job open` lets through: requests of a browser that was shown its address, and nobody else's."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import struct
import threading
from dataclasses import dataclass, field

import pytest

from paictl.cli.job import opening
from paictl.cluster.interface import ClusterError, TaskPlace


@dataclass
class Notebook:
    """A cluster whose task answers HTTP, and echoes in capitals on a WebSocket; `asked` is what came."""

    asked: list[str] = field(default_factory=list)
    dialled: int = 0
    answer: bytes = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 6\r\n\r\nkernel"

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        if (key, str(task), port) != ("ann~desk", "notebook:0", 8888):
            raise ClusterError("not that one")
        self.dialled += 1
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return ours

    def _serve(self, theirs: socket.socket) -> None:
        with contextlib.suppress(OSError), theirs:
            while data := theirs.recv(1 << 16):
                self.asked.append(data.decode())
                if b"Upgrade: websocket" not in data:
                    theirs.sendall(self.answer)
                    if not self.answer.startswith(b"HTTP/1.1 200"):
                        return
                    continue
                theirs.sendall(b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
                while data := theirs.recv(100):
                    theirs.sendall(data.upper())
                return


@dataclass
class Opened:
    """A port that `job open` has opened."""

    port: int
    notebook: Notebook
    url: str
    browsed: str

    def ask(self, target: str, *lines: str, host: str = "", method: str = "GET") -> str:
        """The answer to a request, until the other side hangs up."""
        return self.send(
            f"{method} {target} HTTP/1.1\r\n"
            + "".join(f"{line}\r\n" for line in (f"Host: {host or f'127.0.0.1:{self.port}'}", *lines, ""))
        )

    def send(self, words: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), 10) as connection:
            connection.settimeout(10)
            connection.sendall(words.encode())
            said = b""
            with contextlib.suppress(ConnectionResetError):
                while not said.endswith(b"kernel") and (data := connection.recv(1 << 16)):
                    said += data
            return said.decode()

    @property
    def target(self) -> str:
        return self.url.removeprefix(f"http://127.0.0.1:{self.port}")

    def cookie(self) -> str:
        """What a browser has since it was shown the address."""
        said = self.ask(self.target)
        (line,) = [one for one in said.splitlines() if one.startswith("Set-Cookie: ")]
        return line.removeprefix("Set-Cookie: ").partition(";")[0]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Opened:
    browsed: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("paictl.cli.job.opening.webbrowser.open", browsed.put)
    local, notebook = opening.listener(0, 8888), Notebook()
    threading.Thread(
        target=opening.serve,
        args=(notebook, "ann~desk", TaskPlace("notebook", 0), 8888, local),
        kwargs={"browser": True},
        daemon=True,
    ).start()
    shown = browsed.get(timeout=10)
    return Opened(local.getsockname()[1], notebook, capsys.readouterr().out.strip(), shown)


def test_a_program_reads_the_address_from_a_pipe_while_the_port_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    local = opening.listener(0, 8888)
    with os.fdopen(reading) as reader, os.fdopen(writing, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        said = threading.Event()  # before the test ends: the next would find it on its stderr
        monkeypatch.setattr("paictl.cli.job.opening.console.info", lambda _: said.set())
        threading.Thread(
            target=opening.serve,
            args=(Notebook(), "ann~desk", TaskPlace("notebook", 0), 8888, local),
            kwargs={"browser": False},
            daemon=True,
        ).start()
        assert select.select([reader], [], [], 10)[0]
        assert reader.readline().startswith(f"http://127.0.0.1:{local.getsockname()[1]}/?paictl=")
        assert said.wait(10)


def test_who_was_not_shown_the_address_reaches_nothing(opened: Opened) -> None:
    for lines in ((), ("Cookie: a=b",), (f"Cookie: paictl_open_{opened.port}=",), ("X-XSRFToken: a",)):
        for method, target in (("GET", "/"), ("POST", "/api/kernels"), ("GET", "/?paictl="), ("GET", "/?paictl=no")):
            said = opened.ask(target, *lines, method=method)
            assert said.startswith("HTTP/1.1 403 Forbidden\r\n")
            assert "Connection: close" in said
            body = said.partition("\r\n\r\n")[2]
            assert body == "open the whole address that paictl has printed, with ?paictl=\n"
    socketed = opened.ask("/api/kernels/1/channels", "Connection: Upgrade", "Upgrade: websocket")
    assert socketed.startswith("HTTP/1.1 403")
    assert opened.notebook.dialled == 0


def test_the_printed_address_gives_a_browser_a_cookie_that_the_task_never_sees(opened: Opened) -> None:
    said = opened.ask(opened.target)
    assert said.startswith("HTTP/1.1 303 See Other\r\n")
    assert "\r\nLocation: /\r\n" in said
    assert said.partition("Set-Cookie: ")[2].splitlines()[0].endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert opened.target.partition("=")[2] not in said.partition("=")[2], "the address is no cookie"
    cookie = opened.cookie()
    other = "paictl_open_1=of-another"
    said = opened.ask("/lab", f"Cookie: a=b; {cookie}; {other}; c=d", "Connection: keep-alive")
    assert said.startswith("HTTP/1.1 200 OK\r\n")
    assert said.endswith("\r\nConnection: close\r\n\r\nkernel"), "one request is checked, so it is the only one"
    (asked,) = opened.notebook.asked
    assert asked.splitlines()[1:] == [f"Host: 127.0.0.1:{opened.port}", "Cookie: a=b; c=d", "Connection: close", ""]
    assert opened.ask("/lab", f"Cookie: {cookie}", host=f"localhost:{opened.port}").endswith("kernel")
    assert "Cookie" not in opened.notebook.asked[1]
    assert opened.ask(opened.target, f"Cookie: {cookie}").startswith("HTTP/1.1 303")


def test_a_name_that_leads_here_is_refused_even_with_the_secret_and_the_cookie(opened: Opened) -> None:
    cookie = opened.cookie()
    for host in ("evil.example", f"evil.example:{opened.port}", "127.0.0.1", f"127.0.0.1:{opened.port + 1}", "[::1]"):
        for target in ("/", opened.target):
            said = opened.ask(target, f"Cookie: {cookie}", host=host)
            assert said.startswith("HTTP/1.1 403")
            assert "Set-Cookie" not in said
    assert opened.send(f"GET / HTTP/1.0\r\nCookie: {cookie}\r\n\r\n").startswith("HTTP/1.1 403")
    both = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{opened.port}\r\nHost: evil.example\r\nCookie: {cookie}\r\n\r\n"
    assert opened.send(both).startswith("HTTP/1.1 400")
    assert opened.notebook.dialled == 0


def test_pages_of_other_ports_make_no_requests_with_the_cookie_that_their_browser_has(opened: Opened) -> None:
    cookie = f"Cookie: {opened.cookie()}"
    for line in ("Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"):
        assert opened.ask("/api/kernels", cookie, line, method="POST").startswith("HTTP/1.1 403")
    websocket = (cookie, "Connection: Upgrade", "Upgrade: websocket", "Origin: http://127.0.0.1:1")
    assert opened.ask("/api/kernels/1/channels", *websocket).startswith("HTTP/1.1 403")
    assert opened.notebook.dialled == 0


def test_a_link_of_another_site_s_page_arrives_although_the_cookie_is_strict(opened: Opened) -> None:
    said = opened.ask(opened.target, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
    assert said.startswith("HTTP/1.1 200 OK\r\n")
    assert "\r\nRefresh: 0; url=/\r\n" in said
    assert "SameSite=Strict" in said


def test_the_address_on_the_browser_s_command_line_is_worth_nothing_after_it_came(opened: Opened) -> None:
    assert opened.browsed != opened.url
    target = opened.browsed.removeprefix(f"http://127.0.0.1:{opened.port}")
    assert opened.ask(target).startswith("HTTP/1.1 303")
    assert opened.ask(target).startswith("HTTP/1.1 403")
    assert opened.ask(opened.target).startswith("HTTP/1.1 303")


def test_a_websocket_goes_both_ways(opened: Opened) -> None:
    words = (
        f"GET /api/kernels/1/channels HTTP/1.1\r\nHost: 127.0.0.1:{opened.port}\r\nCookie: {opened.cookie()}\r\n"
        f"Origin: http://127.0.0.1:{opened.port}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nfirst"
    )
    with socket.create_connection(("127.0.0.1", opened.port), 10) as connection:
        connection.settimeout(10)
        connection.sendall(words.encode())
        said = b""
        while not said.endswith(b"\r\n\r\n"):
            said += connection.recv(1)
        assert said.startswith(b"HTTP/1.1 101 Go\r\n")
        assert b"Connection: close" not in said
        connection.sendall(b"second")
        back = b""
        while not back.endswith(b"SECOND"):
            back += connection.recv(100)
    assert back in (b"SECOND", b"FIRSTSECOND"), "the task's first read may have had the first word"


@pytest.mark.parametrize("words", ["SSH-2.0-OpenSSH_9.6\r\n", "\x16\x03\x01\n", "GET / HTTP/1.1\r\n a\r\n\r\n"])
def test_what_is_not_http_is_refused(opened: Opened, words: str) -> None:
    said = opened.send(words)
    assert said.startswith("HTTP/1.1 400")
    assert said.endswith("\r\n\r\nonly HTTP is understood here; for anything else: paictl job open --raw\n")
    assert opened.notebook.dialled == 0


def test_answers_before_the_last_are_not_taken_for_it(opened: Opened) -> None:
    cookie = f"Cookie: {opened.cookie()}"
    opened.notebook.answer = b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 404 No\r\n\r\nkernel"
    assert opened.ask("/", cookie) == "HTTP/1.1 404 No\r\nConnection: close\r\n\r\nkernel"
    opened.notebook.answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n"
    said = opened.ask("/", cookie, "Expect: 100-continue", method="PUT")
    assert said == "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\nConnection: close\r\n\r\n"
    for answer in (b"220 smtp\r\n", b"", b"HTTP/1.1 200 OK\r\n"):
        opened.notebook.answer = answer if not answer.startswith(b"HTTP/1.1 200") else b"HTTP/1.1 299 \r\n"
        assert opened.ask("/", cookie).startswith("HTTP/1.1 502 Bad Gateway\r\n")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_that_hangs_up_is_a_bad_gateway_and_no_empty_answer(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Its server starts: Kubernetes connects, and ends the connection before or after the request has come."""

    def hang_up(theirs: socket.socket) -> None:
        theirs.recv(1)
        theirs.close()

    def dial(*_: object) -> socket.socket:
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            theirs, _ = server.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
        if when == "before":
            theirs.close()
        else:
            threading.Thread(target=hang_up, args=(theirs,), daemon=True).start()
        return ours

    cookie = f"Cookie: {opened.cookie()}"
    monkeypatch.setattr(opened.notebook, "dial", dial)
    assert opened.ask("/", cookie).startswith("HTTP/1.1 502 Bad Gateway\r\n")


def test_raw_every_connection_is_handed_on_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    local = opening.listener(0, 8888)
    notebook = Notebook()
    threading.Thread(
        target=opening.serve,
        args=(notebook, "ann~desk", TaskPlace("notebook", 0), 8888, local),
        kwargs={"browser": False, "raw": True},
        daemon=True,
    ).start()
    port = local.getsockname()[1]
    assert Opened(port, notebook, "", "").send("SSH-2.0\r\n").endswith("kernel")
    assert notebook.asked == ["SSH-2.0\r\n"]
    said = capsys.readouterr()
    assert said.out == f"127.0.0.1:{port}\n"
    assert "any user of this machine can connect to it" in said.err
