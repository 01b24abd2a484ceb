"""Why a job waits, in terms that jobs have: the scheduler's explanation, and maintenance windows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from paictl.cluster.scheduling import ClosingWindow, JobExplanation, JobSituation
from paictl.i18n import Text, listed, text
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
    explanation: JobExplanation, engine: Engine, request: PodRequest, limit: Millis | None,
    windows: Windows, now: Millis, epoch: datetime,
) -> JobExplanation | None:  # fmt: skip
    """What is known of a job that windows alone keep waiting, with these; None if they are not the reason.

    `limit` is how long the job runs at most, `now` counts from `epoch` as the windows do.
    """
    closed = windows.closed(now, limit)
    if not closed:
        return None
    nodes, asked = frozenset(engine.state.physical.nodes), replace(request, ignore_suggested=False)

    def fits(gone: frozenset[str]) -> bool:
        try:
            return isinstance(engine.plan(asked, nodes - gone), Bind | Preempt)
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
        vc=request.vc, when="?" if at is None else rfc3339(instant(epoch, at)),
    )  # fmt: skip
    return replace(explanation, situation=JobSituation.HELD_BACK, reason=reason, listed=False)


def closing_lines(windows: Iterable[ClosingWindow]) -> list[str]:
    """Windows that keep somebody waiting, a line each."""
    return [
        text("window {name} closes {nodes} from {start} to {end}", name=window.name, nodes=listed(window.nodes),
             start=window.start, end=window.end)
        for window in windows
    ]  # fmt: skip


def longest_line(longest: Millis) -> Text:
    """With which run time somebody would start who waits for windows."""
    return text("it would start now with a maxRunTime of at most {span}", span=span_text(longest))
