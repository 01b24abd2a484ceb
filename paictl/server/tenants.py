"""What a user may submit, and what they may know of other tenants' jobs: devices and priority class, never a name.

Administrators see everything. Everything that is about one's own job but names others (explanations, events, reasons)
passes through here before it is answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from paictl.cluster.interface import Event, JobRequest, JobState, JobView
from paictl.cluster.jobpages import JobQuery, page_of
from paictl.cluster.scheduling import JobExplanation, LatestStart
from paictl.i18n import Text, counted, listed, text
from paictl.scheduler.explain.data import ANOTHER, Change, Explanation, JointMove
from paictl.scheduler.scratch import ChangeOutcome, Holder
from paictl.server.calls import ApiError, Call
from paictl.workload.job import DEFAULT_VC
from paictl.workload.lentorder import LineAhead
from paictl.workload.pods import pod_prefix

_KEY: Final = re.compile(r"(?P<user>[\w.-]{1,64})~[\w.#/-]+", re.ASCII)
"""A job or a group of it where it stands in a sentence."""
_USER: Final = re.compile(r"([\w.-]{1,64})~", re.ASCII)
"""Whose a group is, after its namespace if it has one."""
_BY: Final = re.compile(r"(?P<what>preempted by|lost its guarantee to|it would delay) (?P<who>[\w.#/~-]+)")
"""What controllers say of the group of a single pod, whose name has no user."""
_MOST: Final = 5_000
"""Jobs of one's own that are compared with the name of a pod."""


class Tenants:
    """How the answers to one request look to its sender."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._all = call.me.admin
        self._user = call.me.name

    def owns(self, group: str) -> bool:
        """Whether a job, or an affinity group or pod of one, is the sender's own."""
        if match := _USER.search(group):
            return match[1] == self._user
        return any(prefix in group for prefix in self._prefixes)

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        """How names of the sender's pods begin; a digest in them makes sure that nobody else's do."""
        states = frozenset({JobState.WAITING, JobState.RUNNING})
        query = JobQuery(frozenset({self._user}), states=states, limit=_MOST)
        return tuple(pod_prefix(*job.key.split("~", 1)) for job in page_of(self._call.cluster, query).jobs)

    def explanation(self, job_explanation: JobExplanation) -> JobExplanation:
        """An explanation in which groups of other tenants have no names."""
        if self._all:
            return job_explanation
        scheduler = None if job_explanation.scheduler is None else self._explained(job_explanation.scheduler)
        start, ahead = self._start(job_explanation.start), self._ahead(job_explanation.ahead)
        return replace(
            job_explanation, reason=self.redacted(job_explanation.reason), scheduler=scheduler, start=start, ahead=ahead
        )

    def _ahead(self, ahead: LineAhead | None) -> LineAhead | None:
        """Who goes first, without the names of virtual clusters and users that are none of the sender's business."""
        if ahead is None:
            return None
        mine = self._call.me.may_submit_to(ahead.vc)
        vc, department = (ahead.vc, ahead.department) if mine else (text("another one"),) * 2
        user = ahead.user if ahead.user in ("", self._user) else text("another user")
        return replace(ahead, vc=vc, user=user, department=department if ahead.department else "")

    def _start(self, start: LatestStart | None) -> LatestStart | None:
        if start is None:
            return None
        ends = tuple((self._name(job), at) for job, at in start.ends)
        return replace(start, ends=ends, unlimited=tuple(dict.fromkeys(map(self._name, start.unlimited))))

    def _name(self, job: str) -> str:
        return job if self.owns(job) else text(ANOTHER)

    def _explained(self, explanation: Explanation) -> Explanation:
        return replace(
            explanation,
            outcome=self._outcome(explanation.outcome),
            views=tuple(replace(view, holders=self._holders(view.holders)) for view in explanation.views),
            changes=tuple(self._change(change) for change in explanation.changes),
            smaller=None if explanation.smaller is None else self._change(explanation.smaller),
            together=self._together(explanation.together),
        )

    def _together(self, move: JointMove | None) -> JointMove | None:
        return None if move is None else replace(move, explanation=self._explained(move.explanation))

    def _change(self, change: Change) -> Change:
        outcome = self._outcome(change.outcome) or change.outcome
        return replace(change, groups=self._holders(change.groups), outcome=outcome)

    def _outcome(self, outcome: ChangeOutcome | None) -> ChangeOutcome | None:
        if outcome is None:
            return None
        return replace(outcome, victims=self._holders(outcome.victims), lazy=self._holders(outcome.lazy))

    def _holders(self, holders: Sequence[Holder]) -> tuple[Holder, ...]:
        return tuple(holder if self.owns(holder.group) else replace(holder, group=ANOTHER, vc="") for holder in holders)

    def job(self, job: JobView) -> JobView:
        """A job of the sender's, whose reasons name no other tenant's."""
        if self._all:
            return job
        tasks = tuple(replace(task, reason=self.redacted(task.reason)) for task in job.tasks)
        return replace(job, reason=self.redacted(job.reason), tasks=tasks)

    def events(self, events: Sequence[Event]) -> list[Event]:
        """Events of a job of the sender's, likewise."""
        return list(events) if self._all else [self._event(event) for event in events]

    def _event(self, event: Event) -> Event:
        by = event.data.get("by")
        if not isinstance(by, str) or self.owns(by):
            data = {
                name: self.redacted(value) if isinstance(value, str) else value for name, value in event.data.items()
            }
            return replace(event, message=self.redacted(event.message), data=data)
        data = {
            name: text(ANOTHER) if name == "by" else value.replace(by, ANOTHER) if isinstance(value, str) else value
            for name, value in event.data.items()
        }
        return replace(event, message=event.message.replace(by, ANOTHER), data=data)

    def redacted(self, message: str) -> str:
        """A sentence without the names of other tenants' jobs."""
        if self._all or not message:
            return message
        if isinstance(message, Text):
            return self._made_anew(message)
        message = _KEY.sub(lambda match: match[0] if match["user"] == self._user else ANOTHER, message)
        return _BY.sub(lambda match: match[0] if self.owns(match["who"]) else f"{match['what']} {ANOTHER}", message)

    def _made_anew(self, message: Text) -> Text:
        values: dict[str, Any] = {
            name: self.redacted(value) if isinstance(value, str) else value for name, value in message.values.items()
        }
        if message.many is None:
            return text(message.key, **values)
        return counted(message.key, message.many, **values)


def request_for(call: Call, data: Mapping[str, object]) -> JobRequest:
    """A job of the caller. Raises `ApiError` for a virtual cluster that was not granted."""
    defaults = data.get("defaults")
    vc = (defaults.get("virtualCluster") if isinstance(defaults, Mapping) else None) or DEFAULT_VC
    if not call.me.may_submit_to(str(vc)):
        vcs = call.me.account.vcs
        message = (
            text(
                "user {user} may not submit to virtual cluster {vc}, only to: {vcs}",
                user=call.me.name,
                vc=str(vc)[:80],
                vcs=listed(vcs),
            )
            if vcs
            else text("user {user} may not submit to virtual cluster {vc}", user=call.me.name, vc=str(vc)[:80])
        )
        raise ApiError(403, "ForbiddenUserError", message)
    return JobRequest(call.me.name, data)
