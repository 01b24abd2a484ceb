"""The preempt verb: on which nodes victims would help a pod, and who they are."""

from __future__ import annotations

from paictl.extender.core import ExtenderCore
from paictl.extender.wire import PreemptArgs, Victims
from paictl.scheduler.decision import Bind, Phase, Preempt
from paictl.scheduler.request import PodRequest


def candidates(core: ExtenderCore, args: PreemptArgs) -> dict[str, Victims]:
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
        if core.options.own_preemption:
            return _helpful(core, request, args)
        found = core.book.schedule(request, list(args.victims), Phase.PREEMPTING, core.wall())
        core.record_outcomes(found.outcomes)
        core.decisions["preempt verb"] += 1
        if not isinstance(found.decision, Preempt):
            return {}
        return {
            node: Victims(uids, args.victims[node].violations if node in args.victims else 0)
            for node, uids in found.decision.victims
        }


def _helpful(core: ExtenderCore, request: PodRequest, args: PreemptArgs) -> dict[str, Victims]:
    known = core.book.pods.get(request.uid)
    if known is not None and known.info is not None:
        node = known.info.node
    else:
        offered = None if request.ignore_suggested else frozenset(args.victims)
        decision = core.book.engine.plan(request, offered)
        if not isinstance(decision, Bind):
            return {}
        node = core.book.engine.bind_info(decision).node
    found = args.victims.get(node)
    if found is None or not found.uids or any(uid in core.book.engine.state.groups.slots for uid in found.uids):
        return {}
    return {node: found}
