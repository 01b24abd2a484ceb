"""A random cluster and random operations on it, with what must hold after each of them.

Driven by one function ``pick(n) -> 0..n-1``: hypothesis supplies it in the state machine, a seeded generator in
the long run (`tools/soak.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from paictl.scheduler.annotate import Annotator
from paictl.scheduler.decision import Bind, Failure, Phase, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import GroupChange, LeafHealth, NodeHealth, PodGone, PodRecovered
from paictl.scheduler.explain import explain
from paictl.scheduler.groups import GroupState
from paictl.scheduler.invariants import validate
from paictl.scheduler.placement.search import candidate_views
from paictl.scheduler.replay import describe_change
from paictl.scheduler.request import PodRequest
from paictl.scheduler.sparing import BAR, SHIELD
from paictl.scheduler.views import VirtualIndex, members
from paictl.units import Millis
from paictl.workload.departments import Department, Departments
from paictl.workload.preemption import SISTER, PreemptionRules, SparingRules
from tests.unit.scheduler.random_configs import random_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from paictl.scheduler.decision import BindInfo, Decision
    from paictl.scheduler.events import Event, Outcome
    from paictl.scheduler.groups import Group
    from paictl.scheduler.state import State


class RandomSparing:
    """What groups lose, and which are shielded: by their names and a clock, so that it changes with time.

    Sisters lose more than all others, where there are departments.
    """

    def __init__(self, departments: Departments) -> None:
        self.now = 0
        self._kin = SparingRules(PreemptionRules(), lambda _: None, lambda: Millis(0), departments)

    def _age(self, group: Group) -> int:
        return (7 * int(group.name[1:]) + self.now) % 30

    def loss(self, group: Group, vc: str) -> int:
        """Up to 30 for each device."""
        return self._kin.loss(group, vc) + self._age(group) * sum(size * pods for size, pods in group.members)

    def shields(self, group: Group) -> bool:
        """A fifth of the groups."""
        return self._age(group) < 6


def random_departments(pick: Callable[[int], int], vcs: Iterable[str]) -> Departments:
    """Two departments, one of them in a third, with some of the virtual clusters; in half of the cases none."""
    members: dict[str, list[str]] = {"inner": [], "outer": [], "other": []}
    for vc in sorted(vcs) if pick(2) else ():
        members[("inner", "outer", "other")[pick(3)]].append(vc)
    if members["inner"] and not members["outer"]:
        members["outer"], members["inner"] = members["inner"], []
    parents = {"inner": "outer"}
    rows = (Department(name, tuple(own), parents.get(name, "")) for name, own in members.items() if own)
    return Departments(rows)


class World:
    """An engine, the pods around it, and random steps."""

    def __init__(self, pick: Callable[[int], int], *, check_plans: bool = True) -> None:
        self.pick = pick
        self.check_plans = check_plans
        self.config = random_config(pick)
        self.engine = Engine.from_config(self.config)
        self.sparing = RandomSparing(random_departments(pick, self.engine.state.vcs)) if pick(2) else None
        self.engine.sparing = self.sparing
        self.nodes = list(self.engine.state.physical.nodes)
        self.bad: set[str] = set()
        self.bad_devices: set[tuple[str, int]] = set()
        self.reconfigured = False
        """Whether what runs was bound under another configuration."""
        self.running: dict[str, tuple[PodRequest, BindInfo]] = {}
        self.groups: dict[str, PodRequest] = {}
        self.count = 0
        for name in self.nodes:
            self.engine.observe(NodeHealth(name, healthy=True))
        self.log: list[str] = []
        self.stats: Counter[str] = Counter()

    # --- steps

    def step(self) -> None:
        """One random operation, then all invariants."""
        kind = self.pick(22)
        if self.sparing is not None:
            self.sparing.now += self.pick(4)
        if kind < 12:
            self.schedule(self.new_request() if kind < 9 or not self.groups else self.next_request())
        elif kind < 15:
            self.delete()
        elif kind < 17:
            self.flip_node()
        elif kind == 17:
            self.restart()
        elif kind > 19:
            self.flip_device()
        else:
            self.in_quota()
        validate(self.engine.state)

    def new_request(self) -> PodRequest:
        """A pod of a new group."""
        self.count += 1
        vcs = sorted(self.engine.state.ledger.free) or sorted(self.engine.state.vcs)
        members: dict[int, int] = {}
        for _ in range(1 + (self.pick(4) == 0)):
            size = (1, 1, 1, 2, 2, 3, 4, 8)[self.pick(8)]
            members[size] = members.get(size, 0) + 1 + self.pick(2)
        size = sorted(members)[self.pick(len(members))]
        vc = vcs[self.pick(len(vcs))]
        pins = [pin for owner, pin in self.engine.state.views.pinned if owner == vc]
        pin = pins[self.pick(len(pins))] if pins else ""
        priority = (-1, 0, 1, 5)[self.pick(4)]
        request = PodRequest(
            f"p{self.count:05}",
            f"default/p{self.count:05}",
            vc,
            priority,
            size,
            f"g{self.count:05}",
            tuple(sorted(members.items())),
            pinned_id=pin if priority >= 0 and not self.pick(3) else "",
            lazy_preemption=not self.pick(2),
            ignore_suggested=bool(self.pick(3)),
        )
        self.groups[request.group] = request
        return request

    def next_request(self) -> PodRequest:
        """Another pod of a group that was asked for before."""
        self.count += 1
        waiting = sorted(set(self.engine.state.groups.waiting.values()))
        names = waiting if waiting and self.pick(2) else sorted(self.groups)
        first = self.groups[names[self.pick(len(names))]]
        size = first.members[self.pick(len(first.members))][0]
        uid = f"p{self.count:05}"
        return replace(first, uid=uid, name=f"default/{uid}", leaf_number=size)

    def schedule(self, request: PodRequest) -> Decision | None:
        """Filter a pod; on preemption perhaps start it."""
        suggested = None if self.pick(3) else [name for name in self.nodes if self.pick(3)]
        try:
            decision = self.plan(request, suggested, Phase.FILTERING)
            if isinstance(decision, Preempt) and self.pick(4):
                decision = self.plan(request, suggested, Phase.PREEMPTING)
        except RequestError as error:
            self.log.append(f"{request.uid} refused: {error}")
            return None
        self.carry_out(decision)
        return decision

    def carry_out(self, decision: Decision) -> None:
        """Apply a decision as the extender does."""
        info = self.engine.bind_info(decision) if isinstance(decision, Bind) else None
        if isinstance(decision, Bind):
            promised = self.engine.spec.lazy_preemption_recovery
            assert info == Annotator().bind_info(self.engine.state, decision, promised=promised), (
                "rows of a state before"
            )
        if isinstance(decision, Preempt) and not (decision.placement or decision.joins):
            return
        outcomes = self.engine.apply(decision)
        self.stats[type(decision).__name__] += 1
        self.check_guarantees(outcomes)
        self.log.append(f"{type(decision).__name__} {decision.request}: {outcomes!r}")
        group = self.engine.state.groups.by_name.get(decision.request.group)
        if isinstance(decision, Bind) and decision.placement.virtual is not None:
            assert group is not None
            assert group.virtual is not None, "a guaranteed bind lost its guarantee on the way"
        if info is not None:
            self.running[decision.request.uid] = (decision.request, info)

    def plan(self, request: PodRequest, suggested: list[str] | None, phase: Phase) -> Decision:
        """Plan, twice: nothing changes and the answer is the same."""
        before = self.engine.state.digest() if self.check_plans else ""
        decision = self.engine.plan(request, suggested, phase)
        self.check_victims(request, decision)
        self.check_safety(request, suggested, decision)
        self.check_place(request, suggested, decision)
        self.check_sparing(request, suggested, phase, decision)
        if self.check_plans:
            assert self.engine.state.digest() == before, "plan changed the state"
            assert self.engine.plan(request, suggested, phase) == decision, "same state, other decision"
            if isinstance(decision, Wait) and not self.pick(12):
                explain(self.engine, request, suggested)
                assert self.engine.state.digest() == before, "explain changed the state"
        return decision

    def check_victims(self, request: PodRequest, decision: Decision) -> None:
        """No guaranteed group falls, loses its guarantee or its preemption to another VC, or to one not stronger."""
        groups = self.engine.state.groups
        names = {name for name in decision.cancel if name != request.group}
        if not isinstance(decision, Wait):
            names |= set(decision.lazy)
        if isinstance(decision, Preempt):
            names |= {groups.slots[uid][0] for _, uids in decision.victims for uid in uids}
        for victim in (groups.by_name[name] for name in sorted(names)):
            assert victim.virtual is None or (victim.vc == request.vc and victim.priority < request.priority), (
                f"{request.group} of {request.vc} would preempt guaranteed {victim.name} of {victim.vc}"
            )

    def check_sparing(self, request: PodRequest, suggested: list[str] | None, phase: Phase, decision: Decision) -> None:
        """Who spares loses no more than who does not, denies nobody a place but for a shield, and breaks no shield."""
        sparing = self.sparing
        if sparing is None or (request.group in self.engine.state.groups.by_name):
            return
        self.engine.sparing = None
        plain = self.engine.plan(request, suggested, phase)
        self.engine.sparing = sparing
        shielded = isinstance(decision, Wait) and any(one.failure is Failure.SHIELDED for one in decision.attempts)
        assert shielded or isinstance(plain, Wait) == isinstance(decision, Wait), "only a shield denies a place"
        fallen, before = self.fallen(decision), self.fallen(plain)
        barred = [one for one in fallen if one.virtual is not None and one.state is GroupState.ALLOCATED]
        assert not any(map(sparing.shields, barred)), "a stronger group of its VC preempts a shielded one"
        if shielded:
            self.stats["waits for a shield"] += 1
            groups = self.engine.state.groups.by_name.values()
            assert any(one.vc == request.vc and sparing.shields(one) for one in groups)
            needed = [one for one in before if one.virtual is not None and one.state is GroupState.ALLOCATED]
            assert any(map(sparing.shields, needed)), "it waits for a shield in its way, not for one that it avoids"
        else:
            lost, most = self.loss(fallen, request.vc), self.loss(before, request.vc)
            self.stats["loses less"] += lost < most
            self.stats["spares a sister"] += lost + SISTER <= most
            assert lost <= most, "another place costs less"

    def fallen(self, decision: Decision) -> list[Group]:
        """The groups that go for a decision."""
        groups = self.engine.state.groups
        victims = decision.victims if isinstance(decision, Preempt) else ()
        return [groups.by_name[name] for name in sorted({groups.slots[uid][0] for _, uids in victims for uid in uids})]

    def loss(self, groups: list[Group], vc: str) -> int:
        """What they lose to a virtual cluster, first how many are shielded, its own before others."""
        sparing, running = self.sparing, [one for one in groups if one.state is not GroupState.BEING_PREEMPTED]
        assert sparing is not None
        bars = (BAR if one.virtual is not None and one.vc == vc else SHIELD for one in running)
        return sum(sparing.loss(one, vc) + bar * sparing.shields(one) for one, bar in zip(running, bars, strict=True))

    def check_safety(self, request: PodRequest, suggested: list[str] | None, decision: Decision) -> None:
        """On healthy hardware a VC's own cells are all that counts: what fits into them has physical cells."""
        counted = suggested is not None and not request.ignore_suggested
        if isinstance(decision, Wait) and not self.bad and not self.bad_devices and not counted:
            allowed = {Failure.CAPACITY, *([Failure.SHIELDED] if self.sparing is not None else [])}
            assert {attempt.failure for attempt in decision.attempts} <= allowed, f"{request}: {decision}"

    def check_place(self, request: PodRequest, suggested: list[str] | None, decision: Decision) -> None:
        """A new group goes to healthy nodes, and to suggested ones unless it ignores suggestions; no leaf twice."""
        old = self.engine.state.groups.by_name.get(request.group)
        if isinstance(decision, Wait) or decision.placement is None or (old and request.group not in decision.cancel):
            return
        tree = self.engine.state.physical
        leaves = [leaf for pods in decision.placement.physical for row in pods for leaf in row]
        assert len(leaves) == len(set(leaves)) == sum(size * pods for size, pods in request.members)
        nodes = {tree.node_name(leaf) for leaf in leaves}
        assert nodes.isdisjoint(self.bad), f"{request.group} would run on bad nodes"
        devices = {(tree.node_name(leaf), tree.device(leaf)) for leaf in leaves}
        assert devices.isdisjoint(self.bad_devices), f"{request.group} would run on bad devices"
        if suggested is not None and not request.ignore_suggested:
            assert nodes <= set(suggested), f"{request.group} would run on nodes that are not suggested"

    def check_guarantees(self, outcomes: list[Outcome]) -> None:
        """A running group loses its guarantee to a stronger group of its VC alone, whatever happens."""
        for outcome in outcomes:
            assert isinstance(outcome, GroupChange)
            self.stats[describe_change(outcome).split(" by:")[0]] += 1
            before, after = outcome.before, outcome.after
            if before is not None and after is not None and before.virtual is not None and after.virtual is None:
                taker = self.groups[after.preemptor or ""]
                assert (taker.vc, taker.priority > after.priority) == (after.vc, True), f"{after.name} lost to {taker}"

    def observe(self, event: Event) -> None:
        """Something happens outside, which takes nobody's guarantee, not even in favour of a stronger group."""
        outcomes = self.engine.observe(event)
        self.check_guarantees(outcomes)
        for outcome in outcomes:
            assert isinstance(outcome, GroupChange)
            lost = outcome.before and outcome.after and outcome.before.virtual and not outcome.after.virtual
            assert not lost, f"{event} took the guarantee of {outcome.name}"

    def delete(self) -> None:
        """A pod ends, or a waiting one is deleted."""
        known = sorted(self.running) + sorted(self.engine.state.groups.waiting)
        if known:
            uid = known[self.pick(len(known))]
            self.running.pop(uid, None)
            self.observe(PodGone(uid))
            self.log.append(f"gone {uid}")

    def flip_node(self) -> None:
        """A node turns bad, or (more often, if some are bad) healthy."""
        names = sorted(self.bad) if self.bad and self.pick(3) else self.nodes
        name = names[self.pick(len(names))]
        self.bad ^= {name}
        self.observe(NodeHealth(name, healthy=name not in self.bad))
        self.log.append(f"node {name} {'bad' if name in self.bad else 'healthy'}")

    def flip_device(self) -> None:
        """A device of a node turns bad, or (more often, if some are bad) can be used again."""
        tree = self.engine.state.physical
        known = [
            (name, tree.device(leaf))
            for name, cells in tree.nodes.items()
            for cell in cells
            for leaf in tree.leaves(cell)
        ]
        devices = sorted(self.bad_devices) if self.bad_devices and self.pick(3) else known
        device = devices[self.pick(len(devices))]
        self.bad_devices ^= {device}
        self.observe(LeafHealth(*device, healthy=device not in self.bad_devices))
        self.log.append(f"device {device} {'bad' if device in self.bad_devices else 'healthy'}")

    def restart(self) -> None:
        """Recover, in any order, with nodes first or last, and go on; at times with another configuration."""
        pods = [PodRecovered(request, info) for request, info in self.running.values()]
        engines = [self.recovered(self.config, order, self.bad) for order in (pods, self.shuffled(pods))]
        assert engines[0].state.digest() == engines[1].state.digest(), "the order of recovery matters"
        early = self.recovered(self.config, pods, self.bad, pods_first=True)
        config = random_config(self.pick)
        bad = {name for name in Engine.from_config(config).state.physical.nodes if not self.pick(4)}
        other = self.recovered(config, self.shuffled(pods), bad, pods_first=not self.pick(2))
        held = {name for name, group in self.engine.state.groups.by_name.items() if any(map(any, group.pods))}
        after = engines[0].state.groups.by_name
        assert held == after.keys(), "groups differ after a restart"
        if not self.reconfigured and not self.engine.state.groups.demoted:
            known = held - self.bound_without()
            kept = {name for name in known if self.engine.state.groups.by_name[name].virtual is not None}
            assert kept == {name for name in known if after[name].virtual is not None}, "a guarantee was lost, or found"
        if not self.reconfigured and kept_all(self.engine, after) and not self.bound_without():
            self.check_same([*engines, early])
        match self.pick(4):
            case 0:
                self.engine, self.config, self.reconfigured = other, config, True
                self.nodes, self.bad = list(other.state.physical.nodes), bad
                leaves = other.state.health.bad_leaves
                self.bad_devices = {(other.state.physical.node_name(x), other.state.physical.device(x)) for x in leaves}
            case 1:
                self.engine = early
            case _:
                self.engine = engines[0]
        self.engine.sparing = self.sparing
        self.log.append("restart")

    def check_same(self, recovered: list[Engine]) -> None:
        """A restart with an unchanged cluster changes no answer: what is doomed is the same, and so is who has to wait.

        Virtual cells of one type may be numbered anew (annotations do not say their numbers), so that another of
        them may be chosen, and with it other devices, which an opportunistic group may use.
        """
        state, probes = self.engine.state, [self.new_request() for _ in range(3)]
        for probe in probes:
            del self.groups[probe.group]
        for engine in recovered:
            for chain in state.physical.chain_indexes():
                assert engine.state.doomed.cells_in(chain) == state.doomed.cells_in(chain), (
                    "a restart changes what is doomed"
                )
            for probe in probes:
                old, new = self.answer(self.engine, probe), self.answer(engine, probe)
                assert old == new or {old, new} <= {"place", "unmapped", "unpacked"}, (
                    f"{probe}: {old} before a restart, {new} after it"
                )

    def answer(self, engine: Engine, request: PodRequest) -> str:
        """Whether a request would get a place.

        Two answers hang on how equal virtual cells are numbered (docs/hived-semantics.md, 7). ``unmapped``: its quota
        is free, and the virtual cells that were chosen lie where only bad nodes are left, which is not so of all equal
        ones. ``unpacked``: the walk through equally used nodes, which never goes back, fits its pods in another order.
        """
        try:
            decision = engine.plan(request)
            if not isinstance(decision, Wait):
                return "place"
            if any(one.failure is Failure.MAPPING for one in decision.attempts):
                return "unmapped"
            return "unpacked" if packs_in_another_order(engine.state, request) else "wait"
        except RequestError as error:
            return str(error)

    def bound_without(self) -> set[str]:
        """Groups with pods that were bound while it had lost its guarantee: as in HiveD, their annotations say so."""
        return {
            request.group
            for request, info in self.running.values()
            if request.guaranteed and any("" in (place.preassigned or ()) for pods in info.members for place in pods)
        }

    def shuffled(self, pods: list[PodRecovered]) -> list[PodRecovered]:
        """Pods in a random order."""
        return sorted(pods, key=lambda pod: (self.pick(1000), pod.request.uid))

    def shuffled_names(self, engine: Engine) -> list[str]:
        """The nodes in a random order."""
        return sorted(engine.state.physical.nodes, key=lambda name: (self.pick(1000), name))

    def recovered(
        self, config: dict[str, Any], pods: list[PodRecovered], bad: set[str], *, pods_first: bool = False
    ) -> Engine:
        """A new process, whatever its configuration, takes over what runs: it never raises nor breaks a promise."""
        engine = Engine.from_config(config)
        engine.sparing = self.sparing
        names = self.shuffled_names(engine)
        for device in sorted(self.bad_devices, key=lambda known: (self.pick(1000), known)):
            engine.observe(LeafHealth(*device, healthy=False))
        if pods_first:
            engine.recover(pods)
            validate(engine.state)
        for name in names:
            engine.observe(NodeHealth(name, healthy=name not in bad))
            if pods_first:
                validate(engine.state)
        if not pods_first:
            engine.recover(pods)
            validate(engine.state)
        return engine

    def in_quota(self) -> None:
        """With healthy hardware, a request within free quota is never made to wait."""
        state = self.engine.state
        if self.bad or self.bad_devices:
            return
        free = [root for root, top in state.virtual.preassigned.items() if not state.counts.used[root]]
        if not free:
            return
        root = free[self.pick(len(free))]
        top = state.virtual.preassigned[root]
        chain = state.virtual.chains[state.virtual.chain[root]]
        level = state.virtual.level[root]
        size = chain.leaves[min(level, chain.node_level)]
        pods = max(1, chain.leaves[level] // size)
        self.count += 1
        request = PodRequest(
            f"p{self.count:05}",
            f"default/p{self.count:05}",
            top.vc,
            (0, 5)[self.pick(2)],
            size,
            f"g{self.count:05}",
            ((size, pods),),
            leaf_type=chain.leaf_type,
            pinned_id=top.pinned_id or "",
        )
        self.groups[request.group] = request
        decision = self.plan(request, None, Phase.FILTERING)
        assert not isinstance(decision, Wait), f"{request} within free quota has to wait: {decision.reason}"
        self.carry_out(decision)


def kept_all(engine: Engine, after: Mapping[str, Group]) -> bool:
    """Whether a restart leaves every group as it was: none preempts or has lost its guarantee."""
    groups = engine.state.groups
    return not groups.waiting and not groups.demoted and groups.by_name.keys() == after.keys()


def packs_in_another_order(state: State, request: PodRequest) -> bool:
    """Whether the pods of a guaranteed gang fit into the nodes of a view, those that are alike in some other order."""
    if not request.guaranteed:
        return False
    sizes = tuple(leaves for leaves, pods in request.members for _ in range(pods))
    held, level = state.occupancy.virtual_priority, state.virtual.level
    for _, view in candidate_views(state, request):
        assert isinstance(view, VirtualIndex)
        for rows in (view.rows, state.views.weaker(view, request.priority, held).rows):  # the second by preemption
            done = 0
            for step in reversed(rows):
                free = {slot: number for number, slots in step.items() for slot in members(slots)}
                for _, alike in groupby(sorted(free), lambda slot: level[view.cells[slot]]):  # noqa: B023 - used at once
                    done = _most_packed(done, tuple(sorted(free[slot] for slot in alike)), sizes)
            if done == len(sizes):
                return True
    return False


@lru_cache(maxsize=100_000)
def _most_packed(done: int, free: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """How many pods have a node after some nodes, in the best order, if `done` have one before."""
    best = done
    for number in set(free):
        at, left = done, number
        while at < len(sizes) and sizes[at] <= left:
            left -= sizes[at]
            at += 1
        rest = list(free)
        rest.remove(number)
        best = max(best, _most_packed(at, tuple(rest), sizes))
    return best
