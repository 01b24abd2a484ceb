"""The page of the cluster: devices in their cells, what each virtual cluster was promised, nodes.

And that of a defragmentation plan: what becomes free, which gangs move, and which tenants pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from paictl.cluster.interface import Port
from paictl.cluster.picture import Picture, VcPicture
from paictl.errors import PaictlError
from paictl.operate.defrag import payers_line, room_lines
from paictl.server.api.cluster import plan_for
from paictl.server.calls import Answer, Call
from paictl.server.portal.cells import Whose, drawn
from paictl.server.portal.rendering import fragment, page
from paictl.server.routing import Access, Operation, Route


def cluster(call: Call) -> Answer:
    """The page."""
    return page(call, "cluster.html", {"title": "Cluster", "here": "/cluster", **_values(call)})


def live(call: Call) -> Answer:
    """What changes of the page."""
    return fragment(call, "cluster-live.html", _values(call))


def _values(call: Call) -> dict[str, Any]:
    if Port.SCHEDULING in call.cluster.lacks:
        return {"picture": None, "chains": (), "vcs": (), "note": "", "windows": (), "reservations": (), "free": ()}
    picture = call.cluster.picture()
    return {
        "picture": picture,
        "chains": drawn(call, picture.chains),
        "vcs": _vcs(picture, Whose(call)),
        "note": picture.note,
        "windows": picture.windows,
        "reservations": picture.reservations,
        "free": [row for row in picture.free if row.total > 1],
        "admin": call.me.admin,
    }


def _vcs(picture: Picture, whose: Whose) -> Sequence[dict[str, Any]]:
    return [{"vc": vc, "cells": _promises(vc, whose)} for vc in picture.vcs]


def _promises(vc: VcPicture, whose: Whose) -> list[dict[str, Any]]:
    return [
        {
            "cell": cell,
            "leaves": [
                {"look": "held" if user else "free", "title": whose.named(user) if user else ""} for user in cell.users
            ],
        }
        for cell in vc.cells
    ]


PATH: Final = "/cluster/defragmentation"


def plan(call: Call) -> Answer:
    """The form, and the plan once it names cells. Moves are made on the command line only."""
    vc = call.query.get("vc") or ""
    cells = ",".join((call.query.get("for") or "").replace(",", " ").split())  # one word, as `--for` takes it
    values = {
        "title": "Defragmentation",
        "here": "/cluster",
        "cells": cells,
        "vc": vc,
        "error": "",
        "hint": "",
        "made": None,
        "lines": (),
        "payers": "",
    }
    if not cells:
        return page(call, "defragmentation.html", values)
    try:
        made = plan_for(call)
    except PaictlError as error:
        return page(
            call, "defragmentation.html", {**values, "error": error.message, "hint": error.hint or ""}, status=400
        )
    lines = [line for room in made.rooms for line in room_lines(room)]
    payers = payers_line(made) if made.moves else ""
    return page(call, "defragmentation.html", {**values, "made": made, "lines": lines, "payers": payers})


ROUTES: Final = (
    Route("GET", "/cluster", Access.USER, cluster, Operation("The cluster")),
    Route("GET", "/cluster/live", Access.USER, live, Operation("What changes of the cluster")),
    Route(
        "GET",
        PATH,
        Access.ADMIN,
        plan,
        Operation("Moves of gangs that make room", answers=(200, 400), query={"for": "string", "vc": "string"}),
        slow=True,
    ),
)
