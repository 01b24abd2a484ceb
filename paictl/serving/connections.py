"""Connections that do not finish what they send: they end after a while, and give way to those who ask.

uvicorn gives a connection that never sends a whole head or body all the time in the world, and counts it: so many of
them would leave no room for kube-scheduler, or for users who are signed in.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import ipaddress
import itertools
import ssl
from collections import Counter
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paictl.serving import bodies

CONNECTIONS: Final = 512
"""Kept at the same time; more are turned away."""
ROOM: Final = 32
"""Of these kept free for new ones, as long as there are others that send nothing or no end."""
BATCH: Final = 8
"""That go at a time."""
PER_ADDRESS: Final = CONNECTIONS // 2
"""Unfinished requests of strangers from one address; the oldest of them goes."""
HEAD: Final = 64 << 10
"""Bytes of the head of a request."""
PIPELINED: Final = 8
"""Requests that may wait on a connection until those before them are answered: no browser or kube-scheduler has any."""
STALLED: Final = 60.0
"""Seconds in which a client has to take more of an answer that is too long for the buffers between."""
PIECE: Final = 64 << 10
"""Bytes of an answer that are written at once: a client is as slow as with the longest piece, not as with the whole."""
FILES: Final = 1 << 16
"""Open files that are enough; where their number is not limited, as on macOS, there is none that could be set."""
KEEP_ALIVE: Final = 100
"""Seconds that an idle connection stays open: Go's client drops its own after 90."""


CLIENT: Final = "paictl.client-certificate"
"""Extension of a request's scope: the caller has shown a certificate of the authority that is asked for."""

_TURNS = itertools.count()
_KNOWN: Final = "paictl.known"


def vouch(scope: MutableMapping[str, Any]) -> None:
    """Say that the sender of a request is known: signed in, or kube-scheduler. Strangers give way before it does."""
    scope[_KNOWN] = True


