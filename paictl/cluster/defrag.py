"""Plans of defragmentation as they cross the port: who moves, what that loses, and what is gained."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.values import ClusterError
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.scheduler.defrag import (
    GangMove,
    NoRoom,
    Obstacle,
    RoomPlan,
    RoomRequest,
    RunningGang,
    find_room,
    room_of,
    weight_of,
    why_outrun,
)
from paictl.scheduler.defrag.trial import Trials
from paictl.scheduler.explain.data import PodVerdict
from paictl.scheduler.scratch import imagined
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.cluster.scheduling import JobExplanation
    from paictl.i18n import Text
    from paictl.scheduler.defrag.model import Places
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State

HOW_TO_PLAN: Final = "make one: paictl cluster defrag plan --for 4xV100-NODE -o json > plan.json"


class RoomError(PaictlError):
    """Room that is asked for and that there can never be; nothing has changed."""

    exit_code = ExitCode.NEGATIVE


@frozen
class GangPods:
    """A gang that runs, as a client knows it: `key` names it in plans."""

    key: str
    job: str
    """Key of its job; empty for pods of no job of ours."""
    group: str
    """The group that is evicted; empty: the whole job."""
    vc: str
    priority: int
    guaranteed: bool
    devices: int
    lost: Millis
    """Work that a restart loses: since it started, or since its last checkpoint."""
    pods: tuple[tuple[str, str], ...]
    """Uid and node of each pod that runs."""
    whole: bool
    """Whether all of its pods run."""


@frozen
class DefragMove:
    """A gang that moves, for people and programs; `before` and `after` are node and devices of each pod."""

    key: str
    job: str
    vc: str
    priority: int
    guaranteed: bool
    devices: int
    lost: Millis
    weight: int
    before: Places
    after: Places


@frozen
class RoomOutcome:
    """What was found for one room: moves, or why there are none."""

    number: int
    cell_type: str
    vc: str
    plan: RoomPlan | None
    refusal: NoRoom | None
    moves: tuple[DefragMove, ...] = ()


@frozen
class DefragPlan:
    """Everything that was asked for together, in the order in which it has to be done."""

    cluster: str
    rooms: tuple[RoomOutcome, ...]

    @property
    def moves(self) -> tuple[DefragMove, ...]:
        """All moves in their order."""
        return tuple(move for room in self.rooms for move in room.moves)

    @property
    def weight(self) -> int:
        """What all moves lose together."""
        return sum(move.weight for move in self.moves)

    @property
    def whole(self) -> bool:
        """Whether there is room for all that was asked for."""
        return all(room.plan is not None for room in self.rooms)


@frozen
class DefragScene:
    """What a plan is made from: the engine, what runs, and the nodes that maintenance windows close for good."""

    engine: Engine
    gangs: Sequence[tuple[RunningGang, GangPods]]
    closed: frozenset[str] = frozenset()


def weight(pods: GangPods, *, near_budget: bool) -> int:
    """What it costs to move a gang."""
    return weight_of(
        pods.devices, pods.lost // 1000, priority=pods.priority, guaranteed=pods.guaranteed, near_budget=near_budget
    )


# --- what is asked for


def read_room(words: str, vc: str = "") -> RoomRequest:
    """``4xV100-NODE`` or ``V100-NODE``; raises `PaictlError` for anything else."""
    match = re.fullmatch(r"(?:(\d{1,9})x)?([^\s]+)", words)
    if match is None or (match[1] is not None and int(match[1]) == 0):
        raise PaictlError(text("{said!r} is not a number of cells", said=words), hint="write for instance 4xV100-NODE")
    return RoomRequest(int(match[1] or 1), match[2], vc)


def checked(rooms: Iterable[RoomRequest], state: State) -> tuple[RoomRequest, ...]:
    """Rooms as they are planned: those of one type together, the largest cells first.

    Raises `RoomError` for a cell type or virtual cluster that does not exist, and for more cells than there are.
    """
    sums: dict[tuple[str, str], int] = {}
    for room in rooms:
        sums[room.cell_type, room.vc] = sums.get((room.cell_type, room.vc), 0) + room.number
    requests = [RoomRequest(number, cell_type, vc) for (cell_type, vc), number in sums.items()]
    sizes = {
        name: chain.leaves[level] for chain in state.physical.chains for level, name in enumerate(chain.types) if level
    }
    for room in requests:
        if room.cell_type not in sizes:
            hint = did_you_mean(room.cell_type, sizes) or text("cell types: {names}", names=", ".join(sizes))
            raise RoomError(text("no cell type {name!r}", name=room.cell_type), hint=hint)
        if room.vc and room.vc not in state.vcs:
            hint = did_you_mean(room.vc, state.vcs) or text(
                "virtual clusters: {names}", names=", ".join(sorted(state.vcs))
            )
            raise RoomError(text("no virtual cluster {name!r}", name=room.vc), hint=hint)
        most = most_cells(state, room)
        if room.number > most:
            raise _too_many(room, most)
    for vc in {room.vc for room in requests if room.vc}:
        if sum(room.vc == vc for room in requests) > 1:
            raise RoomError(
                text("cells of several types in the promise of {vc}", vc=vc), hint="ask for one type at a time"
            )
    return tuple(sorted(requests, key=lambda room: -sizes[room.cell_type]))


def most_cells(state: State, room: RoomRequest) -> int:
    """Cells of the type in the chain that has most of them, used or not; in a promise, where the room is in one."""
    best = 0
    for index in state.physical.chain_indexes():
        level = state.physical.chains[index].level_of(room.cell_type)
        if level is None:
            continue
        if room.vc:
            tree, chains = state.virtual, state.virtual.chains
            number = sum(
                chains[index].leaves[tree.level[root]] // chains[index].leaves[level]
                for root, top in tree.preassigned.items()
                if top.vc == room.vc
                and top.pinned_id is None
                and tree.chain[root] == index
                and tree.level[root] >= level
            )
        else:
            number = len(state.physical.at[index][level])
        best = max(best, number)
    return best


def _too_many(room: RoomRequest, most: int) -> RoomError:
    if room.vc:
        message = text(
            "virtual cluster {vc} is promised {most} cells {name} in one chain: {number} can never be free",
            vc=room.vc,
            most=most,
            name=room.cell_type,
            number=room.number,
        )
    else:
        message = text(
            "the cluster has {most} cells {name} in one chain: {number} can never be free",
            most=most,
            name=room.cell_type,
            number=room.number,
        )
    return RoomError(message, hint="ask for fewer, or see the cells: paictl cluster view")


# --- planning


def planned_moves(cluster: str, scene: DefragScene, rooms: Iterable[RoomRequest]) -> DefragPlan:
    """The plan for rooms together, each on top of the moves of those before; raises `RoomError` as `checked` does."""
    engine = scene.engine
    gangs = {gang.key: gang for gang, _ in scene.gangs}
    pods = {gang_pods.key: gang_pods for _, gang_pods in scene.gangs}
    outcomes, kept = [], frozenset[str]()
    with imagined(engine):
        for room in checked(rooms, engine.state):
            now = [replace(gang, closed=gang.closed | kept) for gang in gangs.values()]
            result = find_room(engine, room, now, scene.closed | kept)
            if isinstance(result, NoRoom):
                outcomes.append(RoomOutcome(room.number, room.cell_type, room.vc, None, result))
                continue
            moves = tuple(_move(move, pods[move.key]) for move in result.moves)
            outcomes.append(RoomOutcome(room.number, room.cell_type, room.vc, result, None, moves))
            _make(engine, result, {gang.key: gang for gang in now})
            kept |= frozenset(result.nodes)
    return DefragPlan(cluster, tuple(outcomes))


def _make(engine: Engine, plan: RoomPlan, gangs: Mapping[str, RunningGang]) -> None:
    """Make the moves of a plan in what is imagined already."""
    trials = Trials(engine, gangs)
    for move in plan.moves:
        trials.move(gangs[move.key], frozenset(plan.nodes))


def _move(move: GangMove, pods: GangPods) -> DefragMove:
    return DefragMove(
        move.key,
        pods.job,
        pods.vc,
        pods.priority,
        pods.guaranteed,
        pods.devices,
        pods.lost,
        move.weight,
        move.before,
        move.after,
    )


def outrun(scene: DefragScene, room: RoomPlan, kept: Collection[str], *, exactly: bool) -> Text | None:
    """Why the moves of a room would not go as planned any more; None if they would. `kept`: nodes of earlier rooms."""
    gangs = [replace(gang, closed=gang.closed | frozenset(kept)) for gang, _ in scene.gangs]
    return why_outrun(scene.engine, room, gangs, scene.closed | frozenset(kept), exactly=exactly)


# --- a job that waits

_CHEAP: Final = 512
"""Nodes of the largest cluster on which every explanation looks for moves, too."""
_QUICK: Final = 24
"""Trials that it makes."""


def with_moves(explanation: JobExplanation, scene: Callable[[], DefragScene], request: PodRequest) -> JobExplanation:
    """An explanation of a pod that waits for room, with the moves after which it would start; as it is if none help."""
    if (
        explanation.scheduler is None
        or explanation.scheduler.decision is not PodVerdict.WAIT
        or len(request.members) != 1
    ):
        return explanation
    try:
        snapshot = scene()
        room = room_of(snapshot.engine.state, request)
        if room is None or len(snapshot.engine.state.physical.nodes) > _CHEAP:
            return explanation
        plan = find_room(
            snapshot.engine, room, [gang for gang, _ in snapshot.gangs], snapshot.closed, most_trials=_QUICK
        )
    except PaictlError:
        return explanation
    if isinstance(plan, NoRoom) or not plan.moves or not plan.starts:
        return explanation
    options = f"--for {room.number}x{room.cell_type}" + (f" --vc {room.vc}" if room.vc else "")
    return replace(explanation, moves=len(plan.moves), room=options)


# --- plans as data


def plan_data(plan: DefragPlan) -> dict[str, Any]:
    """A plan as JSON values."""
    return {
        "kind": "paictl-defrag-plan",
        "schemaVersion": 1,
        "cluster": plan.cluster,
        "weight": plan.weight,
        "rooms": [_room_data(room) for room in plan.rooms],
    }


def _room_data(room: RoomOutcome) -> dict[str, Any]:
    row: dict[str, Any] = {"number": room.number, "cell_type": room.cell_type, "vc": room.vc}
    if room.refusal is not None:
        row["refusal"] = {
            "obstacle": room.refusal.obstacle.value,
            "most": room.refusal.most,
            "fixed": list(room.refusal.fixed),
            "exact": room.refusal.exact,
        }
    if room.plan is not None:
        row |= {
            "chain": room.plan.chain,
            "cells": list(room.plan.cells),
            "nodes": list(room.plan.nodes),
            "starts": room.plan.starts,
            "yields": list(room.plan.yields),
            "exact": room.plan.exact,
            "moves": [
                {**asdict(move), "before": _places(move.before), "after": _places(move.after)} for move in room.moves
            ],
        }
    return row


def _places(places: Places) -> list[dict[str, Any]]:
    return [{"node": node, "devices": list(devices)} for node, devices in places]


def plan_from(data: Any) -> DefragPlan:
    """The inverse of `plan_data`; raises `ClusterError` for anything else."""
    try:
        if (data["kind"], data["schemaVersion"]) != ("paictl-defrag-plan", 1):
            raise ValueError("another kind of file")
        return DefragPlan(str(data["cluster"]), tuple(map(_room_from, data["rooms"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ClusterError(
            text("is not a defragmentation plan: {error}", error=str(error)),
            hint=HOW_TO_PLAN,
        ) from None


def _room_from(row: Mapping[str, Any]) -> RoomOutcome:
    number, cell_type, vc = int(row["number"]), str(row["cell_type"]), str(row["vc"])
    room = RoomRequest(number, cell_type, vc)
    if "refusal" in row:
        entry = row["refusal"]
        refusal = NoRoom(
            room, Obstacle(entry["obstacle"]), int(entry["most"]), tuple(map(str, entry["fixed"])), bool(entry["exact"])
        )
        return RoomOutcome(number, cell_type, vc, None, refusal)
    moves = tuple(
        DefragMove(**{**move, "before": _places_from(move["before"]), "after": _places_from(move["after"])})
        for move in row["moves"]
    )
    plan = RoomPlan(
        room,
        str(row["chain"]),
        tuple(map(str, row["cells"])),
        tuple(map(str, row["nodes"])),
        tuple(GangMove(move.key, move.weight, move.before, move.after) for move in moves),
        bool(row["starts"]),
        tuple(map(str, row["yields"])),
        bool(row["exact"]),
    )
    return RoomOutcome(number, cell_type, vc, plan, None, moves)


def _places_from(rows: Iterable[Mapping[str, Any]]) -> Places:
    return tuple((str(row["node"]), tuple(map(int, row["devices"]))) for row in rows)
