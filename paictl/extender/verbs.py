"""kube-scheduler's three verbs: which node a pod may run on, who would have to go for it, and to bind it."""

from __future__ import annotations

from typing import Final

from paictl.doors import pod_events, reclaim
from paictl.doors.binder import Binder, booked
from paictl.doors.core import Binding, DoorCore
from paictl.doors.deciding import decision_for
from paictl.doors.table import CachedDecision, PodEntry, pod_ref
from paictl.extender.wire import BindArgs, FilterArgs, FilterResult, PreemptArgs, Victims, same_for_all
from paictl.scheduler.decision import Bind, Phase, Preempt
from paictl.scheduler.request import PodRequest

FORCE_AFTER: Final = 3
"""Times that kube-scheduler is told a pod's node before the extender binds it (HiveD's forcePodBindThreshold)."""


def filter_nodes(core: DoorCore, args: FilterArgs) -> FilterResult:
    """Answer which node a pod may run on. Raises `NotServingError`, and `UnknownPodError` before anything is done."""
    with core.serving():
        if core.table.has_gone(pod_ref(args.pod).uid):  # it was deleted while the question was under way
            return FilterResult(hopeless=same_for_all(args.names, "the pod is gone"))
        entry = core.table.named_by(args.pod)
        entry.asked_at = core.asked_at = core.clock()
        entry.was_asked, entry.requeues = True, 0
        if entry.reading is None:
            assert entry.problem is not None  # noqa: S101 - one of the two
            core.decisions["unreadable"] += 1
            core.record(pod_events.unreadable(entry.ref, entry.problem))
            return FilterResult(hopeless=same_for_all(args.names, str(entry.problem.message)))
        reclaim.reconsider(core, entry, args.names)
        cached = decision_for(core, entry, entry.reading.request, args.names)
        core.decisions[cached.kind] += 1
        return _answer(core, entry, cached, args)


def _answer(core: DoorCore, entry: PodEntry, cached: CachedDecision, args: FilterArgs) -> FilterResult:
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


def _why_not(core: DoorCore, name: str, reason: str) -> str:
    """A reason of its own for a node that is out of the question for every pod."""
    if name in core.health.bad:
        return f"node is bad: {core.health.bad[name]}"
    return reason if name in core.promised else "node is in no cell of the configuration"


def _force(core: DoorCore, entry: PodEntry) -> str:
    """Bind without kube-scheduler, as HiveD does for pods whose place it does not offer.

    Not to a node that excludes the pod or has too little left for it, which HiveD does: the kubelet would reject the
    pod (`OutOfcpu`, `NodeAffinity`), and it would be lost. Nor a pod of a PodGroup: kube-scheduler tries places out
    before it binds all or none. Returns why, empty if it is bound or left to kube-scheduler.
    """
    binding = None if entry.binding or entry.pod_group else booked(core, entry.ref)
    if binding is None:
        return ""
    if why := _lost(core, entry, binding.node) or reclaim.obstacle_on(core, entry, binding.node):
        core.record(pod_events.place_excluded(entry.ref, binding.node, why))
        return why
    entry.binding = True
    core.record(pod_events.forced(entry.ref, binding.node))
    core.force(binding)
    return ""


def _lost(core: DoorCore, entry: PodEntry, node: str) -> str:
    """Why the first pod of a gang had better be decided anew once its place is overdue: its node has turned bad.

    The others follow the first: where they are bound, Kubernetes ends them, and the gang starts again elsewhere.
    """
    groups, own = core.book.engine.state.groups, entry.ref.uid
    slot = groups.slots.get(own)
    rows = () if slot is None else groups.by_name[slot[0]].pods
    first = slot is not None and not any(_is_bound(core, uid) for row in rows for uid in row if uid not in ("", own))
    return core.health.bad.get(node, "") if first else ""


def _is_bound(core: DoorCore, uid: str) -> bool:
    """Whether a pod is bound, or its binding is on its way."""
    booked, entry = core.book.pods.get(uid), core.table.by_uid.get(uid)
    return (booked is not None and booked.bound) or (entry is not None and entry.binding)


def candidates(core: DoorCore, args: PreemptArgs) -> dict[str, Victims]:
    """Which of the nodes that in-tree filters would make room on are any good, and who has to go there.

    A node is dropped if filter would refuse it afterwards, or if a pod would die that keeps its devices by right:
    victims must never die for nothing. Raises `NotServingError`, `RequestError` and `UnknownPodError`.
    """
    with core.serving():
        entry = core.table.named_by(args.pod)
        refusal = core.refusal(entry)
        if refusal is not None or entry.reading is None:
            assert refusal is not None  # noqa: S101 - what cannot be read is refused
            raise refusal
        request = entry.reading.request
        if core.held_back(request):
            return {}
        if core.options.own_preemption:
            return _helpful(core, request, args)
        result = core.book.schedule(request, list(args.victims), Phase.PREEMPTING, core.wall())
        core.record_outcomes(result.outcomes)
        core.decisions["preempt verb"] += 1
        if not isinstance(result.decision, Preempt):
            return {}
        return {
            node: Victims(uids, args.victims[node].violations if node in args.victims else 0)
            for node, uids in result.decision.victims
        }


def _helpful(core: DoorCore, request: PodRequest, args: PreemptArgs) -> dict[str, Victims]:
    known = core.book.pods.get(request.uid)
    if known is not None and known.info is not None:
        node = known.info.node
    else:
        offered = None if request.ignore_suggested else frozenset(args.victims)
        decision = core.book.engine.plan(request, offered)
        if not isinstance(decision, Bind):
            return {}
        node = core.book.engine.bind_info(decision).node
    victims = args.victims.get(node)
    if victims is None or not victims.uids or any(uid in core.book.engine.state.groups.slots for uid in victims.uids):
        return {}
    return {node: victims}


def requested(core: DoorCore, args: BindArgs) -> Binding | str:
    """What to write for a pod that kube-scheduler wants bound; a text says why not."""
    with core.guarded():
        if not core.is_open:
            return "the scheduler is starting: it does not know all pods yet"
        entry = core.table.by_uid.get(args.pod.uid)
        if entry is not None and entry.ref != args.pod:
            return f"uid {args.pod.uid} is not the uid of pod {args.pod.key}"
        binding = booked(core, args.pod)
        if entry is None or binding is None:
            return f"pod {args.pod.key} holds no devices: it has to pass filter first"
        if binding.node != args.node:
            return f"pod {args.pod.key} has its place on node {binding.node}, not on {args.node}"
        entry.binding = True
        return binding


def bind(binder: Binder, args: BindArgs) -> str:
    """Bind a pod that passed filter; why it could not be, empty if it is bound. Asked twice, it is bound once."""
    binding = requested(binder.core, args)
    return binding if isinstance(binding, str) else binder.send(binding)
