"""Which node a pod gets, whatever door it came by; from memory while nothing has changed that the answer depends on."""

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
    """Evict others for a pod that kube-scheduler does not ask about because its own filters leave no node; whether so.

    A pod that would only have to be bound is left to kube-scheduler. Raises `NotServingError`.
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
            asked, offered = windows.within(core, entry, request, offered)
            offered = reclaim.suggested(core, entry, asked, offered)
            _give_up_lost_place(core, entry, asked, offered)  # nobody else would: kube-scheduler does not ask
            preempts = isinstance(core.book.engine.plan(asked, offered), Preempt)
        except RequestError:
            preempts = False
        return preempts and decided(core, entry, request, []).kind == "preempt"


def decide(core: DoorCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision about a pod for a door that asks by itself; counted. The caller has the lock."""
    decision = decided(core, entry, request, names)
    core.decisions[decision.kind] += 1
    return decision


def decided(core: DoorCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision, from memory if nothing has changed since the same question. The caller has the lock."""
    offered = None if request.ignore_suggested else frozenset(names)
    request, offered = windows.within(core, entry, request, offered)
    known, limit = entry.cached, core.table.limit_of(entry)
    if known is not None and known.limit == limit and is_current(core, entry, known) and known.offered == offered:
        return known
    found = windows.noted(core, entry, _decided(core, entry, request, offered))
    entry.cached = found if limit is None else replace(found, limit=limit)
    return entry.cached


def _decided(core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None) -> CachedDecision:
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
        found = _decide(core, entry, request, suggested)
    except RequestError as error:
        core.record(pod_events.refused(entry.ref, error))
        return CachedDecision(core.book.engine.version, "refused", error.message, "", offered)
    return _taken(core, entry, request, found, offered)


def is_current(core: DoorCore, entry: PodEntry, known: CachedDecision) -> bool:
    """Whether nothing has changed since that the decision depends on."""
    same = known.version == core.book.engine.version and known.usage in (None, core.usage.version)
    return same and known.shut == windows.closed(core, entry)


def _postponed(core: DoorCore, why: str) -> CachedDecision:
    """A pod that takes any node would get one that excludes it: nobody is evicted for that."""
    reason = f"pod waits: no pod is evicted for it, since its place excludes it: {why}"
    return CachedDecision(core.book.engine.version, "wait", reason, usage=core.usage.version)


def _decide(
    core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None
) -> ScheduleResult | Allocation:
    if core.options.own_preemption:
        _give_up_lost_place(core, entry, request, offered)
        return core.book.place(request, offered, core.wall())
    result = core.book.schedule(request, offered, Phase.FILTERING, core.wall())
    return core.book.allocate(request.uid, core.wall()) if isinstance(result.decision, Bind) else result


def _give_up_lost_place(core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None) -> None:
    """End a gang's preemption whose place has become bad, or is closed by a window, since it began.

    It would be bound there once the victims are gone.
    """
    state = core.book.engine.state
    group = state.groups.by_name.get(request.group)
    if group is None or group.state is not GroupState.PREEMPTING:
        return
    bad, shut, tree = state.counts.bad, windows.closed(core, entry), state.physical
    if any(bad[leaf] or tree.node_name(leaf) in shut for leaf in group.leaves()):
        given_up = core.book.schedule(request, offered, Phase.PREEMPTING, core.wall())
        core.record_outcomes(given_up.outcomes)


def _taken(
    core: DoorCore,
    entry: PodEntry,
    request: PodRequest,
    found: ScheduleResult | Allocation,
    offered: frozenset[str] | None,
) -> CachedDecision:
    """A decision as it is remembered, with its consequences recorded."""
    core.record_outcomes(found.outcomes)
    version = core.book.engine.version
    if isinstance(found, Allocation):
        entry.assumed, entry.attempts = core.clock(), 0
        if found.repairs:
            core.members["repaired"] += 1
            core.members["joint"] += found.moved > 1
            others = sum(bool(uid) for row in found.group.pods for uid in row) - 1
            core.record(pod_events.repaired(entry.ref, found.info.node, others))
        if entry.demand is not None:
            core.usage.place(entry.ref.uid, found.info.node, entry.demand.requests)
        return CachedDecision(version, "bind", node=found.info.node, offered=offered)
    match found.decision:
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
                version = UNVERSIONED  # it is over by itself
            return CachedDecision(version, "wait", f"pod waits: {wait.reason}", offered=offered, usage=usage)
    raise AssertionError(found)
