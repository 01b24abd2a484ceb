"""The first page: how the cluster is, how one's own jobs are, and what has been used."""

from __future__ import annotations

from typing import Any, Final

from paictl.cluster.interface import Cluster, JobState, JobView, Port
from paictl.cluster.jobpages import JobOrder, JobQuery, page_of
from paictl.cluster.picture import Picture
from paictl.i18n import text
from paictl.scheduler.groups import Hold
from paictl.server.calls import Answer, Call
from paictl.server.portal.rendering import fragment, page, path_of, prepare
from paictl.server.portal.usage import HEIGHT, WIDTH, UsageHistory
from paictl.server.portal.why import explained
from paictl.server.routing import Access, Operation, Route
from paictl.server.tenants import Tenants

RECENT: Final = 8
"""Of one's own jobs the newest."""
EXPLAINED: Final = 3
"""Of these, so many that wait say why at once; of others a link leads to the reason."""
_LENT: Final = (Hold.OPPORTUNISTIC, Hold.LAZY)


def routes(history: UsageHistory) -> tuple[Route, ...]:
    """The page, and what changes of it."""

    def home(call: Call) -> Answer:
        """The page."""
        return page(call, "home.html", {"title": "Home", "here": "/", **_values(call, history)})

    def live(call: Call) -> Answer:
        """What changes of the page."""
        return fragment(call, "home-live.html", _values(call, history))

    return (
        Route("GET", "/", Access.USER, home, Operation("The state of the cluster and of the user's own jobs")),
        Route("GET", "/live", Access.USER, live, Operation("What changes of the first page")),
    )


def warm(cluster: Cluster, history: UsageHistory) -> None:
    """Read what the first visit would have to wait for: cells, jobs, and all events so far."""
    history.picture(cluster)
    page_of(cluster, JobQuery(limit=1))
    history.chart(cluster, 0)
    prepare("home.html")


def _values(call: Call, history: UsageHistory) -> dict[str, Any]:
    picture = history.picture(call.cluster)
    mine = page_of(call.cluster, JobQuery(frozenset({call.me.name}), limit=RECENT)).jobs
    oldest, tenants = _longest_waiting(call), Tenants(call)
    waiting = [job for job in mine if job.state is JobState.WAITING][:EXPLAINED]
    whys = {job.key: _why(call, job) for job in ([oldest] if oldest else []) + waiting}
    reasons = {key: lines[-1] if lines else "" for key, lines in whys.items()}
    total = 0 if picture is None else sum(1 for _ in picture.leaves())
    return {
        "tiles": [] if picture is None else _tiles(picture, total),
        "jobs": [
            {"job": job, "path": path_of(job.key), "why": reasons.get(job.key, "")} for job in map(tenants.job, mine)
        ],
        "longest": oldest,
        "longest_path": path_of(oldest.key) if oldest else "",
        "waited": call.cluster.now - oldest.submitted if oldest else None,
        "why": whys[oldest.key] if oldest else (),
        "chart": history.chart(call.cluster, total),
        "width": WIDTH,
        "height": HEIGHT,
    }


def _tiles(picture: Picture, total: int) -> list[tuple[str, int, str]]:
    """Name, number, and what the number is of."""
    leaves = list(picture.leaves())
    states = [job.state for job in picture.jobs]
    return [
        ("Devices", total, ""),
        ("Promised", sum(vc.quota for vc in picture.vcs), ""),
        ("In use", sum(leaf.hold not in (Hold.NONE, Hold.PREEMPTING) for leaf in leaves), "good"),
        ("Lent", sum(leaf.hold in _LENT for leaf in leaves), ""),
        ("Bad", sum(not leaf.healthy for leaf in leaves), "bad"),
        ("Running jobs", states.count(JobState.RUNNING), "good"),
        ("Waiting jobs", states.count(JobState.WAITING), "wait"),
    ]


def _longest_waiting(call: Call) -> JobView | None:
    """The oldest job that waits, of one's own; of everybody's for an administrator."""
    users = frozenset() if call.me.admin else frozenset({call.me.name})
    query = JobQuery(users, states=frozenset({JobState.WAITING}), order=JobOrder.SUBMITTED, descending=False, limit=1)
    return next(iter(page_of(call.cluster, query).jobs), None)


def _why(call: Call, job: JobView) -> list[str]:
    """The beginning of the explanation; its page has all of it."""
    if Port.SCHEDULING in call.cluster.lacks:
        return []
    explanation = explained(call, job, pictured=False)
    if explanation.words is None:
        return [*explanation.heads]
    tried = [view.tried.values for view in explanation.words.views[:2]]
    where = [text("Tried {where}: {why}.", where=values["where"], why=values["why"]) for values in tried]
    return [*explanation.heads, explanation.words.asks, *where]
