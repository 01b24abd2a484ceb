"""One round of placing: gangs by priority and arrival, each whole or not at all, in one topology domain where asked."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from typing import Final

from paictl.cluster.pods.feasibility import PodDemand
from paictl.doors import deciding, housekeeping, reclaim
from paictl.doors.binder import booked
from paictl.doors.core import Binding
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import UNVERSIONED, CachedDecision, GangKey, PodEntry
from paictl.placer.core import PlacerCore, gates_of
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import GATE
from paictl.workload.devicelimits import devices_of
from paictl.workload.lentorder import WaitingGang

WAITING: Final = "Waiting"
"""Reason of the event that says why a pod keeps its gate."""

CLAIMS_TAKE: Final = 2.0
"""Seconds for which kube-controller-manager may take to make a pod's claims before the pod is told."""
GATHERING: Final = 2.0
"""Seconds after a gang's newest pod for which nobody is told how many are there: 512 pods would be told 512 times."""
ROUNDS: Final = 8
"""Places that are tried for a gang: a node that is too small for its pods together is left out of the next."""
SHORT: Final = 1.0
"""Seconds of a round in which opportunistic gangs keep their order although devices become free meanwhile, and after
which gangs that have come meanwhile have their turn."""
SHOWN: Final = 3
"""Nodes that a waiting pod is told of."""


def place_round(core: PlacerCore, send: Callable[[list[Binding]], object]) -> None:
    """Place what can be placed now, and send the pins of each gang as soon as it is decided.

    `send` is called with the lock, and must not wait for anything. Raises `NotServingError`.
    """
    with core.sharing() as give_way:
        if not core.is_open:
            return
        order = _Order(core)
        for members in _each_once(core):
            waiting = [entry for entry in members if _waits(core, entry)]  # some may have gone since
            if not waiting or order.would_break(waiting[0]):
                continue
            pins = _place(core, waiting)
            if pins:
                send(pins)
            order.tried(waiting[0], waits=not pins)
            give_way()  # after a large gang for seconds, in which its pins are written


def _each_once(core: PlacerCore) -> Iterator[list[PodEntry]]:
    """Each gang once, in turn. Those that come meanwhile have theirs among the others that are left.

    If thousands of gangs of one tenant wait, a round takes seconds. It ends although gangs come all the time: they are
    not more than were there at first.
    """
    tried, looked, gangs = set[GangKey](), core.clock(), _gangs(core)
    first = {_key(core, members) for members in gangs}
    while gangs:
        for members in _in_turn(core, gangs):
            tried.add(_key(core, members))
            yield members
            if core.news.is_set() and core.clock() - looked > SHORT:
                looked = core.clock()
                break
        else:
            return
        may_come = len(tried - first) < len(first)
        rest = ((_key(core, members), members) for members in _gangs(core))
        gangs = [members for key, members in rest if key not in tried and (may_come or key in first)]


class _Order:
    """Who waits longer goes first, although devices become free within a round, behind the gang that waits for them.

    Gangs of a virtual cluster with a guarantee are a line. When something has changed for a line after one of its gangs
    was tried in vain, the rest of it is left to the next round, which begins at once; and so are opportunistic gangs
    when anything has changed: they would take what those need, and be preempted a moment later.
    """

    def __init__(self, core: PlacerCore) -> None:
        self._core = core
        self._began = core.clock()
        self._seen: dict[str, int] = {}
        """By line in which a gang was tried in vain: how often it had changed after the last try."""
        self._version: int | None = None
        """That of the engine after the last try, once any gang was tried in vain."""
        self._stale = False
        """Whether anything but a try has changed since then."""

    def would_break(self, entry: PodEntry) -> bool:
        """Whether a gang would be tried with devices for which another before it was not asked."""
        assert entry.reading is not None  # noqa: S101 - see _gangs
        request, engine = entry.reading.request, self._core.book.engine
        self._stale = self._stale or self._version not in (None, engine.version)
        if request.guaranteed:
            broken = self._seen.get(request.vc) not in (None, engine.by_vc.changes(request.vc))
        else:  # if something becomes free all the time, those at the end are to have their turn, too
            broken = self._stale and self._core.clock() <= self._began + SHORT
        if broken:
            self._core.news.set()
        return broken

    def tried(self, entry: PodEntry, *, waits: bool) -> None:
        """A gang was tried, and waits on or has its place."""
        assert entry.reading is not None  # noqa: S101 - see _gangs
        request, engine = entry.reading.request, self._core.book.engine
        if waits or request.vc in self._seen:
            self._seen[request.vc] = engine.by_vc.changes(request.vc)
        if waits or self._version is not None:
            self._version = engine.version


