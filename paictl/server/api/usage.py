"""Device time by tenant, user, job and SKU."""

from __future__ import annotations

from typing import Final

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


ROUTES: Final = (
    Route(
        "GET", "/api/v2/usage", Access.USER, usage,
        Operation(
            "Device time of a month, of one's own jobs or, for administrators, of all", "usage", (200, 400),
            {"month": "string", "by": "string", "vc": "string"},
        ),
        slow=True,
    ),
)  # fmt: skip
