"""The wording of pods' events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from paictl.doors.table import PodRef
from paictl.frozen import frozen
from paictl.scheduler.book import Book
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import GroupChange, Ignored, PodRecovered
from paictl.scheduler.groups import Group
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import BIND_INFO, PREEMPTED_FOR

if TYPE_CHECKING:
    from paictl.doors.table import PodTable

SHOWN = 3
"""Names in a list before the rest is only counted."""


VITAL: Final = frozenset(
    {
        "Preempted",
        "BudgetOverruled",
        "GuaranteeLost",
        "DevicesUnknown",
        "DeviceEvicted",
        "MaintenanceEvicted",
        "MemberLost",
    }
)
"""Reasons of events that are sent until the API server accepts them: evictions, and promises that are not kept."""


@frozen
class PodEvent:
    """An event of a pod; `reason` is one word."""

    pod: PodRef
    reason: str
    message: str
    warning: bool = False
    once: bool = False
    """Whether it is skipped if the pod already has an event with this reason."""


def unreadable(pod: PodRef, error: RequestError) -> PodEvent:
    """The request of a pod cannot be read."""
    return PodEvent(pod, "Unreadable", f"it cannot be scheduled as it is: {error.message}", warning=True)


def refused(pod: PodRef, error: RequestError) -> PodEvent:
    """What a pod asks for does not exist here."""
    return PodEvent(pod, "Refused", f"it cannot be scheduled as it is: {error.message}", warning=True)


def unaccounted(pod: PodRef, error: RequestError) -> PodEvent:
    """A pod runs, but on which devices is unknown."""
    return PodEvent(
        pod,
        "DevicesUnknown",
        f"the scheduler does not know its devices and may give them away: {error.message}",
        warning=True,
    )


def set_apart(pod: PodRef, error: RequestError) -> PodEvent:
    """A pod runs under the name of a gang of another namespace, or in its virtual cluster."""
    message = f"it keeps its devices as a group of its own without a guarantee: {error.message}"
    return PodEvent(pod, "GuaranteeLost", message, warning=True)


def disagreeing(pod: PodRef, why: str) -> PodEvent:
    """A pod's claims hold other devices than its annotation names."""
    return PodEvent(pod, "DevicesDisagree", f"{why}; delete the pod to have it placed again", warning=True)


def on_bad_device(book: Book, table: PodTable, node: str, index: int, why: str) -> Iterator[PodEvent]:
    """For the pods that have a device that turns bad: they keep it, but no other pod gets it."""
    for uid, pod in book.pods.items():
        entry = table.by_uid.get(uid)
        if entry is not None and pod.info is not None and pod.info.node == node and index in pod.info.devices:
            message = f"its device {index} of node {node} is bad: {why}; no other pod gets it until that is over"
            yield PodEvent(entry.ref, "DeviceBad", message, warning=True)


def forced(pod: PodRef, node: str) -> PodEvent:
    """The extender binds a pod by itself."""
    return PodEvent(pod, "ForceBind", f"bound to node {node} although kube-scheduler does not offer it or did not bind")


def place_excluded(pod: PodRef, node: str, why: str) -> PodEvent:
    """The extender does not bind a pod by itself, since its place would not take it."""
    return PodEvent(
        pod, "PlaceExcluded", f"waits for its place: node {node} would not take it now: {why}", warning=True
    )


def incomplete(pod: PodRef, why: str) -> PodEvent:
    """Others of a pod's gang have never been created."""
    return PodEvent(pod, "GroupIncomplete", why, warning=True)


def place_given_back(pod: PodRef, why: str) -> PodEvent:
    """A pod is evicted because the others of its gang never came."""
    return PodEvent(pod, "GroupGivenBack", f"evicted, so that others can use the devices: {why}", warning=True)


def left_bad_device(pod: PodRef, why: str) -> PodEvent:
    """A pod is evicted because its gang has a device that stays bad."""
    return PodEvent(pod, "DeviceEvicted", f"evicted, so that its gang gets other devices: {why}", warning=True)


def member_lost(pod: PodRef, why: str) -> PodEvent:
    """A pod is given up, and its gang gets another one in its place."""
    return PodEvent(pod, "MemberLost", f"given up, so that its gang gets another member: {why}", warning=True)


def repaired(pod: PodRef, node: str, others: int) -> PodEvent:
    """A pod has the place of a lost member of its gang."""
    consequence = (
        f"{others} other pod{'' if others == 1 else 's'} of its gang kept running" if others else "it is alone"
    )
    return PodEvent(pod, "Repaired", f"takes the place of a lost pod, on node {node}; {consequence}")


def released(pod: PodRef, node: str, seconds: float) -> PodEvent:
    """Devices were reserved for a pod, but not used."""
    message = f"its place on node {node} was given up: no binding came within {seconds:g} s"
    return PodEvent(pod, "ReservationReleased", message, warning=True)


def preempting(pod: PodRef, reason: str) -> PodEvent:
    """A pod waits for others to be evicted."""
    return PodEvent(pod, "Preempting", reason)


def preempting_reason(request: PodRequest, victims: Sequence[tuple[str, tuple[str, ...]]], table: PodTable) -> str:
    """Whom a pod waits for; by name those of its own user or namespace only, because its owner reads this."""
    uids = [uid for _, node_uids in victims for uid in node_uids]
    nodes = listed([node for node, _ in victims])
    own = [table.name(uid) for uid in uids if table.same_user(request.uid, uid)]
    names = [listed(own)] if own else []
    if others := len(uids) - len(own):
        names.append(f"{others} of {'another tenant' if others == 1 else 'other tenants'}")
    return (
        f"pod waits for {len(uids)} pod{'' if len(uids) == 1 else 's'} on {nodes} to end, preempted for "
        f"group {request.group}: {', '.join(names)}"
    )


