"""Quotas for `hived` where the cluster has none: whole nodes, by what the tenants need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction


def shares(tenants: Mapping[str, int], sizes: Sequence[int], *, equal: bool) -> dict[str, int]:
    """Devices for each tenant, in whole nodes of these sizes: one for each, the others by GPU time (or alike).

    Tenants without GPU time count as one device-millisecond; where nodes are fewer than tenants the largest get one.
    """
    order = sorted(tenants, key=lambda vc: (-tenants[vc], vc))
    given: dict[str, list[int]] = {vc: [] for vc in order}
    need = {vc: 1 if equal else max(1, tenants[vc]) for vc in order}
    for number, size in enumerate(sizes):
        if number < len(order):
            given[order[number]].append(size)
        elif order:
            # the one who has least by what it needs (highest averages, as seats in parliaments)
            poorest = min(order, key=lambda vc: (Fraction(sum(given[vc]) + size, need[vc]), vc))
            given[poorest].append(size)
    return {vc: sum(given[vc]) for vc in sorted(order)}
