"""The way of a request: who sends it, what is asked, may they, and then a handler in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paictl import i18n
from paictl.cluster.interface import Cluster, UnreachableError
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.users.tokens import Caller, caller_of
from paictl.remote.oidc.tokens import looks_like_token
from paictl.server import credentials
from paictl.server.api.tokens import refused
from paictl.server.calls import Answer, ApiError, Call, NavigationEntry, answer_to, error_data, form_of, redirect
from paictl.server.credentials import Credential, Network, Sender
from paictl.server.federation import Federation
from paictl.server.portal.rendering import error_page, page_headers, sign_in_address
from paictl.server.routing import Access, Route, Router, authorise
from paictl.server.workers import Workers, busy
from paictl.serving.bodies import Bodies, HttpError
from paictl.serving.connections import subscriber, vouch

SLOW: Final = 8
"""Sign-ins that may be under way or wait at once: each costs a fifth of a second of a processor."""

_ACCESS = logging.getLogger("paictl.server.access")
_ERRORS = logging.getLogger("paictl.server")

_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(slots=True)
class _Asked:
    """What is known of a request so far, for the log and for an answer that is an error."""

    request: Request
    sender: Sender
    language: str = "en"
    theme: str = ""
    route: Route | None = None
    path: dict[str, str] = field(default_factory=dict)
    user: str = ""

    @property
    def session(self) -> str:
        """The token of the browser's cookie; empty if there is none."""
        cookies = credentials.cookies_of(self.request.headers.get("cookie", ""))
        return cookies.get(credentials.cookie_name(secure=self.sender.secure), "")

    @property
    def subscriber(self) -> str:
        """Together with which other requests it counts while it waits."""
        return subscriber(self.sender.address)

    @property
    def as_page(self) -> bool:
        """Whether a person looks at the answer."""
        if self.route is not None:
            return self.route.page and self.request.headers.get("accept", "") != "application/json"
        return "text/html" in self.request.headers.get("accept", "")


@frozen
class AnsweredRequest:
    """A request of a signed-in user, and its result; `path` is the route, its variables filled in."""

    user: str
    method: str
    path: str
    status: int


@frozen
class Extension:
    """What extends a server: more `routes`, `pages` in the navigation, and a listener that gets each request.

    At most `sign_ins` are under way or wait at once.
    """

    routes: tuple[Route, ...] = ()
    pages: tuple[NavigationEntry, ...] = ()
    answered: Callable[[AnsweredRequest], object] | None = None
    sign_ins: int = SLOW


