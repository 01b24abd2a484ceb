"""What became of one pod after some operations: it waits, runs, preempts, was refused, or is gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import sayable, text
from paictl.scheduler.decision import NO_LEAF
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain.data import PodVerdict, to_data
from paictl.scheduler.explain.why import explain
from paictl.scheduler.explain.wording import render
from paictl.scheduler.groups import GroupState, Hold
from paictl.scheduler.operations import fault
from paictl.scheduler.scratch import holder
from paictl.scheduler.wire import isolation_text, pod_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paictl.scheduler.explain.data import Explanation
    from paictl.scheduler.replay import Replayer


class PodSituation(StrEnum):
    """What a pod is doing."""

    WAITING = "waiting"
    READY = "ready"
    """There is room now, but the pod has not been scheduled again since."""
    PREEMPTING = "preempting"
    """It will run once its victims are gone."""
    RUNNING = "running"
    REFUSED = "refused"
    """Its request cannot be served as it stands."""
    GONE = "gone"


@frozen
class PodReport:
    """One pod; `since` is the number of the operation that brought it where it is, 1 for the first."""

    uid: str
    name: str
    situation: PodSituation
    since: int
    explanation: Explanation | None = None
    """Of a pod that asks for room."""
    message: str = ""
    """Why it was refused."""
    group: str = ""
    node: str = ""
    devices: tuple[int, ...] = ()
    hold: Hold | None = None
    """By what right it runs."""
    instances: int = 0
    """MIG instances of each GPU where its devices are these; 0 for whole GPUs."""
    preemptor: str = ""
    """The group that took its group's guarantee, or waits for its group to go."""


@dataclass(slots=True)
class PodHistory:
    """What operations tell about pods, by uid."""

    replayer: Replayer
    scheduling: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    """Last operation that scheduled the pod."""
    last: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Last operation that changed what the pod is doing, and the message if it was refused."""
    names: dict[str, str] = field(default_factory=dict)
    """Uid by uid, name and ``namespace/name``."""

    waiting: set[str] = field(default_factory=set)
    """Pods that asked for room and have not got it yet."""
    gone: set[str] = field(default_factory=set)
    """Pods that were deleted, or lost in a restart; a waiting pod outlives a restart of the scheduler."""

    def run(self, operations: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Carry out numbered operations and take notes."""
        for number, operation in operations:
            result = self.replayer.run(operation)
            kind, pod = operation.get("op"), operation.get("pod")
            if isinstance(pod, dict):
                self._scheduled(number, operation, pod, result)
            elif result["r"] != "ok":
                continue
            elif kind in _SETTLING:
                self._settled(operation["uid"], number, gone=kind != "add_allocated")
            elif kind == "restart":
                for uid in operation.get("lost") or ():
                    self._settled(uid, number, gone=True)

    def _scheduled(self, number: int, operation: Mapping[str, Any], pod: Mapping[str, Any], result: Any) -> None:
        name = pod_name(pod.get("namespace"), str(pod.get("name") or pod.get("uid")))
        uid = str(pod.get("uid", name))
        self.names |= dict.fromkeys((uid, str(pod.get("name") or uid), name), uid)
        if uid in self.replayer.engine.state.groups.slots and result["r"] in ("insist", "error"):
            return  # it runs, whatever it asks for now
        self.gone.discard(uid)
        self.scheduling[uid] = number, operation
        if result["r"] == "error":
            self.last[uid] = number, result["message"]
        elif result["r"] == "ok" or (result["r"] == "bind" and operation["op"] == "filter"):
            self._settled(uid, number, gone=False)
        elif uid not in self.waiting:
            self.waiting.add(uid)
            self.last[uid] = number, ""

    def _settled(self, uid: str, number: int, *, gone: bool) -> None:
        if gone:
            self.gone.add(uid)
        self.waiting.discard(uid)
        self.last[uid] = number, ""


_SETTLING = frozenset({"add_allocated", "delete_allocated", "delete_unallocated"})
"""Kinds of operations after which a pod runs, or is gone."""


