"""The placer's process: the extender's, without the verbs that kube-scheduler calls."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from paictl.extender.server import Api
from paictl.extender.service import ExtenderService
from paictl.placer.term import PlacerTerm


class PlacerApi(Api):
    """Health, metrics, HiveD's inspect API and explanations; nobody asks it to schedule."""

    def app(self) -> ASGIApp:
        """The ASGI application."""
        return Starlette(routes=[Route("/{path:path}", self._any, methods=["GET", "HEAD"])])


class PlacerService(ExtenderService):
    """From `start` to `stop`; `run` does both around the HTTP server."""

    component = "hivedscheduler-placer"
    prefix = "paictl_placer"
    term_type = PlacerTerm
    api_type = PlacerApi