def _waits(core: PlacerCore, entry: PodEntry) -> bool:
    known = entry.ref.uid in core.gated and core.table.by_uid.get(entry.ref.uid) is entry
    if not known or entry.reading is None or entry.deleting or entry.runs:
        return False
    return not entry.binding and not entry.confirmed  # confirmed: it is pinned, and the news of it is on its way


def _gangs(core: PlacerCore) -> list[list[PodEntry]]:
    """Gated pods by gang: of guaranteed gangs the most urgent of each virtual cluster, then the second; then others."""
    gangs: dict[GangKey, list[PodEntry]] = {}
    for uid in core.gated:
        entry = core.table.by_uid.get(uid)
        if entry is not None and entry.reading is not None and _waits(core, entry):
            gangs.setdefault(_key(core, [entry]), []).append(entry)
    for members in gangs.values():
        members.sort(key=lambda entry: entry.ref.key)
    ordered = sorted(gangs.values(), key=lambda members: _urgency(core, members))
    guaranteed = [members for members in ordered if _request(members).guaranteed]
    turns = housekeeping.in_turn(guaranteed, lambda members: housekeeping.vc_of(core, members[0]))
    return [*turns, *ordered[len(guaranteed) :]]


def _in_turn(core: PlacerCore, gangs: list[list[PodEntry]]) -> Iterator[list[PodEntry]]:
    """Gangs in the order in which they are tried: opportunistic ones by departments and use, where they count.

    Whoever gets devices uses more from then on, so who goes first is asked again after each place.
    """
    if not core.allowances.rules.orders:
        yield from gangs
        return
    queues: dict[WaitingGang, deque[list[PodEntry]]] = {}
    for members in gangs:  # the guaranteed come before all others
        request = _request(members)
        if request.guaranteed:
            yield members
        else:
            gang = request.vc, members[0].user, devices_of(request.members)
            queues.setdefault(gang, deque()).append(members)
    turns, version = core.allowances.turns(), core.book.engine.version
    while queues:
        if core.book.engine.version != version:
            turns, version = core.allowances.turns(), core.book.engine.version
        assert turns is not None  # noqa: S101 - there is an order
        gang = min(queues, key=lambda gang: (turns.rank(*gang), _urgency(core, queues[gang][0])))
        members = queues[gang].popleft()
        if not queues[gang]:
            del queues[gang]
        yield members


def _urgency(core: PlacerCore, members: list[PodEntry]) -> tuple[int, str, str]:
    """The higher priority first, then whose first pod was created first."""
    created = min(str(core.gated[entry.ref.uid]["metadata"].get("creationTimestamp", "")) for entry in members)
    request = _request(members)
    return -request.priority, created, request.group


def _key(core: PlacerCore, members: list[PodEntry]) -> GangKey:
    return core.table.gang(members[0].ref, _request(members).group)


def _request(members: list[PodEntry]) -> PodRequest:
    reading = members[0].reading
    assert reading is not None  # noqa: S101 - see _gangs
    return reading.request


def _place(core: PlacerCore, members: list[PodEntry]) -> list[Binding]:
    """Decide about a gang: pins for all of its members that wait, or for none."""
    why = _unready(core, members)
    if why:
        _hold(core, members, why)
        return []
    missing = _incomplete(core, members)
    if missing:
        gathering = max(entry.first_seen for entry in members) > core.clock() - GATHERING
        _hold(core, members, missing, young=-math.inf if gathering else math.inf)
        return []
    pending = _pending(core, members)
    if pending:
        _hold(core, members, pending, young=core.clock() - CLAIMS_TAKE)
        return []
    _leave_bad_devices(core, members)
    new = [entry for entry in members if not core.book.holds(entry.ref.uid)]
    if not all(map(core.may_pin, new)):
        return []  # it was refused a moment ago, and has no place meanwhile
    for outside in outsides(core, members[0]):
        excluded = dict(outside)
        decided, placed = _place_among(core, new, excluded)
        if placed:
            return _pins(core, members)
        full = [
            f"node {name} would not take it: {why}" for name, why in sorted(excluded.items()) if name not in outside
        ]
        if any(decision.kind == "preempt" for _, decision in decided):
            break  # who has to go is going: the next domain would have others go, too
    for entry, decision in decided:
        if decision.version == UNVERSIONED and core.claims is not None and core.claims.frees_by_itself(core.clock()):
            continue
        if decision.kind == "wait" and not core.allowances.awaits_accounts:  # over in a moment: a changed event rests
            _explain(core, entry, "; ".join([decision.reason, *full[:SHOWN]]))
    return []


