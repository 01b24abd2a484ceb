"""Nodes that kube-scheduler would offer if victims were gone: what a preemption may count on.

kube-scheduler's own filters come before ours. While devices, CPU or memory of a node are taken it does not
offer the node, and if no node is left it does not ask at all, even where all of the pods that run there would have to
go for the one that waits. For a pod that counts the suggested nodes, those are suggested as well that would pass the
filters without these pods. All functions need the core's lock.
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
"""Deadlines for which a node is excluded: a guarantee must not wait for ever, nor a victim go every minute in vain."""
ROUNDS: Final = 8
"""Places that are tried for a pod: each that its victims would not make fit excludes a node from the next."""


def suggested(
    core: DoorCore, entry: PodEntry, request: PodRequest, offered: frozenset[str] | None
) -> frozenset[str] | None:
    """The nodes that count as suggested: those that kube-scheduler offers, and those that a preemption would free.

    More than `offered` only where that makes a preemption possible after which the pod fits; a lazy one, too, which
    takes the guarantee of a group on such a node and an offered node for the pod. None (any node) stays None.
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
    found = offered | {
        node for node, uids in lower.items()
        if node not in offered and node in core.promised and _usable(core, entry, node, uids)
    }  # fmt: skip
    for _ in range(ROUNDS):
        if found <= offered:
            break
        decision = core.book.engine.plan(request, found, Phase.PREEMPTING)
        wrong = _unfit(core, entry, decision, offered)
        if wrong is None:
            return found
        if not wrong:
            break
        found -= wrong
    return offered


def _lower(core: DoorCore, request: PodRequest) -> dict[str, list[str]]:
    """Pods that might have to go for a request, by node: opportunistic ones, and lower priorities of its own VC."""
    groups, found = core.book.engine.state.groups, dict[str, list[str]]()
    if request.priority < 0:
        return found
    for group in groups.by_name.values():
        if group.virtual is None or (group.vc == request.vc and group.priority < request.priority):
            for uid in (uid for row in group.pods for uid in row if uid):
                found.setdefault(groups.slots[uid][2], []).append(uid)
    return found


def _unfit(core: DoorCore, entry: PodEntry, decision: object, offered: Collection[str]) -> frozenset[str] | None:
    """Nodes of a decision's place where the pod would not fit even then; None if the decision serves it."""
    if isinstance(decision, Preempt) and decision.placement is not None:
        going = {uid for _, uids in decision.victims for uid in uids}
        return _misfits(core, entry, decision.placement, going) or None
    if isinstance(decision, Bind):  # nobody goes: a lazy group perhaps loses its guarantee, and runs on elsewhere
        return frozenset(_nodes(core, decision.placement.physical)) - frozenset(offered) or None
    return frozenset()


def _misfits(core: DoorCore, entry: PodEntry, placement: Placement, going: Collection[str]) -> frozenset[str]:
    size = entry.reading.request.leaf_number if entry.reading else 0
    places = _nodes(core, placement.physical)
    return frozenset(
        node for node, sizes in places.items() if not _usable(core, entry, node, going, max(1, sizes.count(size)))
    )


def place_obstacle(core: DoorCore, entry: PodEntry, request: PodRequest) -> str:
    """Why nobody may be evicted for a pod that takes any node: the place that it would get excludes it for good."""
    if core.book.engine.state.groups.by_name.get(request.group) is not None or entry.demand is None:
        return ""
    decision = core.book.engine.plan(request, None, Phase.PREEMPTING)
    if not isinstance(decision, Preempt) or decision.placement is None:
        return ""
    going = {uid for _, uids in decision.victims for uid in uids}
    wrong = sorted(_misfits(core, entry, decision.placement, going))
    if not wrong:
        return ""
    why = obstacle_on(core, entry, wrong[0], going) or text("kube-scheduler does not offer it")
    return text("node {node}: {why}", node=wrong[0], why=why)


def decline(core: DoorCore, entry: PodEntry, nodes: Collection[str]) -> None:
    """Exclude nodes where a pod had its place until the deadline, because kube-scheduler does not offer them."""
    entry.declined |= frozenset(nodes)
    entry.declined_until = core.clock() + DECLINED * core.options.deadline


def reconsider(core: DoorCore, entry: PodEntry, offered: Iterable[str]) -> None:
    """Give excluded nodes back to a pod: those that are offered now, and after a while all."""
    left = entry.declined.difference(offered) if core.clock() < entry.declined_until else frozenset[str]()
    if left != entry.declined:
        entry.declined, entry.cached = left, None


def obstacle_on(core: DoorCore, entry: PodEntry, node: str, without: Iterable[str] = (), pods: int = 1) -> str:
    """What keeps a pod from a node once the pods `without` are gone; empty if nothing does, as far as is known."""
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
    return [uid for at, uids in core.book.engine.victims(leaves) if at == node for uid in uids]


def _nodes(core: DoorCore, physical: Iterable[Iterable[tuple[Any, ...]]]) -> dict[str, list[int]]:
    """The nodes of a place, with the leaf cells of each pod there."""
    tree, found = core.book.engine.state.physical, dict[str, list[int]]()
    for member in physical:
        for leaves in member:
            found.setdefault(tree.node_name(leaves[0]), []).append(len(leaves))
    return found
