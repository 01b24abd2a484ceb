"""Device time by tenant, user, job and SKU."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paictl.operate.budgets import BudgetReport, budgets
from paictl.operate.budgets import as_data as as_budget_data
from paictl.operate.limits import LimitState, limits
from paictl.operate.limits import as_data as as_limit_data
from paictl.operate.usage import UsageReport, as_data, dimensions, usage_report
from paictl.server.calls import Answer, Call, json_answer
from paictl.server.routing import Access, Operation, Route


def report_of(call: Call, by: str) -> UsageReport:
    """The month that is asked for: everybody's for an administrator, one's own for everybody else."""
    user = None if call.me.admin else call.me.name
    return usage_report(
        call.cluster, call.query.get("month") or None, dimensions(by), call.query.get("vc") or None, user
    )


def usage(call: Call) -> Answer:
    """A report."""
    return json_answer(as_data(report_of(call, call.query.get("by") or "vc")))


def budgets_of(call: Call) -> BudgetReport:
    """The budgets that concern the caller: all of them for an administrator."""
    if call.me.admin:
        return budgets(call.cluster)
    report = budgets(call.cluster, user=call.me.name)
    mine = (
        state for state in report.states if state.user or (state.budget.vc and call.me.may_submit_to(state.budget.vc))
    )
    return replace(report, states=tuple(mine))


def limits_of(call: Call) -> list[LimitState]:
    """The caller's limits: all limits for an administrator."""
    return limits(call.cluster, user=None if call.me.admin else call.me.name)


def budgets_answer(call: Call) -> Answer:
    """Budgets of this month."""
    return json_answer(as_budget_data(budgets_of(call)))


def limits_answer(call: Call) -> Answer:
    """Devices that are held and may be."""
    return json_answer(as_limit_data(limits_of(call)))


ROUTES: Final = (
    Route(
        "GET",
        "/api/v2/usage/budgets",
        Access.USER,
        budgets_answer,
        Operation("Budgets of device hours in this month", "usage", (200,)),
        slow=True,
    ),
    Route(
        "GET",
        "/api/v2/usage/limits",
        Access.USER,
        limits_answer,
        Operation("Devices that users hold and tenants borrow, and their limits", "usage", (200,)),
        slow=True,
    ),
    Route(
        "GET",
        "/api/v2/usage",
        Access.USER,
        usage,
        Operation(
            "Device time of a month; users see that of their own jobs, administrators all",
            "usage",
            (200, 400),
            {"month": "string", "by": "string", "vc": "string"},
        ),
        slow=True,
    ),
)
