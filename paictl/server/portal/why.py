"""The page of a job's explanation: what it asks, what was tried, where it would run, and the ways out as buttons.

The words are those of ``paictl job explain -o wide``; a picture of the cells shows the place that a way out would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from paictl.cluster.interface import JobState, JobView, Port
from paictl.cluster.picture import ChainPicture, Picture
from paictl.cluster.scheduling import JobExplanation, JobSituation
from paictl.cluster.whywaits import ahead_lines, closing_lines, start_lines
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.operate import explaining
from paictl.scheduler.explain import Explanation, ExplanationText
from paictl.scheduler.explain.data import Change, ChangeKind
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.scratch import ChangeOutcome, Holder
from paictl.server.calls import Answer, Call
from paictl.server.portal.cells import DrawnChain, PictureMarks, drawn
from paictl.server.portal.rendering import address, fragment, number_in, of_commands, page, path_of
from paictl.server.routing import Access, Operation, Route
from paictl.server.tenants import Tenants
from paictl.workload.job import PRIORITIES
from paictl.workload.pods import short_name

MOST_STOPPED: Final = 4
"""Jobs that one way out offers to stop, a button each."""
_CLASSES: Final = {priority: name for name, priority in PRIORITIES.items()}


@frozen
class WayButton:
    """Something to do: a job of one's own to stop, a service to start, or a page to go on with."""

    label: Text
    address: str
    stops: str = ""
    starts: str = ""


@frozen
class WayOut:
    """A change that would let the job run, in the words of the command; `number` is what ``?way=`` says."""

    number: int
    sentence: Text
    buttons: tuple[WayButton, ...]
    outcome: ChangeOutcome
    shown: bool = False
    """Whether the picture shows what would come of it."""


@frozen
class Why:
    """Everything that a page says about why a job is where it is."""

    heads: tuple[str, ...] = ()
    """How many of its tasks wait; all that there is to say where the scheduler has not looked."""
    words: ExplanationText | None = None
    ways: tuple[WayOut, ...] = ()
    buttons: tuple[WayButton, ...] = ()
    """What can be done regardless of the reason."""
    chains: tuple[DrawnChain, ...] = ()
    caption: Text | None = None

    @property
    def quick(self) -> tuple[WayButton, ...]:
        """The buttons of all ways out, for a page that does not list them."""
        return tuple(button for way in self.ways for button in way.buttons)


def explained(call: Call, job: JobView, *, pictured: bool) -> Why:
    """Why a job is where it is, as far as the caller may know; `pictured` adds the cells."""
    if Port.SCHEDULING in call.cluster.lacks:
        return Why((text("This cluster does not report why jobs wait."),))
    try:
        raw = call.cluster.explain(job.key)
    except PaictlError as error:  # it may have ended meanwhile; the next look shows it
        return Why((error.message,))
    explanation = Tenants(call).explanation(raw)
    words = explaining.parts(explanation)
    if words is None or raw.scheduler is None or explanation.scheduler is None:
        return _unsearched(call, job, explanation, pictured=pictured)
    ways = tuple(_ways(call, job, explanation.scheduler, words))
    chosen = number_in(call, "way") or 1
    ways = tuple(WayOut(way.number, way.sentence, way.buttons, way.outcome, way.number == chosen) for way in ways)
    outcome, caption = raw.scheduler.outcome, words.outcome
    for way in ways:
        if way.shown:
            outcome, caption = way.outcome, way.sentence
    chains = _pictured(call, raw.scheduler, outcome) if pictured else ()
    heads = (*explaining.heads(explanation), *start_lines(explanation.start), *ahead_lines(explanation.ahead))
    return Why(heads, words, ways, (_edit(job),), chains, caption)


def _unsearched(call: Call, job: JobView, explanation: JobExplanation, *, pictured: bool) -> Why:
    """A job that runs, or waits for something else than room."""
    sentence, hint = explaining.plain(explanation)
    heads = (sentence, *start_lines(explanation.start))
    lines = (*heads, *closing_lines(explanation.windows), *([] if hint is None or of_commands(hint) else [hint]))
    buttons = [_edit(job)]
    if explanation.situation is JobSituation.SERVICE_STOPPED:
        start = text("Start {service}", service=explanation.service)
        buttons = (
            [WayButton(start, f"/admin/services/{explanation.service}", starts=explanation.service)]
            if call.me.admin
            else []
        )
        lines = lines if call.me.admin else (*lines, text("Ask an administrator to start it."))
    places = frozenset((task.node, str(device)) for task in job.tasks if task.node for device in task.devices)
    chains: tuple[DrawnChain, ...] = ()
    if pictured and places and not job.state.ended:
        chains = _drawn(call, call.cluster.picture(), PictureMarks(places, taken=True))
    return Why(
        lines,
        buttons=tuple(buttons) if job.state is JobState.WAITING else (),
        chains=chains,
        caption=text("Where it runs") if chains else None,
    )


