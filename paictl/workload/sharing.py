"""The section `sharing` of services-configuration.yaml: how tenants and users share beyond HiveD's guarantees.

Nothing in it is HiveD's own, and without it nothing is held back. Each ability has a module; here they are read
together, and asked together whether a gang may start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.backfill import BackfillMode, BackfillRule, BackfillRules
from paictl.workload.budgets import EACH, SECTION, WARN_AT, Budgets, OverBudget, UsageBudget, Used
from paictl.workload.departments import Department, Departments
from paictl.workload.devicelimits import (
    BorrowLimits,
    Spares,
    SpareUse,
    UserLimit,
    UserLimits,
    devices_of,
)
from paictl.workload.historylimits import HistoryLimits
from paictl.workload.lending import LendLimits, LendUse
from paictl.workload.lentorder import HALF_LIFE, OpportunisticOrder, OrderBy
from paictl.workload.preemption import PreemptionRules, VictimChoice
from paictl.workload.runlimits import limit_of
from paictl.workload.runtimerules import RunTimeRules
from paictl.workload.tasklimits import TaskLimits
from paictl.workload.usagereport import HOUR


@frozen
class SharingUse:
    """What is used now: the month's device time, None where that is not known yet, and what users hold."""

    month: Used | None
    held: Mapping[tuple[str, str], int]
    borrowed: Mapping[str, int] = field(default_factory=dict)
    """Devices without a guarantee by virtual cluster."""
    promise: SpareUse | None = None
    """How the promise of the gang's virtual cluster stands, if a part of it is spare."""
    lent: LendUse | None = None
    """How all promises stand; None where nobody's lending is limited."""


class Sharing:
    """What a configuration says; false where nothing in it holds gangs back."""

    def __init__(
        self,
        budgets: Budgets | None = None,
        limits: UserLimits | None = None,
        borrowing: BorrowLimits | None = None,
        run_times: RunTimeRules | None = None,
        backfill: BackfillRules | None = None,
        spares: Spares | None = None,
        preemption: PreemptionRules | None = None,
        lending: LendLimits | None = None,
        order: OpportunisticOrder | None = None,
        departments: Departments | None = None,
        task_limits: TaskLimits | None = None,
        history_limits: HistoryLimits | None = None,
    ) -> None:
        self.budgets = budgets or Budgets()
        self.limits = limits or UserLimits()
        self.borrowing = borrowing or BorrowLimits()
        self.run_times = run_times or RunTimeRules()
        """Asked once for a job, when it is submitted."""
        self.backfill = backfill or BackfillRules()
        """Asked with the whole line of a virtual cluster, not by `obstacle`."""
        self.spares = spares or Spares()
        self.lending = lending or LendLimits()
        self.preemption = preemption or PreemptionRules()
        """Asked by the scheduler's core when it chooses victims."""
        self.order = order
        """Of opportunistic gangs that wait, by recent use; None: it does not count."""
        self.departments = departments or Departments()
        """Of opportunistic gangs that wait, and of those that give way."""
        self.task_limits = task_limits or TaskLimits()
        """Asked when jobs are submitted."""
        self.history_limits = history_limits or HistoryLimits()
        """The same, by clusters on this machine only."""
        self._holds_back = bool(self.budgets or self.limits or self.borrowing or self.spares or self.lending)

    @property
    def orders(self) -> bool:
        """Whether opportunistic gangs are tried in another order than that of submission."""
        return self.order is not None or bool(self.departments)

    @property
    def chooses_victims(self) -> bool:
        """Whether more than HiveD's order decides who gives way."""
        return bool(self.preemption or self.departments)

    def __bool__(self) -> bool:
        return self._holds_back  # asked for each pod that waits

    def obstacle(self, request: PodRequest, user: str, use: SharingUse, now: datetime) -> str:
        """Why a gang that holds nothing yet may not start now; empty if it may."""
        if use.month is None:
            if any(budget.over is not OverBudget.WARN for budget in self.budgets.of(request.vc, user)):
                return text("the accounts have not been read yet, so its budget is unknown")
        elif self.budgets:
            for state in self.budgets.holding(request.vc, user, use.month):
                return state.reason(now)
        devices = devices_of(request.members)
        if request.guaranteed:
            held = use.held.get((request.vc, user), 0)
            limited = self.limits.refusal(request.vc, user, devices, held)
            return limited or self.spares.refusal(request.vc, devices, use.promise) or ""
        limited = self.borrowing.refusal(request.vc, devices, use.borrowed.get(request.vc, 0))
        return limited or self.lending.refusal(request.vc, devices, use.lent) or ""