def address_of(written: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IP address; IPv4 as itself, where a socket for both protocols writes it as ``::ffff:1.2.3.4``.

    Raises `ValueError`.
    """
    address = ipaddress.ip_address(written)
    return (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped) or address


def subscriber(address: str) -> str:
    """What one sender can have of addresses: of IPv6 the first 64 bits, because each machine may use all below them."""
    if ":" not in address:
        return address
    try:
        ip = address_of(address.partition("%")[0])
    except ValueError:
        return address
    return str(ip) if ip.version == 4 else str(ipaddress.IPv6Network((ip, 64), strict=False))


class _PipelineError(Exception):
    """A connection with too many requests at once; the parser reads no further."""


class PatientProtocol(HttpToolsProtocol):
    """HTTP of uvicorn, with an end to waiting for the rest of a request, and room for those who finish theirs."""

    _head_due: asyncio.TimerHandle | None = None
    _body_due: asyncio.TimerHandle | None = None
    _taken_due: asyncio.TimerHandle | None = None
    _head = 0
    _turn = 0
    """When it fell silent or began to send, among all others: a clock would have ties."""

    def connection_made(self, transport: Any) -> None:
        """A new connection; one that is worth less ends if there are too many."""
        super().connection_made(transport)
        self._await_head()
        self._make_room()

    def _make_room(self) -> None:
        """End connections that wait for their sender, if there are too many at all or from this address.

        Strangers go first, of them those of the address with most, of these the ones that have been at it for longest.
        Several go at a time, so that the search for them costs each new connection little.
        """
        if len(self.connections) < min(PER_ADDRESS, CONNECTIONS - ROOM):
            return
        waiting = [
            connection
            for connection in self.connections
            if isinstance(connection, PatientProtocol) and connection.is_waiting
        ]
        waiting = [other for other in waiting if other is not self and not other.is_closing]
        strangers = [other for other in waiting if other.host == self.host and not other.is_known]
        if len(strangers) >= PER_ADDRESS:
            chosen = heapq.nsmallest(BATCH, strangers, key=lambda other: other._turn)
        elif len(self.connections) > CONNECTIONS - ROOM:
            numbers = Counter(other.host for other in waiting)
            chosen = heapq.nsmallest(
                BATCH, waiting, key=lambda other: (other.is_known, -numbers[other.host], other._turn)
            )
        else:
            return
        for other in chosen:
            other.give_up()

    @property
    def host(self) -> str:
        """The sender at the other end, which may be a proxy."""
        return subscriber(self.client[0]) if self.client else ""

    @property
    def is_closing(self) -> bool:
        """Whether it has been given up already."""
        return bool(self.transport.is_closing())

    @property
    def is_waiting(self) -> bool:
        """Whether it is the sender's turn: no request, one that is not there whole, or an answer that is not taken.

        There is no cycle at first.
        """
        cycle = cast("Any", self).cycle
        if cycle is None or cycle.response_complete or self.flow.write_paused:
            return True
        return bool(cycle.more_body and not self.flow.read_paused)

    @property
    def is_known(self) -> bool:
        """Whether somebody has vouched for the sender of the newest request."""
        return bool(self._more_of_scope().get(_KNOWN))

    def _more_of_scope(self) -> MutableMapping[str, Any]:
        """The scope of the newest request, in which we keep more than ASGI has; empty before the first."""
        scope: MutableMapping[str, Any] | None = cast("Any", self).scope
        return {} if scope is None else scope

    def give_up(self) -> None:
        """End the connection at once: a sender that reads nothing could keep a polite end waiting.

        It no longer counts: the loop reports its end later, and until then each new connection would search all
        again.
        """
        if not self.is_closing:
            self.connections.discard(self)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._heard_head()
        self._heard_body()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes nothing, and the buffers are full."""
        super().pause_writing()
        self._turn = next(_TURNS)
        if self._taken_due is None:
            self._taken_due = self.loop.call_later(STALLED, self.give_up)

    def resume_writing(self) -> None:
        """The client has taken something."""
        self._taken()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; a head without end is none."""
        self._head = self._head + len(data) if self._head_due is not None else 0
        super().data_received(data)
        if self._head_due is not None and self._head > HEAD:
            self.give_up()

    def on_message_begin(self) -> None:
        """The first byte of a request: the rest of its head has to come soon."""
        is_known = self.is_known
        super().on_message_begin()
        if is_known:  # or kube-scheduler's own connection would be a stranger's until each next body is there whole
            vouch(self._more_of_scope())
        if self.transport.get_extra_info("peercert"):  # verified in the handshake, or there would be none
            self.scope["extensions"] = {CLIENT: {}}
        self._more_of_scope()[bodies.BEGAN] = self.loop.time()
        if self._head_due is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """The head is whole; the body has to come soon, whether anybody reads it or not.

        uvicorn makes a request of each that is in the bytes it has got, 6,000 of them at once, before it stops reading:
        they would cost forty times the memory of these bytes, and seconds until anybody else is answered.
        """
        self._heard_head()
        if len(self.pipeline) >= PIPELINED:
            self.give_up()
            raise _PipelineError
        super().on_headers_complete()
        self._body_due = self.loop.call_later(2 * bodies.PATIENCE, self._miss_body)

    def on_message_complete(self) -> None:
        """The request is there whole."""
        self._heard_body()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Silent from now on."""
        self._turn = next(_TURNS)
        super().on_response_complete()

    def _await_head(self) -> None:
        self._turn = next(_TURNS)
        self._head_due = self.loop.call_later(bodies.PATIENCE, self.give_up)

    def _heard_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _taken(self) -> None:
        if self._taken_due is not None:
            self._taken_due.cancel()
            self._taken_due = None

    def _heard_body(self) -> None:
        if self._body_due is not None:
            self._body_due.cancel()
            self._body_due = None

    def _miss_body(self) -> None:
        """The time for a body is over; where it is us who did not read, the sender gets more."""
        if self.flow.read_paused:
            self._body_due = self.loop.call_later(bodies.PATIENCE, self._miss_body)
        else:
            self.give_up()


def serving(
    app: ASGIApp,
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    client_authority: Path | None = None,
) -> uvicorn.Config:
    """How HTTP is served; with an authority clients may show a certificate, which then has to be one of its own.

    The process may have as many files open as it can from now on. Raises `OSError` if a certificate or key cannot be
    used.
    """
    _allow_files()
    config = uvicorn.Config(
        _in_pieces(app),
        host=host,
        port=port,
        http=PatientProtocol,
        loop="uvloop",
        log_level="error",  # nonsense on the wire is no news
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=CONNECTIONS,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ssl_ca_certs=None if client_authority is None else str(client_authority),
        ssl_cert_reqs=ssl.CERT_NONE if client_authority is None else ssl.CERT_OPTIONAL,
    )
    config.load()
    return config


def _in_pieces(app: ASGIApp) -> ASGIApp:
    """An application whose long answers go to the client piece by piece.

    uvicorn writes what it is given at once, and hears of a client that takes it only when nearly all of it is gone: on
    a slow line a long answer would look like a client that takes nothing.
    """

    async def pieces(scope: Scope, receive: Receive, send: Send) -> None:
        async def cut(message: Message) -> None:
            body = memoryview(message.get("body", b""))
            while len(body) > PIECE:
                await send({**message, "body": bytes(body[:PIECE]), "more_body": True})
                body = body[PIECE:]
            await send({**message, "body": bytes(body)} if "body" in message else message)

        await app(scope, receive, cut)

    return pieces


def _allow_files() -> None:
    """Raise the limit of open files as far as it goes, and is of use.

    A connection counts here only once its TLS handshake is over, for which it has a minute. 1,024 files, the usual
    limit, are fewer than one address can have of such: nobody else could connect.
    """
    import resource  # only on POSIX

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(most, FILES)
    if now != resource.RLIM_INFINITY and now < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
