"""`paictl job open`: a port of a task as a port of this machine, for its browser.

Any user of this machine can connect to the port, and any web page can make the browser do so. Hence only requests of a
browser that was shown the printed address get through; each has a connection of its own, so that all are checked.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import threading
import webbrowser
from typing import Final
from urllib.parse import parse_qs, urlsplit

from paictl.cli import console
from paictl.cluster.interface import Jobs, TaskPlace
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.server.tasks.headers import OURS, Header, as_mapping, is_forged, is_websocket

HOST: Final = "127.0.0.1"
SECRET: Final = "paictl"  # noqa: S105 - the name of a parameter
"""What the printed address has behind its question mark."""
_PIECE: Final = 1 << 16
_MOST: Final = 64
"""Connections at a time; a browser has six."""
_HEAD: Final = 1 << 16
"""Bytes of a request or an answer before its body."""
_PATIENCE: Final = 20.0
"""Seconds in which the next piece of a request's head has to come."""
_REQUEST: Final = re.compile(rb"([A-Z]+) ([!-~]+) HTTP/1\.[01]")
_ANSWER: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\r\n\x00]*)")
_CONTINUE: Final = 100
_SWITCHED: Final = 101
_OF_A_CONNECTION: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection"})
_REASONS: Final = {200: "OK", 303: "See Other", 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}


class _NotHttpError(Exception):
    """What came is no HTTP/1."""


@frozen
class _Head:
    """The beginning of a request or an answer, and what came of the rest."""

    first: bytes
    rows: tuple[Header, ...]
    rest: bytes

    def for_other_side(self, *, websocket: bool) -> bytes:
        """It as it is handed on: without cookies of ours, and the last on its connection, but for a WebSocket's."""
        kept = [self.first]
        for name, value in self.rows:
            if name.lower() == b"cookie":
                others = [pair.strip() for pair in value.split(b";") if not pair.strip().lower().startswith(OURS)]
                kept += [name + b": " + b"; ".join(others)] if others else []
            elif websocket or name.lower() not in _OF_A_CONNECTION:
                kept.append(name + b": " + value)
        return b"\r\n".join([*kept, *([] if websocket else [b"Connection: close"]), b"", self.rest])


@frozen
class _Reply:
    """An answer of our own."""

    status: int
    message: str
    headers: tuple[str, ...] = ()


class Entrance:
    """Who may connect to a port of this machine: a browser that was shown its address, and has a cookie since."""

    def __init__(self, port: int) -> None:
        self._here = f"http://{HOST}:{port}/"
        self._hosts = {f"{name}{end}" for name in (HOST, "localhost") for end in (f":{port}", "")[: 1 + (port == 80)]}
        self._name = f"paictl_open_{port}"  # cookies of a host are those of all its ports
        self._cookie = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._once: set[str] = set()

    def address(self) -> str:
        """Where a browser begins."""
        return f"{self._here}?{SECRET}={self._secret}"

    def address_once(self) -> str:
        """The same for one visit: other users read in the list of processes how a browser was started."""
        secret = secrets.token_urlsafe(32)
        self._once.add(secret)
        return f"{self._here}?{SECRET}={secret}"

    def answer(self, head: _Head) -> _Reply | None:
        """What is said to a request; None if it is for the task."""
        method, target, _ = head.first.decode("ascii").split(" ")
        headers = as_mapping(head.rows)
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return _Reply(403, text("no page at this address: open {address}", address=self._here))
        parts = urlsplit(target)
        shown = parse_qs(parts.query).get(SECRET, [""])[-1] if parts.path == "/" and method == "GET" else ""
        if shown and self._opens(shown):
            # a link of another site's page is followed by one of ours, as only that one's request has the cookie
            foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
            onward = "Refresh: 0; url=/" if foreign else "Location: /"
            cookie = f"Set-Cookie: {self._name}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
            return _Reply(200 if foreign else 303, "", (onward, cookie))
        if not self._has_cookie(headers.get("cookie", "")):
            return _Reply(403, text("open the whole address that paictl has printed, with ?{name}=", name=SECRET))
        if is_forged(method, headers, f"http://{host}"):
            return _Reply(403, text("this request comes from a page at another address"))
        return _Reply(303, "", ("Location: /",)) if shown else None

    def _opens(self, shown: str) -> bool:
        if shown in self._once:
            self._once.discard(shown)
            return True
        return secrets.compare_digest(shown.encode("utf-8", "surrogatepass"), self._secret.encode())

    def _has_cookie(self, header: str) -> bool:
        wanted = f"{self._name}={self._cookie}".encode()
        shown = [pair.strip().encode("utf-8") for pair in re.split("[;,]", header)]
        return any(secrets.compare_digest(pair, wanted) for pair in shown)


def listener(port: int | None, wanted: int) -> socket.socket:
    """A socket that listens on this machine: on `port` (0: any), without one on the task's own if that is free.

    Raises `PaictlError` for a port that cannot be had.
    """
    for number in (wanted, 0) if port is None else (port,):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((HOST, number))
        except OSError as error:
            made.close()
            reason = error.strerror or str(error)
        else:
            made.listen()
            return made
    raise PaictlError(
        text("cannot listen on {host}:{port}: {reason}", host=HOST, port=port or wanted, reason=reason),
        hint=text("choose another port of this machine: --listen PORT, 0 for any"),
    )