def read_sharing(data: object, where: str = SECTION) -> Sharing:
    """What the section says; nothing for None.

    Raises `PaictlError` for what the schema would not have let through: a file may come here without validation.
    """
    if data is None:
        return Sharing()
    try:
        section = _mapping(data)
        return Sharing(
            Budgets(_budgets(section.get("budgets"))),
            UserLimits(_limits(section.get("user-limits"))),
            BorrowLimits(_devices(section.get("borrow-limits"))),
            RunTimeRules.read(_rows(section.get("run-times")), f"{where}.run-times"),
            BackfillRules(_backfill(section.get("backfill"))),
            Spares(_devices(section.get("spares"))),
            PreemptionRules(
                VictimChoice(_mapping(section.get("preemption", {})).get("victims", VictimChoice.FEWEST_DEVICES)),
                _min_run_times(section.get("min-run-times")),
            ),
            LendLimits(_devices(section.get("lend-limits"))),
            _order(section.get("opportunistic-order")),
            Departments(_departments(section.get("departments"))),
            TaskLimits(_by_user(section.get("task-limits"), "tasks")),
            HistoryLimits(_by_user(section.get("history-limits"), "megabytes")),
        )
    except PaictlError:  # one of them is a ValueError, too, and it knows its place
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:  # YAML has an infinity
        raise PaictlError(
            text("this section cannot be read: {error}", error=str(error)),
            where=where,
            hint="see what is wrong: paictl config validate",
        ) from None


def _budgets(rows: object) -> Iterator[UsageBudget]:
    for row in _rows(rows):
        yield UsageBudget(
            str(row.get("vc", "")),
            str(row.get("user", "")),
            round(float(row["device-hours"]) * HOUR),
            float(row.get("warn-at", WARN_AT)),
            OverBudget(row.get("over", OverBudget.WAIT)),
        )


def _limits(rows: object) -> Iterator[UserLimit]:
    for row in _rows(rows):
        yield UserLimit(str(row["vc"]), str(row.get("user", EACH)), int(row["devices"]))


def _devices(rows: object) -> dict[str, int]:
    return {str(row["vc"]): int(row["devices"]) for row in _rows(rows)}


def _by_user(rows: object, field: str) -> dict[str, int]:
    return {str(row.get("user", EACH)): int(row[field]) for row in _rows(rows)}


def _min_run_times(rows: object) -> dict[str, Millis]:
    return {str(row.get("vc", "")): limit_of(row["time"]) for row in _rows(rows)}


def _departments(rows: object) -> Iterator[Department]:
    for row in _rows(rows):
        vcs = row.get("vcs") or ()
        if not isinstance(vcs, list | tuple):
            raise TypeError("a list of virtual clusters is expected")
        devices = int(row["devices"]) if row.get("devices") is not None else None
        yield Department(str(row["name"]), tuple(map(str, vcs)), str(row.get("parent", "")), devices)


def _order(value: object) -> OpportunisticOrder | None:
    if value is None:
        return None
    order = _mapping(value)
    half_life = limit_of(order["half-life"]) if "half-life" in order else HALF_LIFE
    return OpportunisticOrder(OrderBy(order["by"]), half_life)


def _backfill(rows: object) -> Iterator[BackfillRule]:
    for row in _rows(rows):
        yield BackfillRule(str(row.get("vc", "")), BackfillMode(row["mode"]))


def _rows(rows: object) -> Iterator[Mapping[str, Any]]:
    if rows is not None and not isinstance(rows, list):
        raise TypeError("a list is expected")
    yield from map(_mapping, rows or ())


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("a mapping is expected")
    return value
