"""The page of the cluster: devices in their cells, what each virtual cluster was promised, nodes.

A user sees which devices are in use, and of the jobs on them only the own ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from paictl.cluster.interface import Port
from paictl.cluster.picture import Picture, VcPicture
from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.scheduler.explain.data import ANOTHER
from paictl.scheduler.groups import Hold
from paictl.scheduler.inspection import PhysicalCellStatus
from paictl.server.calls import Answer, Call
from paictl.server.portal.rendering import fragment, page
from paictl.server.routing import Access, Operation, Route

MOST_LEAVES: Final = 4096
"""Devices that are drawn one by one; of a larger cluster each node is one number."""


@frozen
class DrawnCell:
    """A cell as it is drawn: `look` is the style of a device, `said` what a pointer on it tells."""

    name: str
    kind: str
    is_node: bool
    look: str = ""
    said: str = ""
    used: int = 0
    total: int = 0
    parts: tuple[DrawnCell, ...] = ()


def cluster(call: Call) -> Answer:
    """The page."""
    return page(call, "cluster.html", {"title": "Cluster", "here": "/cluster", **_values(call)})


def live(call: Call) -> Answer:
    """What changes of the page."""
    return fragment(call, "cluster-live.html", _values(call))


def _values(call: Call) -> dict[str, Any]:
    if Port.SCHEDULING in call.cluster.lacks:
        return {"picture": None, "chains": (), "vcs": (), "note": "", "windows": ()}
    seen = call.cluster.picture()
    whose = _Whose(call)
    detailed = sum(1 for _ in seen.leaves()) <= MOST_LEAVES
    chains = [
        {
            "name": chain.name, "types": chain.types, "cells": [_drawn(cell, whose, detailed) for cell in chain.cells],
            "used": sum(leaf.hold is not Hold.NONE for cell in chain.cells for leaf in cell.leaves()),
            "total": sum(1 for cell in chain.cells for _ in cell.leaves()),
        }
        for chain in seen.chains
    ]  # fmt: skip
    return {"picture": seen, "chains": chains, "vcs": _vcs(seen, whose), "note": seen.note, "windows": seen.windows}


@frozen
class _Whose:
    """Whose jobs the caller may see."""

    call: Call

    def mine(self, job: str) -> bool:
        """Whether the name of a job may be shown."""
        return self.call.me.admin or job.partition("~")[0] == self.call.me.name

    def named(self, job: str) -> str:
        """A job as the caller may know it."""
        return job if self.mine(job) else text(ANOTHER).of(self.call.language)

    def told(self, said: Text) -> str:
        """In the caller's language."""
        return said.of(self.call.language)


def _drawn(cell: PhysicalCellStatus, whose: _Whose, detailed: bool) -> DrawnCell:
    leaves = list(cell.leaves())
    used = sum(leaf.hold is not Hold.NONE for leaf in leaves)
    if cell.parts and (detailed or not cell.is_node):
        parts = tuple(_drawn(part, whose, detailed) for part in cell.parts)
        return DrawnCell(cell.name, cell.kind, cell.is_node, used=used, total=len(leaves), parts=parts)
    if cell.parts:
        return DrawnCell(cell.name, cell.kind, cell.is_node, used=used, total=len(leaves))
    look, said = _leaf(cell, whose)
    return DrawnCell(cell.name, cell.kind, cell.is_node, look, said, used, 1)


def _leaf(leaf: PhysicalCellStatus, whose: _Whose) -> tuple[str, str]:
    """How a device looks, and what is said of it."""
    words, look = [leaf.name], "free"
    if leaf.hold is not Hold.NONE:
        guaranteed = leaf.hold is Hold.GUARANTEED
        look = "held" if guaranteed else "reserved" if leaf.hold is Hold.PREEMPTING else "lent"
        look += " mine" if leaf.job and whose.mine(leaf.job) and not whose.call.me.admin else ""
        words.append(whose.named(leaf.job))
        words.append(whose.told(text("VC {vc}", vc=leaf.vc)) if leaf.vc else "")
        words.append("" if guaranteed else whose.told(text("without a guarantee")))
    if leaf.reserver:
        look = "reserved"
        words.append(whose.told(text("reserved for {job}", job=whose.named(leaf.reserver))))
    if not leaf.healthy:
        look += " bad"
        words.append(whose.told(text("bad")))
    return look, ", ".join(word for word in words if word)


def _vcs(seen: Picture, whose: _Whose) -> Sequence[dict[str, Any]]:
    return [{"vc": vc, "cells": _promises(vc, whose)} for vc in seen.vcs]


def _promises(vc: VcPicture, whose: _Whose) -> list[dict[str, Any]]:
    return [
        {
            "cell": cell,
            "leaves": [
                {"look": "held" if user else "free", "said": whose.named(user) if user else ""} for user in cell.users
            ],
        }
        for cell in vc.cells
    ]


ROUTES: Final = (
    Route("GET", "/cluster", Access.USER, cluster, Operation("The cluster")),
    Route("GET", "/cluster/live", Access.USER, live, Operation("What changes of the cluster")),
)
