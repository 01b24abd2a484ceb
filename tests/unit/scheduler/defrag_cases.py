"""Random clusters with holes, and an exhaustive search for the cheapest moves, against which the planner is held.

The oracle goes through all sets of gangs in order of their weight, through all choices of cells that become free, and
through all orders of the moves. It shares nothing with the planner but the engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING, Any

from paictl.cells.spec import ClusterSpec
from paictl.frozen import frozen
from paictl.scheduler.decision import Bind
from paictl.scheduler.defrag import RoomRequest, RunningGang
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth, PodGone
from paictl.scheduler.request import PodRequest
from paictl.scheduler.scratch import imagined

if TYPE_CHECKING:
    from collections.abc import Collection

FEW = 6
"""So many nodes are kept free in every combination, more only as whole rooms."""
NODE, SWITCH, RACK = "V100-NODE", "V100-SWITCH", "V100-RACK"


@frozen
class Case:
    """A cluster with gangs that run, and what is wanted."""

    engine: Engine
    gangs: dict[str, RunningGang]
    room: RoomRequest


def cluster(nodes: int, per_rack: int, vcs: dict[str, int]) -> dict[str, Any]:
    """HiveD's configuration: racks of nodes of two switches with four devices each; promises are nodes."""

    def node(name: str) -> dict[str, Any]:
        leaves = [[{"cellAddress": str(4 * half + one)} for one in range(4)] for half in range(2)]
        return {"cellAddress": name, "cellChildren": [{"cellChildren": one} for one in leaves]}

    racks = [[f"w{rack}-{place}" for place in range(per_rack)] for rack in range(nodes // per_rack)]
    return {
        "physicalCluster": {
            "cellTypes": {
                SWITCH: {"childCellType": "V100", "childCellNumber": 4},
                NODE: {"childCellType": SWITCH, "childCellNumber": 2, "isNodeLevel": True},
                RACK: {"childCellType": NODE, "childCellNumber": per_rack},
            },
            "physicalCells": [
                {"cellType": RACK, "cellAddress": f"r{place}", "cellChildren": [node(name) for name in rack]}
                for place, rack in enumerate(racks)
            ],
        },
        "virtualClusters": {
            vc: {"virtualCells": [{"cellType": f"{RACK}.{NODE}", "cellNumber": number}]} for vc, number in vcs.items()
        },
    }


def engine_of(nodes: int, per_rack: int, vcs: dict[str, int]) -> Engine:
    """Such a cluster, all nodes healthy."""
    engine = Engine(ClusterSpec.from_mapping(cluster(nodes, per_rack, vcs)))
    for name in engine.state.physical.nodes:
        engine.observe(NodeHealth(name, healthy=True))
    return engine


def start(engine: Engine, name: str, vc: str, priority: int, leaves: int, pods: int, avoid: Any = ()) -> bool:
    """Start a gang if there is room; nodes in `avoid` are closed to it."""
    offered = frozenset(engine.state.physical.nodes) - frozenset(avoid)
    for number in range(pods):
        request = PodRequest(
            f"{name}/{number}",
            f"{name}/{number}",
            vc,
            priority,
            leaves,
            name,
            ((leaves, pods),),
            "V100",
            ignore_suggested=not avoid,
        )
        decision = engine.plan(request, offered if avoid else None)
        if not isinstance(decision, Bind):
            return False
        engine.apply(decision)
    return True


def gang_of(engine: Engine, name: str, weight: int, fixed: str = "") -> RunningGang:
    """A gang that runs, as the planner is told of it."""
    group = engine.state.groups.by_name[name]
    ((leaves, _),) = group.members
    request = PodRequest(
        f"{name}/0",
        f"{name}/0",
        group.vc,
        group.priority,
        leaves,
        name,
        group.members,
        "V100",
        ignore_suggested=group.ignore_suggested,
    )
    return RunningGang(name, (request,), weight, fixed)


def random_case(seed: int, most_nodes: int = 64) -> Case:
    """A cluster of a few nodes, filled and then thinned out, and room that it has not without moves."""
    dice = Random(seed)  # noqa: S311 - the same cases every time
    while True:
        per_rack = dice.choice((1, 2, 4))
        nodes = per_rack * dice.randint(2, dice.choice([size for size in (3, 4, 6, 8, 16) if size <= most_nodes // 4]))
        shares = dice.randint(1, nodes)
        vcs = {"a": shares, "b": nodes - shares} if nodes > shares else {"a": shares}
        engine = engine_of(nodes, per_rack, vcs)
        names = [f"g{number}" for number in range(4 * nodes)]
        for name in names:
            priority = dice.choice((-1, -1, 0, 10))
            leaves = dice.choice((1, 2, 2, 4, 4, 8))
            pods = dice.choice((1, 1, 1, 2, 3))
            avoid = dice.sample(sorted(engine.state.physical.nodes), dice.randint(0, nodes - 1))
            start(engine, name, dice.choice(sorted(vcs)), priority, leaves, pods, avoid)
        running = sorted(engine.state.groups.by_name)
        for name in dice.sample(running, round(len(running) * dice.uniform(0.2, 0.8))):
            for uid in [uid for pods in engine.state.groups.by_name[name].pods for uid in pods]:
                engine.observe(PodGone(uid))
        gangs = {
            name: gang_of(engine, name, dice.randint(1, 40), "stays" if dice.random() < 0.08 else "")
            for name in sorted(engine.state.groups.by_name)
        }
        vc = dice.choice(("", "", "a"))
        kind = dice.choice((NODE, NODE, SWITCH, *((RACK,) if not vc else ())))
        free = len([cell for cell in cells_of(engine, kind, vc) if not users(engine, cell, vc)])
        most = len(cells_of(engine, kind, vc))
        if free < most:
            return Case(engine, gangs, RoomRequest(min(most, free + dice.randint(1, 3)), kind, vc))


# --- the oracle


def cells_of(engine: Engine, kind: str, vc: str) -> list[Any]:
    """All cells of a type, virtual ones of a promise or physical ones."""
    tree: Any = engine.state.virtual if vc else engine.state.physical
    return [cell for cell in tree.cells() if tree.type_of(cell) == kind and (not vc or tree.vc(cell) == vc)]


def users(engine: Engine, cell: Any, vc: str) -> frozenset[str]:
    """The groups in a cell."""
    state = engine.state
    if not vc:
        return frozenset(
            state.occupancy.user[leaf] for leaf in state.physical.leaves(cell) if leaf in state.occupancy.user
        )
    bound = (
        state.binding.physical[leaf] for leaf in state.virtual.leaves(cell) if leaf in state.occupancy.virtual_priority
    )
    return frozenset(state.occupancy.user[leaf] for leaf in bound)


def nodes_of(engine: Engine, cell: Any, vc: str) -> set[str]:
    """The nodes that a cell lies on now."""
    state = engine.state
    leaves: Any = state.physical.leaves(cell)
    if vc:
        leaves = [state.binding.physical[leaf] for leaf in state.virtual.leaves(cell)]
    return {state.physical.node_name(leaf) for leaf in leaves if leaf != -1}


def moved(case: Case, order: tuple[str, ...], hold: set[str]) -> bool:
    """Whether gangs can move in an order, away from some nodes, so that there is room then."""
    with imagined(case.engine):
        return all(moves(case, name, hold) for name in order) and has_room(case)


def moved_in_some_order(
    case: Case, names: frozenset[str], hold: frozenset[str], stuck: set[tuple[str, ...]], before: tuple[str, ...] = ()
) -> bool:
    """The same in any order. `stuck` are moves of which the last one is not possible, of all sets with this `hold`."""
    if not names:
        return has_room(case)
    for name in sorted(names):
        order = (*before, name)
        if order in stuck:
            continue
        if not fits(case, name, hold):
            stuck.add(order)
            continue
        with imagined(case.engine):
            if not moves(case, name, hold):
                stuck.add(order)
            elif moved_in_some_order(case, names - {name}, hold, stuck, order):
                return True
    return False


def fits(case: Case, name: str, hold: Collection[str]) -> bool:
    """Whether nodes outside `hold` have as many free devices as the pods of a gang need, once it has left its own."""
    state = case.engine.state
    group = state.groups.by_name[name]
    tree, used = state.physical, Counter(state.physical.node_name(leaf) for leaf in state.occupancy.user)
    used.subtract(tree.node_name(leaf) for pods in group.physical for leaves in pods for leaf in leaves)
    ((size, pods),) = group.members
    return sum((8 - used[node]) // size for node in tree.nodes if node not in hold) >= pods


def moves(case: Case, name: str, hold: Collection[str]) -> bool:
    """Whether a gang finds another place, away from some nodes; it is there then, or gone."""
    engine = case.engine
    for uid in [uid for pods in engine.state.groups.by_name[name].pods for uid in pods]:
        engine.observe(PodGone(uid))
    (request,) = case.gangs[name].requests
    offered = frozenset(engine.state.physical.nodes).difference(hold) if hold else None
    decision = engine.plan(replace(request, ignore_suggested=not hold), offered)
    if not isinstance(decision, Bind) or decision.lazy or decision.cancel:
        return False
    engine.apply(decision)
    return True


def has_room(case: Case) -> bool:
    """Whether there is the room that is wanted."""
    room = case.room
    cells = cells_of(case.engine, room.cell_type, room.vc)
    return sum(not users(case.engine, cell, room.vc) for cell in cells) >= room.number


def largest(gangs: int) -> int:
    """Gangs in the sets that the oracle goes through: fewer where there are so many sets that it never ends."""
    return 4 if gangs <= 20 else 3 if gangs <= 60 else 2


def optimum(case: Case, below: int | None = None, most: int = 4) -> tuple[int, tuple[str, ...]] | None:
    """The least weight of moves of at most `most` gangs that make room, None if there are none (below a weight)."""
    engine, room = case.engine, case.room
    movable = [gang for gang in case.gangs.values() if not gang.fixed]
    blockers = {cell: users(engine, cell, room.vc) for cell in cells_of(engine, room.cell_type, room.vc)}
    weights = {gang.key: gang.weight for gang in movable}
    sets = sorted(
        (sum(weights[name] for name in names), names)
        for size in range(most + 1)
        for names in combinations(sorted(weights), size)
    )
    stuck: dict[frozenset[str], set[tuple[str, ...]]] = {}
    for weight, names in sets:
        if below is not None and weight >= below:
            return None
        gone = set(names)
        freed = [cell for cell, inside in blockers.items() if inside <= gone]
        if len(freed) < room.number:
            continue
        lies_on = {cell: frozenset(nodes_of(engine, cell, room.vc)) for cell in freed}
        holds = {frozenset().union(*(lies_on[cell] for cell in cells)) for cells in combinations(freed, room.number)}
        nodes = sorted(frozenset().union(*lies_on.values()))
        if len(nodes) <= FEW:
            holds |= {frozenset(some) for size in range(len(nodes) + 1) for some in combinations(nodes, size)}
        if any(moved_in_some_order(case, frozenset(names), hold, stuck.setdefault(hold, set())) for hold in holds):
            return weight, names
    return None
