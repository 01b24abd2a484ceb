"""What moves of gangs for larger ones cost, by the virtual cluster that pays: totals that the cluster keeps itself.

The client moves gangs, and a scheduler exports the totals to Prometheus, so Kubernetes keeps them beside the windows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from paictl.frozen import frozen
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.cluster.defrag import GangPods

REASON: Final = "moved to make room for a larger gang (defragmentation)"
"""What a gang is told that is moved."""
KEY: Final = "moves.json"
"""Key of the ConfigMap of the windows (`maintenance.NAME`)."""


_MOST: Final = 2.0**53


@frozen
class MoveTotal:
    """Moves of gangs of one virtual cluster, and what the plan under way is expected to cost it."""

    gangs: int = 0
    lost: Millis = Millis(0)
    """Device-milliseconds of work lost by restarts."""
    failed: int = 0
    """Gangs that were evicted and did not run again in time."""
    planned: int = 0
    """Weight in device-seconds of the moves of the newest plan."""
    until: Millis = Millis(0)
    """When that plan is over at the latest, on the cluster's clock: a killed client cannot say that it has ended."""


class MovesNoted(Protocol):
    """A cluster that keeps what moves of gangs cost (`docs/defragmentation.md`)."""

    def note_plan(self, weights: Mapping[str, int], span: Millis) -> None:
        """A plan of these weights by virtual cluster is carried out, for `span` at most; empty: none is any more."""

    def note_failure(self, vc: str) -> None:
        """A gang of a virtual cluster was evicted and has not come back in time."""


def with_move(totals: Mapping[str, MoveTotal], gang: GangPods) -> dict[str, MoveTotal]:
    """The totals once a gang was evicted to be moved."""
    before = totals.get(gang.vc, MoveTotal())
    lost = Millis(before.lost + gang.devices * gang.lost)
    return {**totals, gang.vc: replace(before, gangs=before.gangs + 1, lost=lost)}


def with_failure(totals: Mapping[str, MoveTotal], vc: str) -> dict[str, MoveTotal]:
    """The totals once a gang of a virtual cluster has not come back in time."""
    before = totals.get(vc, MoveTotal())
    return {**totals, vc: replace(before, failed=before.failed + 1)}


def with_plan(totals: Mapping[str, MoveTotal], weights: Mapping[str, int], until: Millis) -> dict[str, MoveTotal]:
    """The totals while a plan of these weights is carried out, in place of any other; empty: none is."""
    none = {vc: replace(total, planned=0, until=Millis(0)) for vc, total in totals.items()}
    planned = {vc: replace(none.get(vc, MoveTotal()), planned=weight, until=until) for vc, weight in weights.items()}
    return none | planned


def planned_weights(totals: Mapping[str, MoveTotal], now: Millis) -> dict[str, int]:
    """The weight in device-seconds of the plan that is carried out at an instant, 0 for who pays nothing."""
    return {vc: total.planned if now < total.until else 0 for vc, total in totals.items()}


def totals_text(totals: Mapping[str, MoveTotal]) -> str:
    """Totals as JSON, those of each virtual cluster on a line."""
    return json.dumps(totals_data(totals), indent=1)


def totals_data(totals: Mapping[str, MoveTotal]) -> dict[str, dict[str, float]]:
    """Totals as JSON values; figures that only some plans have are left out where zero."""
    return {vc: _row(total) for vc, total in sorted(totals.items())}


def _row(total: MoveTotal) -> dict[str, float]:
    row: dict[str, float] = {"gangs": total.gangs, "lostDeviceSeconds": total.lost / 1000}
    if total.failed:
        row["failed"] = total.failed
    if total.until:
        row |= {"plannedWeight": total.planned, "plannedUntil": total.until}
    return row


def totals_from(rows: Mapping[str, Any]) -> dict[str, MoveTotal]:
    """The inverse of `totals_data`; raises `KeyError`, `TypeError`, `ValueError` or others for anything else."""
    return {
        _name(vc): MoveTotal(
            _count(row["gangs"]),
            Millis(_count(1000 * row["lostDeviceSeconds"])),
            _count(row.get("failed", 0)),
            _count(row.get("plannedWeight", 0)),
            Millis(_count(row.get("plannedUntil", 0))),
        )
        for vc, row in rows.items()
    }


def totals_of(config_map: Mapping[str, Any] | None) -> dict[str, MoveTotal]:
    """The totals of the object as the API server gives it.

    Empty for one that somebody has damaged: no decision depends on it, and Prometheus takes a counter that goes back
    for one that began anew.
    """
    try:
        return totals_from(json.loads(((config_map or {}).get("data") or {}).get(KEY) or "{}"))
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