def _place_among(
    core: PlacerCore, new: list[PodEntry], excluded: dict[str, str]
) -> tuple[list[tuple[PodEntry, CachedDecision]], bool]:
    """Decide about all without these nodes, and whether each has a place now; otherwise none has, but for a repair.

    Nodes that turn out to be too small are added to the excluded ones.
    """
    for _ in range(ROUNDS):
        fitting = _Fitting(core, excluded)
        decided = [(entry, _decide(core, entry, fitting)) for entry in new]
        if not all(decision.node for _, decision in decided):
            break
        unfit = {decision.node: why for entry, decision in decided if (why := _misfit(core, entry, decision))}
        if not unfit:
            return decided, True
        excluded |= unfit
        _give_back(core, decided)
    else:
        return decided, False
    if _is_repaired(core, new) and not any(
        _misfit(core, entry, decision) for entry, decision in decided if decision.node
    ):  # member by member
        return decided, any(decision.node for _, decision in decided)
    _give_back(core, decided)
    return decided, False


def _is_repaired(core: PlacerCore, new: list[PodEntry]) -> bool:
    """Whether these pods replace members of a gang that runs and allows that: some may come back before others."""
    reading = new[0].reading if new else None
    if reading is None or not reading.request.repair:
        return False
    group = core.book.engine.state.groups.by_name.get(reading.request.group)
    taken = {uid for row in group.pods for uid in row if uid} if group is not None else set[str]()
    return bool(taken - {entry.ref.uid for entry in new})


def _leave_bad_devices(core: PlacerCore, members: list[PodEntry]) -> None:
    """Give the place of a gang back if a device of it has turned bad before any of its pods was, or may be, pinned."""
    held = [(entry, known.info) for entry in members if (known := core.book.pods.get(entry.ref.uid)) and known.info]
    if not any(index in core.health.bad_devices.get(info.node, ()) for _, info in held for index in info.devices):
        return
    group = core.book.engine.state.groups.by_name[core.book.pods[held[0][0].ref.uid].request.group]
    if {uid for row in group.pods for uid in row if uid} <= {entry.ref.uid for entry in members} - core.unsure:
        _give_back(core, [(entry, CachedDecision(-1, "bind", node=info.node)) for entry, info in held])


def _give_back(core: PlacerCore, decided: list[tuple[PodEntry, CachedDecision]]) -> None:
    """Some have a place and some have none, or a node is too small for all of them: nobody goes."""
    for entry, decision in decided:
        if decision.node:
            core.give_back(entry)


def _misfit(core: PlacerCore, entry: PodEntry, decision: CachedDecision) -> str:
    """Why kube-scheduler would refuse the pin, the other pods of the gang counted; empty if it would not."""
    return reclaim.obstacle_on(core, entry, decision.node)


def _unready(core: PlacerCore, members: list[PodEntry]) -> str:
    """Why a gang cannot be placed whatever is free and however many of its pods are there; empty if it can."""
    for entry in members:
        if not core.is_guarded(core.gated[entry.ref.uid]):
            space = entry.ref.namespace
            return f"pod waits: any user could forge a place there: kubectl label namespace {space} {GATE}=enabled"
    others = sorted({gate for entry in members for gate in gates_of(core.gated[entry.ref.uid]) if gate != GATE})
    return f"pod waits: its gang has other scheduling gates: {', '.join(others)}" if others else ""


def _incomplete(core: PlacerCore, members: list[PodEntry]) -> str:
    """How many of a gang's pods are there; empty if all are. A gang that has begun is finished."""
    request = _request(members)
    group = core.book.engine.state.groups.by_name.get(request.group)
    placed = {uid for row in group.pods for uid in row if uid} if group is not None else set()
    if placed - {entry.ref.uid for entry in members}:
        return ""
    size = sum(pods for _, pods in request.members)
    if len(members) < size:
        return f"pod waits for its gang: {len(members)} of {size} pods of {request.group} are there"
    return ""


def _pending(core: PlacerCore, members: list[PodEntry]) -> str:
    """Why the claims of a gang cannot be allocated: not made yet, or not for what the pods ask; empty if they can."""
    for entry in members:
        if why := core.claim_obstacle(entry):
            return why if len(members) == 1 else f"pod {entry.ref.name}: {why}"
    return ""


