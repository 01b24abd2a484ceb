"""The filter verb: which node a pod may run on, answered from memory while the engine has not changed."""

from __future__ import annotations

from typing import Final

from paictl.extender import pod_events
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
    """Answer which node a pod may run on. Raises `NotServingError`."""
    with core.serving():
        if core.table.has_gone(pod_ref(args.pod).uid):  # it was deleted while the question was under way
            return FilterResult(hopeless=same_for_all(args.names, "the pod is gone"))
        entry = core.table.meet(args.pod, core.clock())
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
    """Have others go for a pod about which kube-scheduler does not ask, if they had to go were it asked; whether so.

    Only for a pod that takes any node: what another is offered is not known. Raises `NotServingError`.
    """
    with core.serving():
        entry = core.table.by_uid.get(ref.uid)
        if entry is None or entry.reading is None or not entry.reading.request.ignore_suggested:
            return False
        try:
            wanted = isinstance(core.book.engine.plan(entry.reading.request, None), Preempt)
        except RequestError:
            return False
        return wanted and _decided(core, entry, entry.reading.request, []).kind == "preempt"


def decide(core: ExtenderCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision about a pod for a door that asks by itself; counted. The caller has the lock."""
    decision = _decided(core, entry, request, names)
    core.decisions[decision.kind] += 1
    return decision


def _decided(core: ExtenderCore, entry: PodEntry, request: PodRequest, names: list[str]) -> CachedDecision:
    """The decision, from memory if nothing has changed since the same question."""
    offered = None if request.ignore_suggested else frozenset(names)
    known = entry.cached
    if known is not None and known.version == core.book.engine.version and known.offered == offered:
        return known
    try:
        found = _decide(core, request, offered)
    except RequestError as error:
        cached = CachedDecision(core.book.engine.version, "refused", error.message, "", offered)
        core.record(pod_events.refused(entry.ref, error))
    else:
        cached = _taken(core, entry, request, found, offered)
    entry.cached = cached
    return cached


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
            return CachedDecision(version, "wait", f"pod waits: {wait.reason}", offered=offered)
    raise AssertionError(found)


def _answer(core: ExtenderCore, entry: PodEntry, cached: CachedDecision, args: FilterArgs) -> FilterResult:
    if cached.kind == "refused":
        return FilterResult(hopeless=same_for_all(args.names, cached.reason))
    if not cached.node:
        return FilterResult(failed={name: _why_not(core, name, cached.reason) for name in args.names})
    entry.attempts += 1
    if cached.node in args.names:
        if entry.attempts > FORCE_AFTER:
            _force(core, entry)
        return FilterResult((cached.node,))
    nominated = (args.pod.get("status") or {}).get("nominatedNodeName")
    ignores = entry.reading is not None and entry.reading.request.ignore_suggested
    if ignores and args.names != [nominated]:  # with one nominated node it asks again about all others
        _force(core, entry)
    reason = f"its place is on node {cached.node}, which kube-scheduler does not offer now"
    return FilterResult(failed=same_for_all(args.names, reason))


def _why_not(core: ExtenderCore, name: str, reason: str) -> str:
    """A reason of its own for a node that is out of the question for every pod."""
    if name in core.bad:
        return f"node is bad: {core.bad[name]}"
    return reason if name in core.promised else "node is in no cell of the configuration"


def _force(core: ExtenderCore, entry: PodEntry) -> None:
    """Bind without kube-scheduler, as HiveD does for pods whose place it does not offer."""
    if entry.binding:
        return
    binding = booked(core, entry.ref)
    if binding is not None:
        entry.binding = True
        core.record(pod_events.forced(entry.ref, binding.node))
        core.force(binding)
