"""What moves of gangs for larger ones came to, by the virtual cluster that pays: totals that the cluster keeps itself.

The client moves gangs, and a scheduler tells Prometheus, so Kubernetes keeps them beside the windows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from paictl.frozen import frozen
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.cluster.defrag import GangPods

KEY: Final = "moves.json"
"""Key of the ConfigMap of the windows (`maintenance.NAME`)."""


_MOST: Final = 2.0**53


@frozen
class MoveTotal:
    """Gangs of one virtual cluster that were moved, and the device-milliseconds of work that this lost."""

    gangs: int = 0
    lost: Millis = Millis(0)


def with_move(totals: Mapping[str, MoveTotal], gang: GangPods) -> dict[str, MoveTotal]:
    """The totals once a gang was evicted to be moved."""
    before = totals.get(gang.vc, MoveTotal())
    return {**totals, gang.vc: MoveTotal(before.gangs + 1, Millis(before.lost + gang.devices * gang.lost))}


def totals_text(totals: Mapping[str, MoveTotal]) -> str:
    """Totals as JSON, those of each virtual cluster on a line."""
    rows = {vc: {"gangs": one.gangs, "lostDeviceSeconds": one.lost / 1000} for vc, one in sorted(totals.items())}
    return json.dumps(rows, indent=1)


def totals_of(found: Mapping[str, Any] | None) -> dict[str, MoveTotal]:
    """The totals of the object as the API server gives it.

    Empty for one that somebody has damaged: no decision depends on it, and Prometheus takes a counter that goes back
    for one that began anew.
    """
    try:
        rows = json.loads(((found or {}).get("data") or {}).get(KEY) or "{}")
        return {_name(vc): MoveTotal(_count(row["gangs"]), Millis(_count(1000 * row["lostDeviceSeconds"])))
                for vc, row in rows.items()}  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return {}


def _name(vc: str) -> str:
    vc.encode()  # a metric could not tell a lone surrogate
    return vc


def _count(value: float) -> int:
    """Raises `ValueError` for what no cluster can come to, and floats do not tell."""
    if not 0 <= value < _MOST:
        raise ValueError(value)
    return round(value)
