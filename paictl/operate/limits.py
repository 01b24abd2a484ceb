"""Limits for users: what each may hold in a virtual cluster, and holds."""

from __future__ import annotations

from typing import Protocol

from paictl.cluster.interface import Configuration, Identity, Scheduling
from paictl.frozen import frozen
from paictl.operate.budgets import sharing_of


class LimitPorts(Identity, Configuration, Scheduling, Protocol):
    """What is needed of a cluster to see how its limits stand."""


@frozen
class UserHolding:
    """Devices with a guarantee that a user holds in a virtual cluster, and may hold.

    A limit for each user has a row with `*`, too.
    """

    vc: str
    user: str
    held: int
    most: int


def user_limits(cluster: LimitPorts, vc: str | None = None, user: str | None = None) -> list[UserHolding]:
    """Every limit, and every user who holds something under one, by virtual cluster and user; with `user` theirs."""
    limits = sharing_of(cluster).limits
    if not limits:
        return []
    held = cluster.held_devices()
    keys = {(one.vc, one.user) for one in limits.all} | set(held)
    rows = []
    for place, who in sorted(keys):
        most = limits.of(place, who)
        if most is not None and vc in (None, place) and user in (None, who):
            rows.append(UserHolding(place, who, held.get((place, who), 0), most))
    return rows