class ServerApp:
    """The ASGI application; `trusted` are the proxies whose word about the sender counts."""

    def __init__(
        self,
        workers: Workers,
        router: Router,
        trusted: Sequence[Network] = (),
        *,
        hsts: bool = False,
        extension: Extension | None = None,
        federation: Federation | None = None,
    ) -> None:
        self._workers = workers
        self._router = router
        self._trusted = tuple(trusted)
        self._hsts = hsts
        self._extension = extension or Extension()
        self._federation = federation or Federation()
        self._slow = 0
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        began = time.perf_counter()
        asked = self._asked(Request(scope, receive))
        try:
            answer = await self._answer(asked)
        except ClientDisconnect:
            return
        except ApiError as error:
            answer = await self._refused(asked, error)
        except PaictlError as error:
            answer = await self._refused(asked, answer_to(error))
        except Exception:
            _ERRORS.error("internal error, a bug of paictl: %s", traceback.format_exc())
            answer = self._refusal(
                asked, ApiError(500, "UnknownError", text("internal error: this is a bug in paictl"))
            )
        self._note(asked, answer, time.perf_counter() - began)
        await self._sent(answer, asked)(scope, receive, send)

    def _asked(self, request: Request) -> _Asked:
        client = request.client.host if request.client else ""
        sender = credentials.sender_of(client, request.url.scheme, request.headers, self._trusted)
        cookies = credentials.cookies_of(request.headers.get("cookie", ""))
        wanted = cookies.get(credentials.LANGUAGE_COOKIE) or request.headers.get("accept-language", "")
        theme = cookies.get(credentials.THEME_COOKIE, "")
        return _Asked(request, sender, i18n.known(wanted) or "en", theme if theme in ("light", "dark") else "")

    async def _answer(self, asked: _Asked) -> Answer:
        request, sender = asked.request, asked.sender
        raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        route, asked.path = self._router.find(request.method, raw)
        asked.route = route
        cookies = credentials.cookies_of(request.headers.get("cookie", ""))
        shown = credentials.shown_by(request.headers.getlist("authorization"), cookies, secure=sender.secure)
        if route.changes and (route.page or shown.session):
            credentials.check_origin(request.headers, sender)
        query = form_of(request.scope.get("query_string", b""))

        def handled(cluster: Cluster) -> Answer:
            return self._handled(cluster, asked, route, shown, query, body)

        # a stranger's large body is not read, and a stranger gets no turn
        if route.who is not Access.ANYBODY and (route.reads_body or route.slow):
            await self._workers.ask(lambda cluster: self._allowed(cluster, asked, route, shown), asked.subscriber)
        body = await self._body(request, route) if route.reads_body else b""
        if not route.slow:
            return await self._while_connected(request, self._workers.ask(handled, asked.subscriber))
        if line := asked.user or route.line:
            return await self._while_connected(request, self._workers.in_turn(line, handled))
        if self._slow >= self._extension.sign_ins:
            raise busy()
        self._slow += 1
        try:
            return await self._while_connected(request, self._workers.ask(handled, asked.subscriber))
        finally:
            self._slow -= 1

    async def _while_connected(self, request: Request, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer to a request, dropped from the queue when the client goes.

        A request that a thread has begun is finished: what it may cost is bounded by the size of its body and by
        `workload.template.MOST_EXPANDED`, and a submission must not stop half way. Raises `ClientDisconnect`.
        """
        answer = asyncio.ensure_future(asking)
        departure = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait((answer, departure), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ClientDisconnect
            return await answer
        finally:
            answer.cancel()
            departure.cancel()
            await asyncio.wait((answer, departure))

    def _handled(
        self, cluster: Cluster, asked: _Asked, route: Route, shown: Credential, query: Mapping[str, str], body: bytes
    ) -> Answer:
        """In a thread: who it is, whether they may, and the answer."""
        caller = self._allowed(cluster, asked, route, shown)
        request = asked.request
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if caller is not None and shown.session and route.changes:
            given = request.headers.get(credentials.CSRF_HEADER) or ""
            if not given and media == "application/x-www-form-urlencoded":
                given = form_of(body).get(credentials.CSRF_FIELD, "")
            credentials.check_csrf(shown.token, given)
        session = shown.token if shown.session and caller is not None else ""
        call = Call(
            cluster,
            caller,
            asked.path,
            query,
            body,
            media,
            asked.sender.address,
            asked.sender.secure,
            asked.language,
            asked.theme,
            session,
            asked.sender.host,
            credentials.cookies_of(request.headers.get("cookie", "")),
            self._extension.pages,
        )
        return route.handle(call)

    def _allowed(self, cluster: Cluster, asked: _Asked, route: Route, shown: Credential) -> Caller | None:
        """Who asks, who may: the one call of `authorise`. Raises `ApiError`."""
        caller = self._caller(cluster, asked, shown) if shown.token else None
        asked.user = caller.name if caller else ""
        if caller is not None:
            vouch(asked.request.scope)
        if caller is None and shown.token and not shown.session and route.who is not Access.ANYBODY:
            raise ApiError(401, "UnauthorizedUserError", text("this token is invalid or has expired: sign in again"))
        authorise(route, caller, asked.path)
        return caller

    def _caller(self, cluster: Cluster, asked: _Asked, shown: Credential) -> Caller | None:
        """Who shows a token: one of ours, or (never by a cookie) one of the OpenID provider."""
        if shown.session or not looks_like_token(shown.token):
            return caller_of(cluster.users, shown.token)
        try:
            return self._federation.caller(cluster, shown.token)
        except UnreachableError:
            raise
        except PaictlError as error:
            raise refused(error, asked.language) from None

    async def _body(self, request: Request, route: Route) -> bytes:
        try:
            return await self._bodies.read(request.scope, request.receive, route.size)
        except HttpError as error:
            raise ApiError(error.status, "InvalidParametersError", error.message) from None

    async def _refused(self, asked: _Asked, error: ApiError) -> Answer:
        """The answer to a request that is refused; a page has the navigation of the signed-in user."""
        token = asked.session
        if not asked.as_page or error.status in (401, 503) or not token:
            return self._refusal(asked, error)
        caller = None
        with contextlib.suppress(ApiError, PaictlError):
            caller = await self._workers.ask(lambda cluster: caller_of(cluster.users, token), asked.subscriber)
        return self._refusal(asked, error, caller)

    def _refusal(self, asked: _Asked, error: ApiError, caller: Caller | None = None) -> Answer:
        if not asked.as_page:
            return Answer(orjson.dumps(error_data(error, asked.language)), error.status, headers=error.headers)
        if error.status == 401:
            return redirect(sign_in_address(asked.request.scope["path"] if asked.request.method == "GET" else ""))
        return error_page(error, asked.language, asked.theme, caller, asked.session if caller else "")

    def _note(self, asked: _Asked, answer: Answer, seconds: float) -> None:
        """A line of the log for each request; the extension gets those whose sender is known."""
        method, path = asked.route.method if asked.route else "-", _path(asked)
        if self._extension.answered is not None and asked.user:
            self._extension.answered(AnsweredRequest(asked.user, method, path, answer.status))
        _ACCESS.info(
            "%s %s %s %s %d %.1f ms",
            asked.sender.address or "-",
            asked.user or "-",
            method,
            path,
            answer.status,
            seconds * 1000,
        )

    def _sent(self, answer: Answer, asked: _Asked) -> Response:
        headers = {**_HEADERS, **(page_headers() if answer.media == "text/html" else {}), **answer.headers}
        if self._hsts:
            headers["Strict-Transport-Security"] = "max-age=31536000"
        if answer.status in (408, 413):
            headers["Connection"] = "close"  # the rest of the body is not worth reading
        media = f"{answer.media}; charset=utf-8" if answer.media.startswith("text/") else answer.media
        body = b"" if asked.request.method == "HEAD" else answer.body
        response = Response(body, answer.status, headers, media)
        for cookie in answer.cookies:
            response.headers.append("Set-Cookie", cookie)
        return response


async def _left(request: Request) -> None:
    """Wait until the client has gone; a body that nobody asked for is not kept."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _path(asked: _Asked) -> str:
    """The route and not the address as it came, which may hold a token or anything else."""
    if asked.route is None:
        return "-"
    path = asked.route.path
    for name, value in asked.path.items():
        path = path if name == "token" else path.replace(f"{{{name}}}", value)
    return path
