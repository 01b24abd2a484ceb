"""The proxy in front of tasks: HTTP and WebSocket from browsers to ports that only the API server reaches."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import h11

from paictl import i18n
from paictl.cluster.interface import Cluster
from paictl.errors import PaictlError
from paictl.i18n import in_language, text
from paictl.server import credentials
from paictl.server.calls import ApiError, answer_to, bad
from paictl.server.credentials import Network, Sender
from paictl.server.tasks import access, headers
from paictl.server.tasks.access import TaskAddress, TaskSite
from paictl.server.workers import Workers, busy
from paictl.serving.bodies import PATIENCE
from paictl.serving.connections import HEAD, KEEP_ALIVE, subscriber

T = TypeVar("T")

CONNECTIONS: Final = 256
"""Kept at the same time; for more, those give way that wait for a request."""
STRANGERS: Final = 64
"""Of these those that have not shown yet that they may reach a task; they have `PATIENCE` seconds for it."""
EACH: Final = 32
"""Of these those of one account."""
SILENT: Final = 120.0
"""Seconds in which the next piece of a request's body has to come, and a piece of an answer has to be taken."""
TRUSTED: Final = 10.0
"""Seconds for which an admitted caller is not checked again."""
RECHECK: Final = 30.0
"""Seconds after which the caller of an open WebSocket is checked again."""
_LAST: Final = {"Connection": "close"}
"""With the answer to a stranger: on one connection it could send thousands of requests at once."""
_PIECE: Final = 1 << 16
_REMEMBERED: Final = 1000
_TURNS: Final = itertools.count()

_ACCESS = logging.getLogger("paictl.server.access")


class _End:
    """One side of an exchange: bytes on a stream, and what they say in HTTP."""

    def __init__(
        self, role: type[h11.CLIENT] | type[h11.SERVER], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=HEAD)
        self.reader = reader
        self.writer = writer

    async def event(self, patience: float | None = None) -> h11.Event | type[h11.PAUSED]:
        """What comes next; raises `TimeoutError` if no byte does for `patience` seconds."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            if self.http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self.http.receive_data(await asyncio.wait_for(self.reader.read(_PIECE), patience))
        return event  # type: ignore[return-value]

    async def send(self, event: h11.Event) -> None:
        """Send an event when the other side has room for it; raises `TimeoutError` if it takes nothing for `SILENT`."""
        if data := self.http.send(event):
            self.writer.write(data)
            try:
                await asyncio.wait_for(self.writer.drain(), SILENT)
            except TimeoutError:
                self.writer.transport.abort()  # a polite end would wait for the same
                raise

    def rest(self) -> bytes:
        """What came behind the last event, once HTTP is over."""
        return self.http.trailing_data[0]

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError, RuntimeError):
            self.writer.close()


class _Visit:
    """A browser's connection, and the connection to a task that it has at present."""

    def __init__(self, browser: _End, address: str) -> None:
        self.browser = browser
        self.address = address
        """Of the sender; empty if unknown."""
        self.account = ""
        """Whose visit it is; empty until it has been let in."""
        self.waiting = True
        """Whether it is the browser's turn to ask."""
        self.turn = next(_TURNS)
        """Since when, among all."""
        self.task: _End | None = None
        self.target: TaskAddress | None = None
        self.status = 0
        """Of the newest answer."""

    @property
    def known(self) -> bool:
        """Whether it has been let in."""
        return bool(self.account)

    @property
    def whose(self) -> tuple[bool, str]:
        """Together with which others it counts: those of an account, or strangers from an address."""
        return (self.known, self.account or self.address)

    def hang_up(self) -> None:
        """End the connection to the task."""
        if self.task is not None:
            self.task.close()
        self.task = None