def serve(
    cluster: Jobs, key: str, task: TaskPlace, port: int, local: socket.socket, *, browser: bool, raw: bool = False
) -> None:
    """Hand on what comes to the port of the task, until Ctrl-C; the address is printed.

    It is HTTP of who was shown the address; `raw`, it is every connection.
    """
    number = local.getsockname()[1]
    entrance = None if raw else Entrance(number)
    console.write_at_once(entrance.address() if entrance else f"{HOST}:{number}")
    console.info(text("port {port} of task {task} of {job}; press Ctrl-C to close it", port=port, task=task, job=key))
    if entrance is None:
        console.warning(text("any user of this machine can connect to it"))
    elif browser:
        webbrowser.open(entrance.address_once())
    room = threading.Semaphore(_MOST)
    with local:
        while True:
            ours, _ = local.accept()
            room.acquire()
            handed = _Handed(cluster, key, task, port, ours, entrance)
            threading.Thread(target=handed.run, args=(room,), daemon=True).start()


@frozen
class _Handed:
    """A connection to this machine, and where it leads."""

    cluster: Jobs
    key: str
    task: TaskPlace
    port: int
    ours: socket.socket
    entrance: Entrance | None

    def run(self, room: threading.Semaphore) -> None:
        """Hand it on, until one side ends it."""
        try:
            with self.ours, contextlib.suppress(OSError):
                if self.entrance is None:
                    self._joined()
                else:
                    self._checked(self.entrance)
        finally:
            room.release()

    def _joined(self) -> None:
        try:
            theirs = self.cluster.dial(self.key, self.task, self.port)
        except PaictlError as error:
            console.warning(error.message)
            return
        with theirs:
            self._both_ways(theirs)

    def _checked(self, entrance: Entrance) -> None:
        """One request, and its answer or the WebSocket that it becomes."""
        self.ours.settimeout(_PATIENCE)
        try:
            head = _head_of(self.ours, _REQUEST)
        except _NotHttpError:
            _say(self.ours, _Reply(400, text("only HTTP is understood here; for anything else: paictl job open --raw")))
            return
        if head is None:
            return
        if (reply := entrance.answer(head)) is not None:
            _say(self.ours, reply)
            return
        self.ours.settimeout(None)
        try:
            theirs = self.cluster.dial(self.key, self.task, self.port)
        except PaictlError as error:
            console.warning(error.message)
            _say(self.ours, _Reply(502, error.message))
            return
        with theirs:
            with contextlib.suppress(OSError):  # a server that starts may hang up at once; that is found below
                theirs.sendall(head.for_other_side(websocket=is_websocket(as_mapping(head.rows))))
            self._both_ways(theirs, answer=True)

    def _both_ways(self, theirs: socket.socket, *, answer: bool = False) -> None:
        back = threading.Thread(target=_answered if answer else _copy, args=(theirs, self.ours), daemon=True)
        back.start()
        _copy(self.ours, theirs)
        back.join()


def _head_of(source: socket.socket, first: re.Pattern[bytes], data: bytes = b"") -> _Head | None:
    """What begins with a line like `first`; None at the end. Raises `_NotHttpError` for anything else."""
    while (end := data.find(b"\r\n\r\n")) < 0:
        line, newline, _ = data.partition(b"\n")
        if len(data) > _HEAD or (newline and not first.fullmatch(line.removesuffix(b"\r"))):
            raise _NotHttpError
        if not (more := source.recv(_PIECE)):
            if data:
                raise _NotHttpError
            return None
        data += more
    line, *lines = data[:end].split(b"\r\n")
    matches = [_HEADER.fullmatch(line) for line in lines]
    rows = tuple((row[1], row[2].strip()) for row in matches if row is not None)
    if not first.fullmatch(line) or None in matches or sum(name.lower() == b"host" for name, _ in rows) > 1:
        raise _NotHttpError
    return _Head(line, rows, data[end + 4 :])


def _answered(theirs: socket.socket, ours: socket.socket) -> None:
    """Hand on the answer of a task to one request, or the WebSocket that it becomes."""
    try:
        head = _head_of(theirs, _ANSWER)
        while head is not None and _status(head) in range(100, 200) and _status(head) != _SWITCHED:
            ours.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" if _status(head) == _CONTINUE else b"")
            head = _head_of(theirs, _ANSWER, head.rest)
        if head is None:
            raise _NotHttpError
        ours.sendall(head.for_other_side(websocket=_status(head) == _SWITCHED))
    except (_NotHttpError, OSError):  # if our side closed the connection, the reply is lost
        _say(ours, _Reply(502, text("nothing answers on this port of the task: try again later")))
        _end(theirs, ours)
    _copy(theirs, ours)


def _status(head: _Head) -> int:
    return int(head.first.split(b" ")[1])


def _say(ours: socket.socket, reply: _Reply) -> None:
    body = f"{reply.message}\n".encode() if reply.message else b""
    rows = [
        f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Connection: close",
        *reply.headers,
        "",
        "",
    ]
    with contextlib.suppress(OSError):
        ours.sendall("\r\n".join(rows).encode("latin-1") + body)
        ours.shutdown(socket.SHUT_WR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Hand on until `source` ends; then nothing more is sent to `target`, nor read from where it came."""
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            target.sendall(data)
    _end(source, target)


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
