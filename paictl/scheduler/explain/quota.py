"""How much more quota a VC would need: computed, then tried on an engine that restarts with it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from paictl.cells.quota import shortfall, surplus
from paictl.cells.spec import SpecError, VirtualCellSpec
from paictl.scheduler.annotate import Annotator
from paictl.scheduler.decision import Bind, Placement
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import LeafHealth, NodeHealth, PodRecovered
from paictl.scheduler.explain.data import Change, ChangeKind, QuotaIncrease
from paictl.scheduler.explain.survey import sizes_of, walk
from paictl.scheduler.request import PodRequest
from paictl.scheduler.scratch import holder, outcome_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paictl.cells.ids import ChainIndex
    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.explain.survey import ViewSurvey
    from paictl.scheduler.groups import Group
    from paictl.scheduler.scratch import Scratch
    from paictl.scheduler.state import State

TRIALS: Final = 2
"""Amounts that are tried on a large cluster, smallest first: each trial restarts the whole cluster."""
WORK: Final = 60_000
"""Cells that all trials together may restart before a cluster counts as large."""


@dataclass(frozen=True, slots=True, order=True)
class _Amount:
    """Cells of one level, in order of leaves, then fewest cells."""

    leaves: int
    number: int
    chain: ChainIndex
    level: int


def more_quota(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> Change | None:
    """The smallest number of cells of one level that, promised to the VC, lets the request run.

    Only cells that are not promised to any VC count (`paictl.cells.quota.shortfall`). None for requests that do not
    use their VC's quota, or name a pinned cell.
    """
    state, request = scratch.state, scratch.request
    if not request.guaranteed or request.pinned_id:
        return None
    chains = state.chains_by_type[request.leaf_type] if request.leaf_type else state.physical.chain_indexes()
    amounts = [amount for chain in chains for amount in _all_amounts(state, request, chain)]
    complete = len(amounts) * len(state.physical) <= WORK
    if not complete:
        by_chain = {survey.chain: survey for survey in surveys}
        amounts = [amount for chain in chains for amount in _amounts(state, request, chain, by_chain.get(chain))]
    for amount in sorted(amounts) if complete else sorted(amounts)[:TRIALS]:
        if change := _tried(scratch, amount):
            return replace(change, smallest=complete)
    return None


def _all_amounts(state: State, request: PodRequest, chain: ChainIndex) -> list[_Amount]:
    """All useful amounts of cells of a chain that are not promised to any VC.

    At most one cell for each pod, and for each leaf of a group that lost its guarantee: at the restart that group may
    move to the new cells and free others.
    """
    shape = state.physical.chains[chain]
    promised, tops = promises(state, chain)
    lost = (group for name in state.groups.demoted if (group := state.groups.by_name[name]).vc == request.vc)
    useful = sum(number for _, number in request.members) + sum(holder(group).leaves for group in lost)
    return [
        _Amount(number * shape.leaves[level], number, chain, level)
        for level in range(1, shape.top + 1)
        for number in range(1, min(_unpromised(promised, tops, shape.fanout, level), useful) + 1)
    ]


def _amounts(state: State, request: PodRequest, chain: ChainIndex, survey: ViewSurvey | None) -> list[_Amount]:
    """For each level of a chain the least number of cells with which the pods could be walked to nodes."""
    shape = state.physical.chains[chain]
    promised, tops = promises(state, chain)
    sizes = sizes_of(request)
    nodes = sorted(survey.usable, key=lambda node: -node.used) if survey else []
    rooms = [node.room for node in nodes]
    out = []
    for level in range(1, shape.top + 1):
        fresh = [shape.leaves[min(level, shape.node_level)]] * shape.nodes(level)

        def enough(number: int, fresh: list[int] = fresh) -> bool:
            return walk([*rooms, *fresh * number], sizes)

        most = _unpromised(promised, tops, shape.fanout, level)
        number = bisect_left(range(1, min(most, len(sizes)) + 1), True, key=enough) + 1
        if number <= min(most, len(sizes)):
            out.append(_Amount(number * shape.leaves[level], number, chain, level))
    return out


def promises(state: State, chain: ChainIndex) -> tuple[list[int], list[int]]:
    """Cells of each level that are promised to all VCs together, and cells that there are (top level only)."""
    top = state.physical.chains[chain].top
    promised, tops = [0] * (top + 1), [0] * (top + 1)
    tops[top] = len(state.physical.at[chain][top])
    for (of_chain, level), number in Counter(
        (state.virtual.chain[root], state.virtual.level[root]) for root in state.virtual.preassigned
    ).items():
        if of_chain == chain:
            promised[level] += number
    return promised, tops


def _unpromised(promised: list[int], tops: list[int], fanout: Sequence[int], level: int) -> int:
    """How many more cells of a level could be promised."""
    most = surplus(tops, promised, fanout)[level]

    def too_many(number: int) -> bool:
        more = [count + number * (index == level) for index, count in enumerate(promised)]
        return shortfall(tops, more, fanout) is not None

    return bisect_left(range(1, most + 1), True, key=too_many)


def _tried(scratch: Scratch, amount: _Amount) -> Change | None:
    """The change to more quota, if a restart with it helps."""
    state, vc = scratch.state, scratch.request.vc
    chain = state.physical.chains[amount.chain]
    path = chain.types[: amount.level - 1 : -1]
    try:
        engine = restarted(scratch.engine, with_more(scratch.engine.spec, vc, path, amount.number))
    except SpecError:  # pinned cells split what the formula counts as whole
        return None
    outcome = outcome_of(engine, scratch.request, scratch.suggested)
    if outcome is None:
        return None
    promised, tops = promises(state, amount.chain)
    unpromised = _unpromised(promised, tops, chain.fanout, amount.level)
    quota = QuotaIncrease(vc, chain.name, chain.types[amount.level], amount.number, unpromised)
    return Change(ChangeKind.QUOTA, outcome, quota=quota)


def with_more(spec: ClusterSpec, vc: str, path: tuple[str, ...], number: int) -> ClusterSpec:
    """A specification in which a VC has `number` more cells of the last type of `path` (from the chain down)."""
    return replace(
        spec,
        virtual_clusters=tuple(
            replace(cluster, cells=(*cluster.cells, VirtualCellSpec(path, number))) if cluster.name == vc else cluster
            for cluster in spec.virtual_clusters
        ),
    )


def restarted(engine: Engine, spec: ClusterSpec) -> Engine:
    """A new engine for another specification of the same nodes, with the pods recovered that run on the old one.

    As after a real restart, preemptions under way are forgotten. Nodes are reported in the order of the configuration:
    if some are bad, what is doomed may depend on it. Raises `SpecError` for an unsound
    specification.
    """
    new = Engine(spec)
    new.sparing = engine.sparing
    bad = engine.state.health.bad_nodes
    for name in engine.state.physical.nodes:
        if name not in bad:
            new.observe(NodeHealth(name, healthy=True))
    old = engine.state.physical
    for leaf in sorted(engine.state.health.bad_leaves):
        new.observe(LeafHealth(old.node_name(leaf), old.device(leaf), healthy=False))
    groups, annotator = engine.state.groups, Annotator()
    for uid, (name, slot, _) in sorted(groups.slots.items()):
        group = groups.by_name[name]
        request = _request_of(group, uid, group.members[slot.member][0])
        decision = Bind(request, engine.version, slot, Placement(group.physical, group.virtual))
        new.observe(PodRecovered(request, annotator.bind_info(engine.state, decision, promised=True)))
    return new


def _request_of(group: Group, uid: str, leaf_number: int) -> PodRequest:
    """A request as a pod of a running group must have made it."""
    return PodRequest(
        uid=uid,
        name=uid,
        vc=group.vc,
        priority=group.priority,
        leaf_number=leaf_number,
        group=group.name,
        members=group.members,
        pinned_id=group.pinned_id,
        lazy_preemption=group.lazy_preemption,
        ignore_suggested=group.ignore_suggested,
    )
