"""The server as a process: all its routes, where it listens, its certificate, its threads, its log."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path

import uvicorn

from paictl.cluster.interface import Cluster
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.server import openapi
from paictl.server.api import defrag, info, jobs, maintenance, oidc, tokens, usage, users, vcs
from paictl.server.app import Extension, ServerApp
from paictl.server.credentials import Network
from paictl.server.federation import Federation
from paictl.server.portal import pages
from paictl.server.portal.home import warm
from paictl.server.portal.usage import UsageHistory
from paictl.server.routing import Route, Router
from paictl.server.signing import SignIns
from paictl.server.workers import Workers
from paictl.serving.connections import serving


@frozen
class ServerSettings:
    """How to serve; `proxies` are the addresses or networks whose X-Forwarded-… headers count."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[Network, ...] = ()
    oidc_secret: str = field(default="", repr=False)
    """Of this server as a client of the OpenID provider; empty for a public client."""


def networks_of(words: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks (``10.0.0.0/8``); raises `PaictlError` for what is neither."""
    found = []
    for word in words:
        try:
            found.append(ipaddress.ip_network(word, strict=False))
        except ValueError:
            raise PaictlError(
                text("{word!r} is neither an address nor a network", word=word),
                hint="--behind-proxy 10.0.0.7 or 10.0.0.0/8",
            ) from None
    return tuple(found)


def check(settings: ServerSettings) -> None:
    """Raise `PaictlError` for settings by which passwords would cross a network in clear."""
    if (settings.certificate is None) != (settings.key is None):
        raise PaictlError("--tls-cert and --tls-key belong together")
    for path in (settings.certificate, settings.key):
        if path is not None and not path.is_file():
            raise PaictlError("no such file", where=str(path))
    if settings.certificate is None and not settings.proxies and not _on_this_machine(settings.host):
        raise PaictlError(
            text(
                "{host} can be reached from other machines, and passwords would be sent in clear text",
                host=settings.host,
            ),
            hint="give a certificate (--tls-cert, --tls-key), or name the proxy that has one (--behind-proxy ADDRESS)",
        )


def _on_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def application(
    connect: Callable[[], Cluster], stamp: Callable[[], object] = lambda: None, proxies: tuple[Network, ...] = (),
    *, encrypted: bool = False, extension: Extension | None = None, oidc_secret: str = "",
) -> tuple[ServerApp, Workers]:  # fmt: skip
    """The application over a cluster, and its threads, which the caller closes."""
    workers, history, federation = Workers(connect, stamp), UsageHistory(), Federation(oidc_secret)
    workers.warm(lambda cluster: warm(cluster, history))
    table = Router((*(extension.routes if extension else ()), *routes(history, federation)))
    app = ServerApp(workers, table, proxies, hsts=encrypted, extension=extension, federation=federation)
    return app, workers


def serve(
    settings: ServerSettings, connect: Callable[[], Cluster], stamp: Callable[[], object] = lambda: None,
    ready: Callable[[str], object] = lambda _: None, extension: Extension | None = None,
) -> None:  # fmt: skip
    """Answer until a signal ends the process; `ready` is told the address. Raises `PaictlError` if it cannot begin."""
    check(settings)
    app, workers = application(
        connect, stamp, settings.proxies, encrypted=settings.certificate is not None, extension=extension,
        oidc_secret=settings.oidc_secret,
    )  # fmt: skip
    server = _Server(_http(settings, app), ready)
    try:
        server.run()
    except SystemExit:
        raise _cannot_listen(settings) from None
    finally:
        workers.close()
    if not server.started:
        raise _cannot_listen(settings)


@contextlib.contextmanager
def in_background(
    connect: Callable[[], Cluster], stamp: Callable[[], object] = lambda: None, extension: Extension | None = None
) -> Iterator[str]:
    """Answer this machine in a thread, on a port that the system chooses, for as long as the block lasts; its address.

    Raises `PaictlError` if it cannot listen.
    """
    settings, ready, where = ServerSettings("127.0.0.1", 0), threading.Event(), list[str]()
    app, workers = application(connect, stamp, extension=extension)

    def tell(address: str) -> None:
        where.append(address)
        ready.set()

    server = _Server(_http(settings, app), tell)
    thread = threading.Thread(target=server.run, name="paictl-serve")
    thread.start()
    try:
        while not ready.wait(0.1):
            if not thread.is_alive():
                raise _cannot_listen(settings)
        yield where[0]
    finally:
        server.should_exit = True
        thread.join()
        workers.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it answers, and where: a port of 0 is chosen by the system."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], object]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started and self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")


def _cannot_listen(settings: ServerSettings) -> PaictlError:
    return PaictlError(
        text("cannot listen on {host}:{port}", host=settings.host, port=settings.port),
        hint="choose another with --listen HOST:PORT",
    )


def _http(settings: ServerSettings, app: ServerApp) -> uvicorn.Config:
    """How HTTP is spoken. Raises `PaictlError` if the certificate or its key cannot be used."""
    try:
        return serving(app, settings.host, settings.port, settings.certificate, settings.key)
    except OSError as error:  # ssl's own error is one
        raise PaictlError(
            text("the certificate or its key cannot be used: {reason}", reason=error.strerror or error),
            where=f"{settings.certificate}, {settings.key}", hint="both have to be PEM and belong together",
        ) from None  # fmt: skip


def log_to_stderr(level: int) -> None:
    """Say on stderr what is answered; without it the program is silent."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("paictl.server")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level)


def routes(history: UsageHistory | None = None, federation: Federation | None = None) -> tuple[Route, ...]:
    """API and portal; a path without variables goes before one with them.

    `history` is what the home page remembers, `federation` the OpenID provider.
    """
    sign_ins, federation = SignIns(), federation or Federation()
    api = (
        *info.ROUTES,
        *tokens.routes(sign_ins),
        *oidc.routes(federation),
        *users.routes(sign_ins),
        *vcs.ROUTES,
        *usage.ROUTES,
        *maintenance.ROUTES,
        *defrag.ROUTES,
        *jobs.ROUTES,
    )
    return (*api, openapi.route_of(api), *pages.routes(sign_ins, history or UsageHistory(), federation))
