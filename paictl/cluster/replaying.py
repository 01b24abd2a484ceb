"""The log of a `Recorded` cluster, which is an embedded one, computed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paictl.cluster.embedded import commands
from paictl.cluster.interface import Event
from paictl.units import Millis, from_unix


def replayed(log: Sequence[tuple[Millis, Mapping[str, Any]]], epoch: Millis, until: Millis) -> list[Event]:
    """All events of a `Recorded` cluster that began at `epoch` (Unix time), computed anew up to an instant of its own.

    Raises `KeyError`, `TypeError`, `ValueError` or `PaictlError` for what is no such log.
    """
    world = commands.replay(log, epoch)
    world.advance(max(until, world.now))
    start = from_unix(epoch / 1000)
    return [happened.event(start) for happened in world.events]
