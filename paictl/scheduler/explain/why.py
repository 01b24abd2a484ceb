"""The explanation of one decision: from the VC's quota over cells and nodes to the jobs in the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paictl.cells.ids import NO_VIRTUAL
from paictl.scheduler import repair, transitions
from paictl.scheduler.decision import NO_LEAF, Bind, Wait
from paictl.scheduler.explain.changes import changes, smaller
from paictl.scheduler.explain.data import ChangeKind, Explanation, JointMove, LostCell, PodVerdict
from paictl.scheduler.explain.survey import report, survey
from paictl.scheduler.groups import GroupState
from paictl.scheduler.placement.preferences import Suggested
from paictl.scheduler.placement.search import candidate_views
from paictl.scheduler.scratch import Scratch, outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from paictl.cells.ids import VirtualCell
    from paictl.scheduler.decision import Slot
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State


_OF_THE_GANG: Final = (ChangeKind.OPPORTUNISTIC, ChangeKind.PRIORITY)
"""Changes that are impossible for one member of a running gang."""


def explain(
    engine: Engine,
    request: PodRequest,
    suggested: Collection[str] | None = None,
    *,
    siblings: Collection[str] = (),
) -> Explanation:
    """Why the decision about a request is what it is now, and what would let it run if it waits; changes nothing.

    `suggested` are the names of the nodes that kube-scheduler offers, None for all. `siblings` are groups that live
    and die with the pod's own, as the other tasks of its job do: ending them would not let it run. For a request that
    would bind or preempt, only the outcome is returned. Raises `RequestError` if the request cannot be served
    as it stands.
    """
    decision = engine.plan(request, suggested)
    if not isinstance(decision, Wait):
        verdict = PodVerdict.BIND if isinstance(decision, Bind) else PodVerdict.PREEMPT
        return Explanation(request, verdict, outcome_of(engine, request, suggested) or outcome(engine.state, decision))
    if decision.request.group in engine.state.groups.by_name:
        return _explain_member(engine, request, suggested, siblings)
    state = engine.state
    counted = suggested is not None and not request.ignore_suggested
    offered = Suggested(frozenset(suggested), state.physical) if suggested is not None and counted else None
    surveys = [survey(state, request, index, offered) for _, index in candidate_views(state, request)]
    reports = tuple(
        report(state, request, view_survey, attempt)
        for view_survey, attempt in zip(surveys, decision.attempts, strict=True)
    )
    scratch = Scratch(engine, request, suggested, siblings)
    remedies = changes(scratch, surveys)
    physical = any(change.kind is ChangeKind.OPPORTUNISTIC for change in remedies)
    return Explanation(
        request, PodVerdict.WAIT, None, reports, physical, remedies, _pins(state, request), smaller(scratch)
    )


def _explain_member(
    engine: Engine, request: PodRequest, suggested: Collection[str] | None, siblings: Collection[str]
) -> Explanation:
    """Why a member of a running gang has no other place: explained as a pod of its own, with its old place given up."""
    group = engine.state.groups.by_name[request.group]
    slot = repair.open_slot(engine.state, group, request, suggested)
    assert slot is not None  # noqa: S101 - it waits, so its gang has a free slot
    part = repair.member_request(engine.state, group, request, slot)
    slots = (slot,) if group.state is GroupState.ALLOCATED else ()
    alone = _explain_slots(engine, group, part, slots, (), suggested, siblings)
    if group.state is not GroupState.ALLOCATED or group.virtual is None:
        return alone
    return replace(alone, together=_joint_move(engine, group, request, slot, suggested, siblings))


def _explain_slots(
    engine: Engine,
    group: Group,
    part: PodRequest,
    slots: tuple[Slot, ...],
    given_up: tuple[str, ...],
    suggested: Collection[str] | None,
    siblings: Collection[str],
) -> Explanation:
    """Why some members of a gang have no other places: explained as a gang of their own, with their old places free."""
    state = engine.state
    with Scratch(engine, part, suggested).imagine():
        for name in given_up:
            transitions.cancel_preemption(state, state.groups.by_name[name])
        for slot in slots:
            transitions.vacate(state, state.groups.by_name[group.name], slot)
        if slots:
            state.doomed.settle()
            engine.version += 1
        explanation = explain(engine, part, suggested, siblings={*siblings, group.name})
    possible = tuple(change for change in explanation.changes if change.kind not in _OF_THE_GANG)
    return replace(explanation, request=replace(part, group=group.name), changes=possible, smaller=None, pins=())


def _joint_move(
    engine: Engine,
    group: Group,
    request: PodRequest,
    slot: Slot,
    suggested: Collection[str] | None,
    siblings: Collection[str],
) -> JointMove | None:
    """What lost members that could move together wait for: the smallest move that a single change would allow."""
    state = engine.state
    counted = not request.ignore_suggested or not group.ignore_suggested
    first: JointMove | None = None
    for slots, given_up in repair.joint_moves(state, group, slot, suggested if counted else None):
        part = repair.joint_request(state, group, request, slots)
        own_preemption = (part.group,) if part.group in state.groups.by_name and part.group not in given_up else ()
        explanation = _explain_slots(engine, group, part, slots, given_up + own_preemption, suggested, siblings)
        if explanation.decision is PodVerdict.WAIT:
            move = JointMove(_lost_cells(state, group, slots), explanation)
            if explanation.changes:
                return move
            first = first or move
    return first


def _lost_cells(state: State, group: Group, slots: tuple[Slot, ...]) -> tuple[LostCell, ...]:
    """Where the old places of slots are, by preassigned cell."""
    tree, virtual = state.physical, state.virtual
    cells: dict[VirtualCell, list[Slot]] = {}
    for slot in slots:
        cells.setdefault(repair.root_of(state, group, slot), []).append(slot)
    rows = []
    for root, members in sorted(cells.items()):
        leaves = [leaf for slot in members for leaf in group.physical[slot.member][slot.pod] if leaf != NO_LEAF]
        sizes = Counter(group.members[slot.member][0] for slot in members)
        cell_type = tree.chains[virtual.chain[root]].types[virtual.level[root]] if root != NO_VIRTUAL else ""
        rows.append(
            LostCell(cell_type, tuple(sorted({tree.node_name(leaf) for leaf in leaves})), tuple(sorted(sizes.items())))
        )
    return tuple(rows)


def _pins(state: State, request: PodRequest) -> tuple[str, ...]:
    """The pinned cells that a guaranteed request could have named, but names none."""
    if request.pinned_id or not request.guaranteed:
        return ()
    tops = state.virtual.preassigned.values()
    return tuple(top.pinned_id for top in tops if top.pinned_id is not None and top.vc == request.vc)