def report(history: PodHistory, uid_or_name: str) -> PodReport:
    """What the pod with this uid or name is doing now.

    Raises `PaictlError` with the most similar names if no operation has scheduled it.
    """
    uid = history.names.get(uid_or_name)
    if uid is None:
        alike = get_close_matches(uid_or_name, history.names, n=3)
        hint = text("use the uid or the name of a pod that was scheduled")
        if alike:
            hint = text("did you mean {near}?", near=", ".join(alike))
        raise PaictlError(text("no operation schedules a pod {word}", word=uid_or_name), hint=hint)
    replayer = history.replayer
    (_, operation), (since, message) = history.scheduling[uid], history.last[uid]
    pod = operation["pod"]
    name = pod_name(pod.get("namespace"), pod.get("name") or uid)
    if uid in replayer.engine.state.groups.slots:
        return _running(history, uid, name, since)
    if uid in history.gone:
        return PodReport(uid, name, PodSituation.GONE, since)
    if fault(operation) is not None:
        return PodReport(uid, name, PodSituation.REFUSED, since, message=message)
    try:
        explanation = explain(replayer.engine, replayer.request_of(operation), replayer.suggested_of(operation))
    except RequestError as error:
        return PodReport(uid, name, PodSituation.REFUSED, since, message=str(error))
    situation = PodSituation.WAITING
    if explanation.decision is PodVerdict.BIND:
        situation = PodSituation.READY
    elif explanation.decision is PodVerdict.PREEMPT:
        situation = PodSituation.PREEMPTING
    return PodReport(uid, name, situation, since, explanation, group=explanation.request.group)


def _running(history: PodHistory, uid: str, name: str, since: int) -> PodReport:
    state = history.replayer.engine.state
    group_name, slot, node = state.groups.slots[uid]
    group = state.groups.by_name[group_name]
    info = history.replayer.book.pods[uid].info
    preemptor = group.preemptor or ""
    if group.state is GroupState.BEING_PREEMPTED:
        reserver = state.occupancy.reserver
        preemptor = next((reserver[leaf] for leaf in group.leaves() if leaf in reserver), preemptor)
    leaves = group.physical[slot.member][slot.pod]
    devices = info.devices if info is not None else tuple(map(state.physical.device, leaves))
    leaf = next((leaf for leaf in leaves if leaf != NO_LEAF), None)
    instances = 0 if leaf is None else state.physical.chains[state.physical.chain[leaf]].instances
    return PodReport(
        uid,
        name,
        PodSituation.RUNNING,
        since,
        group=group_name,
        node=node,
        devices=devices,
        hold=holder(group).hold,
        preemptor=preemptor,
        instances=instances,
    )


def report_lines(pod_report: PodReport) -> list[str]:
    """A report in plain words, each line a `Text`."""
    match pod_report.situation:
        case PodSituation.RUNNING:
            return _running_lines(pod_report)
        case PodSituation.GONE:
            return [
                text(
                    "Pod {name} has been gone since operation {number}.", name=pod_report.name, number=pod_report.since
                )
            ]
        case PodSituation.REFUSED:
            refused = text(
                "Pod {name} was refused at operation {number}.", name=pod_report.name, number=pod_report.since
            )
            return [refused, text("  {reason}", reason=sayable(pod_report.message))]
        case _:
            assert pod_report.explanation is not None  # noqa: S101 (the situation says so)
            return [
                *render(pod_report.explanation),
                text("It has asked for room since operation {number}.", number=pod_report.since),
            ]


def _running_lines(pod_report: PodReport) -> list[str]:
    devices = isolation_text(tuple(sorted(pod_report.devices)), pod_report.instances)
    lines: list[str] = [
        text(
            "Pod {name} runs on node {node}, devices {devices}, since operation {number} (group {group}).",
            name=pod_report.name,
            node=pod_report.node,
            devices=devices,
            number=pod_report.since,
            group=pod_report.group,
        )
    ]
    preemptor = pod_report.preemptor
    if pod_report.hold is Hold.LAZY:
        lost = "  It lost its guarantee to {group} (lazy preemption) and keeps running without one."
        return [*lines, text(lost, group=preemptor)]
    lines.append(text("  It is {hold}.", hold=text(str(pod_report.hold))))
    if preemptor:
        lines.append(text("  It is being preempted: {group} waits for its devices.", group=preemptor))
    return lines


def report_data(pod_report: PodReport) -> dict[str, Any]:
    """A report as JSON values."""
    data: dict[str, Any] = {
        "uid": pod_report.uid,
        "pod": pod_report.name,
        "situation": str(pod_report.situation),
        "since": pod_report.since,
    }
    for name in ("group", "node", "preemptor", "message"):
        if value := getattr(pod_report, name):
            data[name] = value
    if pod_report.hold is not None:
        data |= {"devices": list(pod_report.devices), "hold": str(pod_report.hold)}
    if pod_report.explanation is not None:
        data["explanation"] = to_data(pod_report.explanation)
    return data
