"""The accounts of device time: every pod that holds devices, from its binding to its end (`docs/usage.md`).

They run beside the scheduling and never influence it: events are noted under the core's lock, and one thread writes
records, from which the next process continues.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cluster.kubernetes.names import JOB_KEY, JOBS_NAMESPACE
from paictl.cluster.pods.reading import bound_node, noted_on, pinned_node, read_info, read_pod
from paictl.cluster.usagebooks import UsageStore
from paictl.cluster.values import ConflictError
from paictl.doors.binder import MARGIN
from paictl.doors.core import DoorCore, NotServingError
from paictl.doors.table import pod_ref
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube.client import Json, KubeClient
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.errors import RequestError
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import BIND_INFO, PREEMPTED_FOR
from paictl.units import Millis
from paictl.workload.budgets import month_of
from paictl.workload.lentorder import RecentUse
from paictl.workload.usage import Holding, UsageKind, promises
from paictl.workload.usagebook import Record, UsageBook, recalled

PERIOD: Final = 60.0
"""Seconds between two records."""
BEGIN: Final = 1.0
"""Seconds between attempts to start the accounts."""


@frozen
class _BoundPod:
    """A bound pod as its object describes it."""

    bound: Millis
    namespace: str
    job: str
    """``user~name`` of a job of paictl; empty for other pods."""


class Accountant:
    """Keeps the accounts while this process leads."""

    def __init__(
        self, client: KubeClient, core: DoorCore, store: UsageStore, *, remaining: Callable[[], float]
    ) -> None:
        self.core = core
        self.problem = ""
        """Why nothing is written; empty if records are written."""
        self.book: UsageBook | None = None
        """None until the last record is read."""
        self._client = client
        self._store = store
        self._remaining = remaining
        self._uncounted: dict[str, _BoundPod] = {}
        """Bound pods that are not in the book yet, by uid."""
        self._disrupted: set[str] = set()
        """Pods that are being disrupted: their work is lost."""
        self._gone: dict[str, tuple[Millis, bool]] = {}
        """Pods that ended before the last record was read: when, and whether their work was lost."""
        self._days: dict[Millis, Counter[tuple[str, str]]] = {}
        """Use by (virtual cluster, user) on the past days of this month; only with budgets."""
        self._unwritten: dict[int, Record] = {}
        """Records by day that could not be written yet."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="accounts", daemon=True)
        core.reclassed = self._reclassed

    def start(self) -> None:
        """Start accounting as soon as the core knows all pods."""
        self._thread.start()

    def stop(self) -> None:
        """Write the last record, if this process still leads."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    # --- events

    def pod_changed(self, pod: Mapping[str, Any]) -> None:
        """A pod object was added or changed; the core must know already."""
        uid = str(pod["metadata"].get("uid"))
        with self.core.guarded():
            # One that is pinned has its devices, and its owner may have named a scheduler that never binds it. Whether
            # only a placer can have pinned it, the core may not know yet; what it does not hold is not counted.
            if uid not in self.core.table.by_uid or not (bound_node(pod) or pinned_node(pod)):
                return
            if _is_disrupted(pod):
                self._disrupted.add(uid)
            if self.book is None or uid not in self.book.ledger:
                self._uncounted[uid] = _BoundPod(_bound_at(pod) or self._now(), _namespace_of(pod), _job_of(pod))
                self._enter((uid,))

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted, or has ended."""
        with self.core.guarded():
            self._uncounted.pop(uid, None)
            lost = uid in self._disrupted
            self._disrupted.discard(uid)
            if self.book is None:
                self._gone[uid] = self._now(), lost
            else:
                self.book.release(uid, self._now(), lost=lost)

    def _reclassed(self, group: str, guaranteed: bool) -> None:
        if self.book is not None:
            self.book.ledger.change_class(group, self._now(), guaranteed=guaranteed)

    def _enter(self, uids: Iterable[str]) -> None:
        """Start counting those of the pods that hold devices in the scheduler's book."""
        if self.book is None:
            return
        groups = self.core.book.engine.state.groups.by_name
        for uid in uids:
            booked = self.core.book.pods.get(uid)
            if booked is not None and booked.info is not None and uid in self._uncounted:
                group = groups.get(booked.request.group)
                guaranteed = group is not None and group.virtual is not None
                self._place(self.book, self._uncounted.pop(uid), booked.request, booked.info, guaranteed=guaranteed)

    def _place(
        self, book: UsageBook, bound_pod: _BoundPod, request: PodRequest, info: BindInfo, *, guaranteed: bool
    ) -> None:
        chains = self.core.book.engine.state.physical.chains
        sku = next((chain.leaf_type for chain in chains if chain.name == info.chain), info.chain)
        since = Millis(max(book.ledger.since, min(bound_pod.bound, self._now())))
        # the name of a group is its user's choice and may begin with another namespace
        job = bound_pod.job or f"{bound_pod.namespace}~{request.group.removeprefix(f'{bound_pod.namespace}/')}"
        book.ledger.place(
            Holding(request.uid, request.group, request.vc, job, sku, len(info.devices), ((since, guaranteed),))
        )

    def _now(self) -> Millis:
        """The present time, but never before the end of what is written."""
        now = Millis(round(self.core.wall() * 1000))
        return now if self.book is None else max(now, self.book.until)

    def in_use(self) -> Counter[tuple[str, str]]:
        """Device-milliseconds of this day until now, by VC and kind."""
        totals: Counter[tuple[str, str]] = Counter()
        with self.core.guarded():
            if self.book is not None:
                for row in self.book.amounts(self._now()):
                    totals[row.vc, str(row.kind)] += row.amount
        return totals

    def used_in_month(self) -> Counter[tuple[str, str]] | None:
        """Device-milliseconds of this month by (virtual cluster, user); None until the last record is read."""
        with self.core.guarded():
            if self.book is None:
                return None
            now = self._now()
            month = month_of(now)
            total = sum((used for day, used in self._days.items() if day >= month), Counter[tuple[str, str]]())
            if self.book.day >= month:
                total.update(_used_of(self.book, now))
            return total

    def used_lately(self) -> RecentUse | None:
        """Decayed use without a guarantee, for the order of opportunistic gangs; None until it is known."""
        with self.core.guarded():
            if self.book is None or self.book.recent is None:
                return None
            now = self._now()
            return self.book.recent.until(now, self.book.ledger.open_spans(now))

    def _recall(self, book: UsageBook, days: Iterable[UsageBook], now: Millis) -> None:
        """Continue recent use from the last record, or from the days of this month if the record has none."""
        order = self.core.options.sharing.order
        if order is None:
            book.recent = None
        elif book.recent is not None:
            book.recent.change(order.half_life, now)
        else:
            book.recent = recalled(order.half_life, [*(day for day in days if day.day != book.day), book], book)

    # --- records

    def _run(self) -> None:
        while not self._stop.wait(BEGIN if self.book is None or self._unwritten else PERIOD):
            if not self.attempt():
                return
        if self.book is not None:
            self.attempt()

    def attempt(self) -> bool:
        """Start accounting, or write; False if this process has nothing more to do."""
        try:
            if self.book is None:
                self._begin()
            if self.book is not None:
                self._write()
            self.problem = ""
        except NotServingError:
            return False
        except ConflictError as error:  # another process keeps the accounts now
            self.problem = error.message
            return False
        except PaictlError as error:
            self.problem = error.message
        return True

    def _begin(self) -> None:
        """Continue from the last record: existing pods keep counting, the others count until they ended."""
        if not self.core.is_open:
            return
        today = datetime.fromtimestamp(self.core.wall(), UTC)
        book = self._store.newest(today)
        if self.core.options.sharing.budgets:
            self._days = {book.day: _used_of(book) for book in self._store.of_month(today)}
            self._days.pop(book.day if book is not None else Millis(0), None)
        ended = [] if book is None else self._ended_since(book)
        order = self.core.options.sharing.order
        days = self._store.of_month(today) if order is not None and book is not None and book.recent is None else []
        with self.core.guarded():
            now = self._now()
            book = book or UsageBook(now)
            self._recall(book, days, now)
            for pod, at in ended:
                self._count_ended(book, pod, min(at, now))
            for uid in list(book.ledger):
                if not self.core.book.holds(uid):
                    at, lost = self._gone.get(uid, (book.until, False))
                    book.release(uid, max(at, book.until), lost=lost)
                else:
                    self._uncounted.pop(uid, None)
            self.book = book
            self._gone.clear()
            groups = self.core.book.engine.state.groups.by_name
            for name in book.ledger.groups():
                group = groups.get(name)
                self._reclassed(name, group is not None and group.virtual is not None)
            self._enter(list(self._uncounted))
            book.ledger.promise(self._now(), promises(self.core.book.engine.state))

    def _ended_since(self, book: UsageBook) -> list[tuple[Json, Millis]]:
        """Placed pods that ended after the last record, or shortly before it, and whose objects still exist."""
        ended = []
        for phase in ("Succeeded", "Failed"):
            for _, page in self._client.list("/api/v1/pods", {"fieldSelector": f"status.phase={phase}"}):
                for pod in page:
                    uid, at = str(pod["metadata"].get("uid")), _ended_at(pod)
                    counts = at is not None and (at > book.until or uid in book.ledger) and uid not in book.ended
                    if at is not None and counts and BIND_INFO in noted_on(pod):
                        ended.append((pod, at))
        return ended

    def _count_ended(self, book: UsageBook, pod: Json, at: Millis) -> None:
        """Count a pod that ended while no process led; if it also began then, in the class that it asked for."""
        ref = pod_ref(pod)
        if ref.uid not in book.ledger:
            try:
                request = read_pod(pod, ref.uid, ref.key, self.core.options.rules).request
                info = read_info(pod, ref.key)
            except RequestError:
                return
            if info is None or info.node != bound_node(pod) or len(info.devices) != request.leaf_number:
                return  # the pod's creator may have written anything
            grants = self.core.grants if self.core.options.require_grants else None
            if grants is not None and grants.refusal(ref.key, ref.namespace, request.vc) is not None:
                return
            bound_pod = _BoundPod(_bound_at(pod) or at, ref.namespace, _job_of(pod))
            self._place(book, bound_pod, request, info, guaranteed=request.priority >= 0)
        book.release(ref.uid, max(at, book.until), lost=_is_disrupted(pod))

    def _write(self) -> None:
        with self.core.guarded():
            assert self.book is not None  # noqa: S101 - see `attempt`
            now = self._now()
            while (last := self.book.turn(now)) is not None:
                self._unwritten[last["day"]] = last
                if self.core.options.sharing.budgets:
                    self._days[Millis(last["day"])] = _used_of(UsageBook.load(last))
            if (current := self.book.record(now)) is not None:
                self._unwritten[current["day"]] = current
        for day in sorted(self._unwritten):
            if self._remaining() <= MARGIN:
                return
            self._store.put(self._unwritten[day])
            del self._unwritten[day]