class TaskProxy:
    """Answers on the host names of tasks; `trusted` are the proxies whose word about the sender counts."""

    def __init__(self, workers: Workers, site: TaskSite, trusted: Sequence[Network] = ()) -> None:
        self._workers = workers
        self._site = site
        self._trusted = tuple(trusted)
        self._visits: set[_Visit] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._let_in: dict[tuple[str, str], tuple[float, tuple[str, TaskAddress]]] = {}

    async def start(self, host: str, port: int, encryption: ssl.SSLContext | None = None) -> asyncio.Server:
        """Begin to listen; raises `OSError` if that fails."""
        return await asyncio.start_server(self._visited, host, port, ssl=encryption)

    async def end(self) -> None:
        """Hang up everywhere."""
        await _ended(*self._running)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        visit = _Visit(_End(h11.SERVER, reader, writer), subscriber(str(peer[0])) if peer else "")
        if not self._make_room():
            visit.browser.close()
            return
        if (raw := writer.get_extra_info("socket")) is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._visits.add(visit)
        if (running := asyncio.current_task()) is not None:
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        try:
            while await self._exchange(visit):
                visit.browser.http.start_next_cycle()
        except (OSError, TimeoutError, h11.ProtocolError):
            pass  # it went away, or does not speak HTTP
        finally:
            self._visits.discard(visit)
            visit.hang_up()
            visit.browser.close()

    def _make_room(self) -> bool:
        """Whether there is room for one more stranger; for that, a visit ends that waits for a request.

        Strangers go first, then those of the address or account with most, of these the one that waits for longest.
        """
        strangers = [visit for visit in self._visits if not visit.known]
        if len(strangers) >= STRANGERS:
            return self._end_one_of(strangers)
        return len(self._visits) < CONNECTIONS or self._end_one_of(self._visits)

    def _end_one_of(self, visits: Iterable[_Visit]) -> bool:
        waiting = [visit for visit in visits if visit.waiting]
        numbers = Counter(visit.whose for visit in visits)
        chosen = min(waiting, key=lambda visit: (visit.known, -numbers[visit.whose], visit.turn), default=None)
        if chosen is None:
            return False
        self._visits.discard(chosen)
        chosen.browser.writer.transport.abort()  # one that reads nothing could keep a polite end waiting
        return True

    def _let(self, visit: _Visit, account: str) -> None:
        """A visit is an account's from now on; raises `ApiError` if it has too many, none of which waits."""
        others = [other for other in self._visits if other.account == account and other is not visit]
        if visit.account != account and len(others) >= EACH and not self._end_one_of(others):
            raise busy()
        visit.account = account

    async def _exchange(self, visit: _Visit) -> bool:
        """One request and its answer; whether another may follow on this connection."""
        browser = visit.browser
        visit.waiting, visit.turn = True, next(_TURNS)
        first = await asyncio.wait_for(browser.event(), KEEP_ALIVE if visit.known else PATIENCE)
        visit.waiting = False
        if not isinstance(first, h11.Request):
            return False
        request = first
        fields = headers.as_mapping(request.headers)
        peer = browser.writer.get_extra_info("peername")
        scheme = "https" if browser.writer.get_extra_info("ssl_object") else "http"
        sender = credentials.sender_of(str(peer[0]) if peer else "", scheme, fields, self._trusted)
        visit.address = subscriber(sender.address)
        began, who, visit.status = time.perf_counter(), "-", 0
        try:
            target = await self._answered(visit, request, fields, sender)
            who = f"{target.key} {target.task} port {target.port}" if target else "-"
        except ApiError as error:
            visit.status = error.status
            visit.hang_up()
            if browser.http.our_state is not h11.SEND_RESPONSE:
                return False
            language = i18n.known(fields.get("accept-language", "")) or "en"
            rows = {**error.headers, **({} if visit.known else _LAST)}
            await _say(browser, request, error.status, in_language(error.message, language), rows)
        finally:
            _ACCESS.info(
                "%s %s tasks %s %s %.1f ms",
                sender.address or "-",
                who,
                request.method.decode(),
                visit.status,
                (time.perf_counter() - began) * 1000,
            )
        await asyncio.sleep(0)  # what has come already would be answered before anybody else is
        return visit.known and browser.http.our_state is h11.DONE and browser.http.their_state is h11.DONE

    async def _answered(
        self, visit: _Visit, request: h11.Request, fields: dict[str, str], sender: Sender
    ) -> TaskAddress | None:
        """Answer a request; the port of the task that did. Raises `ApiError`, after which nothing was sent or all."""
        label = self._site.label_in(sender.host)
        if not label:
            raise ApiError(404, "NoApiError", text("no page at this address"))
        try:
            parts = urlsplit(request.target.decode("latin-1"))
        except ValueError:
            raise bad(text("no page at this address")) from None
        if parts.path == access.ENTER:
            await self._enter(visit, request, dict(parse_qsl(parts.query)).get(access.TICKET, ""), label, sender)
            return None
        cookie = credentials.cookies_of(fields.get("cookie", "")).get(access.cookie_name(secure=sender.secure), "")
        account, target = await self._entitled(cookie, label, visit.address)
        if headers.is_forged(
            request.method.decode(), fields, f"{'https' if sender.secure else 'http'}://{sender.host}"
        ):
            raise credentials.forged()
        self._let(visit, account)
        if visit.target != target or visit.task is None or visit.task.reader.at_eof():
            visit.hang_up()
            visit.task, visit.target = await self._dialled(account, target), target
        websocket = headers.is_websocket(fields)
        rows = headers.for_task(request.headers.raw_items(), "https" if sender.secure else "http", websocket=websocket)
        handed = h11.Request(method=request.method, target=request.target, headers=rows)
        await self._relayed(visit, visit.task, handed, lambda: self._still_entitled(cookie, label, visit.address))
        if visit.browser.http.our_state is h11.SWITCHED_PROTOCOL:
            await self._tunnel(visit, visit.task, cookie, label)
        return target

    async def _enter(self, visit: _Visit, request: h11.Request, ticket: str, label: str, sender: Sender) -> None:
        """The ticket of the portal becomes a cookie of this host."""
        token = await self._asked(lambda cluster: access.entered(cluster, ticket, label), visit.address)
        cookie = access.cookie(token, secure=sender.secure)
        visit.status = 303
        await _say(visit.browser, request, 303, "", {"Location": "/", "Set-Cookie": cookie, **_LAST})

    async def _asked(self, question: Callable[[Cluster], T], address: str) -> T:
        """What the cluster answers; the question counts as its sender's while it waits. Raises `ApiError`."""
        try:
            return await self._workers.ask(question, address)
        except PaictlError as error:
            raise answer_to(error) from None

    async def _entitled(self, cookie: str, label: str, address: str) -> tuple[str, TaskAddress]:
        """Whose cookie it is and the port that it opens; asked of the cluster when that was long ago.

        Raises `ApiError`.
        """
        until, known = self._let_in.get((cookie, label), (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        self._let_in.pop((cookie, label), None)
        grant = await self._asked(lambda cluster: access.entitled(cluster, cookie, label), address)
        if len(self._let_in) >= _REMEMBERED:
            self._let_in.clear()
        self._let_in[cookie, label] = (time.monotonic() + TRUSTED, grant)
        return grant

    async def _dialled(self, account: str, target: TaskAddress) -> _End:
        try:
            ours = await self._workers.dial(account, lambda cluster: cluster.dial(target.key, target.task, target.port))
        except PaictlError as error:
            raise answer_to(error) from None
        ours.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        return _End(h11.CLIENT, reader, writer)

    async def _relayed(
        self, visit: _Visit, task: _End, request: h11.Request, recheck: Callable[[], Awaitable[None]]
    ) -> None:
        """Hand on a request and its answer, each as it comes, for as long as the caller may have it.

        An answer may have no end, as one of server-sent events has none. Raises `ApiError` for a task that does not
        answer, `OSError` for a caller that may no longer.
        """
        asking = asyncio.ensure_future(_handed_on(visit.browser, task, request))
        answering = asyncio.ensure_future(_answer_of(task, visit))
        try:
            while not answering.done() and not (asking.done() and asking.exception()):
                left = [side for side in (asking, answering) if not side.done()]
                done, _ = await asyncio.wait(left, timeout=RECHECK, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    await recheck()
        except ApiError as error:
            raise ConnectionResetError from error  # its answer has begun: there is no other way to end it
        finally:
            await _ended(asking, answering)
        failed = answering.exception() if not answering.cancelled() else asking.exception()
        if isinstance(failed, h11.LocalProtocolError) or (failed and answering.cancelled()):
            raise ConnectionResetError from failed
        if failed is not None:
            raise ApiError(502, "UnavailableError", text("nothing answers on this port of the task: try again later"))
        if task.http.our_state is h11.DONE and task.http.their_state is h11.DONE:
            task.http.start_next_cycle()
        elif visit.browser.http.our_state is not h11.SWITCHED_PROTOCOL:
            visit.hang_up()

    async def _tunnel(self, visit: _Visit, task: _End, cookie: str, label: str) -> None:
        """A WebSocket: bytes in both directions, until one side ends it or it is not allowed any more."""
        sides = [asyncio.ensure_future(side) for side in (_copy(visit.browser, task), _copy(task, visit.browser))]
        try:
            while not any(side.done() for side in sides):
                await asyncio.wait(sides, timeout=RECHECK, return_when=asyncio.FIRST_COMPLETED)
                await self._still_entitled(cookie, label, visit.address)
        finally:
            await _ended(*sides)

    async def _still_entitled(self, cookie: str, label: str, address: str) -> None:
        """Raise `ApiError` if a cookie opens a task no longer; a cluster that does not answer says nothing about it."""
        try:
            await self._entitled(cookie, label, address)
        except ApiError as error:
            if error.status in (401, 403):
                raise


async def _handed_on(browser: _End, task: _End, request: h11.Request) -> None:
    """The request to the task; then notice if the browser goes away while it waits. Raises `OSError` if so."""
    with contextlib.suppress(OSError):  # a task may answer without reading all: then its answer counts
        await task.send(request)
        while isinstance(event := await browser.event(SILENT), h11.Data):
            await task.send(h11.Data(data=event.data))
        await task.send(h11.EndOfMessage())
    data = await browser.reader.read(_PIECE)
    if not data:
        raise ConnectionResetError
    browser.http.receive_data(data)  # the next request, or the first frames of a WebSocket


async def _answer_of(task: _End, visit: _Visit) -> None:
    """The answer of a task to the browser, as it comes; raises `OSError` if the task hangs up."""
    browser = visit.browser
    while True:
        event = await task.event()
        if isinstance(event, h11.InformationalResponse):
            if event.status_code == 101:
                visit.status = 101
                rows = headers.for_browser(event.headers.raw_items(), websocket=True)
                await browser.send(h11.InformationalResponse(status_code=101, headers=rows))
                return
        elif isinstance(event, h11.Response):
            visit.status = event.status_code
            rows = headers.for_browser(event.headers.raw_items())
            await browser.send(h11.Response(status_code=event.status_code, reason=event.reason, headers=rows))
        elif isinstance(event, h11.Data):
            await browser.send(h11.Data(data=event.data))
        elif isinstance(event, h11.EndOfMessage):
            await browser.send(h11.EndOfMessage())
            return
        else:
            raise ConnectionResetError


async def _say(
    browser: _End, request: h11.Request, status: int, message: str, more: dict[str, str] | None = None
) -> None:
    """An answer of our own; a body that has not come is not waited for."""
    body = f"{message}\n".encode() if message else b""
    rows = {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        **(more or {}),
    }
    if browser.http.their_state is h11.SEND_BODY and not isinstance(browser.http.next_event(), h11.EndOfMessage):
        rows["Connection"] = "close"
    await browser.send(h11.Response(status_code=status, headers=list(rows.items())))
    if request.method != b"HEAD":
        await browser.send(h11.Data(data=body))
    await browser.send(h11.EndOfMessage())


async def _ended(*tasks: asyncio.Future[None] | asyncio.Task[None]) -> None:
    """End what still runs; how it ended is the caller's to ask, and otherwise of no interest."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(source: _End, target: _End) -> None:
    data = source.rest()
    while data or (data := await source.reader.read(_PIECE)):
        target.writer.write(data)
        await target.writer.drain()
        data = b""
