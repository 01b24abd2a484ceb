"""HTTP: kube-scheduler's three verbs, HiveD's inspect API, health, metrics, explanations and the page.

Questions of kube-scheduler are answered in the event loop: they take a millisecond and come one after the other.
What waits for the network (bind) or walks the whole cluster (looking) runs in threads. Nobody's mistake gives more
than an answer that says what is wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from paictl.cluster.page import page
from paictl.cluster.picture import picture_data
from paictl.errors import PaictlError
from paictl.extender import callers, filtering, preemption, views, wire
from paictl.extender.bodies import Bodies, HttpError
from paictl.extender.callers import Guard
from paictl.extender.connections import vouch
from paictl.extender.core import ExtenderCore, NotServingError
from paictl.extender.metrics import ExtenderMetrics
from paictl.extender.table import UnknownPodError
from paictl.extender.term import LeaderTerm
from paictl.extender.throttle import BusyError, Throttle
from paictl.extender.wire import FilterResult, WireError
from paictl.scheduler.errors import RequestError

BINDERS: Final = 8
"""Bindings at the same time that kube-scheduler waits for: more only wait for each other and for the interpreter (24
cost a fifth more processor time a pod), and 8 of 10 ms each are more than any kube-scheduler asks for."""
BACKLOG: Final = 16
"""Bindings under way beyond which questions wait: kube-scheduler asks faster than any API server binds, and gives a
binding up after its `httpTimeout`. What is under way, over the pods a second, is how long a binding takes."""
LONGEST_WAIT: Final = 1.0
"""Seconds that a question waits for bindings; an API server that is away must not stop everything."""
RELOAD: Final = 5
"""Seconds after which a browser loads the page anew."""
_PREFIX: Final = "hivedscheduler: User Error: "
"""HiveD's, so that its users' scripts recognise it."""
_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@dataclass(slots=True)
class Api:
    """Everything that can be asked over HTTP. `term` gives the term that answers now, or says why there is none."""

    term: Callable[[], LeaderTerm | str]
    metrics: ExtenderMetrics
    cluster: str = "kubernetes"
    unfit: Callable[[], str] = lambda: ""
    """Why this process neither answers nor could take over."""
    guard: Guard | None = None
    """Who may ask what; None: anyone anything, as with HiveD."""
    warnings: Callable[[], Sequence[str]] = tuple
    """What is wrong although it answers."""
    _views: views.ViewCache = field(default_factory=views.ViewCache)
    _throttle: Throttle = field(default_factory=Throttle)
    _bodies: Bodies = field(default_factory=Bodies)
    _backlog: int = 0
    """Bindings under way."""
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _binders: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(BINDERS, "bind asked"))

    def app(self) -> ASGIApp:
        """The ASGI application. The verbs, which are asked for every pod, do without the layers of a framework."""
        looks = Starlette(routes=[Route("/{path:path}", self._any, methods=_METHODS)])

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            verb = _VERBS.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
            if verb is None:
                await looks(scope, receive, send)
            else:
                response = await self._asked(lambda: self._checked_verb(verb, scope, receive))
                await response(scope, receive, send)

        return answer

    async def _any(self, request: Request) -> Response:
        return await self._asked(lambda: self._routed(request))

    async def _asked(self, answer: Callable[[], Awaitable[Response]]) -> Response:
        """An answer, or what is wrong with the question."""
        try:
            return await answer()
        except HttpError as error:
            return _json(f"{_PREFIX}{error.message}", error.status)
        except views.UnknownError as error:
            return _json(f"{_PREFIX}{error}", 400)
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
        look = _VIEWS.get(path) or next((found for start, found in _BELOW if path.startswith(start)), None)
        if look is None and path not in _VERBS:
            raise HttpError(404, f"Path not found: {path}")
        if look is None or method != "GET":
            raise HttpError(400, f"NotImplemented: {method}: {path}")
        if self.guard is not None and path not in _OPEN:
            await self.guard.check_look(request.scope)
        return await look(self, request)

    # --- kube-scheduler

    async def _checked_verb(self, verb: str, scope: Scope, receive: Receive) -> Response:
        if self.guard is not None:
            self.guard.check_verb(scope)
            vouch(scope)  # it has shown kube-scheduler's certificate
        return await self._verb(verb, scope, receive)

    async def _verb(self, verb: str, scope: Scope, receive: Receive) -> Response:
        body = await self._bodies.read(scope, receive)
        vouch(scope)  # whoever asks a whole question is most likely kube-scheduler
        if verb == "filter" and self._backlog >= BACKLOG:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), LONGEST_WAIT)
        began = time.perf_counter()
        if verb == "bind":
            data = await self._bound(body)
        else:
            ask = self._filter if verb == "filter" else self._preempt
            try:
                data = ask(body)
            except UnknownPodError as unknown:
                data = await self._again(ask, body, unknown)
        self.metrics.seconds.labels(verb).observe(time.perf_counter() - began)
        return Response(data, media_type="application/json")

    def _serving(self) -> LeaderTerm:
        """The term that answers. Raises `NotServingError`."""
        term = self.term()
        if isinstance(term, str):
            raise NotServingError(term)
        if problem := term.problem:
            raise NotServingError(problem)
        return term

    async def _again(self, ask: Callable[[bytes], bytes], body: bytes, unknown: UnknownPodError) -> bytes:
        """Ask again about a pod once the API server has told of it as the caller does; else say that it has not."""
        problem = ""
        try:
            term = self._serving()
            await callers.learn(term.binder.client, term.core, unknown.pod)
            return ask(body)
        except UnknownPodError as still:
            problem = str(still)
        except (PaictlError, NotServingError) as error:
            problem = f"{unknown}; {error}"
        self.metrics.errors["filter" if ask == self._filter else "preempt"] += 1
        if ask == self._filter:
            return wire.write_filter(FilterResult(error=problem))
        raise HttpError(409, problem)

    def _filter(self, body: bytes) -> bytes:
        try:
            args = wire.read_filter(body)
            return wire.write_filter(filtering.filter_nodes(self._serving().core, args), args)
        except UnknownPodError:
            raise
        except (WireError, NotServingError) as error:
            self.metrics.errors["filter"] += 1
            return wire.write_filter(FilterResult(error=str(error)))
        except Exception as error:
            self.metrics.errors["filter"] += 1
            return wire.write_filter(FilterResult(error=_bug(error)))

    async def _bound(self, body: bytes) -> bytes:
        """Bind in a thread, and have questions wait while too many do."""
        self._backlog += 1
        if self._backlog >= BACKLOG:
            self._room.clear()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._binders, self._bind, body)
        finally:
            self._backlog -= 1
            if self._backlog < BACKLOG:
                self._room.set()

    def _bind(self, body: bytes) -> bytes:
        try:
            args = wire.read_bind(body)
            said = self._serving().binder.bind(args)
        except (WireError, NotServingError) as error:
            said = str(error)
        except PaictlError as error:
            said = error.message
        except Exception as error:
            said = _bug(error)
        if said:
            self.metrics.errors["bind"] += 1
        return wire.write_bind(said)

    def _preempt(self, body: bytes) -> bytes:
        try:
            args = wire.read_preempt(body)
            return wire.write_preempt(preemption.candidates(self._serving().core, args))
        except UnknownPodError:
            raise
        except (WireError, RequestError) as error:
            self.metrics.errors["preempt"] += 1
            raise HttpError(400, str(error)) from None
        except NotServingError:
            self.metrics.errors["preempt"] += 1
            raise
        except Exception as error:
            self.metrics.errors["preempt"] += 1
            raise HttpError(500, _bug(error)) from error

    # --- looking

    def core(self) -> ExtenderCore:
        """The core of whoever leads. Raises `NotServingError`."""
        return self._serving().core

    async def _root(self, request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return _json({"paths": views.PATHS})
        core = self.core()
        text = await self._looked("/", core, lambda: page(views.picture(core, self.cluster)).encode())
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
        return Response(data, media_type="text/plain; version=0.0.4; charset=utf-8")

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

    async def _explain(self, request: Request) -> Response:
        namespace, found, name = unquote(request.url.path.removeprefix(_EXPLAIN)).partition("/")
        if not found or not name:
            raise HttpError(404, f"Path not found: {request.url.path}; it is {_EXPLAIN}NAMESPACE/NAME")
        core, pod = self.core(), name.rstrip("/")

        def make() -> bytes:
            return orjson.dumps(views.explain_pod(core, namespace, pod))

        data = await self._looked(f"{_EXPLAIN}{namespace}/{pod}", core, make, rare=True)
        return Response(data, media_type="application/json")

    async def _cached(self, request: Request, make: Callable[[], object]) -> Response:
        """What walks the cluster, as JSON."""
        data = await self._looked(request.url.path, self.core(), lambda: orjson.dumps(make()))
        return Response(data, media_type="application/json")

    async def _looked(self, key: str, core: ExtenderCore, make: Callable[[], bytes], *, rare: bool = False) -> bytes:
        """What is good enough from memory, else made when it is its turn; `rare`: that keeps the lock."""
        known = self._views.peek(key, core)
        if known is None:
            known = await self._throttle.run(lambda: self._views.get(key, core, make), rare=rare)
        return known


_GROUPS: Final = "/v1/inspect/affinitygroups"
_VIRTUAL: Final = "/v1/inspect/clusterstatus/virtualclusters"
_EXPLAIN: Final = "/v1/explain/pods/"
_OPEN: Final = ("/healthz", "/readyz", "/availablez")
"""For probes, which have no credentials."""
_VERBS: Final = {f"/v1/extender/{verb}": verb for verb in ("filter", "bind", "preempt")}
_View = Callable[[Api, Request], Awaitable[Response]]
_VIEWS: Final[dict[str, _View]] = {
    "/": Api._root,
    "/healthz": Api._healthz,
    "/readyz": Api._readyz,
    "/availablez": Api._availablez,
    "/metrics": Api._metrics,
    "/v1/picture": Api._picture,
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


def _json(data: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(data), status, media_type="application/json")


def _bug(error: Exception) -> str:
    return f"internal error, a bug of paictl: {type(error).__name__}: {error}"
