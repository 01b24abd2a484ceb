"""Nodes that kube-scheduler would offer if victims were gone: what a preemption may count on.

kube-scheduler's own filters run before ours. While devices, CPU or memory of a node are taken, it does not offer the
node, and if no node is left it does not ask at all, even if all pods on the node would have to go for the waiting one.
If suggested nodes count for a pod, the nodes that would pass the filters without these pods are suggested as well. All
functions need the core's lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.pods import feasibility
from paictl.doors import windows
from paictl.i18n import text
from paictl.scheduler.decision import Bind, Phase, Placement, Preempt, Wait
from paictl.scheduler.groups import GroupState

if TYPE_CHECKING:
    from paictl.doors.core import DoorCore
    from paictl.doors.table import PodEntry
    from paictl.scheduler.request import PodRequest

DECLINED: Final = 10
"""Deadlines for which a node is excluded: no victim may go for nothing every minute, no guarantee wait for ever."""
ROUNDS: Final = 8
"""Places that are tried for a pod: one where it would not fit even without the victims excludes nodes from the next."""


def suggested(
    core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None
) -> frozenset[str] | None:
    """The nodes that count as suggested: those that kube-scheduler offers, and those that a preemption would free.

    More than `offered` only if that makes a preemption possible after which the pod fits. The preemption may be lazy,
    taking the guarantee of a group on such a node and an offered node for the pod. None (any node) stays None.
    """
    engine = core.book.engine
    if offered is None or request.ignore_suggested or not core.options.own_preemption or entry.demand is None:
        return offered
    if entry.demand.unknowable:
        return offered
    group = engine.state.groups.by_name.get(request.group)
    if group is not None and group.state is not GroupState.PREEMPTING:
        return offered  # its place is fixed
    if group is not None:
        place = _nodes(core, group.physical)
        fitting = {node for node in place if _usable(core, entry, node, _victims_on(core, group.leaves(), node))}
        if place.keys() <= offered | fitting:
            return offered | fitting
    elif isinstance(engine.plan(request, offered), Bind | Preempt) or isinstance(engine.plan(request), Wait):
        return offered
    return _widened(core, entry, request, offered)


def _widened(core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str]) -> frozenset[str]:
    lower = _lower(core, request)
    candidates = offered | {
        node
        for node, uids in lower.items()
        if node not in offered and node in core.promised and _usable(core, entry, node, uids)
    }
    for _ in range(ROUNDS):
        if candidates <= offered:
            break
        decision = core.book.engine.plan(request, candidates, Phase.PREEMPTING)
        unfit = _unfit(core, entry, decision, offered)
        if unfit is None:
            return candidates
        if not unfit:
            break
        candidates -= unfit
    return offered


def _lower(core: DoorCore, request: PodRequest) -> dict[str, list[str]]:
    """Pods that might have to go for a request, by node: opportunistic ones, and those of lower priority in its VC."""
    groups, by_node = core.book.engine.state.groups, dict[str, list[str]]()
    if request.priority < 0:
        return by_node
    for group in groups.by_name.values():
        if group.virtual is None or (group.vc == request.vc and group.priority < request.priority):
            for uid in (uid for row in group.pods for uid in row if uid):
                by_node.setdefault(groups.slots[uid][2], []).append(uid)
    return by_node


def _unfit(core: DoorCore, entry: PodEntry, decision: object, offered: Collection[str]) -> frozenset[str] | None:
    """Nodes of a decision's place where the pod would not fit even after it; None if the pod would fit."""
    if isinstance(decision, Preempt) and decision.placement is not None:
        victims = {uid for _, uids in decision.victims for uid in uids}
        return _misfits(core, entry, decision.placement, victims) or None
    if isinstance(decision, Bind):  # no victims: at most, a group elsewhere loses its guarantee and keeps running
        return frozenset(_nodes(core, decision.placement.physical)) - frozenset(offered) or None
    return frozenset()


def _misfits(core: DoorCore, entry: PodEntry, placement: Placement, victims: Collection[str]) -> frozenset[str]:
    size = entry.reading.request.leaf_number if entry.reading else 0
    places = _nodes(core, placement.physical)
    return frozenset(
        node for node, sizes in places.items() if not _usable(core, entry, node, victims, max(1, sizes.count(size)))
    )


def place_obstacle(core: DoorCore, entry: PodEntry, request: PodRequest) -> str:
    """Why no pod may be evicted for one that takes any node: the place that it would get excludes it for good."""
    if core.book.engine.state.groups.by_name.get(request.group) is not None or entry.demand is None:
        return ""
    decision = core.book.engine.plan(request, None, Phase.PREEMPTING)
    if not isinstance(decision, Preempt) or decision.placement is None:
        return ""
    victims = {uid for _, uids in decision.victims for uid in uids}
    unfit = sorted(_misfits(core, entry, decision.placement, victims))
    if not unfit:
        return ""
    reason = obstacle_on(core, entry, unfit[0], victims) or text("kube-scheduler does not offer it")
    return text("node {node}: {why}", node=unfit[0], why=reason)


def decline(core: DoorCore, entry: PodEntry, nodes: Collection[str]) -> None:
    """Exclude nodes of a place that a pod lost at the deadline, because kube-scheduler does not offer them."""
    entry.declined |= frozenset(nodes)
    entry.declined_until = core.clock() + DECLINED * core.options.deadline


def reconsider(core: DoorCore, entry: PodEntry, offered: Iterable[str]) -> None:
    """Stop excluding nodes for a pod: those that are offered now, and after a while all."""
    declined = entry.declined.difference(offered) if core.clock() < entry.declined_until else frozenset[str]()
    if declined != entry.declined:
        entry.declined, entry.cached = declined, None


def obstacle_on(core: DoorCore, entry: PodEntry, node: str, without: Iterable[str] = (), pods: int = 1) -> str:
    """What keeps a pod from a node once the pods `without` are gone; empty if nothing known does."""
    status = core.health.nodes.get(node)
    if entry.demand is None or status is None or status.facts is None:
        return ""
    used = core.usage.used(node, {entry.ref.uid, *without})
    facts = status.facts if core.claims is None else core.claims.offering(node, status.facts)
    return feasibility.obstacle(entry.demand, node, facts, used, pods)


def _usable(core: DoorCore, entry: PodEntry, node: str, without: Iterable[str], pods: int = 1) -> bool:
    if node in core.health.bad or node in entry.declined or node in windows.closed(core, entry):
        return False
    return not obstacle_on(core, entry, node, without, pods)


def _victims_on(core: DoorCore, leaves: Iterable[Any], node: str) -> list[str]:
    return [uid for victim_node, uids in core.book.engine.victims(leaves) if victim_node == node for uid in uids]


def _nodes(core: DoorCore, physical: Iterable[Iterable[tuple[Any, ...]]]) -> dict[str, list[int]]:
    """The nodes of a place, with the number of leaf cells of each pod there."""
    tree, by_node = core.book.engine.state.physical, dict[str, list[int]]()
    for member in physical:
        for leaves in member:
            by_node.setdefault(tree.node_name(leaves[0]), []).append(len(leaves))
    return by_node
