"""The process: election or none, HTTP for probes and metrics, a clean end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from paictl.controller import manifests
from paictl.controller.loop import ControlLoop
from paictl.controller.metrics import ControllerMetrics
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.kube.informer import InformerTimes
from paictl.remote.kube.leases import Leadership, LeaseTimes
from paictl.serving.ending import refuse_unserved, serve
from paictl.workload.job import PRIORITIES

SWEEP: Final = 60.0
"""Seconds between looks for jobs that ended long ago."""
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


@frozen
class ControllerSettings:
    """What the command line says; `keep` is in seconds."""

    host: str = "127.0.0.1"
    port: int = 9188
    elect: bool = False
    lease: tuple[str, str] = ("paictl-system", "frameworkcontroller")
    keep: float = 30 * 86_400.0
    gated: bool = False
    """Whether pods come to the scheduler by its gate (the placer); otherwise kube-scheduler asks it."""
    times: InformerTimes = field(default_factory=InformerTimes)
    terms: LeaseTimes = field(default_factory=LeaseTimes)


class ControllerService:
    """From `start` to `stop`; `run` does both around the HTTP server."""

    def __init__(self, client: KubeClient, settings: ControllerSettings, log: Callable[[str], None]) -> None:
        self.client = client
        self.settings = settings
        self.log = log
        self.current: ControlLoop | None = None
        self.metrics = ControllerMetrics(client, lambda: self.current)
        lease = settings.lease if settings.elect else None
        self.leadership = Leadership(client, lease, self.begin, self.end, settings.terms)
        self._lock = threading.RLock()
        self._stop = threading.Event()

    def begin(self) -> None:
        """Lead: look at everything anew."""
        with self._lock:
            self.end()
            classes = self._make_classes()
            self.current = ControlLoop(
                self.client,
                self.leadership.remaining,
                self.log,
                classes=classes,
                gated=self.settings.gated,
                times=self.settings.times,
            )
            self.current.start()
            self.log("leading")

    def end(self) -> None:
        """Lead no longer."""
        with self._lock:
            if self.current is not None:
                self.current.stop()
                self.current = None

    def _make_classes(self) -> bool:
        """Make the PriorityClasses that are missing; False if they cannot be had: pods go without them then."""
        complete = True
        for body in manifests.priority_classes(PRIORITIES):
            try:
                self.client.request("POST", CLASSES, body)
            except KubeError as error:
                if error.status == 409:
                    continue
                self.log(f"priority class {body['metadata']['name']}: {error.message}")
                complete = False
        return complete

    # --- the process

    def start(self) -> None:
        """Begin everything but HTTP."""
        self.leadership.start()
        threading.Thread(target=self._keep_house, name="sweeper", daemon=True).start()

    def stop(self) -> None:
        """End in good order: give the lease back."""
        self._stop.set()
        self.leadership.stop()

    def run(self) -> None:
        """Serve until told to end. Raises `PaictlError` if the address is taken."""
        settings = self.settings
        server = uvicorn.Server(
            uvicorn.Config(
                self.app(),
                host=settings.host,
                port=settings.port,
                log_level="warning",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=3,
                limit_concurrency=64,
            )
        )
        reason = serve(server, self.start, self.stop)
        refuse_unserved(server, reason)

    def app(self) -> Starlette:
        """What is served."""
        return Starlette(
            routes=[
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
                Route("/metrics", self._metrics),
            ]
        )

    async def _healthz(self, request: Request) -> Response:  # noqa: ARG002 - nothing is asked
        return PlainTextResponse("ok")

    async def _readyz(self, request: Request) -> Response:  # noqa: ARG002
        """Ready who leads and knows all jobs, and who waits for the leader to go."""
        loop = self.current
        if loop is None:
            problem = self.leadership.problem
            return PlainTextResponse(problem or "ok: another process leads", 503 if problem else 200)
        if not loop.cache.ready:
            return PlainTextResponse(f"starting: {loop.cache.problem or 'not all jobs are known yet'}", 503)
        return PlainTextResponse("ok: leading")

    async def _metrics(self, request: Request) -> Response:  # noqa: ARG002
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _keep_house(self) -> None:
        while not self._stop.wait(SWEEP):
            loop = self.current
            if loop is None or not loop.cache.ready:
                continue
            try:
                loop.sweep(self.settings.keep)
            except PaictlError as error:
                self.log(f"records of ended jobs cannot be deleted: {error}")