class _Fitting:
    """Nodes that kube-scheduler's own filters would leave for the pods of a gang, one pod after the other.

    Pods of one template demand the same: each node is looked at once, and again when a pod of the gang got it.
    """

    def __init__(self, core: PlacerCore, excluded: Container[str]) -> None:
        self._core = core
        self._excluded = excluded
        self._demand: PodDemand | None = None
        self._takes: dict[str, bool] = {}

    def nodes(self, entry: PodEntry) -> list[str]:
        """Where a pod that holds no place yet would be let in."""
        if entry.demand is None or entry.demand != self._demand:
            self._demand, self._takes = entry.demand, {}
        names = [name for name in self._core.health.nodes if name not in self._excluded]
        known = self._core.takes.of(entry.demand)
        for name in names:
            if name not in self._takes:
                if name not in known:
                    known[name] = not reclaim.obstacle_on(self._core, entry, name)
                self._takes[name] = known[name]
        return [name for name in names if self._takes[name]]

    def taken(self, node: str) -> None:
        """A pod has its place on a node."""
        self._takes.pop(node, None)


def _decide(core: PlacerCore, entry: PodEntry, fitting: _Fitting) -> CachedDecision:
    """The book's decision among the nodes that kube-scheduler's own filters would leave for the pod."""
    assert entry.reading is not None  # noqa: S101 - see _gangs
    request = entry.reading.request
    reclaim.reconsider(core, entry, core.health.nodes)  # nobody offers nodes here: it only came too late
    names = fitting.nodes(entry)
    if len(names) < len(core.health.nodes):
        request = replace(request, ignore_suggested=False)
    decision = deciding.decide(core, entry, request, names)
    fitting.taken(decision.node)
    return decision


def _pins(core: PlacerCore, members: list[PodEntry]) -> list[Binding]:
    pins = []
    for entry in members:
        binding = booked(core, entry.ref)
        if binding is not None and core.may_pin(entry):
            entry.binding = True
            entry.assumed = entry.assumed or core.clock()
            pins.append(binding)
    return pins


def _hold(core: PlacerCore, members: list[PodEntry], why: str, *, young: float = math.inf) -> None:
    """Members wait whatever is free; those met after `young` are not told, as it may be over in a moment."""
    for entry in members:  # of no version: another member changes the answer, and not the engine
        entry.cached = CachedDecision(-1, "wait", why)
        if entry.first_seen <= young:
            _explain(core, entry, why)


def _explain(core: PlacerCore, entry: PodEntry, reason: str) -> None:
    """Say why a pod waits, once for each reason."""
    if core.reasons.get(entry.ref.uid) != reason:
        core.reasons[entry.ref.uid] = reason
        core.record(PodEvent(entry.ref, WAITING, reason))


def outsides(core: PlacerCore, member: PodEntry) -> Iterator[dict[str, str]]:
    """For each domain that a gang may be in, the nodes outside of it with the reason; one empty one without constraint.

    The domain where the gang has a place, or waits for others to leave, comes first; one that has begun has no other.
    """
    named = core.table.pod_groups.known.get(member.pod_group)
    if named is None or not named.topology:
        yield {}
        return
    key = named.topology
    value = {name: node.facts.labels.get(key, "") for name, node in core.health.nodes.items() if node.facts is not None}
    held, begun = _held(core, member)
    own = {value[name] for name in held if value.get(name)}
    every = sorted({label for label in value.values() if label}, key=lambda label: (label not in own, label))
    for domain in every if not (begun and own) else sorted(own)[:1]:
        why = f"its PodGroup wants one {key} for all pods"
        yield {name: why for name in core.health.nodes if value.get(name) != domain}
    if not every:
        yield dict.fromkeys(
            core.health.nodes, f"it does not have the label {key}, of which its PodGroup wants one value"
        )


def _held(core: PlacerCore, member: PodEntry) -> tuple[set[str], bool]:
    """The nodes of what a PodGroup's pods hold or wait for, and whether some of them have their place already."""
    infos = (
        known.info
        for uid in core.table.pod_groups.members.get(member.pod_group, ())
        if (known := core.book.pods.get(uid)) is not None
    )
    nodes = {info.node for info in infos if info is not None}
    if nodes:
        return nodes, True
    reading = member.reading
    group = core.book.engine.state.groups.by_name.get(reading.request.group) if reading is not None else None
    leaves = group.leaves() if group is not None else ()
    return {core.book.engine.state.physical.node_name(leaf) for leaf in leaves}, False
