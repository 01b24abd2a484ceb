"""Limits of devices: what users hold with a guarantee, what tenants borrow without one, what departments use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from paictl.cluster.interface import Configuration, Identity, Scheduling
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.budgets import sharing_of

if TYPE_CHECKING:
    from paictl.workload.sharing import Sharing

GUARANTEED: Final = text("guaranteed")
OPPORTUNISTIC: Final = text("opportunistic")
LENT: Final = text("lendable")
"""Devices of a promise that others may use now, as far as its owner does not use them."""
SPARED: Final = text("without spares")
"""Devices of a promise that its jobs hold, and may hold: the others are kept for repairs (`sharing.spares`)."""
DEPARTMENT: Final = text("department")
"""Devices that the jobs of a department use, with and without a guarantee, beside its promise."""


class LimitPorts(Identity, Configuration, Scheduling, Protocol):
    """What is needed of a cluster to see how its limits stand."""


@frozen
class LimitState:
    """Devices of a class that a user holds in a virtual cluster, and may hold.

    A limit for each user has a row with `*`, too; borrow and lend limits have no user. Departments have their name for
    a virtual cluster, and may hold more than they are promised.
    """

    vc: str
    user: str
    kind: str
    held: int
    most: int


def limits(cluster: LimitPorts, vc: str | None = None, user: str | None = None) -> list[LimitState]:
    """Every limit, and every user who holds something under one, by virtual cluster; with `user` only theirs."""
    rules = sharing_of(cluster)
    rows = list(_of_users(cluster, rules))
    if user is None:
        rows += [
            *_borrowing(cluster, rules),
            *_lending(cluster, rules),
            *_spares(cluster, rules),
            *_departments(cluster, rules),
        ]
    shown = (row for row in rows if vc in (None, row.vc) and user in (None, row.user))
    return sorted(shown, key=lambda state: (state.vc, state.kind, state.user))


def as_data(states: list[LimitState]) -> list[dict[str, Any]]:
    """Limits as JSON values."""
    return [
        {"vc": state.vc, "user": state.user, "class": state.kind, "held": state.held, "limit": state.most}
        for state in states
    ]


def _of_users(cluster: LimitPorts, rules: Sharing) -> Iterator[LimitState]:
    held = cluster.held_devices() if rules.limits else {}
    for vc, user in {(limit.vc, limit.user) for limit in rules.limits.all} | set(held):
        if (most := rules.limits.of(vc, user)) is not None:
            yield LimitState(vc, user, GUARANTEED, held.get((vc, user), 0), most)


def _borrowing(cluster: LimitPorts, rules: Sharing) -> Iterator[LimitState]:
    borrowed = cluster.borrowed_devices() if rules.borrowing else {}
    for vc, most in rules.borrowing.devices.items():
        yield LimitState(vc, "", OPPORTUNISTIC, borrowed.get(vc, 0), most)


def _lending(cluster: LimitPorts, rules: Sharing) -> Iterator[LimitState]:
    use = cluster.lend_use() if rules.lending else None
    lendable = {} if use is None else rules.lending.lendable(use)
    for vc, most in rules.lending.devices.items():
        yield LimitState(vc, "", LENT, lendable.get(vc, 0), most)


def _spares(cluster: LimitPorts, rules: Sharing) -> Iterator[LimitState]:
    use = cluster.lend_use() if rules.spares else None
    if use is None:
        return
    for vc, spare in rules.spares.devices.items():
        yield LimitState(vc, "", SPARED, use.used.get((vc, True), 0), use.promised.get(vc, 0) - spare)


def _departments(cluster: LimitPorts, rules: Sharing) -> Iterator[LimitState]:
    use = cluster.lend_use() if rules.departments else None
    if use is None:
        return
    for department in rules.departments.use(use.promised, use.used):
        yield LimitState(department.name, "", DEPARTMENT, department.used, department.promised)
