"""The page of jobs: one's own, for administrators everybody's; it renews itself."""

from __future__ import annotations

from typing import Any, Final

from paictl.cluster.interface import JobState
from paictl.cluster.jobpages import JobQuery, page_of
from paictl.server.calls import Answer, Call
from paictl.server.portal.rendering import address, all_vcs, fragment, number_in, page, paging, path_of, tag_path
from paictl.server.routing import Access, Operation, Route
from paictl.server.tenants import Tenants

LIMIT: Final = 50
"""Jobs on a page."""
_FILTERS: Final = ("keyword", "state", "vc", "tag", "mine")


def jobs(call: Call) -> Answer:
    """The list with its filters."""
    values = {"title": "Jobs", "here": "/jobs", "states": [state.value for state in JobState],
              "vcs": all_vcs(call.cluster)}  # fmt: skip
    return page(call, "jobs.html", {**values, **_table(call)})


def table(call: Call) -> Answer:
    """The list alone, which the page puts in the place of the older one."""
    return fragment(call, "jobs-table.html", _table(call))


def _table(call: Call) -> dict[str, Any]:
    chosen = {name: call.query.get(name, "")[:200] for name in _FILTERS}
    offset = number_in(call, "offset")
    everybody = call.me.admin and not chosen["mine"]
    state, vc = chosen["state"], chosen["vc"]
    job_page = page_of(
        call.cluster,
        JobQuery(
            users=frozenset() if everybody else frozenset({call.me.name}),
            vcs=frozenset({vc} if vc else ()),
            states=frozenset(job_state for job_state in JobState if job_state.value == state),
            keyword=chosen["keyword"],
            tags=frozenset({chosen["tag"]} if chosen["tag"] else ()),
            offset=offset,
            limit=LIMIT,
        ),
    )
    now = call.cluster.now
    rows = [{"job": job, "path": path_of(job.key), "ran": (job.ended or now) - job.started if job.started else None}
            for job in map(Tenants(call).job, job_page.jobs)]  # fmt: skip
    return {
        "rows": rows, "chosen": chosen, "tagged": any(job.tags for job in job_page.jobs), "tag_path": tag_path,
        "paging": paging("/jobs", chosen, offset, LIMIT, job_page.total),
        "live": address("/jobs/table", {**chosen, "offset": str(offset)}),
    }  # fmt: skip


ROUTES: Final = (
    Route("GET", "/jobs", Access.USER, jobs, Operation("The list of jobs")),
    Route("GET", "/jobs/table", Access.USER, table, Operation("The rows of the list of jobs")),
)
