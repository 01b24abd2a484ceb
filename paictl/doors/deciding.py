"""Which node a pod gets, by whichever door; a cached decision while nothing has changed that it depends on."""

from __future__ import annotations

from dataclasses import replace

from paictl.doors import claims, pod_events, reclaim, windows
from paictl.doors.core import DoorCore
from paictl.doors.table import UNVERSIONED, CachedDecision, PodEntry, PodRef
from paictl.scheduler.book import Allocation, Insist, ScheduleResult
from paictl.scheduler.decision import Bind, Failure, Phase, Preempt, Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.groups import GroupState
from paictl.scheduler.request import PodRequest


def preempt_unasked(core: DoorCore, ref: PodRef) -> bool:
    """Start a preemption for a pod that kube-scheduler never asks about, since its filters leave no node; whether so.

    A pod that only needs to be bound is left to kube-scheduler. Raises `NotServingError`.
    """
    with core.serving():
        entry = core.table.by_uid.get(ref.uid)
        if entry is None or entry.reading is None:
            return False
        request = entry.reading.request
        entry.examined = core.book.engine.version, core.usage.version
        if core.held_back(request):
            return False
        try:
            offered = None if request.ignore_suggested else frozenset[str]()
            restricted, offered = windows.within(core, entry, request, offered)
            offered = reclaim.suggested(core, entry, restricted, offered)
            _give_up_lost_place(core, entry, restricted, offered)  # nothing else would: kube-scheduler does not ask
            preempts = isinstance(core.book.engine.plan(restricted, offered), Preempt)
        except RequestError:
            preempts = False
        return preempts and decision_for(core, entry, request, []).kind == "preempt"


def decide(core: DoorCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision about a pod for a door that asks by itself; counted. The caller must hold the lock."""
    decision = decision_for(core, entry, request, names)
    core.decisions[decision.kind] += 1
    return decision


def decision_for(core: DoorCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision, cached if nothing has changed since the same question. The caller must hold the lock."""
    offered = None if request.ignore_suggested else frozenset(names)
    request, offered = windows.within(core, entry, request, offered)
    cached, limit = entry.cached, core.table.limit_of(entry)
    if cached is not None and cached.limit == limit and is_current(core, entry, cached) and cached.offered == offered:
        return cached
    decision = windows.noted(core, entry, _new_decision(core, entry, request, offered))
    entry.cached = decision if limit is None else replace(decision, limit=limit)
    return entry.cached


def _new_decision(
    core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None
) -> CachedDecision:
    try:
        if (refusal := core.refusal(entry)) is not None:
            raise refusal
        if why := core.held_back(request):
            entry.cached = CachedDecision(core.book.engine.version, "wait", f"pod waits: {why}", "", offered)
            return entry.cached
        if why := core.claim_obstacle(entry):
            return CachedDecision(core.book.engine.version, "wait", why, "", offered)
        if offered is None and core.options.own_preemption and (why := reclaim.place_obstacle(core, entry, request)):
            return _postponed(core, why)
        suggested = reclaim.suggested(core, entry, request, offered)
        if why := claims.unfreed(core, request, suggested):
            return CachedDecision(UNVERSIONED, "wait", why, "", offered)
        result = _ask_book(core, entry, request, suggested)
    except RequestError as error:
        core.record(pod_events.refused(entry.ref, error))
        return CachedDecision(core.book.engine.version, "refused", error.message, "", offered)
    return _cached_decision(core, entry, request, result, offered)


def is_current(core: DoorCore, entry: PodEntry, cached: CachedDecision) -> bool:
    """Whether nothing that the decision depends on has changed since."""
    same = cached.version == core.book.engine.version and cached.usage in (None, core.usage.version)
    return same and cached.closed == windows.closed(core, entry)


def _postponed(core: DoorCore, why: str) -> CachedDecision:
    """The decision for a pod that takes any node, but whose place excludes it: no pod is evicted for that."""
    reason = f"pod waits: no pod is evicted for it, since its place excludes it: {why}"
    return CachedDecision(core.book.engine.version, "wait", reason, usage=core.usage.version)


def _ask_book(
    core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None
) -> ScheduleResult | Allocation:
    if core.options.own_preemption:
        _give_up_lost_place(core, entry, request, offered)
        return core.book.place(request, offered, core.wall())
    result = core.book.schedule(request, offered, Phase.FILTERING, core.wall())
    return core.book.allocate(request.uid, core.wall()) if isinstance(result.decision, Bind) else result


def _give_up_lost_place(core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None) -> None:
    """End a gang's preemption if its place has become bad, or a window has closed it, since it began.

    Otherwise the gang would be bound there once the victims are gone.
    """
    state = core.book.engine.state
    group = state.groups.by_name.get(request.group)
    if group is None or group.state is not GroupState.PREEMPTING:
        return
    bad, closed_nodes, tree = state.counts.bad, windows.closed(core, entry), state.physical
    if any(bad[leaf] or tree.node_name(leaf) in closed_nodes for leaf in group.leaves()):
        result = core.book.schedule(request, offered, Phase.PREEMPTING, core.wall())
        core.record_outcomes(result.outcomes)


def _cached_decision(
    core: DoorCore,
    entry: PodEntry,
    request: PodRequest,
    result: ScheduleResult | Allocation,
    offered: frozenset[str] | None,
) -> CachedDecision:
    """Record the consequences of a decision, and return what to cache of it."""
    core.record_outcomes(result.outcomes)
    version = core.book.engine.version
    if isinstance(result, Allocation):
        entry.assumed, entry.attempts = core.clock(), 0
        if result.repairs:
            core.members["repaired"] += 1
            core.members["joint"] += result.moved > 1
            others = sum(bool(uid) for row in result.group.pods for uid in row) - 1
            core.record(pod_events.repaired(entry.ref, result.info.node, others))
        if entry.demand is not None:
            core.usage.place(entry.ref.uid, result.info.node, entry.demand.requests)
        return CachedDecision(version, "bind", node=result.info.node, offered=offered)
    match result.decision:
        case Insist(info=info):
            entry.assumed = entry.assumed or core.clock()
            return CachedDecision(version, "insist", node=info.node, offered=offered)
        case Preempt(victims=victims):
            reason = pod_events.preempting_reason(request, victims, core.table)
            if core.options.own_preemption:
                core.record(pod_events.preempting(entry.ref, reason))
                core.work.set()
            return CachedDecision(version, "preempt", reason, offered=offered)
        case Wait() as wait:
            usage = None if offered is None else core.usage.version
            if any(attempt.failure is Failure.SHIELDED for attempt in wait.attempts):
                version = UNVERSIONED  # a shield ends without any event
            return CachedDecision(version, "wait", f"pod waits: {wait.reason}", offered=offered, usage=usage)
    raise AssertionError(result)
