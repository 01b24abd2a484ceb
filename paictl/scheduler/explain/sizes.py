"""The largest smaller group that would not have to wait: fewer pods first, then smaller pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paictl.scheduler.explain.data import Change, ChangeKind

if TYPE_CHECKING:
    from paictl.scheduler.explain.scratch import Scratch
    from paictl.scheduler.request import PodRequest

EACH: Final = 32
"""Up to so many pods every smaller number is tried."""


def smaller(scratch: Scratch) -> Change | None:
    """A group of as many pods as have room now; if not even one has, of the largest pods of which all have.

    None if neither helps, and for groups of pods of several sizes: which of them can be left out, only their owner
    knows.
    """
    request = scratch.request
    if len(request.members) != 1:
        return None
    ((leaves, pods),) = request.members
    fewer = _fewer(scratch, leaves, pods)
    if fewer is not None:
        return fewer
    return next((change for size in range(leaves - 1, 0, -1) if (change := _tried(scratch, size, pods))), None)


def _fewer(scratch: Scratch, leaves: int, pods: int) -> Change | None:
    """As many pods as have room: each number is tried, of many pods by halves.

    That fewer fit where more do is not quite sure, because pods are placed greedily; what is found was tried.
    """
    if pods <= EACH:
        return next((change for number in range(pods - 1, 0, -1) if (change := _tried(scratch, leaves, number))), None)
    low, high, found = 0, pods, None
    while high - low > 1:
        middle = (low + high) // 2
        change = _tried(scratch, leaves, middle)
        low, high, found = (middle, high, change) if change else (low, middle, found)
    return found


def _tried(scratch: Scratch, leaves: int, pods: int) -> Change | None:
    outcome = scratch.decide(resized(scratch.request, leaves, pods), scratch.suggested)
    return Change(ChangeKind.SIZE, outcome, members=((leaves, pods),)) if outcome else None


def resized(request: PodRequest, leaves: int, pods: int) -> PodRequest:
    """The request of a pod of a group of `pods` pods with `leaves` leaf cells each."""
    return replace(request, leaf_number=leaves, members=((leaves, pods),))