def preempted(pod: PodRef, group: Group, node: str) -> PodEvent:
    """A pod is evicted for a group."""
    preemptor = f"group {group.name} of VC {group.vc} (priority {group.priority})"
    return PodEvent(
        pod, "Preempted", f"evicted from node {node}: {preemptor} needs the devices of its group", warning=True
    )


def evicted_before(pod: PodRef, body: Mapping[str, Any]) -> PodEvent | None:
    """The event that an earlier process may not have sent: `body`, a terminating pod, was evicted for a group."""
    group = (body["metadata"].get("annotations") or {}).get(PREEMPTED_FOR)
    conditions = (body.get("status") or {}).get("conditions") or ()
    if not group or not any(condition.get("reason") == "EvictionByEvictionAPI" for condition in conditions):
        return None
    return PodEvent(pod, "Preempted", f"evicted: group {group} needs the devices of its group", warning=True, once=True)


def place_rewritten(pod: PodRef) -> PodEvent:
    """The annotation by which a pod holds its devices was changed."""
    message = f"the annotation {BIND_INFO} was changed after the pod was bound: it keeps the devices that it was given"
    return PodEvent(pod, "PlacementRewritten", message, warning=True)


def hindered_elsewhere(pod: PodRef) -> PodEvent:
    """The same where the victim, and the budget that the API server names, are another tenant's."""
    message = "a pod of another tenant cannot be evicted yet: a disruption budget protects it"
    return PodEvent(pod, "PreemptionHindered", message, warning=True)


def hindered(pod: PodRef, victim: str, why: str) -> PodEvent:
    """A disruption budget protects a victim."""
    return PodEvent(pod, "PreemptionHindered", f"pod {victim} cannot be evicted yet: {why}", warning=True)


def overruled(pod: PodRef, group: str, why: str) -> PodEvent:
    """A victim is deleted although a disruption budget protects it."""
    message = f"deleted despite its disruption budget, as configured, for group {group}: {why}"
    return PodEvent(pod, "BudgetOverruled", message, warning=True)


def of_outcomes(outcomes: Iterable[object], table: PodTable, book: Book, *, recovered: bool) -> Iterator[PodEvent]:
    """Events about the engine's changes: a guarantee lost or regained, a place that contradicts the rest."""
    for outcome in outcomes:
        if isinstance(outcome, Ignored) and isinstance(outcome.event, PodRecovered):
            entry = table.by_uid.get(outcome.event.request.uid)
            if entry is not None:
                error = RequestError(entry.ref.key, "pod-bind-info", outcome.reason)
                yield unaccounted(entry.ref, error)
        elif isinstance(outcome, GroupChange) and outcome.after is not None:
            yield from _of_group(outcome.before, outcome.after, table, book, recovered=recovered)


def of_recovery(outcomes: Iterable[object], table: PodTable, book: Book) -> Iterator[PodEvent]:
    """Events after a restart, made once all pods of a group are known."""
    yield from of_outcomes(
        (outcome for outcome in outcomes if isinstance(outcome, Ignored)), table, book, recovered=True
    )
    for group in book.engine.state.groups.by_name.values():
        yield from _of_group(None, group, table, book, recovered=True)


def _of_group(
    before: Group | None, after: Group, table: PodTable, book: Book, *, recovered: bool
) -> Iterator[PodEvent]:
    had_guarantee = guaranteed(before) if before is not None else recovered and _was_promised(after, book)
    if had_guarantee and not guaranteed(after) and after.priority >= 0:
        yield from (PodEvent(ref, "GuaranteeLost", _lost(after, book), warning=True) for ref in _pods(after, table))
    elif before is not None and before.virtual is None and after.virtual is not None and before.preemptor is not None:
        message = f"group {after.name} has its guarantee of VC {after.vc} again"
        yield from (PodEvent(ref, "GuaranteeRegained", message) for ref in _pods(after, table))


def guaranteed(group: Group) -> bool:
    """Whether all of a group is on virtual cells of its VC; with `info`, the configuration lacks some of its leaves."""
    return group.virtual is not None and group.info is None


def _lost(group: Group, book: Book) -> str:
    if group.vc not in book.engine.state.vcs:
        how = f"as opportunistic: VC {group.vc} is not in the present configuration"
    elif group.preemptor and group.preemptor != group.name:  # a recovery names the group itself
        how = f"as opportunistic: group {group.preemptor} took its cells"
    elif group.virtual is None:
        how = f"as opportunistic: VC {group.vc} has no cells for it in the present configuration"
    else:
        how = "unaccounted: the present configuration does not have all of its devices, or other pods hold them"
    return f"group {group.name} lost its guarantee and keeps running {how}"


def _was_promised(group: Group, book: Book) -> bool:
    """Whether a recovered group was bound with a guarantee, by its pods' annotations."""
    for uid in (uid for row in group.pods for uid in row if uid):
        booked = book.pods.get(uid)
        if booked is not None and booked.info is not None:
            return any(any(place.preassigned or ()) for row in booked.info.members for place in row)
    return False


def _pods(group: Group, table: PodTable) -> list[PodRef]:
    entries = (table.by_uid.get(uid) for row in group.pods for uid in row if uid)
    return [entry.ref for entry in entries if entry is not None]


def listed(names: Sequence[str]) -> str:
    """A few names, and how many more."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
