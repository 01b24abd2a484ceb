"""An explanation in plain English: one line a thought, from the request over the views to what would help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from paictl.scheduler.decision import Failure
from paictl.scheduler.explain.data import ChangeKind, Hold, Verdict
from paictl.scheduler.occupancy import OPPORTUNISTIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paictl.scheduler.explain.data import Change, Explanation, Holder, Outcome, ViewReport

SHOWN: Final = 3
"""So many groups, nodes or pods are named before the rest is only counted."""
DETAILED: Final = 2
"""So many views are shown in detail; of the others one line each."""

_FAILURES: Final = {
    Failure.CAPACITY: "there is not enough room",
    Failure.BAD_NODE: "there is not enough room on healthy nodes",
    Failure.NOT_SUGGESTED: "there is room, but not on the nodes that kube-scheduler suggests",
    Failure.MAPPING: "the quota is free, but only on nodes that are bad or not suggested",
}


ClassName: TypeAlias = Callable[[int], str | None]
"""How jobs call a priority; None where they have no name for it."""


def _nameless(_: int) -> None:
    """Pods have priorities, not classes."""


def render(explanation: Explanation, class_name: ClassName = _nameless) -> list[str]:
    """The lines of an explanation, without line ends; priorities to take are said by class where they have one."""
    request = explanation.request
    kind = f"priority {request.priority}, guaranteed" if request.guaranteed else "opportunistic"
    pods = " and ".join(f"{_count(number, 'pod')} of {_count(leaves, 'device')}" for leaves, number in request.members)
    asks = f"group {request.group} of VC {request.vc} asks for {pods} ({kind})"
    if explanation.outcome is not None:
        verb = "can run now" if explanation.decision is Verdict.BIND else "waits for others to go"
        return [f"Pod {request.name} {verb}: {asks}.", f"  It would {outcome_text(explanation.outcome)}."]
    lines = [f"Pod {request.name} waits: {asks}."]
    for number, view in enumerate(explanation.views, 1):
        where = f"{view.view} of VC {view.vc}" if view.vc else f"{view.view}, whoever it is promised to"
        lines.append(f"{number}. Tried {where}: {_FAILURES[view.failure]}.")
        if number <= DETAILED:
            lines += [f"   {line}" for line in _view(view)]
    if not explanation.views:
        lines.append(f"VC {request.vc} has no quota where this pod could run.")
    if explanation.physical:
        pinned = f", or pinned, for jobs that name {_listed(explanation.pins, 'cell')}" if explanation.pins else ""
        unused = f"Unused devices ({request.leaf_type})" if request.leaf_type else "Unused devices"
        lines.append(f"{unused} are there, but they are not promised to VC {request.vc}{pinned}.")
    return [*lines, *_changes(explanation, class_name)]


def _view(view: ViewReport) -> list[str]:
    """Quota, devices, nodes and groups of one view."""
    lines = []
    if view.promises:
        promised = "; ".join(
            f"{_count(one.number, 'cell')} of {one.cell_type}, {one.free} of them free"
            + (f", {one.doomed} on bad hardware only" if one.doomed else "")
            for one in view.promises
        )
        lines.append(f"Promised: {promised}.")
    leaves, nodes = view.leaves, view.nodes
    parts = (
        (leaves.free, "free"),
        (leaves.weaker, "used by weaker groups"),
        (leaves.used, "used by groups it may not preempt"),
        (leaves.reserved, "reserved for a preemption"),
        (leaves.bad, "on bad nodes"),
        (leaves.doomed, "doomed: only bad hardware can serve them"),
        (leaves.not_suggested, "on nodes not suggested"),
    )
    shown = ", ".join(f"{number} {what}" for number, what in parts if number)
    lines.append(f"Devices ({view.leaf_type}): {view.needed} needed; of {leaves.total}: {shown}.")
    lines.append(
        f"Cells wholly free: {', '.join(f'{one.free} of {one.total} {one.cell_type}' for one in view.levels)}."
    )
    rooms = "; ".join(
        f"of {_count(pod.pods, 'pod')} with {_count(pod.leaf_number, 'device')} "
        f"{min(pod.room, pod.pods) or 'none'} would fit ({_count(pod.nodes, 'node')} with room)"
        for pod in view.pods
    )
    extra = "".join(
        f", {number} {what}"
        for number, what in ((nodes.idle, "idle"), (nodes.bad, "bad"), (nodes.not_suggested, "not suggested"))
        if number
    )
    lines.append(f"Nodes: {nodes.total}{extra}; {rooms}.")
    if view.holders:
        lines.append(f"In the way: {_listed([_holder(one, one.here) for one in view.holders], 'group')}.")
    if view.by_order:
        lines.append(
            "All its pods would fit, but not as nodes are filled: smallest pods first, fullest and then largest nodes "
            "first, never back. Put the larger pods into a group of their own."
        )
    elif not view.ever:
        owner = "This part of the VC's quota" if view.vc else "This chain"
        lines.append(f"{owner} could not hold the group even if all of it was healthy and idle.")
    return lines


def _changes(explanation: Explanation, class_name: ClassName) -> list[str]:
    if not explanation.changes:
        return ["No single change of nodes, quota, priority or running groups was found that would let it run now."]
    return [
        "Any one of these would let it run now, least disturbing first:",
        *(
            f"- {change_text(change, class_name)}: it would {outcome_text(change.outcome)}"
            f"{'' if change.smallest else ' (less may do: not everything was tried)'}."
            for change in explanation.changes
        ),
    ]


def change_text(change: Change, class_name: ClassName = _nameless) -> str:
    """What has to be changed, as the beginning of a sentence."""
    match change.kind:
        case ChangeKind.ANY_NODE:
            return "do not insist on suggested nodes (ignoreK8sSuggestedNodes: true)"
        case ChangeKind.HEAL:
            some = "node becomes healthy again" if len(change.nodes) == 1 else "nodes become healthy again"
            return f"{some} (ready, not cordoned): {_listed(change.nodes, 'node')}"
        case ChangeKind.OPPORTUNISTIC:
            name = class_name(OPPORTUNISTIC)
            if name is not None:
                return f"give it the class {name} (opportunistic, priority -1; others may preempt it)"
            return "run it as opportunistic (priority -1; others may preempt it)"
        case ChangeKind.QUOTA:
            quota = change.quota
            assert quota is not None  # noqa: S101 (that is what the kind says)
            return (
                f"promise VC {quota.vc} {_count(quota.number, 'more cell')} of {quota.chain}.{quota.cell_type} "
                f"({quota.unpromised} promised to nobody)"
            )
        case ChangeKind.PRIORITY:
            name = None if change.priority is None else class_name(change.priority)
            if name is not None:
                return f"give it the class {name} (priority {change.priority})"
            return f"give it priority {change.priority}"
        case ChangeKind.END:
            some = "group ends" if len(change.groups) == 1 else "groups end"
            return f"{some}: {_listed([_holder(one, one.leaves) for one in change.groups], 'group')}"


def outcome_text(outcome: Outcome) -> str:
    """Where a pod and the rest of its group would run, and at whose cost, after "would"."""
    places = [f"{node} [{','.join(map(str, sorted(devices)))}]" for node, devices in outcome.places]
    text = f"run on {_listed(places, 'pod')}"
    if outcome.victims:
        text = f"preempt {_listed([one.group for one in outcome.victims], 'group')}, then {text}"
    if outcome.lazy:
        text += f", while {_listed([one.group for one in outcome.lazy], 'group')} would lose the guarantee and run on"
    return text


def _holder(one: Holder, leaves: int) -> str:
    what = f"priority {one.priority}" if one.hold is Hold.GUARANTEED else f"{one.hold}"
    return f"{one.group} ({_count(leaves, 'device')}, VC {one.vc}, {what})"


def _listed(texts: Sequence[str], what: str) -> str:
    """The first few of some texts, and how many more there are."""
    rest = len(texts) - SHOWN
    if rest <= 1:  # naming the last one is no longer than counting it
        return ", ".join(texts)
    return f"{', '.join(texts[:SHOWN])} and {_count(rest, f'more {what}')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
