"""What this server is, whether it works, and what Prometheus reads of the cluster on this machine.

A scheduler on Kubernetes is asked itself; that of a cluster on this machine cannot be.
"""

from __future__ import annotations

from typing import Final

from paictl import __version__
from paictl.cluster.capabilities import Measured
from paictl.cluster.interface import UnsupportedError
from paictl.i18n import text
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


PREFIX: Final = "paictl_extender"
"""Names begin as those of the extender do, so that rules and dashboards made for it read them."""
MEDIA: Final = "text/plain; version=0.0.4"


def metrics(call: Call) -> Answer:
    """The figures of all tenants, so only administrators may ask; raises `UnsupportedError` for a real cluster."""
    if not isinstance(call.cluster, Measured):
        raise UnsupportedError(
            text("this server has no metrics of cluster {name}", name=call.cluster.name),
            hint=text("its scheduler exports them: scrape /metrics of the pods of hivedscheduler"),
        )
    from paictl.doors.metrics import cluster_text  # late: no other request needs the library of Prometheus

    return Answer(cluster_text(call.cluster.figures(), PREFIX), media=MEDIA)


ROUTES: Final = (
    Route("GET", "/api/v2/info", Access.ANYBODY, info, Operation("What this server is", "info")),
    Route(
        "GET",
        "/health",
        Access.ANYBODY,
        health,
        Operation("Whether the server and its cluster answer", "info", (200, 503)),
    ),
    Route(
        "GET",
        "/metrics",
        Access.ADMIN,
        metrics,
        Operation("Figures of the scheduler for Prometheus", "cluster", (200, 501), gives=MEDIA),
    ),
)
