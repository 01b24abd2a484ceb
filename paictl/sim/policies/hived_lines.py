"""The lines of `hived`: guaranteed jobs that wait, by tenant and by what they ask for."""

from __future__ import annotations

from heapq import heapify, heappop

from paictl.sim.policies.promised_starts import Row

Apart = tuple[str, str, int]
"""What else sets jobs apart: their user where users have limits; with reservations, their own and their limit."""
Kind = tuple[int, int, str | None, str, Apart]
"""Waiting jobs that are alike: (devices, devices of a pod, device type, pinned cell, what else sets them apart)."""


class Tenant:
    """The guaranteed jobs of one VC that wait, by priority and order; and what it runs outside its quota."""

    __slots__ = ("changed", "heaps", "spare", "weight")

    def __init__(self, weight: int) -> None:
        self.heaps: dict[Kind, list[Row]] = {}
        self.changed = False
        """Whether something happened that may let one of them start."""
        self.weight = max(weight, 1)
        self.spare = 0
        """Devices of its opportunistic jobs."""


def first_in_line(tenant: Tenant) -> tuple[int, int]:
    """Priority and turn of the first job that waits; behind all others if none does."""
    return min((heap[0][:2] for heap in tenant.heaps.values()), default=(1, 0))


def take_out(heap: list[Row], row: Row) -> None:
    """Take a job out of a heap."""
    if heap[0] is row:
        heappop(heap)
    else:
        heap.remove(row)
        heapify(heap)