def _edit(job: JobView) -> WayButton:
    """A copy to be edited by hand, a way out of everything that is wrong with the job itself."""
    return WayButton(text("Edit and resubmit"), _clone(job))


def _clone(job: JobView, **changed: str) -> str:
    """The form with a copy of the job, which is stopped if the reader does not object."""
    return address("/submit", {"clone": job.key, **changed, "replace": "yes"})


def _ways(call: Call, job: JobView, explanation: Explanation, explanation_text: ExplanationText) -> Iterator[WayOut]:
    smaller = (
        ()
        if explanation.smaller is None or explanation_text.smaller is None
        else ((explanation.smaller, explanation_text.smaller),)
    )
    for number, (change, sentence) in enumerate(
        (*zip(explanation.changes, explanation_text.changes, strict=True), *smaller), 1
    ):
        yield WayOut(number, sentence, tuple(_buttons(call, job, explanation, change)), change.outcome)


def _buttons(call: Call, job: JobView, explanation: Explanation, change: Change) -> Iterator[WayButton]:
    """What the reader can do about a change; empty if only someone else can."""
    match change.kind:
        case ChangeKind.OPPORTUNISTIC | ChangeKind.PRIORITY:
            name = _CLASSES.get(OPPORTUNISTIC if change.priority is None else change.priority)
            if name is not None:
                yield WayButton(text("Resubmit as {name}", name=name), _clone(job, priority=name))
        case ChangeKind.SIZE if len({task.role for task in job.tasks}) == 1:
            yield WayButton(text("Resubmit smaller"), _clone(job, **_size(explanation, change)))
        case ChangeKind.END:
            stopped = list(dict.fromkeys(map(_job_of, change.groups)))
            if len(stopped) <= MOST_STOPPED and all(_may_stop(call, key) for key in stopped):
                yield from (WayButton(text("Stop {job}", job=key), f"{path_of(key)}/stop", key) for key in stopped)
        case ChangeKind.HEAL if call.me.admin:
            yield WayButton(text("Show the nodes"), "/admin/nodes")
        case ChangeKind.QUOTA if call.me.admin:
            yield WayButton(text("Show the configuration"), "/admin/configuration")


def _size(explanation: Explanation, change: Change) -> dict[str, str]:
    """What the copy has to change for a size: the number of tasks of a gang, or the devices of each task."""
    ((leaves, pods),) = change.members
    return {"instances": str(pods)} if pods < explanation.request.members[0][1] else {"gpu": str(leaves)}


def _may_stop(call: Call, job: str) -> bool:
    return job.partition("~")[0] == call.me.name or (call.me.admin and "~" in job)


def _job_of(group: Holder) -> str:
    return short_name(group.group).partition("/")[0]


def _pictured(call: Call, raw: Explanation, outcome: ChangeOutcome | None) -> tuple[DrawnChain, ...]:
    """The cells where the job would run, or where it was looked for room; what is in its way is marked."""
    picture = call.cluster.picture()
    blocking = frozenset(_job_of(holder) for view in raw.views for holder in view.holders)
    places = frozenset((node, str(device)) for node, devices in outcome.places for device in devices) if outcome else ()
    return _drawn(call, picture, PictureMarks(frozenset(places), blocking), {view.chain for view in raw.views})


def _drawn(call: Call, picture: Picture, marks: PictureMarks, tried: set[str] | None = None) -> tuple[DrawnChain, ...]:
    nodes = marks.nodes

    def concerns(chain: ChainPicture) -> bool:
        if not nodes:
            return chain.name in (tried or ())
        return any(node.name in nodes for cell in chain.cells for node in cell.nodes())

    return tuple(drawn(call, [chain for chain in picture.chains if concerns(chain)], marks))


def why(call: Call) -> Answer:
    """The page."""
    values = _values(call)
    return page(call, "why.html", {**values, "title": values["job"].key, "here": "/jobs"})


def live(call: Call) -> Answer:
    """What changes of the page."""
    return fragment(call, "why-live.html", _values(call))


def _values(call: Call) -> dict[str, Any]:
    tenants = Tenants(call)
    job = tenants.job(call.cluster.job(f"{call.path['user']}~{call.path['name']}"))
    path = path_of(job.key)
    query = {"way": call.query.get("way", "")} if number_in(call, "way") else {}
    return {
        "job": job,
        "path": path,
        "why": explained(call, job, pictured=True),
        "live": address(f"{path}/why/live", query),
    }


ROUTES: Final = (
    Route(
        "GET", "/jobs/{user}/{name}/why", Access.OWNER, why, Operation("Why a job waits", answers=(200, 400)), slow=True
    ),
    Route(
        "GET",
        "/jobs/{user}/{name}/why/live",
        Access.OWNER,
        live,
        Operation("What changes of why a job waits", answers=(200, 400)),
        slow=True,
    ),
)
