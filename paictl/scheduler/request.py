"""What a pod asks for; `paictl.scheduler.wire` reads and writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.scheduler.occupancy import OPPORTUNISTIC

if TYPE_CHECKING:
    pass

MAX_PRIORITY: Final = 1000
MAX_GROUP: Final = 1 << 20
"""Leaf cells that a group may ask for, eight times those of the largest cluster that is planned for."""
SHOWN: Final = 40
"""Characters of a wrong value that a message repeats."""

STANDS_FOR: Final = " (repair "
"""What comes between a gang's name and the pod in the name of the group that stands for the pod."""

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
    """Whether a member of the gang that is lost gets another place while the others stay (`docs/repair.md`)."""

    @property
    def guaranteed(self) -> bool:
        """Whether the pod asks for its VC's quota."""
        return self.priority > OPPORTUNISTIC


def stand_in(request: PodRequest) -> str:
    """Name of the group that preempts for a member of a gang that runs (`repair`)."""
    return f"{request.group}{STANDS_FOR}{request.uid})"


def gang_of(name: str) -> str:
    """The gang that a group belongs to; its own name if it stands for no member of another."""
    return name.rpartition(STANDS_FOR)[0] or name


def shown(value: object) -> str:
    """A wrong value in a message: short, on one line, and never the work of writing out a nested one."""
    if isinstance(value, dict | list | tuple):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a huge number"
    text = repr(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