def _used_of(book: UsageBook, now: Millis | None = None) -> Counter[tuple[str, str]]:
    totals: Counter[tuple[str, str]] = Counter()
    for row in book.amounts(now):
        if row.kind in (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC):
            totals[row.vc, row.user] += row.amount
    return totals


def _is_disrupted(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is disrupted: by a preemption, an eviction, or the loss of its node."""
    return PREEMPTED_FOR in noted_on(pod) or _condition(pod, "DisruptionTarget") is not None


def _bound_at(pod: Mapping[str, Any]) -> Millis | None:
    """When a pod was bound, in whole seconds; None for one that is only pinned."""
    condition = _condition(pod, "PodScheduled") or {}
    return _millis(condition.get("lastTransitionTime")) if bound_node(pod) else None


def _ended_at(pod: Mapping[str, Any]) -> Millis | None:
    """When the last of a pod's containers ended."""
    states = (
        (container.get("state") or {}).get("terminated") or {}
        for container in _status(pod).get("containerStatuses") or ()
    )
    return max(filter(None, (_millis(state.get("finishedAt")) for state in states)), default=None)


def _job_of(pod: Mapping[str, Any]) -> str:
    """The job of one of our pods, whose namespace only we can create pods in; empty for all others."""
    return str(noted_on(pod).get(JOB_KEY, "")) if _namespace_of(pod) == JOBS_NAMESPACE else ""


def _namespace_of(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("namespace") or "default")


def _condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of this type, if it is true."""
    for condition in _status(pod).get("conditions") or ():
        if condition.get("type") == kind and condition.get("status") == "True":
            return dict(condition)
    return None


def _status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return pod.get("status") or {}


def _millis(timestamp: object) -> Millis | None:
    return Millis(round(datetime.fromisoformat(str(timestamp)).timestamp() * 1000)) if timestamp else None
