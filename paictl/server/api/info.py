"""What this server is, and whether it works."""

from __future__ import annotations

from typing import Final

from paictl import __version__
from paictl.server.calls import Answer, Call, json_answer
from paictl.server.routing import Access, Operation, Route


def info(_call: Call) -> Answer:
    """What OpenPAI's clients ask first."""
    return json_answer(
        {"name": "PAI RESTful API", "version": f"v{__version__}", "launcherType": "k8s", "authnMethod": "basic"}
    )


def health(call: Call) -> Answer:
    """Whether the cluster answers, too."""
    return json_answer({"status": "ok", "now": call.cluster.now.isoformat()})


ROUTES: Final = (
    Route("GET", "/api/v2/info", Access.ANYBODY, info, Operation("What this server is", "info")),
    Route(
        "GET",
        "/health",
        Access.ANYBODY,
        health,
        Operation("Whether it and its cluster answer", "info", (200, 503)),
    ),
)
