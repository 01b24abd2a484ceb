"""The time of a cluster, advanced by hand where it can be."""

from __future__ import annotations

from datetime import datetime

from paictl.cluster.capabilities import HandClock
from paictl.cluster.interface import Cluster, ClusterError
from paictl.errors import PaictlError
from paictl.units import FOREVER, Millis, parse_duration


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
