"""What is held back from jobs or kept for them, as a client sees it: budgets and limits for users, and reservations.

Budgets and limits go by the accounts that are written and by the pods that run. Reservations are decided here by what
runs, and kept in the ConfigMap that the doors follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.admission import admit_all
from paictl.cluster.kubernetes.names import NAMESPACE, run_limit, user_of
from paictl.cluster.maintenance import UNIX
from paictl.cluster.pods.lines import PodTimes, end_of
from paictl.cluster.pods.times import began_at, reservation_of
from paictl.cluster.reservations import ReservationRequest, shown, state_of
from paictl.cluster.usagebooks import UsageStore
from paictl.cluster.values import JobRequest, ReservationView
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload.backfill import Foresight
from paictl.workload.departments import DevicesInUse, UnusedPromises
from paictl.workload.devicelimits import BorrowedDevices, HeldDevices, devices_of
from paictl.workload.lending import lend_use, promises_by_vc
from paictl.workload.lentorder import HALF_LIFE, LentDevices, LineAhead, RecentUse, Turns
from paictl.workload.reservations import Reservations
from paictl.workload.reserved import ReservedCells
from paictl.workload.reserving import ReservationScene, admitted, refuse_plan
from paictl.workload.sharing import Sharing, SharingUse
from paictl.workload.usage import UsageKind

if TYPE_CHECKING:
    from paictl.cluster.configured import ConfigSnapshot
    from paictl.cluster.kubernetes.windows import WindowStore
    from paictl.cluster.pods.recovering import Recovered
    from paictl.remote.kube.client import Json, KubeClient
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.workload.budgets import Used
    from paictl.workload.windows import Windows


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
    rules: Sharing,
    engine: Engine,
    pods: list[dict[str, Any]],
    request: PodRequest,
    user: str,
    waiting: Iterable[tuple[str, PodRequest]],
    used: RecentUse,
) -> LineAhead | None:
    """Whose opportunistic gangs are tried before one that waits; `waiting` are (user, request) of pods that wait."""
    placed = engine.state.groups.by_name
    if request.guaranteed or request.group in placed:
        return None
    gangs = {
        candidate.group: (candidate.vc, owner, devices_of(candidate.members))
        for owner, candidate in waiting
        if not candidate.guaranteed and candidate.group not in placed
    }
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
) -> str:
    """Why a gang may not start now; empty if it may, has its place already, or nobody here can know."""
    if not rules or request.group in engine.state.groups.by_name:
        return ""
    known = (
        rules
        if month is not None
        else Sharing(limits=rules.limits, borrowing=rules.borrowing, spares=rules.spares, lending=rules.lending)
    )
    held = held_devices(engine, pods) if rules.limits else {}
    borrowed = borrowed_devices(engine) if rules.borrowing else {}
    lent = lend_use(engine.state) if rules.lending or rules.spares else None
    spares = None if lent is None else rules.spares.use(request.vc, lent.promised, lent.used)
    return known.obstacle(request, user, SharingUse(month, held, borrowed, spares, lent), datetime.now(UTC))


# --- reservations


class ReservedScene:
    """A cluster as its scheduler would find it if it started now, with what is reserved in it."""

    def __init__(
        self,
        pods: Iterable[Json],
        owners: Mapping[str, str],
        recovery: Recovered,
        configuration: ConfigSnapshot,
        windows: Windows,
        reservations: Reservations,
        now: Millis,
    ) -> None:
        """`owners` are the jobs of groups; windows, and so all instants, count from 1970."""
        self.configuration = configuration
        self.reservations = reservations
        self.now = now
        self.owners = owners
        self._engine = recovery.engine
        self._pods = {str(pod["metadata"]["uid"]): pod for pod in pods}
        self.kept = ReservedCells(reservations, self.reservation_of)
        self.foresight = Foresight(recovery.engine, now, self._end_of, windows, self.kept)

    def _end_of(self, group: str) -> Millis | None:
        return end_of(self._engine, group, self._times, self.now)

    def _times(self, uid: str) -> PodTimes | None:
        pod = self._pods.get(uid)
        return None if pod is None else PodTimes(run_limit(pod), began_at(pod))

    def reservation_of(self, group: str) -> str:
        """The reservation that a group which holds devices is for; empty: for none."""
        known = self._engine.state.groups.by_name.get(group)
        uids = [] if known is None else [*(uid for row in known.pods for uid in row if uid), *sorted(known.preempting)]
        return next((reservation_of(self._pods[uid]) for uid in uids if uid in self._pods), "")

    def with_new(self, known: Reservations, request: ReservationRequest) -> Reservations:
        """Reservations with a new one behind them; raises `ReservationError` for one that could not be kept."""
        new = request.reservation(known, self.now, UNIX, self.configuration.spec)
        scene = ReservationScene(
            self.configuration.spec, self.foresight, self.reservation_of, lambda name: self.owners.get(name, name), UNIX
        )
        return admitted(known, new, scene)

    def shown(self, reservations: Reservations) -> tuple[ReservationView, ...]:
        """Reservations as they stand now."""
        return shown(reservations, self.now, UNIX, state_of(self.kept, self.foresight))


class KubernetesReservations:
    """The reservations of one cluster."""

    def __init__(self, scene: Callable[[], ReservedScene], store: WindowStore) -> None:
        self._scene = scene
        self._store = store

    def shown(self) -> tuple[ReservationView, ...]:
        """Those that are not over."""
        scene = self._scene()
        return scene.shown(scene.reservations)

    def add(self, request: ReservationRequest, *, dry_run: bool) -> ReservationView:
        """Add one; raises `ReservationError` for one that could not be kept."""
        if dry_run:
            scene = self._scene()
            after = scene.with_new(scene.reservations, request)
        else:

            def change(known: Reservations) -> Reservations:
                nonlocal scene
                scene = self._scene()  # after the reservations: a window that others add meanwhile spoils the writing
                return scene.with_new(known.current(scene.now), request)

            after = self._store.change_reservations(change)
        return shown(after.all[-1:], scene.now, UNIX, {})[0]

    def refuse(self, requests: Sequence[JobRequest], configuration: ConfigSnapshot) -> None:
        """Raise `ReservationError` for a job that can never start in the reservation that it names."""
        reservations = self._scene().reservations
        for plan in admit_all(requests, configuration):
            refuse_plan(reservations, plan)
