"""Quotas for `hived` if the cluster has none: whole nodes, in proportion to the tenants' demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction


def shares(tenants: Mapping[str, int], sizes: Sequence[int], *, equal: bool) -> dict[str, int]:
    """Devices of each tenant, in whole nodes of these sizes: a node for each, the rest by GPU time, or equally.

    `tenants`: GPU time by VC, in device-milliseconds; none counts as 1. If there are fewer nodes than tenants, the
    tenants with most GPU time get one each.
    """
    order = sorted(tenants, key=lambda vc: (-tenants[vc], vc))
    nodes: dict[str, list[int]] = {vc: [] for vc in order}
    need = {vc: 1 if equal else max(1, tenants[vc]) for vc in order}
    for number, size in enumerate(sizes):
        if number < len(order):
            nodes[order[number]].append(size)
        elif order:
            # the tenant with the least devices by demand (highest averages, as for seats in a parliament)
            poorest = min(order, key=lambda vc: (Fraction(sum(nodes[vc]) + size, need[vc]), vc))
            nodes[poorest].append(size)
    return {vc: sum(nodes[vc]) for vc in sorted(order)}
