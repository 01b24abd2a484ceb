"""The pages of jobs: the list, which renews itself, and that of one: its tasks, why it waits, what happened when.

The list has one's own jobs, for administrators everybody's. From the page of a job comes the wish to stop it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from paictl.cluster.attempts import attempts_of
from paictl.cluster.capabilities import HandClock
from paictl.cluster.eventtext import detail
from paictl.cluster.interface import Event, JobState, JobView, TaskPlace, TaskView
from paictl.cluster.jobpages import JobQuery, KeepsJobData, page_of
from paictl.cluster.picture import JobLine
from paictl.cluster.timeline import timeline
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.server.calls import Answer, Call, redirect
from paictl.server.portal.rendering import (
    MOST_SHOWN,
    address,
    all_vcs,
    fragment,
    number_in,
    page,
    paging,
    path_of,
    tag_path,
)
from paictl.server.portal.why import explained
from paictl.server.routing import Access, Operation, Route
from paictl.server.tasks.access import TaskSite
from paictl.server.tenants import Tenants
from paictl.workload.ports import ports_of

LIMIT: Final = 50
"""Jobs on a page."""
_FILTERS: Final = ("keyword", "state", "vc", "tag", "mine")


def jobs(call: Call) -> Answer:
    """The list with its filters."""
    values = {
        "title": "Jobs",
        "here": "/jobs",
        "states": [state.value for state in JobState],
        "vcs": all_vcs(call.cluster),
    }
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
    rows = [
        {"job": job, "path": path_of(job.key), "ran": (job.ended or now) - job.started if job.started else None}
        for job in map(Tenants(call).job, job_page.jobs)
    ]
    return {
        "rows": rows,
        "chosen": chosen,
        "tagged": any(job.tags for job in job_page.jobs),
        "tag_path": tag_path,
        "paging": paging("/jobs", chosen, offset, LIMIT, job_page.total),
        "live": address("/jobs/table", {**chosen, "offset": str(offset)}),
    }


ROUTES: Final = (
    Route("GET", "/jobs", Access.USER, jobs, Operation("The list of jobs")),
    Route("GET", "/jobs/table", Access.USER, table, Operation("The rows of the list of jobs")),
)


# --- the page of a job

LOG_LINES: Final = 1000
"""Lines of a log that a page shows; ``paictl job logs -f`` shows all of it."""
LOG_PIECES: Final = 4096
"""No more pieces are read of it, however long its lines."""
LOG_BYTES: Final = 1 << 20
"""Of these that a page shows, the last ones: a task may write lines of any length, and a page is held several times."""
_WIDTH: Final = 1000
"""Units from the left to the right end of a timeline."""


def _values(call: Call, *, opens: bool) -> dict[str, Any]:
    tenants = Tenants(call)
    job = tenants.job(call.cluster.job(_key(call)))
    now = call.cluster.now
    events = tenants.events(call.cluster.events(f"job/{job.key}"))
    path, waiting = path_of(job.key), job.state is JobState.WAITING
    return {
        "job": job,
        "path": path,
        "live": f"{path}/live",
        "tasks": job.tasks[:MOST_SHOWN],
        "more_tasks": max(len(job.tasks) - MOST_SHOWN, 0),
        "ran": (job.ended or now) - job.started if job.started else None,
        "waiting": waiting,
        "why": explained(call, job, pictured=False) if waiting else None,
        "chart": chart(events, job.submitted, job.ended or now),
        "events": [(event, detail(event)) for event in events[-MOST_SHOWN:]],
        "more_events": max(len(events) - MOST_SHOWN, 0),
        "attempts": attempts_of(job, events),
        "ports": _ports(call, job),
        "opens": opens,
        "tag_path": tag_path,
    }


def _ports(call: Call, view: JobView) -> list[tuple[TaskView, tuple[str, ...]]]:
    """The tasks that serve something now, and the names of their ports."""
    running = [task for task in view.tasks[:MOST_SHOWN] if task.node and task.ended is None]
    cluster = call.cluster
    if not running or isinstance(cluster, HandClock) or not isinstance(cluster, KeepsJobData):
        return []
    try:
        ports = ports_of(cluster.job_data(view.key))
    except PaictlError:  # a job of an earlier version: it runs, and has nothing that a page could open
        return []
    rows = ((task, tuple(port.name for port in ports if port.is_of(task.role, task.index))) for task in running)
    return [(task, names) for task, names in rows if names]


def log(call: Call) -> Answer:
    """What a task's newest pod has written, its last lines."""
    task = TaskPlace(call.path["role"], int(call.path["index"]) if call.path["index"].isdigit() else -1)
    error = written = ""
    try:
        pieces = call.cluster.output(_key(call), task, lines=LOG_LINES)
        written = _end_of(itertools.islice(pieces, LOG_PIECES)).decode(errors="replace")
    except PaictlError as problem:  # it has not started, or its pod is gone
        error = problem.message
    values = {
        "title": str(task),
        "here": "/jobs",
        "path": path_of(_key(call)),
        "task": task,
        "written": written,
        "error": error,
    }
    return page(call, "log.html", values)


