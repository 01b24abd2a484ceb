"""The filter verb: which node a pod may run on, answered from memory while the engine has not changed."""

from __future__ import annotations

from typing import Final

from paictl.extender import pod_events, reclaim
from paictl.extender.binding import booked
from paictl.extender.core import ExtenderCore
from paictl.extender.table import CachedDecision, PodEntry
from paictl.extender.wire import FilterArgs, FilterResult, PodRef, pod_ref, same_for_all
from paictl.scheduler.book import Allocation, Insist, ScheduleResult
from paictl.scheduler.decision import Bind, Phase, Preempt, Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.request import PodRequest

FORCE_AFTER: Final = 3
"""Times that kube-scheduler is told a pod's node before the extender binds it (HiveD's forcePodBindThreshold)."""


def filter_nodes(core: ExtenderCore, args: FilterArgs) -> FilterResult:
    """Answer which node a pod may run on. Raises `NotServingError`, and `UnknownPodError` before anything is done."""
    with core.serving():
        if core.table.has_gone(pod_ref(args.pod).uid):  # it was deleted while the question was under way
            return FilterResult(hopeless=same_for_all(args.names, "the pod is gone"))
        entry = core.table.named_by(args.pod)
        entry.asked = core.asked = core.clock()
        entry.was_asked, entry.requeues = True, 0
        if entry.reading is None:
            assert entry.problem is not None  # noqa: S101 - one of the two
            core.decisions["unreadable"] += 1
            core.record(pod_events.unreadable(entry.ref, entry.problem))
            return FilterResult(hopeless=same_for_all(args.names, str(entry.problem.message)))
        cached = _decided(core, entry, entry.reading.request, args.names)
        core.decisions[cached.kind] += 1
        return _answer(core, entry, cached, args)


def preempt_unasked(core: ExtenderCore, ref: PodRef) -> bool:
    """Evict others for a pod that kube-scheduler does not ask about because its own filters leave no node; whether so.

    A pod that would only have to be bound is left to kube-scheduler. Raises `NotServingError`.
    """
    with core.serving():
        entry = core.table.by_uid.get(ref.uid)
        if entry is None or entry.reading is None:
            return False
        request = entry.reading.request
        try:
            offered = reclaim.suggested(core, entry, request, None if request.ignore_suggested else frozenset())
            preempts = isinstance(core.book.engine.plan(request, offered), Preempt)
        except RequestError:
            preempts = False
        entry.examined = core.book.engine.version, core.usage.version
        return preempts and _decided(core, entry, request, []).kind == "preempt"


def decide(core: ExtenderCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision about a pod for a door that asks by itself; counted. The caller has the lock."""
    decision = _decided(core, entry, request, names)
    core.decisions[decision.kind] += 1
    return decision


def _decided(core: ExtenderCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision, from memory if nothing has changed since the same question."""
    offered = None if request.ignore_suggested else frozenset(names)
    known = entry.cached
    if known is not None and is_current(core, known) and known.offered == offered:
        return known
    try:
        if (refusal := core.refusal(entry)) is not None:
            raise refusal
        if why := core.claim_obstacle(entry):
            entry.cached = CachedDecision(core.book.engine.version, "wait", why, "", offered)
            return entry.cached
        if offered is None and core.options.own_preemption and (why := reclaim.place_obstacle(core, entry, request)):
            return _postponed(core, entry, why)
        found = _decide(core, request, reclaim.suggested(core, entry, request, offered))
    except RequestError as error:
        cached = CachedDecision(core.book.engine.version, "refused", error.message, "", offered)
        core.record(pod_events.refused(entry.ref, error))
    else:
        cached = _taken(core, entry, request, found, offered)
    entry.cached = cached
    return cached


def is_current(core: ExtenderCore, known: CachedDecision) -> bool:
    """Whether nothing has changed since that the decision depends on."""
    return known.version == core.book.engine.version and known.usage in (None, core.usage.version)


def _postponed(core: ExtenderCore, entry: PodEntry, why: str) -> CachedDecision:
    """A pod that takes any node would get one that excludes it: nobody is evicted for that."""
    reason = f"pod waits: nobody is evicted for it, since its place excludes it: {why}"
    entry.cached = CachedDecision(core.book.engine.version, "wait", reason, usage=core.usage.version)
    return entry.cached


def _decide(core: ExtenderCore, request: PodRequest, offered: frozenset[str] | None) -> ScheduleResult | Allocation:
    if core.options.own_preemption:
        return core.book.place(request, offered, core.wall())
    found = core.book.schedule(request, offered, Phase.FILTERING, core.wall())
    return core.book.allocate(request.uid, core.wall()) if isinstance(found.decision, Bind) else found


def _taken(
    core: ExtenderCore,
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
            return CachedDecision(version, "wait", f"pod waits: {wait.reason}", offered=offered, usage=usage)
    raise AssertionError(found)


def _answer(core: ExtenderCore, entry: PodEntry, cached: CachedDecision, args: FilterArgs) -> FilterResult:
    if cached.kind == "refused":
        return FilterResult(hopeless=same_for_all(args.names, cached.reason))
    if not cached.node:
        return FilterResult(failed={name: _why_not(core, name, cached.reason) for name in args.names})
    entry.attempts += 1
    entry.unoffered = cached.node not in args.names
    if cached.node in args.names:
        if entry.attempts > FORCE_AFTER:
            _force(core, entry)
        return FilterResult((cached.node,))
    nominated = (args.pod.get("status") or {}).get("nominatedNodeName")
    ignores = entry.reading is not None and entry.reading.request.ignore_suggested
    reason = f"its place is on node {cached.node}, which kube-scheduler does not offer now"
    if ignores and args.names != [nominated] and (why := _force(core, entry)):  # else it asks again about all others
        reason = f"its place is on node {cached.node}, which would not take it now: {why}"
    return FilterResult(failed=same_for_all(args.names, reason))


def _why_not(core: ExtenderCore, name: str, reason: str) -> str:
    """A reason of its own for a node that is out of the question for every pod."""
    if name in core.bad:
        return f"node is bad: {core.bad[name]}"
    return reason if name in core.promised else "node is in no cell of the configuration"


def _force(core: ExtenderCore, entry: PodEntry) -> str:
    """Bind without kube-scheduler, as HiveD does for pods whose place it does not offer.

    Not to a node that excludes the pod or has too little left for it, which HiveD does: the kubelet would reject the
    pod (`OutOfcpu`, `NodeAffinity`), and it would be lost. Returns why, empty if it is bound.
    """
    binding = None if entry.binding else booked(core, entry.ref)
    if binding is None:
        return ""
    if why := reclaim.obstacle_on(core, entry, binding.node):
        core.record(pod_events.place_excluded(entry.ref, binding.node, why))
        return why
    entry.binding = True
    core.record(pod_events.forced(entry.ref, binding.node))
    core.force(binding)
    return ""
