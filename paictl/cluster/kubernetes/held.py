"""Budgets and limits for users as a client sees them: by the accounts that are written, and by the pods that run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.kubernetes.names import NAMESPACE, user_of
from paictl.cluster.usagebooks import UsageStore
from paictl.errors import PaictlError
from paictl.workload.departments import DevicesInUse, UnusedPromises
from paictl.workload.devicelimits import BorrowedDevices, HeldDevices, devices_of
from paictl.workload.lending import lend_use, promises_by_vc
from paictl.workload.lentorder import HALF_LIFE, LentDevices, Turns
from paictl.workload.sharing import Sharing, SharingUse
from paictl.workload.usage import UsageKind

if TYPE_CHECKING:
    from paictl.remote.kube.client import KubeClient
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.workload.budgets import Used
    from paictl.workload.lentorder import LineAhead, RecentUse

_USED: Final = (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC)


def month_used(client: KubeClient, now: datetime) -> Used | None:
    """Device-milliseconds of the month by (virtual cluster, user), as far as they are written down.

    None where the accounts cannot be read: who submits jobs need not have the right to.
    """
    used: Counter[tuple[str, str]] = Counter()
    try:
        for book in UsageStore(client, NAMESPACE).of_month(now):
            for amount in book.amounts():
                if amount.kind in _USED:
                    used[amount.vc, amount.user] += amount.amount
    except PaictlError:
        return None
    return used


def used_lately(client: KubeClient, now: datetime) -> RecentUse:
    """Use without a guarantee as the order of opportunistic gangs counts it, as it is written down.

    Empty where the accounts cannot be read, or do not say.
    """
    try:
        book = UsageStore(client, NAMESPACE).newest(now)
    except PaictlError:
        return {}
    if book is None or book.recent is None:
        return {}
    return book.recent.until(book.until, book.ledger.open_spans(book.until))


def line_ahead(
    rules: Sharing, engine: Engine, pods: list[dict[str, Any]], request: PodRequest, user: str,
    waiting: Iterable[tuple[str, PodRequest]], used: RecentUse,
) -> LineAhead | None:  # fmt: skip
    """Whose opportunistic gangs are tried before one that waits; `waiting` are (user, request) of pods that wait."""
    placed = engine.state.groups.by_name
    if request.guaranteed or request.group in placed:
        return None
    gangs = {
        candidate.group: (candidate.vc, owner, devices_of(candidate.members)) for owner, candidate in waiting
        if not candidate.guaranteed and candidate.group not in placed
    }  # fmt: skip
    turns = _turns(rules, engine, pods, used)
    return turns.ahead((request.vc, user, devices_of(request.members)), gangs.values())


def _turns(rules: Sharing, engine: Engine, pods: list[dict[str, Any]], used: RecentUse) -> Turns:
    """Who goes first by what the pods and the accounts say."""
    placed, promised = engine.state.groups.by_name, promises_by_vc(engine.state)
    unused = None
    if rules.departments:
        held = DevicesInUse()
        held.start(placed)
        unused = UnusedPromises(rules.departments, promised, held.devices)
        if rules.order is None:
            return Turns.by_departments(unused)
    users = {str(pod["metadata"]["uid"]): user_of(pod) for pod in pods}
    lent = LentDevices(lambda uid: users.get(uid, ""))
    lent.start(placed)
    half_life = HALF_LIFE if rules.order is None else rules.order.half_life
    return Turns(used, lent.devices, promised, half_life, unused)


def held_devices(engine: Engine, pods: list[dict[str, Any]]) -> Mapping[tuple[str, str], int]:
    """Devices with a guarantee by (virtual cluster, user), by the groups of an engine and the pods in them."""
    users = {str(pod["metadata"]["uid"]): user_of(pod) for pod in pods}
    held = HeldDevices(lambda uid: users.get(uid, ""))
    held.start(engine.state.groups.by_name)
    return held.devices


def borrowed_devices(engine: Engine) -> Mapping[str, int]:
    """Devices without a guarantee by virtual cluster, by the groups of an engine."""
    borrowed = BorrowedDevices()
    borrowed.start(engine.state.groups.by_name)
    return borrowed.devices


def obstacle(
    rules: Sharing, engine: Engine, pods: list[dict[str, Any]], request: PodRequest, user: str, month: Used | None
) -> str:  # fmt: skip
    """Why a gang may not start now; empty if it may, has its place already, or nobody here can know."""
    if not rules or request.group in engine.state.groups.by_name:
        return ""
    known = rules if month is not None else Sharing(
        limits=rules.limits, borrowing=rules.borrowing, spares=rules.spares, lending=rules.lending
    )  # fmt: skip
    held = held_devices(engine, pods) if rules.limits else {}
    borrowed = borrowed_devices(engine) if rules.borrowing else {}
    lent = lend_use(engine.state) if rules.lending or rules.spares else None
    spares = None if lent is None else rules.spares.use(request.vc, lent.promised, lent.used)
    return known.obstacle(request, user, SharingUse(month, held, borrowed, spares, lent), datetime.now(UTC))
