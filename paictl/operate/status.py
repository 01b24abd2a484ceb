"""The state of a cluster in a few numbers and remarks, and advancing its clock where that is possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from paictl.cluster.capabilities import HandClock
from paictl.cluster.eventtext import reasons
from paictl.cluster.interface import About, Cluster, ClusterError, NodeView, Port, PromisedStart, ServiceView
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import joined, listed, text
from paictl.units import FOREVER, Millis, parse_duration

GRACE: Final = timedelta(minutes=1)
"""A start is late after so much more: `workload.backfill.GRACE`, from a module that would load the scheduler."""


@frozen
class Summary:
    """A cluster at an instant: counts by condition or state, and what its administrator should know, a line each."""

    name: str
    about: About
    now: datetime
    epoch: datetime
    nodes: dict[str, int]
    devices: int
    used: int
    services: dict[str, int]
    jobs: dict[str, int]
    starts: tuple[PromisedStart, ...]
    """The gangs that wait and were promised a start, by that instant."""
    remarks: tuple[str, ...]
    lacks: Mapping[Port, str]
    """What this kind of cluster cannot do yet, each with what to do instead; their counts above are empty."""

    @property
    def late(self) -> tuple[PromisedStart, ...]:
        """Those that should have started by now; the minute in which pods are made and bound does not count."""
        return tuple(start for start in self.starts if self.now - start.at > GRACE)


def summary(cluster: Cluster) -> Summary:
    """The summary of a cluster."""
    lacks = cluster.lacks
    nodes, about = cluster.nodes(), cluster.about()
    services = [] if Port.SERVICES in lacks else cluster.services()
    jobs = [] if Port.JOBS in lacks else cluster.jobs()
    return Summary(
        name=cluster.name,
        about=about,
        now=cluster.now,
        epoch=cluster.epoch,
        nodes=dict(Counter(node.condition.value.lower() for node in nodes)),
        devices=sum(node.machine.devices for node in nodes),
        used=sum(node.used for node in nodes),
        services=dict(Counter("running" if service.running else "stopped" for service in services)),
        jobs=dict(Counter(job.state.value.lower() for job in jobs)),
        starts=() if Port.SCHEDULING in lacks else tuple(cluster.promised_starts()),
        remarks=(*([f"devices: {about.devices}"] if about.devices else ()), *remarks(nodes, services)),
        lacks=lacks,
    )


def remarks(nodes: Sequence[NodeView], services: Sequence[ServiceView]) -> Iterator[str]:
    """What an administrator should know, one line each."""
    stopped = [service.name for service in services if not service.running]
    if stopped:
        yield text("stopped: {names} (paictl service start)", names=listed(stopped))
    for service in services:
        if service.running and service.reason:
            yield joined(": ", (service.name, reasons(service.reason)))
    places: dict[str, list[str]] = {}
    for node in nodes:
        if node.reason:
            places.setdefault(node.reason, []).append(node.machine.name)
    yield from (joined(": ", (listed(names), reasons(reason))) for reason, names in places.items())


def span_of(words: str | None, *, until_idle: bool) -> Millis | None:
    """The span that a command line says, None for "until nothing more will happen"; raises `PaictlError` otherwise."""
    if (words is None) == (not until_idle):
        raise PaictlError("specify how far to advance the clock", hint="paictl cluster tick 10m, or --until-idle")
    seconds = None if words is None else parse_duration(words)
    if seconds == FOREVER:
        raise PaictlError("the clock cannot advance that far", hint="use --until-idle")
    return None if seconds is None else Millis(round(seconds * 1000))


def tick(cluster: Cluster, span: Millis | None) -> datetime:
    """Let a span pass, or (None) all that will happen; the new instant."""
    if not isinstance(cluster, HandClock):
        raise ClusterError("the time of this cluster cannot be advanced by hand", hint="wait until then")
    return cluster.tick(span)
