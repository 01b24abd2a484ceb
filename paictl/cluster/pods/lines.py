"""When gangs of pods end at the latest, and in which order those wait that have no place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paictl.frozen import frozen
from paictl.units import Millis
from paictl.workload.backfill import LineGang
from paictl.workload.preemption import GroupTimes

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest


@frozen
class PodTimes:
    """What is known of a pod's times: its limit (None: none), its begin (None: it has not begun), and how often it
    saves its work (None: it does not say)."""

    limit: Millis | None
    began: Millis | None
    checkpoint: Millis | None = None

    def end(self, now: Millis) -> Millis | None:
        """When it ends at the latest; one that has not begun counts as if it began now. None: never."""
        return None if self.limit is None else Millis((now if self.began is None else self.began) + self.limit)


def end_of(engine: Engine, group: str, times: Callable[[str], PodTimes | None], now: Millis) -> Millis | None:
    """When the last pod of a group ends at the latest; None: one of them may run for ever.

    `times` are those of a pod by its uid, None for one that nobody knows.
    """
    known = engine.state.groups.by_name.get(group)
    uids = [] if known is None else [*(uid for row in known.pods for uid in row if uid), *known.preempting]
    ends = [pod_times.end(now) if (pod_times := times(uid)) is not None else None for uid in uids]
    last = max((end for end in ends if end is not None), default=None)
    return None if None in ends else last


def group_times(group: Group, times: Callable[[str], PodTimes | None]) -> GroupTimes | None:
    """Since when a group runs, by the times of its pods; None if none of them does."""
    pods = [pod_times for row in group.pods for uid in row if uid and (pod_times := times(uid)) is not None]
    began = min((pod.began for pod in pods if pod.began is not None), default=None)
    saved = [pod.checkpoint for pod in pods if pod.checkpoint is not None]
    rarest = max(saved) if saved and len(saved) == len(pods) else None  # a gang is as far back as its last member
    return None if began is None else GroupTimes(began, rarest)


class WaitingPod(NamedTuple):
    """A pod that has no place. Made for each that waits when a line is, so by the cheapest means."""

    request: PodRequest
    limit: Millis | None
    created: str


class LineRules(Protocol):
    """Which gangs stand in a line."""

    def covers(self, request: PodRequest) -> bool:
        """Whether a gang does."""


def lines(pods: Iterable[WaitingPod], rules: LineRules, placed: Collection[str]) -> dict[str, list[LineGang]]:
    """The gangs that wait and stand in a line, by virtual cluster and in order: by priority and age.

    A gang of which pods are missing is in no line, nor is one that has its place.
    """
    gangs: dict[str, list[WaitingPod]] = {}
    for pod in pods:
        if rules.covers(pod.request) and pod.request.group not in placed:
            gangs.setdefault(pod.request.group, []).append(pod)
    return lines_of(gangs.values())


def lines_of(gangs: Iterable[list[WaitingPod]]) -> dict[str, list[LineGang]]:
    """The same for gangs of any virtual clusters, by their pods (at least one each)."""
    by_vc: dict[str, list[list[WaitingPod]]] = {}
    for members in gangs:
        by_vc.setdefault(members[0].request.vc, []).append(members)
    return {vc: line for vc, waiting in by_vc.items() if (line := in_order(waiting))}


def in_order(gangs: Iterable[list[WaitingPod]]) -> list[LineGang]:
    """Gangs of one virtual cluster, by their pods, in the order of `lines`; without those of which pods are missing."""
    rows = [
        (-members[0].request.priority, min(pod.created for pod in members), members[0].request.group, members)
        for members in gangs
        if members and len(members) >= sum(number for _, number in members[0].request.members)
    ]
    return [_gang(members) for *_, members in sorted(rows, key=itemgetter(0, 1, 2))]


def _gang(members: list[WaitingPod]) -> LineGang:
    """A gang runs for as long as the longest of its pods may."""
    limits = [pod.limit for pod in members]
    longest = None if None in limits else max(limit for limit in limits if limit is not None)
    return LineGang(min(members, key=lambda pod: pod.request.name).request, longest)
