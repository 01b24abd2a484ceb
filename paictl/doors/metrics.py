"""Metrics for Prometheus: decisions, seconds by verb, waiting pods by reason, cells by VC, level and state."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector

from paictl.cluster.figures import (
    STATES,
    AheadFigures,
    CellCounts,
    CellKey,
    ClusterFigures,
    HardwareFigures,
    SchedulerFigures,
    SharingFigures,
    cells_at_risk,
    count_cells,
)
from paictl.cluster.movetotals import planned_weights
from paictl.doors import windows
from paictl.doors.core import NotServingError
from paictl.scheduler.freecells import FreeCells, free_cells
from paictl.workload.usagereport import HOUR

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from paictl.cluster.movetotals import MoveTotal
    from paictl.doors.core import DoorCore
    from paictl.workload.budgets import BudgetState
    from paictl.workload.departments import DepartmentUse


BUCKETS: Final = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
FRESH: Final = 5.0
"""Seconds for which counts of cells are reused."""
REASONS: Final = 20
"""Reasons with a series of their own; the rest is ``other``, so that pods cannot make the metrics grow."""


REPAIRED: Final = "Pods that replaced a lost member of a running gang, in another place."
FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of what Prometheus reads."""


class DoorMetrics:
    """The counters of one process; a core's own are read from it on each scrape."""

    def __init__(self, core: Callable[[], DoorCore | None], prefix: str = "paictl_extender") -> None:
        self.prefix = prefix
        self.families = FigureFamilies(prefix)
        self.registry = CollectorRegistry(auto_describe=False)
        self.core = core
        self.seconds = Histogram(
            f"{self.prefix}_request_seconds",
            "Seconds from a whole request to its answer.",
            ("verb",),
            registry=self.registry,
            buckets=BUCKETS,
        )
        self.errors: Counter[str] = Counter()
        """Requests by verb that were answered with an error."""
        self.terms = 0
        """How often this process began to lead."""
        self.evicted: Callable[[], int] = lambda: 0
        self.events: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Events of pods that were dropped, and that are still to be sent."""
        self.device_time: Callable[[], Counter[tuple[str, str]]] = Counter
        """Device-milliseconds of this day by VC and kind, where accounts are kept."""
        self._decisions: Counter[str] = Counter()
        self._members: Counter[str] = Counter()
        """Lost and repaired members of gangs, and joint moves, of earlier cores."""
        self._starts: Counter[tuple[str, str]] = Counter()
        """Outcomes of promised starts of earlier cores, by virtual cluster and kind."""
        self._cells: tuple[float, DoorCore | None, int, CellCounts] = 0.0, None, -1, CellCounts(Counter(), ())
        self._lock = threading.Lock()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def keep(self, core: DoorCore) -> None:
        """Add the counts of a core that ends: counters must never decrease."""
        self._decisions.update(core.decisions)
        self._members.update(core.members)
        self._starts.update(core.starts.counted)

    def collect(self) -> Iterator[Metric]:
        """Called by the registry."""
        core = self.core()
        decisions = CounterMetricFamily(
            f"{self.prefix}_decisions", "Answers to filter and preempt by kind.", labels=["kind"]
        )
        for kind, number in sorted((self._decisions + (core.decisions if core else Counter())).items()):
            decisions.add_metric([kind], number)
        yield decisions
        members = self._members + (core.members if core else Counter())
        for kind, name, help_text in (
            ("lost", "members_lost", "Pods given up to be replaced while the rest of their gang keeps running."),
            ("repaired", "members_repaired", REPAIRED),
            ("joint", "joint_repairs", "Times that lost members of a gang were moved together."),
        ):
            yield CounterMetricFamily(f"{self.prefix}_{name}", help_text, value=members[kind])
        errors = CounterMetricFamily(f"{self.prefix}_errors", "Requests answered with an error.", labels=["verb"])
        for verb, number in sorted(self.errors.items()):
            errors.add_metric([verb], number)
        yield errors
        yield from self.families.of_starts(self._starts + (core.starts.counted if core else Counter()))
        yield CounterMetricFamily(
            f"{self.prefix}_evictions", "Pods that were evicted or deleted to free their devices.", value=self.evicted()
        )
        dropped, untold = self.events()
        yield CounterMetricFamily(
            f"{self.prefix}_events_dropped", "Events that were dropped before they were sent.", value=dropped
        )
        yield GaugeMetricFamily(f"{self.prefix}_events_untold", "Events of pods that are not sent yet.", value=untold)
        yield CounterMetricFamily(f"{self.prefix}_terms", "Times this process began to lead.", value=self.terms)
        yield GaugeMetricFamily(f"{self.prefix}_leader", "Whether this process leads.", value=core is not None)
        yield self.families.of_device_time(self.device_time())
        if core is not None:
            yield from self._of_core(core)

    def _of_core(self, core: DoorCore) -> Iterator[Metric]:
        yield from self.families.of_scheduler(figures(core))
        yield from self.families.of_cells(self._counted(core))

    def _counted(self, core: DoorCore) -> CellCounts:
        """Cells, counted anew if that is due."""
        with self._lock:
            at, of, version, cells = self._cells
            now, current = time.monotonic(), core.book.engine.version
            if of is core and (version == current or now - at < FRESH):
                return cells
            with suppress(NotServingError):  # it has just broken: what was counted last
                cells = CellCounts(count(core), count_free(core))
            self._cells = now, core, current, cells
            return cells


class FigureFamilies:
    """The families of a scheduler's figures, whatever scheduler it is; their names begin with a prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def of_scheduler(self, figures: SchedulerFigures) -> Iterator[Metric]:
        """What it knows at one instant."""
        sharing, ahead, hardware = figures.sharing, figures.ahead, figures.hardware
        yield self._gauge(
            "waiting_pods", "Pods that wait, by reason.", "reason", _most_common(Counter(figures.waiting))
        )
        yield from self._of_sharing(sharing.budgets, sharing.holders)
        yield from self._of_devices(sharing.borrowers, "borrowed_devices", "in use without a guarantee", "borrow_limit")
        yield from self._of_devices(
            sharing.lenders, "lendable_devices", "of its promise that others may use now", "lend_limit"
        )
        yield from self._of_departments(sharing.departments)
        if sharing.lent:
            yield self._gauge(
                "recent_opportunistic_hours",
                "Device hours without a guarantee, decayed, by which opportunistic gangs are ordered.",
                "vc",
                {vc: amount / HOUR for vc, amount in sorted(sharing.lent.items())},
            )
        yield from self._of_lines(ahead.starts, ahead.promised)
        yield from self._of_moves(ahead.moves, ahead.planned)
        yield self._gauge("pods", "Pods that hold devices.", "state", figures.holding)
        yield GaugeMetricFamily(f"{self.prefix}_nodes", "Nodes that the API server has.", value=hardware.nodes)
        yield GaugeMetricFamily(f"{self.prefix}_bad_nodes", "Bad nodes of the configuration.", value=hardware.bad_nodes)
        yield GaugeMetricFamily(
            f"{self.prefix}_bad_devices", "Devices that no claim gets: missing or tainted.", value=hardware.bad_devices
        )
        yield self._gauge("maintenance_windows", "Maintenance windows by state.", "state", ahead.windows)
        yield self._gauge("reservations", "Reservations by state.", "state", ahead.reserved)
        yield self._gauge(
            "reservation_short_cells",
            "Reserved cells that will not be free in time.",
            "reservation",
            dict(sorted(ahead.short.items())),
        )
        yield self._gauge(
            "guarantees_at_risk",
            "Preassigned cells of a VC that only bad hardware can serve.",
            "vc",
            dict(sorted(hardware.at_risk.items())),
        )

    def of_cells(self, counts: CellCounts) -> Iterator[Metric]:
        """Cells of tenants, and free ones."""
        yield self._of_cells(counts.promised)
        yield from self._of_free(counts.free)

    def of_cluster(self, figures: ClusterFigures) -> Iterator[Metric]:
        """Everything that a cluster says whose scheduler is no program of its own."""
        yield GaugeMetricFamily(
            f"{self.prefix}_leader", "Whether this process leads.", value=figures.scheduler is not None
        )
        yield CounterMetricFamily(
            f"{self.prefix}_evictions",
            "Pods that were evicted or deleted to free their devices.",
            value=figures.preempted,
        )
        yield CounterMetricFamily(f"{self.prefix}_members_repaired", REPAIRED, value=figures.repaired)
        yield self.of_device_time(figures.device_time)
        if figures.scheduler is not None:
            yield from self.of_scheduler(figures.scheduler)
        if figures.cells is not None:
            yield from self.of_cells(figures.cells)

    def of_device_time(self, spent: Mapping[tuple[str, str], int]) -> Metric:
        """The device time of this day in device-milliseconds, by VC and kind."""
        used = CounterMetricFamily(
            f"{self.prefix}_device_seconds",
            "Device time since midnight UTC: guaranteed, opportunistic, lost, promised.",
            labels=["vc", "class"],
        )
        for (vc, kind), amount in sorted(spent.items()):
            used.add_metric([vc, kind], amount / 1000)
        return used

    def _of_lines(self, starts: Mapping[str, float], promised: Mapping[str, float]) -> Iterator[Metric]:
        """Backfill: the promises to gangs in line, by virtual cluster."""
        yield self._gauge(
            "promised_start_timestamp_seconds",
            "When the first gang in line of a virtual cluster with backfill starts at the latest.",
            "vc",
            dict(sorted(starts.items())),
        )
        yield self._gauge(
            "promised_starts", "Waiting gangs with a promised start.", "vc", dict(sorted(promised.items()))
        )

    def _of_moves(self, moves: Mapping[str, MoveTotal], planned: Mapping[str, int]) -> Iterator[Metric]:
        """Defragmentation, which clients carry out: what the cluster says that it came to, by who paid."""
        for name, help_text, values in (
            (
                "defrag_moves",
                "Gangs moved to make room for larger ones.",
                {vc: float(total.gangs) for vc, total in moves.items()},
            ),
            (
                "defrag_lost_device_seconds",
                "Device time of work that gangs lost by such moves.",
                {vc: total.lost / 1000 for vc, total in moves.items()},
            ),
            (
                "defrag_moves_failed",
                "Gangs that were evicted to be moved and did not run again in time.",
                {vc: float(total.failed) for vc, total in moves.items()},
            ),
        ):
            family = CounterMetricFamily(f"{self.prefix}_{name}", help_text, labels=["vc"])
            for vc, value in sorted(values.items()):
                family.add_metric([vc], value)
            yield family
        yield self._gauge(
            "defrag_planned_weight_device_seconds",
            "What the plan of moves that is carried out is expected to cost.",
            "vc",
            dict(sorted(planned.items())),
        )

    def _gauge(self, name: str, help_text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
        """A family with one label."""
        family = GaugeMetricFamily(f"{self.prefix}_{name}", help_text, labels=[label])
        for label_value, value in values.items():
            family.add_metric([label_value], value)
        return family

    def of_starts(self, counted: Counter[tuple[str, str]]) -> Iterator[Metric]:
        """What became of promised starts, by virtual cluster."""
        for kind, name, help_text in (
            ("made", "start_promises", "Promised starts that were reported to pods."),
            ("moved", "start_promises_moved", "Promised starts that were moved to a later time."),
            ("late", "late_starts", "Gangs that started later than promised."),
        ):
            family = CounterMetricFamily(f"{self.prefix}_{name}", help_text, labels=["vc"])
            for vc, number in sorted(
                (vc, number) for (vc, counted_kind), number in counted.items() if counted_kind == kind
            ):
                family.add_metric([vc], number)
            yield family

    def _of_free(self, rows: tuple[FreeCells, ...]) -> Iterator[Metric]:
        """How scattered free devices are."""
        for name, help_text in (
            ("free_devices", "Free devices by the largest cell around them that is free as a whole."),
            ("free_cells", "Cells of the cluster that are free as a whole."),
            ("packed_cells", "Cells that the free devices of the chain would fill if they were not scattered."),
        ):
            family = GaugeMetricFamily(f"{self.prefix}_{name}", help_text, labels=["chain", "cell_type", "level"])
            for row in rows:
                value = {"free_devices": row.devices, "free_cells": row.cells, "packed_cells": row.packed}[name]
                family.add_metric([row.chain, row.cell_type, str(row.level)], value)
            yield family

    def _of_cells(self, cells: Counter[CellKey]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            f"{self.prefix}_cells",
            "Cells of virtual clusters by cell type, level and state.",
            labels=["vc", "cell_type", "level", "state"],
        )
        for place in sorted({key[:3] for key in cells}):
            for cell_state in STATES:  # those without cells too: an alert that asks for 0 needs a 0
                family.add_metric([*place, cell_state], cells[*place, cell_state])
        return family

    def _of_sharing(
        self, budgets: Sequence[BudgetState], holders: Sequence[tuple[str, str, int, int]]
    ) -> Iterator[Metric]:
        """Budgets and limits for users, where there are some."""
        families = {
            name: GaugeMetricFamily(f"{self.prefix}_{name}", help_text, labels=["vc", "user"])
            for name, help_text in (
                ("budget_hours", "Device hours of a month that a budget allows."),
                ("budget_used_hours", "Device hours of this month that count for a budget."),
                ("user_devices", "Devices with a guarantee of a user who has a limit."),
                ("user_devices_limit", "Devices with a guarantee that the user may hold."),
            )
        }
        for state in budgets:
            families["budget_hours"].add_metric([state.budget.vc, state.user], state.budget.hours)
            families["budget_used_hours"].add_metric([state.budget.vc, state.user], state.used / HOUR)
        for vc, user, devices, most in holders:
            families["user_devices"].add_metric([vc, user], devices)
            families["user_devices_limit"].add_metric([vc, user], most)
        yield from (family for family in families.values() if family.samples)

    def _of_devices(
        self, rows: Sequence[tuple[str, int, int]], name: str, help_text: str, limit: str
    ) -> Iterator[Metric]:
        """Devices and limits of virtual clusters, where there are some."""
        if rows:
            yield self._gauge(name, f"Devices {help_text}.", "vc", {vc: devices for vc, devices, _ in rows})
            yield self._gauge(limit, f"The most devices {help_text}.", "vc", {vc: most for vc, _, most in rows})

    def _of_departments(self, rows: Sequence[DepartmentUse]) -> Iterator[Metric]:
        """Devices and promises of departments, where there are some."""
        if rows:
            used, promised = ({row.name: row.used for row in rows}, {row.name: row.promised for row in rows})
            yield self._gauge("department_devices", "Devices that the jobs of a department use.", "department", used)
            yield self._gauge("department_promise", "Devices that a department is promised.", "department", promised)


class _Once:
    """Families that are registered for one answer."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Called by the registry."""
        return self._families


def cluster_text(figures: ClusterFigures, prefix: str) -> bytes:
    """The figures of a cluster in Prometheus' text format, under the names that a door with this prefix has."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(list(FigureFamilies(prefix).of_cluster(figures))))
    return generate_latest(registry)


def figures(core: DoorCore) -> SchedulerFigures:
    """What a core knows now; it takes the core's lock."""
    with core.lock:
        reasons = Counter(
            entry.cached.kind if entry.cached.kind != "wait" else entry.cached.reason.removeprefix("pod waits: ")
            for entry in core.table
            if entry.cached is not None and not entry.cached.node
        )
        pods = Counter("bound" if pod.bound else "assumed" for pod in core.book.pods.values() if pod.info)
        allowances, now = core.allowances, windows.now_of(core)
        sharing = SharingFigures(
            tuple(allowances.states()),
            tuple(allowances.holders()),
            tuple(allowances.borrowers()),
            tuple(allowances.lenders()),
            allowances.lent_lately(),
            tuple(allowances.departments()),
        )
        starts, promised = (core.starts.times(), core.starts.numbers()) if core.is_open else ({}, {})
        ahead = AheadFigures(
            windows.counts(core),
            core.starts.reservations(),
            core.starts.short() if core.is_open else {},
            starts,
            promised,
            core.windows.moves,
            planned_weights(core.windows.moves, now),
        )
        hardware = HardwareFigures(
            len(core.health.nodes),
            len(core.health.bad),
            sum(map(len, core.health.bad_devices.values())),
            cells_at_risk(core.book.engine.state),
        )
    return SchedulerFigures(reasons, {state: pods[state] for state in ("assumed", "bound")}, sharing, ahead, hardware)


def count(core: DoorCore) -> Counter[CellKey]:
    """Cells of virtual clusters, from preassigned cells down to leaves.

    It lets others have the lock in between: not all are as they were at one instant. Raises `NotServingError`.
    """
    with core.sharing() as give_way:
        return count_cells(core.book.engine.state, give_way)


def count_free(core: DoorCore) -> tuple[FreeCells, ...]:
    """Cells of the cluster that are free as a whole; like `count`, it gives up the lock in between."""
    with core.sharing() as give_way:
        return free_cells(core.book.engine.state, give_way)


def _most_common(reasons: Counter[str]) -> dict[str, int]:
    """Waiting pods by reason, always with ``other``: a sum is 0 rather than missing when no pod waits."""
    common = dict(sorted(reasons.most_common(REASONS)))
    return common | {"other": common.get("other", 0) + reasons.total() - sum(common.values())}
