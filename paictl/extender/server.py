"""HTTP as kube-scheduler speaks it: its three verbs, beside what every door answers; and the extender's process.

Questions of kube-scheduler are answered in the event loop: they take a millisecond and come one after the other. A
binding, which waits for the network, runs in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from paictl.cluster.pods.reading import asks
from paictl.doors.core import DoorCore, NotServingError
from paictl.doors.server import Api
from paictl.doors.service import DoorService
from paictl.doors.table import UnknownPodError, pod_ref
from paictl.errors import PaictlError
from paictl.extender import verbs, wire
from paictl.extender.wire import FilterResult, WireError
from paictl.remote.kube import pods
from paictl.remote.kube.client import KubeClient
from paictl.scheduler.errors import RequestError
from paictl.serving.bodies import Bodies, HttpError
from paictl.serving.connections import vouch

BINDERS: Final = 8
"""Bindings at the same time that kube-scheduler waits for: more only wait for each other and for the interpreter (24
cost a fifth more processor time a pod), and 8 of 10 ms each are more than any kube-scheduler asks for."""
BACKLOG: Final = 16
"""Bindings under way beyond which questions wait: kube-scheduler asks faster than any API server binds, and gives a
binding up after its `httpTimeout`. What is under way, over the pods a second, is how long a binding takes."""
LONGEST_WAIT: Final = 1.0
"""Seconds that a question waits for bindings; an API server that is away must not stop everything."""
LAG: Final = 0.25
"""Seconds for which news about a pod are awaited: under load kube-scheduler hears of it that much earlier."""
LOOK: Final = 0.005
"""Seconds between looks whether they have come."""
_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_VERBS: Final = {f"/v1/extender/{verb}": verb for verb in ("filter", "bind", "preempt")}


@dataclass(slots=True)
class ExtenderApi(Api):
    """What can be asked of the extender."""

    verbs: Mapping[str, str] = field(default_factory=lambda: _VERBS)
    _bodies: Bodies = field(default_factory=Bodies)
    _backlog: int = 0
    """Bindings under way."""
    _room: asyncio.Event = field(default_factory=asyncio.Event)
    _binders: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(BINDERS, "bind asked"))

    def app(self) -> ASGIApp:
        """The ASGI application. The verbs, which are asked for every pod, do without the layers of a framework."""
        looks = Starlette(routes=[Route("/{path:path}", self._any, methods=_METHODS)])

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            verb = self.verbs.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
            if verb is None:
                await looks(scope, receive, send)
            else:
                response = await self.respond(lambda: self._checked_verb(verb, scope, receive))
                await response(scope, receive, send)

        return answer

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

    async def _again(self, ask: Callable[[bytes], bytes], body: bytes, unknown: UnknownPodError) -> bytes:
        """Ask again about a pod once the API server has told of it as the caller does; else say that it has not."""
        problem = ""
        try:
            term = self.serving()
            await learn(term.binder.client, term.core, unknown.pod)
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
            return wire.write_filter(verbs.filter_nodes(self.serving().core, args), args)
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
            answer = verbs.bind(self.serving().binder, args)
        except (WireError, NotServingError) as error:
            answer = str(error)
        except PaictlError as error:
            answer = error.message
        except Exception as error:
            answer = _bug(error)
        if answer:
            self.metrics.errors["bind"] += 1
        return wire.write_bind(answer)

    def _preempt(self, body: bytes) -> bytes:
        try:
            args = wire.read_preempt(body)
            return wire.write_preempt(verbs.candidates(self.serving().core, args))
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


async def learn(client: KubeClient, core: DoorCore, pod: Mapping[str, Any]) -> None:
    """Wait until the informer has told of a pod as a caller sent it; one it does not know is then fetched, once.

    Raises `PaictlError` if the API server does not answer, and `NotServingError`.
    """
    known = core.table.by_uid.get(pod_ref(pod).uid)
    for _ in range(int(LAG / LOOK) if known is not None or asks(pod) else 0):
        await asyncio.sleep(LOOK)
        if _is_known(core, pod):
            return
    if known is None or not known.listed:  # the informer never is behind a fetched one for good
        await run_in_threadpool(_fetch, client, core, pod)


def _is_known(core: DoorCore, pod: Mapping[str, Any]) -> bool:
    try:
        core.table.named_by(pod)
    except UnknownPodError:
        return False
    return True


def _fetch(client: KubeClient, core: DoorCore, pod: Mapping[str, Any]) -> None:
    """Enter a pod as the API server has it now, unless it runs, has ended or is another one of that name."""
    ref = pod_ref(pod)
    current = pods.get(client, ref.namespace, ref.name)
    if current is None or current["metadata"].get("uid") != ref.uid or (current.get("spec") or {}).get("nodeName"):
        return
    if (current.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return
    with core.serving():
        entry = core.table.by_uid.get(ref.uid)
        if not core.table.has_gone(ref.uid) and (entry is None or not entry.listed):
            core.table.meet(current, core.clock())


def _bug(error: Exception) -> str:
    return f"internal error, a bug of paictl: {type(error).__name__}: {error}"


class ExtenderService(DoorService):
    """From `start` to `stop`; `run` does both around the HTTP server."""

    component = "hivedscheduler-extender"
    prefix = "paictl_extender"
    api_type = ExtenderApi