def _end_of(pieces: Iterable[bytes]) -> bytes:
    """The last `LOG_BYTES` of what a task has written; never much more is held."""
    kept = bytearray()
    for piece in pieces:
        kept += piece
        del kept[:-LOG_BYTES]
    return bytes(kept)


def stop(call: Call) -> Answer:
    """End the job."""
    key = _key(call)
    call.cluster.stop_job(key)
    return redirect(path_of(key))


def tags(call: Call) -> Answer:
    """Add a tag to the job, or remove one."""
    key, given = _key(call), call.fields()
    change = {name: [str(given[name]).strip()] for name in ("add", "remove") if given.get(name)}
    call.cluster.tag_job(call.cluster.job(key).key, **change)
    return redirect(path_of(key))


def _key(call: Call) -> str:
    return f"{call.path['user']}~{call.path['name']}"


@frozen
class TimelineBar:
    """A span on a row of the timeline in units of its width; `kind` is an outcome, or ``waiting``."""

    left: float
    width: float
    kind: str
    start: datetime
    end: datetime | None
    node: str = ""
    devices: str = ""
    reason: str = ""


@frozen
class Chart:
    """The timeline: a row a task, and what the ends of the axis are."""

    start: datetime
    end: datetime
    rows: tuple[tuple[str, tuple[TimelineBar, ...]], ...]
    more: int = 0
    """Tasks that are not shown."""


def chart(events: Sequence[Event], start: datetime, end: datetime, most: int = 40) -> Chart | None:
    """The timeline of a job from its events; None while nothing has happened."""
    lines = timeline(events, end).jobs
    if not lines:
        return None
    seconds = max((end - start).total_seconds(), 1e-3)
    rows = tuple(_rows(lines[0], start, end, _WIDTH / seconds))
    return Chart(start, end, rows[:most], max(len(rows) - most, 0))


def _rows(line: JobLine, start: datetime, end: datetime, scale: float) -> Iterator[tuple[str, tuple[TimelineBar, ...]]]:
    for task in line.tasks:
        bars = [_bar(since, until, "waiting", start, end, scale) for since, until in task.waits]
        bars += [
            _bar(
                attempt.start,
                attempt.end,
                attempt.outcome.value,
                start,
                end,
                scale,
                attempt.node,
                attempt.shown_devices,
                attempt.reason,
            )
            for attempt in task.attempts
        ]
        yield f"{task.role}[{task.index}]", tuple(sorted(bars, key=lambda bar: bar.left))


def _bar(
    since: datetime,
    until: datetime | None,
    kind: str,
    start: datetime,
    end: datetime,
    scale: float,
    node: str = "",
    devices: str = "",
    reason: str = "",
) -> TimelineBar:
    left = max((since - start).total_seconds() * scale, 0.0)
    width = max(((until or end) - since).total_seconds() * scale, 2.0)
    return TimelineBar(
        round(min(left, _WIDTH - 2.0), 1),
        round(min(width, _WIDTH - left), 1),
        kind,
        since,
        until,
        node,
        devices,
        reason,
    )


def by_key(call: Call) -> Answer:
    """The page of a job by the name that people see."""
    return redirect(path_of(_key(call)))


_JOB_ROUTES: Final = (
    Route("GET", "/jobs/{user}~{name}", Access.OWNER, by_key, Operation("A job by USER~NAME", answers=(303,))),
    Route(
        "GET", "/jobs/{user}/{name}/log/{role}/{index}", Access.OWNER, log, Operation("The log of a task"), slow=True
    ),  # its node may be dead, and then it takes half a minute
    Route(
        "POST",
        "/jobs/{user}/{name}/stop",
        Access.OWNER,
        stop,
        Operation("Stop a job", answers=(303, 400)),
        jobs=True,
    ),
    Route(
        "POST",
        "/jobs/{user}/{name}/tags",
        Access.OWNER,
        tags,
        Operation("Change the tags of a job", answers=(303, 400)),
        jobs=True,
    ),
)


def routes(tasks: TaskSite | None = None) -> tuple[Route, ...]:
    """The page and what belongs to it; with `tasks` it leads to what tasks serve."""

    def job(call: Call) -> Answer:
        """The page."""
        values = _values(call, opens=tasks is not None)
        return page(call, "job.html", {**values, "title": values["job"].key, "here": "/jobs"})

    def live(call: Call) -> Answer:
        """What changes of the page."""
        return fragment(call, "job-live.html", _values(call, opens=tasks is not None))

    changes = Operation("What changes of a job", answers=(200, 400))
    return (
        *_JOB_ROUTES,
        Route("GET", "/jobs/{user}/{name}", Access.OWNER, job, Operation("A job", answers=(200, 400)), slow=True),
        Route("GET", "/jobs/{user}/{name}/live", Access.OWNER, live, changes, slow=True),
    )
