"""The moves of gangs that would make room for a larger one; they are made on the command line only."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paictl.cluster.defrag import DefragMove, DefragPlan, RoomOutcome, plan_data, read_room
from paictl.i18n import text
from paictl.scheduler.defrag import RoomRequest
from paictl.scheduler.explain.data import ANOTHER
from paictl.server.calls import Answer, ApiError, Call, bad, json_answer
from paictl.server.routing import Access, Operation, Route
from paictl.server.tenants import Tenants


def planned(call: Call) -> Answer:
    """The plan as data."""
    return json_answer(plan_data(plan_for(call)))


def plan_for(call: Call) -> DefragPlan:
    """The plan that a query asks for, without names of other tenants for all but administrators.

    Raises `ApiError` for a query without cells, or for a virtual cluster of others; `RoomError` as the planner does.
    """
    vc = call.query.get("vc") or ""
    words = (call.query.get("for") or "").replace(",", " ").split()
    rooms = [read_room(word, vc) for word in words]
    if level := call.query.get("level"):
        rooms.append(RoomRequest(1, level, vc))
    if not rooms:
        raise bad(text("name the cells to free: for=4xV100-NODE or level=V100-RACK"))
    if vc and not call.me.admin and not call.me.may_submit_to(vc):
        raise ApiError(403, "ForbiddenUserError", text("you may not use virtual cluster {vc}", vc=vc))
    made = call.cluster.plan_moves(rooms)
    return made if call.me.admin else _masked(made, Tenants(call))


def _masked(plan: DefragPlan, tenants: Tenants) -> DefragPlan:
    return replace(plan, rooms=tuple(_room(room, tenants) for room in plan.rooms))


def _room(room: RoomOutcome, tenants: Tenants) -> RoomOutcome:
    def named(gang: str) -> str:
        return gang if tenants.owns(gang) else ANOTHER

    def move(defrag_move: DefragMove) -> DefragMove:
        return defrag_move if tenants.owns(defrag_move.key) else replace(defrag_move, key=ANOTHER, job="", vc="")

    made, refusal = room.plan, room.refusal
    if made is not None:
        made = replace(made, yields=tuple(map(named, made.yields)))
    if refusal is not None:
        refusal = replace(refusal, fixed=tuple(map(named, refusal.fixed)))
    return replace(room, plan=made, refusal=refusal, moves=tuple(map(move, room.moves)))


ROUTES: Final = (
    Route(
        "GET", "/api/v2/defragmentation", Access.USER, planned,
        Operation(
            "Moves of gangs that make room for a larger one", "cluster", (200, 400, 403),
            {"for": "string", "level": "string", "vc": "string"},
        ), slow=True,
    ),
)  # fmt: skip
