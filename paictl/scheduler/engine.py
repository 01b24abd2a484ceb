"""The façade: `plan` a decision without changing anything, `apply` it as a whole, `observe` outside events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cells.spec import ClusterSpec
from paictl.i18n import text
from paictl.scheduler import recovery, repair, transitions
from paictl.scheduler.annotate import Annotator
from paictl.scheduler.decision import NO_LEAF, Bind, BindInfo, Decision, Phase, Placed, Placement, Preempt, Slot, Wait
from paictl.scheduler.errors import InvariantError, RequestError
from paictl.scheduler.events import (
    Event,
    GroupChange,
    Ignored,
    LeafHealth,
    NodeHealth,
    Outcome,
    PodGone,
    PodRecovered,
    PodWaits,
)
from paictl.scheduler.groups import Group, GroupsByVc, GroupState
from paictl.scheduler.placement.preferences import Suggested
from paictl.scheduler.placement.search import FoundPlacement, search
from paictl.scheduler.request import gang_of
from paictl.scheduler.sparing import search_sparing
from paictl.scheduler.state import State
from paictl.scheduler.views import ViewPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from paictl.cells.ids import PhysicalCell
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.sparing import Sparing


class Engine:
    """The scheduler of one cluster. Not thread-safe: hold a lock around each call.

    Example::

        engine = Engine.from_config(yaml.safe_load(Path("hived.yaml").read_text()))
        for name in ready_nodes:
            engine.observe(NodeHealth(name, healthy=True))
        spec = {"virtualCluster": "vc1", "priority": 0, "leafCellNumber": 4}
        decision = engine.plan(read_request(spec, uid="1", name="default/train-0"))
        match decision:
            case Bind():
                annotation = engine.bind_info(decision)  # before the decision is applied
                engine.apply(decision)
            case Preempt(victims=victims):
                ...  # in the preempting phase: engine.apply(decision), then delete the victims
            case Wait():
                print(decision.reason)
        engine.observe(PodGone("1"))
    """

    def __init__(self, spec: ClusterSpec) -> None:
        """An engine without pods whose nodes all count as bad until they are observed healthy."""
        self.spec = spec
        self._state = State(spec)
        self._annotator = Annotator()
        self.places = ViewPlaces(self._state.views)
        """The views of virtual leaves and of kinds of requests."""
        self._by_vc: GroupsByVc | None = None
        """Made on first use and kept up to date from then on."""
        self._suggested: tuple[Collection[str], Suggested] | None = None
        """The names that the last plan used, and the set made of them."""
        self.version = 0
        """Grows with every change of the state, and only then: the same version gives the same answers."""
        self.sparing: Sparing | None = None
        """What groups lose if they have to go, if that decides which go; None: HiveD's order decides."""
        self.stopped = False
        """Set by an `InvariantError`: the state cannot be trusted any more."""

    @classmethod
    def from_config(cls, config: Mapping[str, object] | ClusterSpec) -> Engine:
        """An engine for HiveD's configuration (as loaded from YAML) or a specification.

        Raises `paictl.cells.spec.SpecError` naming the field if the configuration is unsound.
        """
        return cls(config if isinstance(config, ClusterSpec) else ClusterSpec.from_mapping(config))

    @property
    def state(self) -> State:
        """The state, with the doomed cells settled after the latest events."""
        if self._state.doomed.unsettled:
            self._state.doomed.settle()
        return self._state

    @property
    def by_vc(self) -> GroupsByVc:
        """The real groups of each virtual cluster, even while changes are imagined.

        Raises `InvariantError` if it is first used while changes are imagined.
        """
        if self._by_vc is None:
            if self._state.journal.depth:
                raise InvariantError("the groups by virtual cluster cannot be counted in a trial state")
            self._by_vc = GroupsByVc(self._state.groups.by_name)
        return self._by_vc

    @property
    def is_settled(self) -> bool:
        """Whether the doomed cells are up to date; if not, the next reading of `state` settles them."""
        return not self._state.doomed.unsettled

    @property
    def offered(self) -> Collection[str]:
        """The names that the last plan with suggestions used; the same object as long as they stay the same."""
        return self._suggested[0] if self._suggested is not None else ()

    def plan(
        self, request: PodRequest, suggested: Collection[str] | None = None, phase: Phase = Phase.FILTERING
    ) -> Decision:
        """Decide about one pod and change nothing.

        `suggested` are the names of the nodes that kube-scheduler offers, None for all. Raises `RequestError` if
        the request cannot be served as it stands.
        """
        self._check_running()
        group = self.state.groups.by_name.get(request.group)
        counted = not request.ignore_suggested or (group is not None and not group.ignore_suggested)
        offered = self._offered(suggested) if counted and suggested is not None else None
        self._check_known(request, group)
        if group is None and (cancel := self._stand_in(request)):  # its gang has ended meanwhile
            return self._plan_without(cancel, request, offered, phase)
        if group is None:
            return self._plan_new(request, offered, phase)
        if group.state is GroupState.PREEMPTING:
            return self._plan_preempting(group, request, offered, phase)
        names = suggested if counted else None
        slot = repair.open_slot(self.state, group, request, names)
        if slot is None:
            raise RequestError(
                request.name,
                "affinityGroup.members",
                text(
                    "group {group} already has all its pods of {number} leaf cells",
                    group=group.name,
                    number=request.leaf_number,
                ),
            )
        if request.repair and not repair.is_usable(self.state, group, slot, names):
            return repair.plan(self.state, self.version, group, slot, request, names, phase)
        cancel = self._stand_in(request)  # its own place has healed
        if any(len(self.state.groups.by_name[name].preempting) > 1 for name in cancel):
            cancel = ()  # other members wait for it as well
        return Bind(request, self.version, slot, Placement(group.physical, group.virtual), cancel=cancel)

    def apply(self, decision: Decision, now: float | None = None) -> list[Outcome]:
        """Carry out a decision, completely or not at all; returns what changed, by group name.

        `now` (seconds, any clock) is noted with lazy preemptions. Raises `RequestError` if the state has changed
        since the decision was planned so that it no longer holds.
        """
        match decision:
            case Bind():
                return self._transaction(lambda: self._bind(decision, now))
            case Preempt():
                return self._transaction(lambda: self._preempt(decision, now))
            case Wait():
                return self._transaction(lambda: self._cancel(decision.cancel))

    def observe(self, event: Event, now: float | None = None) -> list[Outcome]:
        """Take note of an outside event; returns what changed, or why the event was ignored."""
        match event:
            case NodeHealth(name, healthy):
                if name not in self._state.physical.nodes:
                    return [Ignored(event, f"node {name} is not in the configuration")]
                health = self._state.health
                return self._transaction(
                    lambda: (health.turn_healthy if healthy else health.turn_bad)(name), settle=False
                )
            case LeafHealth(name, device, healthy):
                leaf = self._leaf(name, device)
                if leaf is None:
                    return [Ignored(event, f"node {name} has no device {device} in the configuration")]
                health = self._state.health
                return self._transaction(lambda: (health.heal if healthy else health.spoil)(leaf), settle=False)
            case PodGone(uid):
                if uid not in self._state.groups.slots and uid not in self._state.groups.waiting:
                    return [Ignored(event, f"pod {uid} is not known")]
                return self._transaction(lambda: self._pod_gone(uid))
            case PodWaits(uid, name):
                group = self.state.groups.by_name.get(name)
                if group is None or group.state is not GroupState.PREEMPTING:
                    return [Ignored(event, f"group {name} is not preempting")]
                return self._transaction(lambda: self._wait(uid, group))
            case PodRecovered(request, info):
                return self._recover(event, request, info, now)

    def _leaf(self, node: str, device: int) -> PhysicalCell | None:
        tree = self._state.physical
        leaves = (leaf for cell in tree.nodes.get(node, ()) for leaf in tree.leaves(cell))
        return next((leaf for leaf in leaves if tree.device(leaf) == device), None)

    def recover(self, pods: Iterable[PodRecovered], now: float | None = None) -> list[Outcome]:
        """After a restart: take note of all running pods. Their order does not matter."""
        running = sorted(pods, key=lambda pod: (-pod.info.repairs, pod.request.uid))
        taken = recovery.claimed(self._state, running)
        return [outcome for pod in running for outcome in self._recover(pod, pod.request, pod.info, now, taken)]

    def bind_info(self, decision: Bind) -> BindInfo:
        """The annotation of the pod that a decision binds; call it before the state changes again."""
        return self._annotator.bind_info(self.state, decision, promised=self.spec.lazy_preemption_recovery)

    # --- planning

    def _offered(self, suggested: Collection[str]) -> Suggested:
        """The suggested nodes as a set, made once for the same names: kube-scheduler offers the same to many pods."""
        names = suggested if isinstance(suggested, list | frozenset) else list(suggested)
        if self._suggested is None or self._suggested[0] != names:
            own_names = names[:] if isinstance(names, list) else names
            self._suggested = own_names, Suggested(frozenset(names), self._state.physical)
        return self._suggested[1]

    def _check_known(self, request: PodRequest, group: Group | None) -> None:
        """A pod belongs to one group, and all pods of a group describe it alike: any of them may recover it."""
        groups = self._state.groups
        other_group = groups.slots[request.uid][0] if request.uid in groups.slots else groups.waiting.get(request.uid)
        if other_group not in (None, request.group) and not (request.repair and gang_of(other_group) == request.group):
            message = text("the pod already belongs to group {group}", group=other_group)
            raise RequestError(request.name, "affinityGroup.name", message)
        if group is None:
            return
        for field, ours, requested in (
            ("virtualCluster", group.vc, request.vc),
            ("priority", group.priority, request.priority),
            ("pinnedCellId", group.pinned_id, request.pinned_id),
            ("affinityGroup.members", group.members, request.members),
        ):
            if ours != requested:
                ours = text("none") if ours in (None, "") else ours  # 0 is a priority
                message = text("group {group} was started with {ours}", group=group.name, ours=ours)
                raise RequestError(request.name, field, message)

    def _plan_preempting(self, group: Group, request: PodRequest, offered: Suggested | None, phase: Phase) -> Decision:
        if phase is Phase.PREEMPTING and self._off_limits(group, request, offered):
            return self._plan_without((group.name,), request, offered, phase)
        victims = self.victims(group.leaves())
        if victims:
            return Preempt(request, self.version, victims, joins=True)
        slot = group.free_slot(request.leaf_number)
        if slot is None:
            raise RequestError(
                request.name,
                "leafCellNumber",
                text("group {group} has no pods of {number} leaf cells", group=group.name, number=request.leaf_number),
            )
        return Bind(request, self.version, slot, Placement(group.physical, group.virtual), joins=True)

    def _plan_without(
        self, names: tuple[str, ...], request: PodRequest, offered: Suggested | None, phase: Phase
    ) -> Decision:
        """A decision about a new group after some preemptions are given up."""
        state, mark = self.state, self.state.journal.begin()
        try:
            self._cancel(names)
            decision = self._plan_new(request, offered, phase)
        finally:
            state.journal.rollback(mark)
        return replace(decision, cancel=(*names, *decision.cancel))

    def _stand_in(self, request: PodRequest) -> tuple[str, ...]:
        """The preemption that a member of a running gang waits for, by name; empty if it waits for none."""
        name = self._state.groups.waiting.get(request.uid, "") if request.repair else ""
        return (name,) if name != request.group and gang_of(name) == request.group else ()

    def _off_limits(self, group: Group, request: PodRequest, offered: Suggested | None) -> bool:
        """Whether a preempting group's place touches a bad node or, if suggestions count, a non-suggested one.

        They count if they do for the pod that asks, even if its group began without: a window may have begun since.
        """
        counted = None if group.ignore_suggested and request.ignore_suggested else offered
        bad = self._state.counts.bad
        return any(bad[leaf] or (counted is not None and not counted.node(leaf)) for leaf in group.leaves())

    def _plan_new(self, request: PodRequest, offered: Suggested | None, phase: Phase) -> Decision:
        nodes = None if request.ignore_suggested else offered
        if self.sparing is None or not request.guaranteed:
            result = search(self._state, request, nodes)
        else:
            result = search_sparing(self._state, request, nodes, self.sparing)
        if not isinstance(result, FoundPlacement):
            return Wait(request, self.version, result)
        leaves = _flat(result.placement.physical)
        victims = self.victims(leaves)
        if victims and phase is Phase.FILTERING:
            return Preempt(request, self.version, victims)
        reserver = self._state.occupancy.reserver
        cancel = tuple(sorted({reserver[leaf] for leaf in leaves if leaf in reserver})) if reserver else ()
        if victims:
            return Preempt(request, self.version, victims, result.placement, result.lazy, cancel)
        sizes = [leaf_number for leaf_number, _ in request.members]
        slot = Slot(sizes.index(request.leaf_number), 0)
        return Bind(request, self.version, slot, result.placement, result.lazy, cancel)

    def victims(self, leaves: Iterable[PhysicalCell]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """All pods of all groups that use one of the leaves: node name and uids, both in order."""
        return transitions.victims(self._state, leaves)

    # --- applying

    def _bind(self, decision: Bind, now: float | None) -> None:
        state, request = self._state, decision.request
        if request.group in decision.cancel:  # its preemption was given up for a better place
            self._cancel((request.group,))
        group = state.groups.by_name.get(request.group)
        if decision.repairs:
            group = self._bind_member(group, decision, now)
        elif group is None:
            group = self._bind_new(decision, now)
        elif group.physical != decision.placement.physical:
            raise self._stale(request)
        elif group.state is GroupState.PREEMPTING:
            self._cancel(self._stand_in(request))
            if decision.version != self.version and self.victims(group.leaves()):
                raise self._stale(request)
            group = transitions.complete_preemption(state, group)
        elif decision.cancel:
            self._cancel(decision.cancel)
        if group.pods[decision.slot.member][decision.slot.pod] or request.uid in state.groups.slots:
            raise self._stale(request)
        if request.uid in state.groups.waiting:
            self._stop_waiting(request.uid)
        leaves = group.physical[decision.slot.member][decision.slot.pod]
        first = next((leaf for leaf in leaves if leaf != NO_LEAF), NO_LEAF)
        node = state.physical.node_name(first) if first != NO_LEAF else self.bind_info(decision).node
        state.groups.attach(request.uid, group, decision.slot, node)

    def _bind_member(self, group: Group | None, decision: Bind, now: float | None) -> Group:
        if group is None or decision.version != self.version:  # its planned place may no longer be the nearest
            raise self._stale(decision.request)
        self._lazy(decision, now)
        self._cancel(decision.cancel)
        moved = repair.carry_out(self._state, self._state.groups.by_name[group.name], decision, now)
        if moved is None:
            raise self._stale(decision.request)
        return moved

    def _bind_new(self, decision: Bind, now: float | None) -> Group:
        state, request, placement = self._state, decision.request, decision.placement
        if decision.version != self.version and not state.occupancy.user.keys().isdisjoint(_flat(placement.physical)):
            raise self._stale(request)
        self._lazy(decision, now)
        self._cancel(decision.cancel)
        level, root = state.virtual.level, state.virtual.root
        levels = (
            tuple(tuple(tuple(level[root[twin]] for twin in row) for row in pods) for pods in placement.virtual)
            if placement.virtual
            else tuple(tuple((recovery.UNGUARANTEED,) * len(row) for row in pods) for pods in placement.physical)
        )
        group = recovery.adopt(state, request, placement.physical, levels, now)
        if placement.virtual is not None and group.virtual is None:  # another group took its quota in between
            raise self._stale(request)
        if decision.version != self.version and not transitions.only_planned(state, decision):
            raise self._stale(request)
        return group

    def _preempt(self, decision: Preempt, now: float | None) -> None:
        state = self._state
        if decision.placement is not None:
            if decision.version != self.version:
                raise self._stale(decision.request)
            if decision.request.group in decision.cancel:  # its preemption was given up for a better place
                self._cancel((decision.request.group,))
            self._lazy(decision, now)
            self._cancel(decision.cancel)
            if decision.repairs is not None:
                name, slots = decision.repairs
                for slot in slots:
                    transitions.vacate(state, state.groups.by_name[name], slot)
            if decision.lazy or decision.cancel or decision.repairs is not None:
                # the place was found with dooming settled after these changes
                for chain in {state.physical.chain[leaf] for leaf in _flat(decision.placement.physical)}:
                    state.doomed.clear(chain)
            transitions.start_preemption(state, decision.request, decision.placement)
        elif decision.joins:
            group = state.groups.by_name.get(decision.request.group)
            if group is not None and group.state is GroupState.PREEMPTING:
                self._cancel(self._stand_in(decision.request))  # the gang has ended meanwhile, and starts as a whole
                state.groups.wait(decision.request.uid, group)

    def _lazy(self, decision: Bind | Preempt, now: float | None) -> None:
        for name in decision.lazy:
            group = self._state.groups.by_name.get(name)
            if group is not None and group.virtual is not None:
                transitions.lazy_preempt(self._state, group, decision.request.group, now)

    def _cancel(self, names: Iterable[str]) -> None:
        for name in names:
            group = self._state.groups.by_name.get(name)
            if group is not None and group.state is GroupState.PREEMPTING:
                transitions.cancel_preemption(self._state, group)

    # --- observing

    def _pod_gone(self, uid: str) -> None:
        groups = self._state.groups
        if uid in groups.waiting:
            self._stop_waiting(uid)
        if uid in groups.slots:
            group = groups.detach(uid)
            if not any(any(pods) for pods in group.pods):
                transitions.delete(self._state, group)
        if self.spec.lazy_preemption_recovery:
            self._promote()

    def _wait(self, uid: str, group: Group) -> None:
        if self._state.groups.waiting.get(uid, group.name) != group.name:
            self._stop_waiting(uid)
        self._state.groups.wait(uid, group)

    def _stop_waiting(self, uid: str) -> None:
        """A pod no longer waits for a preemption, which ends if it was the last one."""
        group = self._state.groups.leave(uid)
        if not group.preempting:
            transitions.cancel_preemption(self._state, group)

    def _promote(self) -> None:
        """Cells were released: promote the lazily preempted groups that fit now, strongest first."""
        self._state.doomed.settle()  # the release may end the dooming of a cell that they had
        groups = self._state.groups
        demoted = sorted(
            (groups.by_name[name] for name in groups.demoted), key=lambda group: (-group.priority, group.name)
        )
        for group in demoted:
            recovery.promote(self._state, group)

    def _recover(
        self,
        event: Event,
        request: PodRequest,
        info: BindInfo,
        now: float | None,
        taken: Mapping[PhysicalCell, str] | None = None,
    ) -> list[Outcome]:
        """Enter a running pod; `taken` is the gang of each leaf on which a pod's own annotation places it."""
        slots = self._state.groups.slots
        if request.uid in slots:
            return [Ignored(event, f"pod {request.uid} is already known")]
        outcomes = self._transaction(lambda: self._recover_pod(request, info, now, taken))
        if request.uid not in slots:
            outcomes.append(Ignored(event, f"pod {request.uid} names no device that exists and is free"))
        elif slots[request.uid][0] != request.group:
            outcomes.append(Ignored(event, f"pod {request.uid} contradicts its group, and runs without a guarantee"))
        return outcomes

    def _recover_pod(
        self, request: PodRequest, info: BindInfo, now: float | None, taken: Mapping[PhysicalCell, str] | None
    ) -> None:
        state, slot = self._state, recovery.slot_of(request, info)
        group = state.groups.by_name.get(request.group)
        if group is not None and slot is not None and request.repair:
            group = self._follow_move(group, slot, request, info)
        if slot is None or (group is not None and not recovery.agrees(state, group, slot, request, info)):
            if group is not None and (kept := recovery.kept_slot(state, group, info)) is not None:
                state.groups.attach(request.uid, group, kept, info.node)
                return
            lone = recovery.adopt_alone(state, request, info, now)
            if lone is not None:
                state.groups.attach(request.uid, lone, Slot(0, 0), info.node)
            return
        if group is None:
            physical, levels = recovery.locate(state, request, info)
            if taken:
                physical = recovery.without_taken(physical, taken, request.group)
            group = recovery.adopt(state, request, physical, levels, now)
            if any(NO_LEAF in leaves for pods in group.physical for leaves in pods):
                group = state.groups.put(replace(group, info=info))
        state.groups.attach(request.uid, group, slot, info.node)

    def _follow_move(self, group: Group, slot: Slot, request: PodRequest, info: BindInfo) -> Group:
        """The gang of a recovered pod, after following a move that another process made since it was entered here."""
        state = self._state
        if (
            group.state is not GroupState.ALLOCATED
            or group.pods[slot.member][slot.pod]
            or recovery.agrees(state, group, slot, request, info)
        ):
            return group
        mark = state.journal.begin()
        moved = repair.recover_move(state, group, slot, request, info)
        if moved is None:
            state.journal.rollback(mark)
            return group
        state.journal.commit()
        return moved

    # --- transactions

    def _transaction(self, change: Callable[[], object], *, settle: bool = True) -> list[Outcome]:
        """Run a change completely or not at all, and say which groups it changed.

        Without `settle`, the change neither reads nor updates what is doomed: a burst of changes is settled once.
        """
        self._check_running()
        state = self.state if settle else self._state
        touched = state.groups.touched
        touched.clear()
        mark = state.journal.begin()
        try:
            change()
            if settle and state.doomed.unsettled:
                state.doomed.settle()
        except BaseException as error:
            state.journal.rollback(mark)
            self.stopped = self.stopped or isinstance(error, InvariantError)
            raise
        if state.journal.length() > mark:
            self.version += 1
        state.journal.commit()
        by_name = state.groups.by_name
        changes: list[Outcome] = [
            GroupChange(name, before, by_name.get(name))
            for name, before in sorted(touched.items())
            if before is not by_name.get(name)
        ]
        if self._by_vc is not None and not state.journal.depth:
            for name, before in touched.items():
                self._by_vc.note(name, before)
        return changes

    def _check_running(self) -> None:
        if self.stopped:
            raise InvariantError("the engine has stopped after an earlier invariant error")

    def _stale(self, request: PodRequest) -> RequestError:
        return RequestError(request.name, "affinityGroup", "the cluster has changed since this decision; plan again")


def _flat(placed: Placed[PhysicalCell]) -> list[PhysicalCell]:
    """The leaves of a placement in order."""
    return [leaf for pods in placed for row in pods for leaf in row]
