"""What a pod asks for; `paictl.scheduler.wire` reads and writes it."""

from __future__ import annotations

from typing import Final

from paictl.frozen import frozen
from paictl.scheduler.occupancy import OPPORTUNISTIC

MAX_PRIORITY: Final = 1000
MAX_GROUP: Final = 1 << 20
"""Leaf cells that a group may request: eight times as many as the largest cluster we plan for has."""
SHOWN: Final = 40
"""Characters of a wrong value that a message repeats."""

STANDS_FOR: Final = " (repair "
"""Separates the gang's name from the pod's uid in the name of a stand-in group (`stand_in`)."""

Member = tuple[int, int]
"""Leaf cells of a pod, number of such pods."""


@frozen
class PodRequest:
    """A pod's scheduling spec. `members` is in ascending order of leaf cells and holds each number once."""

    uid: str
    name: str
    """``namespace/name``"""
    vc: str
    priority: int
    leaf_number: int
    group: str
    members: tuple[Member, ...]
    leaf_type: str = ""
    pinned_id: str = ""
    lazy_preemption: bool = False
    ignore_suggested: bool = True
    repair: bool = False
    """Whether a lost member of the gang gets another place while the others stay (`docs/repair.md`)."""

    @property
    def guaranteed(self) -> bool:
        """Whether the pod uses its VC's quota."""
        return self.priority > OPPORTUNISTIC


def stand_in(request: PodRequest) -> str:
    """Name of the one-pod group that preempts on behalf of a member of a running gang (`repair`)."""
    return f"{request.group}{STANDS_FOR}{request.uid})"


def gang_of(name: str) -> str:
    """The gang for which a group stands in; the group's own name if it is no stand-in."""
    return name.rpartition(STANDS_FOR)[0] or name


def shown(value: object) -> str:
    """A wrong value as a message shows it: short, on one line, and nested values are named rather than written out."""
    if isinstance(value, dict | list | tuple):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a huge number"
    text = repr(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
