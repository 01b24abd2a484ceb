"""The parameters of `hived`, and its quotas if the cluster has none: whole nodes, in proportion to demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Literal

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.defrag.model import RESTART
from paictl.sim.policies.base import Parameters
from paictl.sim.policies.parameters import ParameterError, Span, parameter
from paictl.sim.policies.simulated_reservations import read_reservations
from paictl.units import Millis


@frozen
class HivedParameters(Parameters):
    """Quotas, order, backfill, preemption, sharing, repair, defragmentation and reservations."""

    quotas: Literal["demand", "equal"] = parameter(
        "demand",
        "quotas without a configuration: whole nodes by the tenants' GPU time in the trace, or the same number "
        "for each",
    )
    order: Literal["share", "created"] = parameter(
        "share",
        "order among jobs of one priority. share: the tenant that uses least outside its quota first, and a "
        "preempted job keeps its turn; created: as with the placer, the job created first, and a preempted job is "
        "created again",
    )
    backfill: Literal["none", "easy", "conservative"] = parameter(
        "none",
        "easy: the first waiting guaranteed job of each tenant gets a promised start that others may not delay; "
        "conservative: each of the first 64 does",
    )
    factor: float = parameter(
        1.0,
        "with backfill or planned outages: run-time limit of a job without one, as a multiple of its duration",
        least=1,
    )
    victims: Literal["fewest-devices", "least-loss"] = parameter(
        "fewest-devices", "least-loss: of the jobs that may be preempted, those that lose the least work are preempted"
    )
    min_run_time: Span = parameter(
        Span(0),
        "time for which a started job is not preempted by jobs of its own tenant, and is the last choice for others",
    )
    opportunistic_order: Literal["none", "decayed-use"] = parameter(
        "none",
        "decayed-use: the tenant with the lowest recent use outside its quota goes first, and within it the user "
        "with the lowest",
    )
    half_life: Span = parameter(Span(86_400_000), "with opportunistic-order: the time after which use counts half")
    checkpoint: Span = parameter(
        Span(0), "how often jobs save a checkpoint, which limits what a preemption loses; 0: never"
    )
    on_sigterm: float = parameter(
        0.0, "share of the jobs that save their work when they are preempted, and lose none of it", least=0, most=1
    )
    sharing: Literal["config", "ignore"] = parameter(
        "config",
        "config: obey budgets, user limits, spares, departments, lend limits and borrow limits in the section "
        "sharing beside the cluster's hivedscheduler configuration; ignore: ignore them",
    )
    repair: Literal["member", "gang"] = parameter(
        "member", "what restarts if part of a job with restart member fails: the member, or the gang"
    )
    defragment: Span = parameter(
        Span(0),
        "how often gangs are moved so that larger waiting gangs can start, if that costs no more "
        "device time than these have waited; 0: never",
    )
    migrate: Span = parameter(Span(1000 * RESTART), "cost of a move, when the gang starts again")
    start: str = parameter(
        "",
        "date (UTC) of time 0 of the trace, such as 2026-12-01T08:00, for budgets and reservations; "
        "default: the beginning of a January",
    )

    reservations: str = parameter(
        "", "file of reservations, as paictl reservation list -o json writes them; jobs name them in the trace"
    )

    def __post_init__(self) -> None:
        """Raises `ParameterError` for a start that is not a date, a file without valid reservations, or an interval of
        defragmentation under a second."""
        if 0 < self.defragment < 1000:
            raise ParameterError(
                text("defragment is shorter than a second"), hint="write defragment=1h, or 0 to move no gangs"
            )
        _ = self.epoch, self.reserved

    @property
    def reserved(self) -> list[dict[str, Any]]:
        """The rows of the file of reservations; empty without a file."""
        return read_reservations(self.reservations, self.epoch) if self.reservations else []

    @property
    def epoch(self) -> Millis:
        """Instant 0 of the trace in Unix time, milliseconds."""
        try:
            at = datetime.fromisoformat(self.start or "1970-01-01")
            seconds = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            seconds = -1.0
        if seconds < 0:
            raise ParameterError(
                text("{given!r} is not a date in 1970 or later", given=self.start), hint="write start=2026-12-01T08:00"
            )
        return Millis(round(1000 * seconds))


def shares(tenants: Mapping[str, int], sizes: Sequence[int], *, equal: bool) -> dict[str, int]:
    """Devices of each tenant, in whole nodes of these sizes: a node for each, the rest by GPU time, or equally.

    `tenants`: GPU time by VC, in device-milliseconds; none counts as 1. If there are fewer nodes than tenants, the
    tenants with most GPU time get one each.
    """
    order = sorted(tenants, key=lambda vc: (-tenants[vc], vc))
    nodes: dict[str, list[int]] = {vc: [] for vc in order}
    need = {vc: 1 if equal else max(1, tenants[vc]) for vc in order}
    for number, size in enumerate(sizes):
        if number < len(order):
            nodes[order[number]].append(size)
        elif order:
            # the tenant with the least devices by demand (highest averages, as for seats in a parliament)
            poorest = min(order, key=lambda vc: (Fraction(sum(nodes[vc]) + size, need[vc]), vc))
            nodes[poorest].append(size)
    return {vc: sum(nodes[vc]) for vc in sorted(order)}
