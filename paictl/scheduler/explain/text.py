"""The phrases of an explanation: what was tried, what is there, what would help and with what outcome.

Every phrase is an `i18n.Text`: English in code, and the reader's language where it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.i18n import Text, counted, joined, text
from paictl.scheduler.decision import Failure
from paictl.scheduler.explain.data import ANOTHER, ChangeKind
from paictl.scheduler.groups import Hold
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.wire import isolation_text

if TYPE_CHECKING:
    from paictl.scheduler.explain.data import (
        Change,
        Explanation,
        LostCell,
        PodFit,
        PromiseUse,
        ViewReport,
    )
    from paictl.scheduler.scratch import ChangeOutcome, Holder

SHOWN: Final = 3
"""Groups, nodes or pods that are named before the rest is only counted."""


@frozen
class Names:
    """What the readers of an explanation call things; without it, pods have priorities and no classes."""

    priority: Callable[[int], str | None] = lambda _: None
    """The class of a priority, None where it has none."""
    short: Callable[[str], str] = str
    """A pod or a group of pods, from its full name."""


FULL: Final = Names()
"""Everything by its full name and number."""


def tried_text(number: int, view: ViewReport) -> Text:
    """Which view was tried, and why it has no place."""
    chain, pin = view.view.removeprefix("chain "), view.view.removeprefix("pinned cell ")
    place = text("chain {name}", name=chain) if chain != view.view else text("pinned cell {name}", name=pin)
    where = (
        text("{view} of VC {vc}", view=place, vc=view.vc)
        if view.vc
        else text("{view}, regardless of the virtual cluster", view=place)
    )
    return text("{number}. Tried {where}: {why}.", number=number, where=where, why=_failure(view.failure))


def _failure(failure: Failure) -> Text:
    match failure:
        case Failure.CAPACITY:
            return text("there is not enough room")
        case Failure.BAD_NODE:
            return text("there is not enough room on healthy nodes")
        case Failure.NOT_SUGGESTED:
            return text("there is room, but not on the nodes that kube-scheduler suggests")
        case Failure.MAPPING:
            return text("the quota is free, but only on nodes that are bad or not suggested")
        case Failure.SHIELDED:
            return text("the jobs with a lower priority have not run for their minimum run time yet")


def unpromised_text(explanation: Explanation) -> Text:
    """A note that there are unused devices, but not for this VC."""
    request = explanation.request
    unused = text("unused devices ({type})", type=request.leaf_type) if request.leaf_type else text("unused devices")
    if not explanation.pins:
        return text("There are {unused}, but they are not promised to VC {vc}.", unused=unused, vc=request.vc)
    return text(
        "There are {unused}, but they are not promised to VC {vc}, or they are pinned for jobs that name {pins}.",
        unused=unused,
        vc=request.vc,
        pins=_listed(explanation.pins, "more cell", "more cells"),
    )


def view_texts(view: ViewReport, names: Names) -> list[Text]:
    """Quota, devices, nodes and groups of one view."""
    lines = []
    if view.promises:
        lines.append(text("Promised: {promised}.", promised=joined("; ", map(_promise, view.promises))))
    lines += _sizes(view)
    if view.holders:
        groups = _listed([_holder(holder, holder.here, names) for holder in view.holders], "more group", "more groups")
        lines.append(text("In the way: {groups}.", groups=groups))
    if view.by_order:
        lines.append(
            text(
                "All its pods would fit, but not in the order in which nodes are filled: smallest pods first, "
                "fullest and then largest nodes first, and no choice is revised. "
                "Put the larger pods into a group of their own."
            )
        )
    elif not view.ever:
        lines.append(
            text("This part of the VC's quota could not hold the group even if all of it was healthy and idle.")
            if view.vc
            else text("This chain could not hold the group even if all of it was healthy and idle.")
        )
    return lines


def _sizes(view: ViewReport) -> Iterator[Text]:
    """How many devices, cells and nodes there are, and how they are used."""
    leaves, nodes = view.leaves, view.nodes
    parts = (
        (leaves.free, "{number} free"),
        (leaves.weaker, "{number} used by weaker groups"),
        (leaves.used, "{number} used by groups it may not preempt"),
        (leaves.reserved, "{number} reserved for a preemption"),
        (leaves.bad, "{number} on bad nodes"),
        (leaves.doomed, "{number} doomed: only bad hardware can serve them"),
        (leaves.not_suggested, "{number} on nodes not suggested"),
    )
    shown = joined(", ", (text(template, number=number) for number, template in parts if number))
    yield text(
        "Devices ({type}): {needed} needed; of {total}: {shown}.",
        type=view.leaf_type,
        needed=view.needed,
        total=leaves.total,
        shown=shown,
    )
    free = joined(
        ", ",
        (
            text("{free} of {total} {type}", free=level.free, total=level.total, type=level.cell_type)
            for level in view.levels
        ),
    )
    yield text("Completely free cells: {free}.", free=free)
    kinds = (
        (nodes.idle, "{number} idle"),
        (nodes.bad, "{number} bad"),
        (nodes.not_suggested, "{number} not suggested"),
    )
    extra = [text(template, number=number) for number, template in kinds if number]
    yield text(
        "Nodes: {nodes}; {rooms}.",
        nodes=joined(", ", [str(nodes.total), *extra]),
        rooms=joined("; ", map(_room, view.pods)),
    )


def _promise(promise: PromiseUse) -> Text:
    """One kind of cell that a VC is promised."""
    cells, cell_type = counted("{count} cell", "{count} cells", promise.number), promise.cell_type
    if not promise.doomed:
        return text("{cells} of {type}, {free} of them free", cells=cells, type=cell_type, free=promise.free)
    return text(
        "{cells} of {type}, {free} of them free, {doomed} on bad hardware only",
        cells=cells,
        type=cell_type,
        free=promise.free,
        doomed=promise.doomed,
    )


def _room(pod: PodFit) -> Text:
    """How many pods of a size would fit."""
    return text(
        "{fit} of {pods} with {devices} would fit ({nodes} with room)",
        pods=_pods(pod.pods),
        devices=_devices(pod.leaf_number),
        fit=min(pod.room, pod.pods),
        nodes=counted("{count} node", "{count} nodes", pod.nodes),
    )


def lost_text(cells: Sequence[LostCell]) -> Text:
    """Which lost pods of a gang would move together, and where their places were."""
    rows = [
        text(
            "{pods} in a cell of {type} ({nodes})",
            pods=members_text(cell.members),
            type=cell.cell_type,
            nodes=_listed(cell.nodes, "more node", "more nodes"),
        )
        if cell.cell_type
        else text("{pods} without a place", pods=members_text(cell.members))
        for cell in cells
    ]
    return text(
        "It could move together with other lost pods of its gang: {cells}.",
        cells=_listed(rows, "more cell", "more cells"),
    )


def way_text(change: Change, names: Names) -> Text:
    """One change and its outcome."""
    phrase, outcome = change_text(change, names), outcome_text(change.outcome, names)
    if change.smallest:
        return text("{change}: it would {outcome}.", change=phrase, outcome=outcome)
    return text(
        "{change}: it would {outcome} (a smaller change may be enough: not everything was tried).",
        change=phrase,
        outcome=outcome,
    )


def _repairs(change: Change) -> Text:
    """Nodes and devices that would have to turn healthy."""
    nodes = _listed(change.nodes, "more node", "more nodes")
    divided = change.outcome.instances  # a bad device matters to the chain in which the pod would run
    names = [f"{node} [{isolation_text((device,), divided)}]" for node, device in change.devices]
    devices = _listed(names, "more device", "more devices")
    if change.nodes and change.devices:
        return text("make nodes ({nodes}) and devices ({devices}) healthy again", nodes=nodes, devices=devices)
    if change.devices:
        single = len(change.devices) == 1
        return (
            text("make device {devices} healthy again", devices=devices)
            if single
            else text("make devices {devices} healthy again", devices=devices)
        )
    return (
        text("make node {nodes} healthy again (in the cluster, ready, not cordoned)", nodes=nodes)
        if len(change.nodes) == 1
        else text("make nodes {nodes} healthy again (in the cluster, ready, not cordoned)", nodes=nodes)
    )


def change_text(change: Change, names: Names = FULL) -> Text:
    """What has to be changed, as the beginning of a sentence."""
    match change.kind:
        case ChangeKind.ANY_NODE:
            return text("do not insist on suggested nodes (ignoreK8sSuggestedNodes: true)")
        case ChangeKind.HEAL:
            return _repairs(change)
        case ChangeKind.OPPORTUNISTIC:
            name = names.priority(OPPORTUNISTIC)
            if name is None:
                return text("run it as opportunistic (priority -1; others may preempt it)")
            return text("give it the class {name} (opportunistic, priority -1; others may preempt it)", name=name)
        case ChangeKind.QUOTA:
            quota = change.quota
            assert quota is not None  # noqa: S101 (that is what the kind says)
            return text(
                "promise VC {vc} {cells} of {type} ({number} not promised to any VC)",
                vc=quota.vc,
                cells=counted("{count} more cell", "{count} more cells", quota.number),
                type=f"{quota.chain}.{quota.cell_type}",
                number=quota.unpromised,
            )
        case ChangeKind.PRIORITY:
            name = None if change.priority is None else names.priority(change.priority)
            if name is None:
                return text("give it priority {priority}", priority=change.priority)
            return text("give it the class {name} (priority {priority})", name=name, priority=change.priority)
        case ChangeKind.SIZE:
            return text("ask for {pods}", pods=members_text(change.members))
        case ChangeKind.END:
            groups = _listed(
                [_holder(group, group.leaves, names) for group in change.groups], "more group", "more groups"
            )
            return text("wait for {groups} to end", groups=groups)


def outcome_text(outcome: ChangeOutcome, names: Names = FULL) -> Text:
    """Where a pod and the rest of its group would run, and at whose cost; follows the word "would"."""
    places = [
        f"{node} [{isolation_text(tuple(sorted(devices)), outcome.instances)}]" for node, devices in outcome.places
    ]
    phrase = text("run on {places}", places=_listed(places, "more pod", "more pods"))
    if outcome.victims:
        victims = _listed([_group(victim, names) for victim in outcome.victims], "more group", "more groups")
        phrase = text("preempt {victims}, then {rest}", victims=victims, rest=phrase)
    if outcome.lazy:
        lazy = _listed([_group(holder, names) for holder in outcome.lazy], "more group", "more groups")
        phrase = text("{rest}, while {lazy} would lose the guarantee and keep running", rest=phrase, lazy=lazy)
    return phrase


def _group(holder: Holder, names: Names) -> str:
    return text(ANOTHER) if holder.group == ANOTHER else names.short(holder.group)


def _holder(holder: Holder, leaves: int, names: Names) -> Text:
    standing = (
        text("priority {priority}", priority=holder.priority)
        if holder.hold is Hold.GUARANTEED
        else text(str(holder.hold))
    )
    if holder.group == ANOTHER:
        name = names.priority(holder.priority)
        standing = text("class {name}", name=name) if name and holder.hold is Hold.GUARANTEED else standing
        return text("{group} ({devices}, {what})", group=_group(holder, names), devices=_devices(leaves), what=standing)
    return text(
        "{group} ({devices}, VC {vc}, {what})",
        group=names.short(holder.group),
        devices=_devices(leaves),
        vc=holder.vc,
        what=standing,
    )


def members_text(members: Sequence[tuple[int, int]]) -> Text:
    """The pods of a group by size."""
    sizes = [text("{pods} of {devices}", pods=_pods(number), devices=_devices(leaves)) for leaves, number in members]
    return joined(" and ", sizes)


def smaller_text(change: Change, names: Names) -> Text:
    """What would run now if the group asked for less."""
    return text(
        "Smaller, it would not have to wait: {pods} would {outcome}.",
        pods=members_text(change.members),
        outcome=outcome_text(change.outcome, names),
    )


def _listed(texts: Sequence[str], singular: str, plural: str) -> Text:
    """The first few of some texts, and how many more there are; `singular` and `plural` name what is counted."""
    rest = len(texts) - SHOWN
    if rest <= 1:  # naming the last one is no longer than counting it
        return joined(", ", texts)
    return text(
        "{first} and {more}",
        first=joined(", ", texts[:SHOWN]),
        more=counted(f"{{count}} {singular}", f"{{count}} {plural}", rest),
    )


def _pods(number: int) -> Text:
    return counted("{count} pod", "{count} pods", number)


def _devices(number: int) -> Text:
    return counted("{count} device", "{count} devices", number)
