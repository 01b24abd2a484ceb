"""The book around the engine: the pods, what was decided about each, and what became of it.

A scheduler outside (kube-scheduler's extender, the embedded cluster, a replay) asks about pods one by one and later
reports what happened: a binding took effect, Kubernetes confirmed it, a pod is gone, a node failed, the process
restarts. The book keeps the decisions in between, so that asking about a pod again gives the same answer, a decision
takes effect once, and a restart finds all running pods. Not thread-safe: hold one lock around every call.

A pod goes through ``asked → planned (Bind) → allocated (its devices are taken) → bound (Kubernetes says so)``; `cancel`
leads back from allocated, `gone` ends it anywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.scheduler.decision import Bind, BindInfo, Decision, Phase, Preempt, Slot, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import (
    GroupChange,
    Ignored,
    LeafHealth,
    NodeHealth,
    Outcome,
    PodGone,
    PodRecovered,
    PodWaits,
    RunningPod,
)
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.repair import moved_slots

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.request import PodRequest


@frozen
class Planned:
    """A decision that has not taken effect, and its annotation."""

    decision: Bind
    info: BindInfo


@frozen
class BookedPod:
    """One pod: a decision that has not taken effect yet, or the bind annotation of one that has."""

    request: PodRequest
    planned: Planned | None = None
    info: BindInfo | None = None
    bound: bool = False
    """Whether Kubernetes has confirmed the binding."""

    @property
    def assumed(self) -> bool:
        """Whether it holds devices although Kubernetes has not confirmed it: the binding may never come."""
        return self.info is not None and not self.bound


@frozen
class Insist:
    """The pod holds devices already, and the answer is what it was."""

    request: PodRequest
    info: BindInfo


@frozen
class ScheduleResult:
    """The answer about a pod.

    `info` is the bind annotation if the decision is a `Bind` or `Insist`; `outcomes` are the changes that came
    with the answer, without those of a `Bind` that has not taken effect yet.
    """

    decision: Decision | Insist
    info: BindInfo | None = None
    outcomes: tuple[Outcome, ...] = ()


@frozen
class Allocation:
    """A binding took effect: the annotation to write to the pod, its group as it is now, and what changed."""

    request: PodRequest
    info: BindInfo
    group: Group
    outcomes: tuple[Outcome, ...]
    repairs: bool = False
    """Whether the pod has another place than the member that it replaces."""
    moved: int = 0
    """How many places of its gang moved with this binding: its own, and those of members lost with it."""


@frozen
class Preemption:
    """A preemption in progress: the pods that wait for it, and the pods that have to go, by node."""

    group: str
    waiting: tuple[str, ...]
    victims: tuple[tuple[str, tuple[str, ...]], ...]


class Book:
    """An engine with the pods and nodes that it was told about."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.pods: dict[str, BookedPod] = {}
        self.health: dict[str, bool] = {}
        """The last report about each node, including nodes that are not in the configuration."""
        self.bad_devices: set[tuple[str, int]] = set()
        """Node and index of the devices that were last reported bad."""
        self._last: dict[str, dict[Slot, object]] = {}
        """For gangs that may be repaired: the last place of each slot's pod, once that pod is gone."""

    # --- nodes

    def report(self, node: str, healthy: bool, now: float | None = None) -> list[Outcome]:
        """A node is ready and schedulable, or it is not (or gone)."""
        self.health[node] = healthy
        return self.engine.observe(NodeHealth(node, healthy), now)

    def report_device(self, node: str, device: int, healthy: bool, now: float | None = None) -> list[Outcome]:
        """A device of a node is usable or not, whatever was reported about its node."""
        if healthy:
            self.bad_devices.discard((node, device))
        else:
            self.bad_devices.add((node, device))
        return self.engine.observe(LeafHealth(node, device, healthy), now)

    # --- decisions

    def schedule(
        self,
        request: PodRequest,
        suggested: Collection[str] | None = None,
        phase: Phase = Phase.FILTERING,
        now: float | None = None,
    ) -> ScheduleResult:
        """Decide about one pod.

        A `Bind` takes effect with `allocate`; other decisions take effect at once: in the preempting phase a `Preempt`
        reserves its place. A pod that holds devices gets `Insist`. Raises `RequestError` if the request cannot be
        served as it stands or the pod is bound already.
        """
        booked = self.pods.get(request.uid)
        if booked is not None and booked.info is not None:
            if phase is Phase.FILTERING and not booked.bound:
                return ScheduleResult(Insist(booked.request, booked.info), booked.info)
            raise RequestError(booked.request.name, "uid", f"the pod is already bound to node {booked.info.node}")
        decision = self.engine.plan(request, suggested, phase)
        if not isinstance(decision, Bind):
            self.pods[request.uid] = BookedPod(request)
            return ScheduleResult(decision, outcomes=tuple(self._carry_out(decision, now)))
        planned = self._planned(decision)
        outcomes: list[Outcome] = []
        if decision.joins:  # the preemption lives as long as the pod, until the binding takes effect
            outcomes = self.engine.observe(PodWaits(request.uid, request.group), now)
        elif phase is Phase.PREEMPTING and decision.cancel and not decision.repairs:  # kube-scheduler will filter again
            outcomes = self.engine.apply(Wait(request, decision.version, cancel=decision.cancel), now)
        self.pods[request.uid] = BookedPod(request, planned)
        return ScheduleResult(decision, planned.info, tuple(outcomes))

    def place(
        self, request: PodRequest, suggested: Collection[str] | None = None, now: float | None = None
    ) -> ScheduleResult | Allocation:
        """Decide about one pod and carry out the decision: for a scheduler that binds and preempts by itself.

        A `Bind` takes effect at once (an `Allocation` comes back); where victims have to go first, the place is
        reserved and the answer is `Preempt`. Otherwise as `schedule`.
        """
        booked = self.pods.get(request.uid)
        if booked is not None and booked.info is not None:
            return self.schedule(request, suggested, Phase.FILTERING, now)
        decision = self.engine.plan(request, suggested, Phase.FILTERING)
        if isinstance(decision, Preempt):
            decision = self.engine.plan(request, suggested, Phase.PREEMPTING)
        if isinstance(decision, Bind):
            self.pods[request.uid] = BookedPod(request, self._planned(decision))
            return self.allocate(request.uid, now)
        self.pods[request.uid] = BookedPod(request)
        return ScheduleResult(decision, outcomes=tuple(self._carry_out(decision, now)))

    def _planned(self, decision: Bind) -> Planned:
        """A decision with its annotation, which counts the gang's repairs as recorded by its pods.

        An annotation from before a repair names the member's old place; recovery goes by the highest count.
        """
        info = self.engine.bind_info(decision)
        if decision.request.repair and (annotations := self._annotations(decision.request.group)):
            newest = max(annotations, key=lambda annotation: annotation.repairs)
            moved = decision.repairs or not info.has_places_of(newest)
            info = replace(info, repairs=newest.repairs + moved)
        elif decision.repairs:
            info = replace(info, repairs=1)
        return Planned(decision, info)

    def _was_moved(self, decision: Bind, info: BindInfo) -> bool:
        """Whether the pod's place is one to which its gang was moved since the last pod there.

        After a restart of this process that pod is unknown; then whether the gang's oldest annotation has another
        place.
        """
        if (last := self._last.get(decision.request.group, {}).get(decision.slot)) is not None:
            return last != info.place_at(decision.slot)
        if not decision.request.repair or not (annotations := self._annotations(decision.request.group)):
            return False
        oldest = min(annotations, key=lambda annotation: annotation.repairs)
        return oldest.place_at(decision.slot) != info.place_at(decision.slot)

    def _annotations(self, name: str) -> list[BindInfo]:
        """The annotations of the pods that hold the places of a group."""
        group = self.engine.state.groups.by_name.get(name)
        uids = () if group is None else [uid for row in group.pods for uid in row if uid]
        return [pod.info for uid in uids if (pod := self.pods.get(uid)) and pod.info is not None]

    def _carry_out(self, decision: Preempt | Wait, now: float | None) -> list[Outcome]:
        if isinstance(decision, Wait) and not decision.cancel:
            return []
        return self.engine.apply(decision, now)

    def allocate(self, uid: str, now: float | None = None) -> Allocation:
        """The pod's last `Bind` takes effect.

        Raises `RequestError` if there is none, or if the cluster has changed so that it no longer holds.
        """
        pod = self.pods.get(uid)
        if pod is None or pod.planned is None:
            raise RequestError(pod.request.name if pod else uid, "uid", "no decision to bind")
        decision, info = pod.planned.decision, pod.planned.info
        repairs = decision.repairs or self._was_moved(decision, info)
        by_name = self.engine.state.groups.by_name
        before = by_name.get(pod.request.group)  # None if it ended since: the decision no longer holds
        moved = len(moved_slots(before, decision)) if decision.repairs and before is not None else 0
        outcomes = self.engine.apply(decision, now)
        self.pods[uid] = BookedPod(pod.request, None, info)
        return Allocation(pod.request, info, by_name[pod.request.group], tuple(outcomes), repairs, moved)

    # --- what became of it

    def bound(self, uid: str) -> bool:
        """Kubernetes confirms a binding; False if the pod is not known."""
        pod = self.pods.get(uid)
        if pod is not None:
            self.pods[uid] = replace(pod, bound=True)
        return pod is not None

    def observe_bound(self, pod: RunningPod, now: float | None = None) -> list[Outcome]:
        """A pod was seen to run with its annotation.

        Usually that confirms what was decided here; a pod that another process bound, or bound elsewhere than this
        one assumed, is entered where it runs.
        """
        uid = pod.request.uid
        booked = self.pods.get(uid)
        if booked is not None and booked.info == pod.info:
            self.bound(uid)
            return []
        outcomes = self.engine.observe(PodGone(uid), now) if booked is not None and booked.info is not None else []
        outcomes += self.engine.observe(PodRecovered(pod.request, pod.info), now)
        self.pods[uid] = BookedPod(pod.request, None, pod.info, bound=True)
        return outcomes

    def cancel(self, uid: str, now: float | None = None) -> list[Outcome]:
        """A binding failed: the pod's devices are free again, and the pod counts as new.

        Nothing happens to a pod that holds none. Raises `RequestError` if Kubernetes has confirmed the binding.
        """
        pod = self.pods.get(uid)
        if pod is None or pod.info is None:
            return []
        if pod.bound:
            raise RequestError(pod.request.name, "uid", f"the pod is already bound to node {pod.info.node}")
        outcomes = self._leave(uid, now)
        self.pods[uid] = BookedPod(pod.request)
        return outcomes

    def gone(self, uid: str, now: float | None = None) -> list[Outcome]:
        """A pod was deleted or ended, whether it was running, assumed to run, or waiting."""
        outcomes = self._leave(uid, now)
        self.pods.pop(uid, None)
        return outcomes

    def _leave(self, uid: str, now: float | None) -> list[Outcome]:
        """A pod no longer holds its place; the next pod that takes the place has not moved."""
        pod, assignment = self.pods.get(uid), self.engine.state.groups.slots.get(uid)
        outcomes = self.engine.observe(PodGone(uid), now)
        if assignment is not None:
            group, slot, _ = assignment
            if group not in self.engine.state.groups.by_name:
                self._last.pop(group, None)
            elif pod is not None and pod.info is not None and pod.request.repair:
                self._last.setdefault(group, {})[slot] = pod.info.place_at(slot)
        return outcomes

    # --- restart

    def restart(
        self, spec: ClusterSpec, remaining: Collection[str] | None = None, *, pods_first: bool = False
    ) -> list[Outcome]:
        """The process restarts, perhaps with another configuration, and recovers from what the nodes and pods say.

        `remaining` are the uids of the pods that still exist (None: all). Pods that were only asked about or planned
        are forgotten, and pods that hold devices count as bound. `pods_first` recovers the pods before the nodes are
        reported.
        Raises `SpecError` if the specification is unsound; then nothing has changed, and the old engine stays in use.
        """
        engine = Engine(spec)
        running = [
            RunningPod(pod.request, pod.info)
            for uid, pod in self.pods.items()
            if pod.info is not None and (remaining is None or uid in remaining)
        ]
        self.engine, self.pods, self._last = engine, {}, {}
        if pods_first:
            return [*self.recover(running), *self._recover_nodes()]
        return [*self._recover_nodes(), *self.recover(running)]

    def _recover_nodes(self) -> list[Outcome]:
        """Report nodes to a new engine in the order of the configuration, not in the order of the reports."""
        position = {name: number for number, name in enumerate(self.engine.state.physical.nodes)}
        reports = sorted(self.health.items(), key=lambda report: position.get(report[0], len(position)))
        events = [LeafHealth(node, device, healthy=False) for node, device in sorted(self.bad_devices)]
        outcomes = [outcome for event in events for outcome in self.engine.observe(event)]
        return outcomes + [
            outcome for name, healthy in reports for outcome in self.engine.observe(NodeHealth(name, healthy))
        ]

    def recover(self, pods: Iterable[RunningPod], now: float | None = None) -> list[Outcome]:
        """Enter the running pods, in any order.

        An `Ignored` names each pod that contradicts its annotation and therefore holds nothing.
        """
        running = list(pods)
        self.pods |= {pod.request.uid: BookedPod(pod.request, None, pod.info, bound=True) for pod in running}
        return self.engine.recover((PodRecovered(pod.request, pod.info) for pod in running), now)

    def resume(
        self, pods: Mapping[str, BookedPod], health: Mapping[str, bool], bad_devices: Iterable[tuple[str, int]]
    ) -> None:
        """Take over pods, nodes and devices that the engine already knows: the book's own part of a dump."""
        self.pods, self.health, self.bad_devices = dict(pods), dict(health), set(bad_devices)

    # --- queries

    def holds(self, uid: str) -> bool:
        """Whether a pod holds devices here, confirmed or not."""
        pod = self.pods.get(uid)
        return pod is not None and pod.info is not None

    def assumed(self) -> list[str]:
        """Uids of the pods that hold devices although Kubernetes has not confirmed it."""
        return [uid for uid, pod in self.pods.items() if pod.assumed]

    def preemptions(self) -> list[Preemption]:
        """The preemptions in progress, by group: the pods still to evict, and those they go for."""
        groups = self.engine.state.groups.by_name.values()
        return [
            Preemption(group.name, tuple(sorted(group.preempting)), self.engine.victims(group.leaves()))
            for group in sorted(groups, key=lambda group: group.name)
            if group.state is GroupState.PREEMPTING
        ]


def ignored(outcomes: Iterable[Outcome]) -> list[Ignored]:
    """The outcomes that are warnings."""
    return [outcome for outcome in outcomes if isinstance(outcome, Ignored)]


def changes(outcomes: Iterable[Outcome]) -> list[GroupChange]:
    """The outcomes that are changes of groups."""
    return [outcome for outcome in outcomes if isinstance(outcome, GroupChange)]


def reclassed(outcomes: Iterable[object]) -> Iterator[tuple[str, bool]]:
    """Groups that kept their devices and lost their guarantee (False) or got it back, in order."""
    for outcome in outcomes:
        match outcome:
            case GroupChange(name, Group() as before, Group() as after):
                if (before.virtual is None) is not (after.virtual is None):
                    yield name, after.virtual is not None
