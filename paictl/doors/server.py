"""What every door answers over HTTP, and how often a caller may ask: HiveD's inspect API, health, metrics,
explanations, the page.

Answers that walk the whole cluster are made in threads, one after the other, since who looks must not keep scheduling
waiting. A caller's mistake only leads to an error response.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from paictl import i18n
from paictl.cluster.page import page
from paictl.cluster.picture import picture_data
from paictl.doors import views
from paictl.doors.callers import Guard
from paictl.doors.core import DoorCore, NotServingError
from paictl.doors.metrics import FORMAT, DoorMetrics
from paictl.doors.term import LeaderTerm
from paictl.i18n import translated
from paictl.serving.bodies import HttpError

T = TypeVar("T")

SHARE: Final = 0.05
"""Of the time that looks which keep the lock may take."""
QUEUE: Final = 32
"""Who may wait for a turn; more are sent away."""
PATIENCE: Final = 5.0
"""Seconds that a turn may be away; who would wait for longer is sent away."""


class BusyError(Exception):
    """Too many look at the same time; `seconds` later there may be room."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"too many requests of this kind: ask again in {self.seconds} s")


class Throttle:
    """Turns in one thread of their own, so that bindings never wait for a free one. Used from one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._pool = ThreadPoolExecutor(1, "look")
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._rare_waiting = 0
        self._rare_at = 0.0
        """When the next look that keeps the lock may begin."""
        self._pause = 0.0
        """Between the last of these and the next."""

    async def run(self, work: Callable[[], T], *, rare: bool = False) -> T:
        """What `work` returns or raises; `rare`: it keeps the lock. Raises `BusyError` if its turn is too far away."""
        away = self._rare_at - self.clock() + self._rare_waiting * self._pause if rare else 0.0
        if self._waiting >= QUEUE or away > PATIENCE:
            raise BusyError(away)
        self._waiting += 1
        try:
            return await (self._rare(work) if rare else self._run(work))
        finally:
            self._waiting -= 1

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def _rare(self, work: Callable[[], T]) -> T:
        """One at a time, and after each a pause that its cost decides."""

        def timed() -> T:
            began = self.clock()
            try:
                return work()
            finally:
                now = self.clock()
                self._pause = (now - began) * (1 / SHARE - 1)
                self._rare_at = now + self._pause

        self._rare_waiting += 1
        try:
            async with self._turn:
                await asyncio.sleep(max(0.0, self._rare_at - self.clock()))
                return await self._run(timed)
        finally:
            self._rare_waiting -= 1


RELOAD: Final = 5
"""Seconds after which a browser reloads the page."""
_PREFIX: Final = "hivedscheduler: User Error: "
"""HiveD's, so that its users' scripts recognise it."""


@dataclass(slots=True)
class Api:
    """Everything that can be read over HTTP. `term` returns the term that answers now, or why there is none."""

    term: Callable[[], LeaderTerm | str]
    metrics: DoorMetrics
    cluster: str = "kubernetes"
    unfit: Callable[[], str] = lambda: ""
    """Why this process neither answers nor could take over."""
    guard: Guard | None = None
    """Who may ask what; None: anyone anything, as with HiveD."""
    warnings: Callable[[], Sequence[str]] = tuple
    """Problems that do not keep it from answering."""
    verbs: Mapping[str, str] = field(default_factory=dict)
    """Paths that are POSTed to, and what they do."""
    door: str = ""
    """The component name that pods' events have."""
    _views: views.ViewCache = field(default_factory=views.ViewCache)
    _throttle: Throttle = field(default_factory=Throttle)

    def app(self) -> ASGIApp:
        """The ASGI application."""
        return Starlette(routes=[Route("/{path:path}", self._any, methods=["GET", "HEAD"])])

    async def _any(self, request: Request) -> Response:
        return await self.respond(lambda: self._routed(request), _language(request))

    async def respond(self, answer: Callable[[], Awaitable[Response]], language: str = "en") -> Response:
        """A response, or the error as a response; HiveD's own messages stay English, since scripts match them."""
        try:
            return await answer()
        except HttpError as error:
            return _json(f"{_PREFIX}{error.message}", error.status)
        except views.UnknownError as error:
            return _json(f"{_PREFIX}{translated(error.args[0], language)}", 400)
        except NotServingError as error:
            return _json(f"{_PREFIX}{error}", 503)
        except BusyError as error:
            busy = _json(f"{_PREFIX}{error}", 429)
            busy.headers["Retry-After"] = str(error.seconds)
            return busy
        except ClientDisconnect:
            return Response(status_code=400)

    async def _routed(self, request: Request) -> Response:
        path, method = request.url.path, "GET" if request.method == "HEAD" else request.method
        view = _VIEWS.get(path) or next((below for start, below in _BELOW if path.startswith(start)), None)
        if view is None and path not in self.verbs:
            raise HttpError(404, f"Path not found: {path}")
        if view is None or method != "GET":
            raise HttpError(400, f"NotImplemented: {method}: {path}")
        if self.guard is not None and path not in _OPEN:
            await self.guard.check_look(request.scope)
        return await view(self, request)

    def serving(self) -> LeaderTerm:
        """The term that answers. Raises `NotServingError`."""
        term = self.term()
        if isinstance(term, str):
            raise NotServingError(term)
        if problem := term.problem:
            raise NotServingError(problem)
        return term

    # --- views

    def core(self) -> DoorCore:
        """The core of the current term. Raises `NotServingError`."""
        return self.serving().core

    async def _root(self, request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return _json({"paths": views.PATHS})
        core = self.core()
        text = await self._viewed("/", core, lambda: page(views.picture(core, self.cluster)).encode())
        return HTMLResponse(text, headers={"Refresh": str(RELOAD), "Cache-Control": "no-store"})

    async def _healthz(self, _request: Request) -> Response:
        term = self.term()
        broken = "" if isinstance(term, str) else term.core.broken
        return Response(broken or "ok", 500 if broken else 200, media_type="text/plain")

    async def _readyz(self, _request: Request) -> Response:
        term = self.term()
        problem = term if isinstance(term, str) else term.problem
        text = problem or "\n".join(("ok", *self.warnings()))
        return Response(text, 503 if problem else 200, media_type="text/plain")

    async def _availablez(self, _request: Request) -> Response:
        problem = self.unfit()
        return Response(problem or "ok", 503 if problem else 200, media_type="text/plain")

    async def _metrics(self, _request: Request) -> Response:
        data = await run_in_threadpool(self.metrics.text)
        return Response(data, media_type=FORMAT)

    async def _groups(self, request: Request) -> Response:
        name = unquote(request.url.path.removeprefix(_GROUPS)).strip("/")
        return await self._cached(
            request, lambda: views.group(self.core(), name) if name else views.groups(self.core())
        )

    async def _status(self, request: Request) -> Response:
        return await self._cached(request, lambda: views.cluster_status(self.core()))

    async def _physical(self, request: Request) -> Response:
        return await self._cached(request, lambda: views.physical_cluster(self.core()))

    async def _virtual(self, request: Request) -> Response:
        name = unquote(request.url.path.removeprefix(_VIRTUAL)).strip("/")
        return await self._cached(request, lambda: views.virtual_clusters(self.core(), name))

    async def _picture(self, request: Request) -> Response:
        return await self._cached(request, lambda: picture_data(views.picture(self.core(), self.cluster)))

    async def _decisions(self, _request: Request) -> Response:
        """The record of decisions, also of a stopped core: that is when it is needed most.

        Written by `json`: losses may exceed the 64 bits that orjson can write.
        """
        term = self.term()
        if isinstance(term, str):
            raise NotServingError(term)
        data = await self._throttle.run(lambda: json.dumps(views.decisions(term.core, self.door)), rare=True)
        return Response(data, media_type="application/json")

    async def _explain(self, request: Request) -> Response:
        namespace, slash, name = unquote(request.url.path.removeprefix(_EXPLAIN)).partition("/")
        if not slash or not name:
            raise HttpError(404, f"Path not found: {request.url.path}; it is {_EXPLAIN}NAMESPACE/NAME")
        core, pod, language = self.core(), name.rstrip("/"), _language(request)

        def make() -> bytes:
            return orjson.dumps(views.explain_pod(core, namespace, pod, language))

        data = await self._viewed(f"{_EXPLAIN}{namespace}/{pod} {language}", core, make, rare=True)
        headers = {"Content-Language": language, "Vary": "Accept-Language"}
        return Response(data, media_type="application/json", headers=headers)

    async def _cached(self, request: Request, make: Callable[[], object]) -> Response:
        """A view that walks the cluster, as JSON."""
        data = await self._viewed(request.url.path, self.core(), lambda: orjson.dumps(make()))
        return Response(data, media_type="application/json")

    async def _viewed(self, key: str, core: DoorCore, make: Callable[[], bytes], *, rare: bool = False) -> bytes:
        """The bytes of a view, cached or made when its turn comes; `rare`: making it holds the lock throughout."""
        data = self._views.peek(key, core)
        if data is None:
            data = await self._throttle.run(lambda: self._views.get(key, core, make), rare=rare)
        return data


_GROUPS: Final = "/v1/inspect/affinitygroups"
_VIRTUAL: Final = "/v1/inspect/clusterstatus/virtualclusters"
_EXPLAIN: Final = "/v1/explain/pods/"
_OPEN: Final = ("/healthz", "/readyz", "/availablez")
"""For probes, which have no credentials."""
_View = Callable[[Api, Request], Awaitable[Response]]
_VIEWS: Final[dict[str, _View]] = {
    "/": Api._root,
    "/healthz": Api._healthz,
    "/readyz": Api._readyz,
    "/availablez": Api._availablez,
    "/metrics": Api._metrics,
    "/v1/picture": Api._picture,
    "/v1/inspect/decisions": Api._decisions,
    _GROUPS: Api._groups,
    _VIRTUAL: Api._virtual,
    "/v1/inspect/clusterstatus": Api._status,
    "/v1/inspect/clusterstatus/": Api._status,
    "/v1/inspect/clusterstatus/physicalcluster": Api._physical,
}
_BELOW: Final[tuple[tuple[str, _View], ...]] = (
    (f"{_GROUPS}/", Api._groups),
    (f"{_VIRTUAL}/", Api._virtual),
    (_EXPLAIN, Api._explain),
)


def _language(request: Request) -> str:
    """The caller's language, from its header; English if there is no translation into it."""
    return i18n.known(request.headers.get("accept-language")) or "en"


def _json(data: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(data), status, media_type="application/json")
