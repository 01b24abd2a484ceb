"""What Prometheus reads of a cluster whose scheduler it cannot ask: the cluster on this machine."""

from __future__ import annotations

from typing import Final

from paictl.cluster.capabilities import Measured
from paictl.cluster.interface import UnsupportedError
from paictl.i18n import text
from paictl.server.calls import Answer, Call
from paictl.server.routing import Access, Operation, Route

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
    Route(
        "GET", "/metrics", Access.ADMIN, metrics,
        Operation("Figures of the scheduler for Prometheus", "cluster", (200, 501), gives=MEDIA),
    ),
)  # fmt: skip
