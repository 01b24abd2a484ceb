"""Carries out what the desk decided: bindings, evictions, touches. Everything here may wait for the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from paictl.errors import PaictlError
from paictl.extender import chores, tidings
from paictl.extender.desk import Desk, NotServingError, Ticket
from paictl.extender.tidings import Tiding
from paictl.extender.wire import BindArgs, PodRef
from paictl.remote.kube import pods
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.kube.pods import Eviction
from paictl.scheduler.book import Preemption
from paictl.scheduler.wire import BIND_INFO

TICK: Final = 0.5
"""Seconds between rounds when nothing wakes the worker."""
BETWEEN_EVICTIONS: Final = (1.0, 30.0)
"""First and longest pause before a victim is tried again that a budget protects or that did not go."""
BINDERS: Final = 16
"""Bindings at the same time."""
TOUCH: Final = "paictl.io/asked-again"
"""Annotation whose change makes kube-scheduler ask about a pod again."""
MARGIN: Final = 0.5
"""Seconds before the end of a lease at which nothing is begun any more."""


@dataclass(slots=True)
class _Try:
    """A victim that was asked to go."""

    first: float
    due: float
    pause: float = BETWEEN_EVICTIONS[0]


class Hands:
    """One worker for evictions and touches, a pool for bindings."""

    def __init__(
        self,
        client: KubeClient,
        desk: Desk,
        tell: Callable[[Tiding], None],
        *,
        remaining: Callable[[], float],
        delete_after: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.desk = desk
        self.tell = tell
        self.remaining = remaining
        """Seconds for which this process leads for sure."""
        self.delete_after = delete_after
        """Seconds after which a victim is deleted that a budget protects; None: never."""
        self.clock = clock
        self.evicted = 0
        self._tries: dict[str, _Try] = {}
        self._nominated: set[str] = set()
        self._stop = threading.Event()
        self._under_way = 0
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(BINDERS, "bind")
        self._thread = threading.Thread(target=self._run, name="hands", daemon=True)
        desk.force = self.bind_soon

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing new, and wait for bindings under way: the next term's list must have them."""
        with self._changed:
            self._stop.set()
        self.desk.work.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, 2 * pods.BIND)

    # --- binding

    def bind(self, args: BindArgs) -> str:
        """Bind a pod that passed filter; why it could not be, empty if it is bound. Asked twice, it is bound once."""
        ticket = self.desk.ticket(args)
        return ticket if isinstance(ticket, str) else self.carry_out(ticket)

    def bind_soon(self, ticket: Ticket) -> None:
        """Bind without anybody waiting for it."""
        try:
            self._pool.submit(self.carry_out, ticket)
        except RuntimeError:  # this term has ended
            self.desk.not_bound(ticket.ref)

    def carry_out(self, ticket: Ticket) -> str:
        """Send a binding and say how it went."""
        with self._changed:
            left = self.remaining() - MARGIN
            begins = left > 0 and not self._stop.is_set()
            self._under_way += begins
        try:
            error = self._send(ticket, left) if begins else "this process no longer leads"
        finally:
            with self._changed:
                self._under_way -= begins
                self._changed.notify_all()
        if error:
            self.desk.not_bound(ticket.ref, gone=error == _GONE)
        else:
            self.desk.bound(ticket)
        return error

    def _send(self, ticket: Ticket, seconds: float) -> str:
        ref = ticket.ref
        try:
            pod = ref.namespace, ref.name, ref.uid
            pods.bind(self.client, pod, ticket.node, ticket.annotations, min(pods.BIND, seconds))
            return ""
        except KubeError as failed:
            try:
                return self._settle(ticket, failed)
            except PaictlError as again:
                return again.message
        except PaictlError as failed:
            return failed.message

    def _settle(self, ticket: Ticket, failed: KubeError) -> str:
        """After a refusal: it may be bound already, just as it should be."""
        if failed.status not in (404, 409):
            return failed.message
        now = pods.get(self.client, ticket.ref.namespace, ticket.ref.name)
        if now is None or now["metadata"].get("uid") != ticket.ref.uid:
            return _GONE
        noted = now["metadata"].get("annotations") or {}
        same = noted.get(BIND_INFO) == ticket.annotations[BIND_INFO]
        if now["spec"].get("nodeName") == ticket.node and same:
            return ""
        return failed.message

    # --- the worker

    def _run(self) -> None:
        while not self._stop.is_set():
            self.desk.work.wait(TICK)
            self.desk.work.clear()
            if self._stop.is_set() or self.remaining() <= MARGIN:
                continue
            try:
                self.round()
            except NotServingError:
                continue
            except PaictlError:  # the API server is away; the next round tries again
                self._stop.wait(TICK)

    def round(self) -> None:
        """Whatever is due."""
        self._preempt()
        for ref in chores.overdue(self.desk):
            self._check(ref)
        for ref in chores.to_touch(self.desk):
            pods.annotate(self.client, (ref.namespace, ref.name, ref.uid), {TOUCH: f"{time.time():.3f}"})

    def _check(self, ref: PodRef) -> None:
        """A pod whose binding is overdue: only the API server knows whether it came."""
        now = pods.get(self.client, ref.namespace, ref.name)
        if now is None or now["metadata"].get("uid") != ref.uid:
            self.desk.pod_gone(ref.uid)
        elif now["spec"].get("nodeName"):
            self.desk.pod_changed(now)
        else:
            chores.release(self.desk, ref)

    def _preempt(self) -> None:
        """Evict victims gang by gang."""
        found = chores.preemptions(self.desk)
        for preemption in found:
            for _, uids in preemption.victims:
                for uid in uids:
                    self._evict(preemption, uid)
            self._nominate(preemption)
        wanted = {uid for preemption in found for _, uids in preemption.victims for uid in uids}
        self._tries = {uid: one for uid, one in self._tries.items() if uid in wanted}
        self._nominated &= {uid for preemption in found for uid in preemption.waiting}

    def _evict(self, preemption: Preemption, uid: str) -> None:
        now = self.clock()
        tried = self._tries.get(uid)
        if tried is not None and now < tried.due:
            return
        found = chores.victim(self.desk, preemption.group, uid)
        if found is None or self._stop.is_set():
            return
        ref, group, node = found
        tried = self._tries.setdefault(uid, _Try(now, now))
        answer, why = pods.evict(self.client, ref.namespace, ref.name, ref.uid)
        if answer is Eviction.REFUSED and self.delete_after is not None and now - tried.first >= self.delete_after:
            self.tell(tidings.overruled(ref, group.name, why))
            pods.delete(self.client, ref.namespace, ref.name, ref.uid)
            answer = Eviction.TAKEN
        tried.due, tried.pause = self.clock() + tried.pause, min(2 * tried.pause, BETWEEN_EVICTIONS[1])
        match answer:
            case Eviction.TAKEN:
                self.evicted += 1
                self.tell(tidings.preempted(ref, group, node))
            case Eviction.REFUSED:
                for waiting in preemption.waiting:
                    entry = self.desk.table.by_uid.get(waiting)
                    if entry is not None:
                        self.tell(tidings.hindered(entry.ref, ref.key, why))
            case Eviction.GONE:
                self._check(ref)

    def _nominate(self, preemption: Preemption) -> None:
        """Have kube-scheduler keep room for pods whose victims are on their way out."""
        for ref, node in chores.places(self.desk, preemption):
            if ref.uid not in self._nominated:
                self._nominated.add(ref.uid)
                pods.nominate(self.client, (ref.namespace, ref.name, ref.uid), node)


_GONE: Final = "the pod is gone"
