"""The reconcile loop: evictions, overdue bindings, pods to be queued again. All of it may wait for the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from paictl.errors import PaictlError
from paictl.extender import housekeeping, pod_events
from paictl.extender.binder import MARGIN
from paictl.extender.core import ExtenderCore, NotServingError
from paictl.extender.wire import PodRef
from paictl.remote.kube import pods
from paictl.remote.kube.client import KubeClient
from paictl.remote.kube.pods import Eviction
from paictl.scheduler.book import Preemption

PERIOD: Final = 0.5
"""Seconds between rounds when nothing wakes the loop."""
BETWEEN_EVICTIONS: Final = (1.0, 30.0)
"""First and longest pause before a victim is tried again that a budget protects or that did not go."""
REQUEUE: Final = "paictl.io/asked-again"
"""Annotation whose change makes kube-scheduler ask about a pod again."""


@dataclass(slots=True)
class _Attempt:
    """A victim that was asked to go."""

    first: float
    due: float
    pause: float = BETWEEN_EVICTIONS[0]


class Reconciler:
    """One thread that brings the cluster to where the core wants it."""

    def __init__(
        self,
        client: KubeClient,
        core: ExtenderCore,
        *,
        remaining: Callable[[], float],
        delete_after: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.core = core
        self.remaining = remaining
        """Seconds for which this process leads for sure."""
        self.delete_after = delete_after
        """Seconds after which a victim is deleted that a budget protects; None: never."""
        self.clock = clock
        self.evicted = 0
        self._attempts: dict[str, _Attempt] = {}
        self._nominated: set[str] = set()
        self._swept = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing new."""
        self._stop.set()
        self.core.work.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.core.work.wait(PERIOD)
            self.core.work.clear()
            if self._stop.is_set() or self.remaining() <= MARGIN:
                continue
            try:
                self._preempt()
                if self.clock() - self._swept >= PERIOD:  # it looks at every pod: not for each that comes or goes
                    self._sweep()
            except NotServingError:
                continue
            except PaictlError:  # the API server is away; the next round tries again
                self._stop.wait(PERIOD)

    def reconcile(self) -> None:
        """Whatever is due."""
        self._preempt()
        self._sweep()

    def _sweep(self) -> None:
        """Bindings that never came, and pods that would fit now."""
        self._swept = self.clock()
        for ref in (*housekeeping.overdue(self.core), *housekeeping.strangers(self.core)):
            self._check(ref)
        for ref in housekeeping.to_requeue(self.core):
            if not pods.annotate(self.client, (ref.namespace, ref.name, ref.uid), {REQUEUE: f"{time.time():.3f}"}):
                self._check(ref)

    def _check(self, ref: PodRef) -> None:
        """A pod whose binding is overdue, or that may be gone: only the API server knows."""
        now = pods.get(self.client, ref.namespace, ref.name)
        if now is None or now["metadata"].get("uid") != ref.uid:
            self.core.pod_gone(ref.uid)
        elif now["spec"].get("nodeName"):
            self.core.pod_changed(now)
        else:
            self.core.pod_changed(now)
            housekeeping.release(self.core, ref)

    def _preempt(self) -> None:
        """Evict victims gang by gang."""
        found = housekeeping.preemptions(self.core)
        for preemption in found:
            self._nominate(preemption)  # first: it finds out whether those who wait are still there
            for _, uids in preemption.victims:
                for uid in uids:
                    self._evict(preemption, uid)
        wanted = {uid for preemption in found for _, uids in preemption.victims for uid in uids}
        self._attempts = {uid: one for uid, one in self._attempts.items() if uid in wanted}
        self._nominated &= {uid for preemption in found for uid in preemption.waiting}

    def _evict(self, preemption: Preemption, uid: str) -> None:
        now = self.clock()
        tried = self._attempts.get(uid)
        if tried is not None and now < tried.due:
            return
        found = housekeeping.victim(self.core, preemption.group, uid)
        if found is None or self._stop.is_set() or self.remaining() <= MARGIN:
            return
        ref, group, node = found
        tried = self._attempts.setdefault(uid, _Attempt(now, now))
        answer, why = pods.evict(self.client, ref.namespace, ref.name, ref.uid)
        if answer is Eviction.REFUSED and self.delete_after is not None and now - tried.first >= self.delete_after:
            self.core.record(pod_events.overruled(ref, group.name, why))
            pods.delete(self.client, ref.namespace, ref.name, ref.uid)
            answer = Eviction.TAKEN
        tried.due, tried.pause = self.clock() + tried.pause, min(2 * tried.pause, BETWEEN_EVICTIONS[1])
        match answer:
            case Eviction.TAKEN:
                self.evicted += 1
                self.core.record(pod_events.preempted(ref, group, node))
            case Eviction.REFUSED:
                for waiting in preemption.waiting:
                    entry = self.core.table.by_uid.get(waiting)
                    if entry is not None:
                        self.core.record(pod_events.hindered(entry.ref, ref.key, why))
            case Eviction.GONE:
                self._check(ref)

    def _nominate(self, preemption: Preemption) -> None:
        """Have kube-scheduler keep room for pods whose victims are on their way out."""
        for ref, node in housekeeping.places(self.core, preemption):
            if ref.uid not in self._nominated:
                self._nominated.add(ref.uid)
                if not pods.nominate(self.client, (ref.namespace, ref.name, ref.uid), node):
                    self._check(ref)
