"""The server as a process: all its routes, where it listens, its certificate, its threads, its log."""

from __future__ import annotations

import asyncio
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
from paictl.server.api import cluster, info, jobs, templates, tokens, usage, users
from paictl.server.app import Extension, ServerApp
from paictl.server.credentials import Network
from paictl.server.federation import Federation
from paictl.server.portal import pages
from paictl.server.portal.home import warm
from paictl.server.portal.usage import UsageHistory
from paictl.server.routing import Route, Router
from paictl.server.signing import SignIns
from paictl.server.tasks.access import TaskSite, site_of
from paictl.server.tasks.proxy import TaskProxy
from paictl.server.workers import Workers
from paictl.serving.connections import serving
from paictl.serving.ending import cannot_listen, refusals, refuse_unserved


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
    tasks: TaskSite | None = None
    """Where what tasks serve is shown; None: nowhere."""
    tasks_host: str = "127.0.0.1"
    tasks_port: int = 9187


def networks_of(words: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks (``10.0.0.0/8``); raises `PaictlError` for anything else."""
    networks = []
    for word in words:
        try:
            networks.append(ipaddress.ip_network(word, strict=False))
        except ValueError:
            raise PaictlError(
                text("{word!r} is neither an address nor a network", word=word),
                hint="--behind-proxy 10.0.0.7 or 10.0.0.0/8",
            ) from None
    return tuple(networks)


def tasks_at(address: str | None) -> TaskSite | None:
    """Where what tasks serve is shown, from ``https://*.tasks.example.org``; raises `PaictlError` for another form."""
    return None if address is None else site_of(address)


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
    if settings.tasks is not None:
        _check_tasks(settings, settings.tasks)


def _check_tasks(settings: ServerSettings, site: TaskSite) -> None:
    """Raise `PaictlError` for an address of tasks that is not encrypted as the portal is, or open to a network."""
    encrypted = settings.certificate is not None or bool(settings.proxies)
    if encrypted != (site.scheme == "https"):
        raise PaictlError(
            text("--tasks: the scheme must be {scheme}, as for the portal", scheme="https" if encrypted else "http"),
            hint=text("tasks use the certificate, or the proxy, of the portal"),
        )
    if not encrypted and not _on_this_machine(settings.tasks_host):
        raise PaictlError(
            text(
                "{host} can be reached from other machines, and passwords would be sent in clear text",
                host=settings.tasks_host,
            ),
            hint=text("--tasks-listen needs a certificate or a proxy, too"),
        )


def _on_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def application(
    connect: Callable[[], Cluster],
    stamp: Callable[[], object] = lambda: None,
    proxies: tuple[Network, ...] = (),
    *,
    encrypted: bool = False,
    extension: Extension | None = None,
    oidc_secret: str = "",
    tasks: TaskSite | None = None,
) -> tuple[ServerApp, Workers]:
    """The application over a cluster, and its threads, which the caller closes."""
    workers, history, federation = Workers(connect, stamp), UsageHistory(), Federation(oidc_secret)
    workers.warm(lambda cluster: warm(cluster, history))
    table = Router((*(extension.routes if extension else ()), *routes(history, federation, tasks)))
    app = ServerApp(workers, table, proxies, hsts=encrypted, extension=extension, federation=federation)
    return app, workers


def serve(
    settings: ServerSettings,
    connect: Callable[[], Cluster],
    stamp: Callable[[], object] = lambda: None,
    ready: Callable[[str], object] = lambda _: None,
    extension: Extension | None = None,
) -> None:
    """Answer until a signal ends the process; `ready` gets the address. Raises `PaictlError` if it cannot start."""
    check(settings)
    app, workers = application(
        connect,
        stamp,
        settings.proxies,
        encrypted=settings.certificate is not None,
        extension=extension,
        oidc_secret=settings.oidc_secret,
        tasks=settings.tasks,
    )
    server = _Server(_http(settings, app), ready, _proxy(settings, workers), settings)
    with refusals() as reasons:
        try:
            server.run()
        except SystemExit:
            pass  # it did not begin
        finally:
            workers.close()
    if server.refused is not None:
        raise PaictlError(
            text("cannot listen on {host}:{port}", host=settings.tasks_host, port=settings.tasks_port),
            hint=text("choose another with --tasks-listen HOST:PORT"),
        )
    refuse_unserved(server, "".join(reasons[:1]))


@contextlib.contextmanager
def in_background(
    connect: Callable[[], Cluster],
    stamp: Callable[[], object] = lambda: None,
    extension: Extension | None = None,
    settings: ServerSettings | None = None,
) -> Iterator[str]:
    """Answer this machine in a thread, on a port that the system chooses, for as long as the block lasts; its address.

    Raises `PaictlError` if it cannot listen.
    """
    settings, ready, where = settings or ServerSettings("127.0.0.1", 0), threading.Event(), list[str]()
    app, workers = application(connect, stamp, extension=extension, tasks=settings.tasks)

    def tell(address: str) -> None:
        where.append(address)
        ready.set()

    server = _Server(_http(settings, app), tell, _proxy(settings, workers), settings)
    thread = threading.Thread(target=server.run, name="paictl-serve")
    thread.start()
    try:
        while not ready.wait(0.1):
            if not thread.is_alive():
                raise cannot_listen(settings.host, settings.port, "")
        yield where[0]
    finally:
        server.should_exit = True
        thread.join()
        workers.close()


def _proxy(settings: ServerSettings, workers: Workers) -> TaskProxy | None:
    return None if settings.tasks is None else TaskProxy(workers, settings.tasks, settings.proxies)


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it answers, and where: a port of 0 is chosen by the system."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[str], object],
        proxy: TaskProxy | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._proxy = proxy
        self._settings = settings
        self._tasks: asyncio.Server | None = None
        self.refused: OSError | None = None
        """Why it cannot listen for what is meant for tasks."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        if self._proxy is not None and self._settings is not None:
            try:
                self._tasks = await self._proxy.start(
                    self._settings.tasks_host, self._settings.tasks_port, self.config.ssl
                )
            except OSError as error:
                self.refused, self.should_exit = error, True
                return
        await super().startup(sockets)
        if self.started and self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            self._ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hang up."""
        if self._tasks is not None and self._proxy is not None:
            self._tasks.close()
            await self._proxy.end()
        if self.started:
            await super().shutdown(sockets)


def _http(settings: ServerSettings, app: ServerApp) -> uvicorn.Config:
    """How HTTP is spoken. Raises `PaictlError` if the certificate or its key cannot be used."""
    try:
        return serving(app, settings.host, settings.port, settings.certificate, settings.key)
    except OSError as error:  # ssl's own error is one
        raise PaictlError(
            text("the certificate or its key cannot be used: {reason}", reason=error.strerror or error),
            where=f"{settings.certificate}, {settings.key}",
            hint="both have to be PEM and belong together",
        ) from None


def log_to_stderr(level: int) -> None:
    """Say on stderr what is answered; without it the program is silent."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("paictl.server")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(level)


def routes(
    history: UsageHistory | None = None, federation: Federation | None = None, tasks: TaskSite | None = None
) -> tuple[Route, ...]:
    """API and portal; a path without variables goes before one with them.

    `history` is what the home page remembers, `federation` the OpenID provider, `tasks` where tasks are shown.
    """
    sign_ins, federation = SignIns(), federation or Federation()
    api = (
        *info.ROUTES,
        *tokens.routes(sign_ins),
        *tokens.provider_routes(federation),
        *users.routes(sign_ins),
        *cluster.ROUTES,
        *usage.ROUTES,
        *jobs.ROUTES,
        *templates.ROUTES,
    )
    return (*api, openapi.route_of(api), *pages.routes(sign_ins, history or UsageHistory(), federation, tasks))
