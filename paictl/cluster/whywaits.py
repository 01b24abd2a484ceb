"""Why a job waits, in terms that jobs have, and when it starts at the latest.

By the scheduler's explanation and maintenance windows; whose promised start keeps it from starting now, and who goes
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from paictl.cluster.scheduling import ClosingWindow, JobExplanation, JobSituation, LatestStart
from paictl.i18n import Text, counted, listed, text
from paictl.scheduler.decision import Bind, Failure, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain import explain
from paictl.scheduler.explain.data import Change, Explanation
from paictl.scheduler.request import PodRequest
from paictl.units import Millis, instant, rfc3339, span_text
from paictl.workload.job import PRIORITIES
from paictl.workload.preemption import SparingRules
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.workload.backfill import Foresight, LineGang, LineStarts, StartPromise
    from paictl.workload.lentorder import LineAhead


def explained(
    explanation: JobExplanation, engine: Engine, request: PodRequest, siblings: Collection[str]
) -> JobExplanation:
    """What is known of a job with why one of its pods waits; `siblings` are the groups of the job."""
    try:
        answer = explain(engine, request, siblings=siblings)
    except RequestError as error:
        return replace(explanation, situation=JobSituation.UNKNOWN_TERMS, reason=error.message)
    answer = replace(answer, changes=tuple(_with_classes(engine, answer)))
    return replace(explanation, situation=JobSituation.NO_ROOM, scheduler=answer)


def _with_classes(engine: Engine, explanation: Explanation) -> Iterator[Change]:
    """The changes, but priorities are those of classes, because jobs can have no others.

    A class is higher than what was tried, so it is tried as well; one that no class reaches is left out.
    """
    for change in explanation.changes:
        if change.priority is None:
            yield change
            continue
        priority = min((number for number in PRIORITIES.values() if number >= change.priority), default=None)
        if priority is not None:
            outcome = explain(engine, replace(explanation.request, priority=priority)).outcome
            if outcome is not None:
                yield replace(change, priority=priority, outcome=outcome)


def waits_for_windows(
    explanation: JobExplanation,
    engine: Engine,
    request: PodRequest,
    limit: Millis | None,
    windows: Windows,
    now: Millis,
    epoch: datetime,
) -> JobExplanation | None:
    """What is known of a job that windows alone keep waiting, with these; None if they are not the reason.

    `limit` is how long the job runs at most, `now` counts from `epoch` as the windows do.
    """
    closed = windows.closed(now, limit)
    if not closed:
        return None
    nodes, asked = frozenset(engine.state.physical.nodes), replace(request, ignore_suggested=False)

    def fits(avoided: frozenset[str]) -> bool:
        try:
            return isinstance(engine.plan(asked, nodes - avoided), Bind | Preempt)
        except RequestError:
            return False

    if fits(closed) or not fits(frozenset()):
        return None
    closing = tuple(
        ClosingWindow(
            window.name, window.nodes, rfc3339(instant(epoch, window.start)), rfc3339(instant(epoch, window.end))
        )
        for window in windows
        if window.closes(now, limit)
    )
    longest = windows.longest(now, fits)
    return replace(explanation, situation=JobSituation.MAINTENANCE, windows=closing, longest=longest)


def waits_for_shield(
    explanation: JobExplanation, engine: Engine, request: PodRequest, sparing: SparingRules, epoch: datetime
) -> JobExplanation | None:
    """What is known of a job that waits for the minimum run time of others of its virtual cluster; None if not."""
    try:
        decision = engine.plan(request)
    except RequestError:
        return None
    if not isinstance(decision, Wait) or all(attempt.failure is not Failure.SHIELDED for attempt in decision.attempts):
        return None
    groups = engine.state.groups.by_name
    weaker = {
        name: group for name, group in groups.items() if group.vc == request.vc and group.priority < request.priority
    }
    at = sparing.next_end(weaker)
    reason = text(
        "jobs of virtual cluster {vc} with a lower priority have not run for their minimum run time yet; "
        "the first may be preempted at {when}",
        vc=request.vc,
        when="?" if at is None else rfc3339(instant(epoch, at)),
    )
    return replace(explanation, situation=JobSituation.HELD_BACK, reason=reason, listed=False)


def closing_lines(windows: Iterable[ClosingWindow]) -> list[str]:
    """Windows that keep somebody waiting, a line each."""
    return [
        text(
            "window {name} closes {nodes} from {start} to {end}",
            name=window.name,
            nodes=listed(window.nodes),
            start=window.start,
            end=window.end,
        )
        for window in windows
    ]


def longest_line(longest: Millis) -> Text:
    """With which run time somebody would start who waits for windows."""
    return text("it would start now with a maxRunTime of at most {span}", span=span_text(longest))


# --- when it starts

Owner = Callable[[str], str]
"""The name that people know a group by: its job, where it has one."""


def with_start(
    explanation: JobExplanation, foresight: Foresight, gang: LineGang, starts: LineStarts, epoch: datetime, owner: Owner
) -> JobExplanation:
    """An explanation with the promise that a gang has, and with the one that keeps it from starting now.

    `starts` are those of its virtual cluster, instants of the foresight count from `epoch`.
    """
    own = starts.of(gang.request.group)
    start = behind(starts) if own is None else start_of(foresight, own, starts, epoch, owner)
    promise = foresight.delayed_by(gang, starts)
    if promise is None or promise.at is None:
        return replace(explanation, start=start)
    reason = delaying(owner(promise.group), rfc3339(instant(epoch, promise.at)))
    longest = foresight.longest_beside(gang, starts)
    return replace(
        explanation, situation=JobSituation.BACKFILL, reason=reason, longest=longest, scheduler=None, start=start
    )


def without_instants(
    explanation: JobExplanation, foresight: Foresight, gang: LineGang, starts: LineStarts, owner: Owner
) -> JobExplanation:
    """The same where `starts` are only like those that were promised, which a door alone knows: no instant, no number.

    Whom a gang would delay may differ too, but not that it waits for a promise while devices are free.
    """
    promise = foresight.delayed_by(gang, starts)
    if promise is None:
        return explanation
    reason = text("it would delay {job}, which is promised a start", job=owner(promise.group))
    return replace(explanation, situation=JobSituation.BACKFILL, reason=reason, longest=None, scheduler=None)


def behind(starts: LineStarts) -> LatestStart | None:
    """What is said of a gang that has no promise: None, or that too many before it have one."""
    return LatestStart("", behind=len(starts.times())) if starts.is_full else None


def delaying(job: str, at: str) -> Text:
    """Why somebody waits who would delay a job with a promised start."""
    return text("it would delay {job}, which starts at {at} at the latest", job=job, at=at)


def start_of(
    foresight: Foresight, promise: StartPromise, starts: LineStarts, epoch: datetime, owner: Owner
) -> LatestStart:
    """A promise, which is one of `starts`, with its reasons, as data."""
    reasons = foresight.reasons(promise, starts)
    return LatestStart(
        "" if promise.at is None else rfc3339(instant(epoch, promise.at)),
        tuple((owner(group), rfc3339(instant(epoch, end))) for group, end in reasons.ends),
        tuple(dict.fromkeys(map(owner, reasons.unlimited))),
        promise.place,
    )


def start_lines(start: LatestStart | None) -> list[Text]:
    """When somebody starts at the latest and why, a line each."""
    if start is None:
        return []
    if start.behind:
        return [text("it waits behind the {count} gangs that have promised starts", count=start.behind)]
    if not start.at:
        if not start.unlimited:
            return []
        return [
            text("no start can be promised: these jobs have no maxRunTime: {jobs}", jobs=listed(start.unlimited, 5)),
        ]
    lines = [text("it starts at {at} at the latest", at=start.at)]
    if start.place:
        lines.append(text("it is number {number} in the line of its virtual cluster", number=start.place))
    lines += [
        text("by then {job} will have ended, at {at} at the latest", job=job, at=at) for job, at in _merged(start.ends)
    ]
    return lines


def ahead_lines(ahead: LineAhead | None) -> list[Text]:
    """Whose opportunistic jobs are tried before somebody's, and why, a line each."""
    if ahead is None:
        return []
    singular, plural = (
        "{count} opportunistic gang is tried before it: {reason}",
        "{count} opportunistic gangs are tried before it: {reason}",
    )
    return [counted(singular, plural, ahead.gangs, reason=why_first(ahead))]


def why_first(ahead: LineAhead) -> Text:
    """Why somebody goes first."""
    if ahead.department:
        return text(
            "virtual cluster {vc} goes first: department {department} has {unused} unused devices",
            vc=ahead.vc,
            department=ahead.department,
            unused=ahead.unused,
        )
    if ahead.unused:
        return text(
            "virtual cluster {vc} goes first: {unused} devices of its own promise are unused",
            vc=ahead.vc,
            unused=ahead.unused,
        )
    if not ahead.user:
        return text(
            "virtual cluster {vc} used less lately ({used:,.2f} device hours per promised device, {than}: {more:,.2f})",
            vc=ahead.vc,
            used=ahead.used,
            than=ahead.than,
            more=ahead.more,
        )
    return text(
        "user {user} used less lately in virtual cluster {vc} ({used:,.2f} device hours, {than}: {more:,.2f})",
        user=ahead.user,
        vc=ahead.vc,
        used=ahead.used,
        than=ahead.than,
        more=ahead.more,
    )


def _merged(ends: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """A job of several groups once, with its last end."""
    last: dict[str, str] = {}
    for job, at in ends:
        last[job] = max(at, last.get(job, at))
    return sorted(last.items(), key=lambda row: (row[1], row[0]))
