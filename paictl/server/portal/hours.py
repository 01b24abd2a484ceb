"""The page of device hours: what a month has cost, by tenant, user, job or SKU."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any, Final

from paictl.cluster.interface import ClusterError, UnsupportedError
from paictl.errors import PaictlError
from paictl.i18n import in_language
from paictl.operate.usage import FIGURES, UsageReport, dimensions, figures, month_span
from paictl.server.api.usage import budgets_of, limits_of, report_of
from paictl.server.calls import Answer, Call
from paictl.server.portal.rendering import of_commands, page
from paictl.server.routing import Access, Operation, Route
from paictl.workload.usagereport import HOUR, UsageRow

MOST: Final = 500
"""Rows that are shown, those with the most hours; the API gives all."""
CHOICES: Final = ("vc", "vc,user", "user", "job", "sku", "vc,sku")
"""What the page adds up by."""
NAMES: Final = {
    "vc": "Virtual cluster",
    "user": "User",
    "job": "Job",
    "sku": "SKU",
    "guaranteed": "Guaranteed",
    "opportunistic": "Opportunistic",
    "lost": "Lost",
    "idle": "Promised, idle",
    "lendable": "Lendable",
    "department": "Department",
}
"""Headings of the columns, keys of the catalogue."""


def usage(call: Call) -> Answer:
    """The page."""
    by = call.query.get("by") or ("vc,user" if call.me.admin else "job")
    values: dict[str, Any] = {
        "title": "Device hours",
        "here": "/usage",
        "choices": CHOICES,
        "by": ",".join(dimensions(by)),
        "figures": FIGURES,
        "names": NAMES,
        "books": None,
        "rows": (),
        "refusal": "",
        "hint": "",
        "hidden": 0,
    }
    start, end = month_span(call.query.get("month") or f"{call.cluster.now.astimezone(UTC):%Y-%m}")
    values |= {"month": f"{start:%Y-%m}", "before": f"{start - timedelta(days=1):%Y-%m}", "after": ""}
    if end <= call.cluster.now:
        values["after"] = f"{end:%Y-%m}"
    try:
        books = report_of(call, by)
    except (UnsupportedError, ClusterError) as error:
        hint = error.hint or ""
        values["refusal"] = in_language(error.message, call.language)
        values["hint"] = "" if of_commands(hint) else in_language(hint, call.language)
    else:
        values |= {"books": books, "rows": _rows(books), "hidden": max(0, len(books.rows) - MOST)}
        values["total"] = _cells(books.total)
    return page(call, "usage.html", values | _allowances(call))


def _allowances(call: Call) -> dict[str, Any]:
    """Budgets and limits for users; none where the cluster cannot say how they stand."""
    try:
        states, holdings = budgets_of(call).states, limits_of(call)
    except PaictlError:  # what is wrong with the accounts has been said
        return {"budgets": (), "limits": ()}
    rows = [
        (
            state.budget.vc or "–",
            state.user or "–",
            f"{state.used / HOUR:,.2f}",
            f"{state.budget.hours:,.2f}",
            f"{state.percent:.0f} %",
            state.level.value,
            state.budget.over.value,
        )
        for state in states
    ]
    limits = [
        (holding.vc, holding.user or "–", NAMES[holding.kind], holding.held, holding.most) for holding in holdings
    ]
    return {"budgets": rows, "limits": limits}


def _rows(books: UsageReport) -> list[tuple[list[str], list[str]]]:
    """Key and hours of each row, those with the most hours first."""
    first = sorted(books.rows, key=lambda row: (-row.used, -row.idle, row.key))[:MOST]
    return [([value or "–" for value in row.key], _cells(row)) for row in first]


def _cells(row: UsageRow) -> list[str]:
    return [f"{amount / HOUR:,.2f}" for amount in figures(row)]


ROUTES: Final = (Route("GET", "/usage", Access.USER, usage, Operation("Device hours of a month"), slow=True),)
