"""The page of a defragmentation plan: what becomes free, which gangs move, and which tenants pay."""

from __future__ import annotations

from typing import Final

from paictl.errors import PaictlError
from paictl.operate.defrag import payers_line, room_lines
from paictl.server.api.defrag import plan_for
from paictl.server.calls import Answer, Call
from paictl.server.portal.rendering import page
from paictl.server.routing import Access, Operation, Route

PATH: Final = "/cluster/defragmentation"


def plan(call: Call) -> Answer:
    """The form, and the plan once it names cells. Moves are made on the command line only."""
    vc = call.query.get("vc") or ""
    cells = ",".join((call.query.get("for") or "").replace(",", " ").split())  # one word, as `--for` takes it
    values = {
        "title": "Defragmentation", "here": "/cluster", "cells": cells, "vc": vc, "error": "", "hint": "",
        "made": None, "lines": (), "payers": "",
    }  # fmt: skip
    if not cells:
        return page(call, "defragmentation.html", values)
    try:
        made = plan_for(call)
    except PaictlError as error:
        return page(call, "defragmentation.html", {**values, "error": error.message, "hint": error.hint or ""},
                    status=400)  # fmt: skip
    lines = [line for room in made.rooms for line in room_lines(room)]
    payers = payers_line(made) if made.moves else ""
    return page(call, "defragmentation.html", {**values, "made": made, "lines": lines, "payers": payers})


ROUTES: Final = (
    Route(
        "GET", PATH, Access.ADMIN, plan,
        Operation("Moves of gangs that make room", answers=(200, 400), query={"for": "string", "vc": "string"}),
        slow=True,
    ),
)  # fmt: skip
