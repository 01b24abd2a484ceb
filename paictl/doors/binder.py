"""Sends bindings to the API server, many at once and none inside the lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from paictl.doors.core import Binding, DoorCore
from paictl.doors.table import PodRef
from paictl.errors import PaictlError
from paictl.remote.kube import pods
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.scheduler.wire import BIND_INFO, ISOLATION, isolation_text

WORKERS: Final = 16
"""Bindings at the same time that kube-scheduler does not wait for."""
MARGIN: Final = 0.5
"""Seconds before the end of a lease at which nothing is begun any more."""
GONE: Final = "the pod is gone"


class Binder:
    """Binds pods while this process leads."""

    def __init__(self, client: KubeClient, core: DoorCore, *, remaining: Callable[[], float]) -> None:
        self.client = client
        self.core = core
        self.remaining = remaining
        """Seconds for which this process leads for sure."""
        self._stopped = False
        self._under_way = 0
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(WORKERS, "bind")
        core.force = self.bind_soon

    def stop(self) -> None:
        """Begin nothing new, and wait for bindings under way: the next term's list must have them."""
        with self._changed:
            self._stopped = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, 2 * pods.BIND)

    def bind_soon(self, binding: Binding) -> None:
        """Bind without anybody waiting for it."""
        try:
            self._pool.submit(self.send, binding)
        except RuntimeError:  # this term has ended
            not_bound(self.core, binding.ref)

    def send(self, binding: Binding) -> str:
        """Send a binding and say how it went."""
        with self._changed:
            left = self.remaining() - MARGIN
            begins = left > 0 and not self._stopped
            self._under_way += begins
        try:
            error = self._attempt(binding, left) if begins else "this process no longer leads"
        finally:
            with self._changed:
                self._under_way -= begins
                self._changed.notify_all()
        if error:
            not_bound(self.core, binding.ref, gone=error == GONE)
        else:
            bound(self.core, binding)
        return error

    def _attempt(self, binding: Binding, seconds: float) -> str:
        ref = binding.ref
        if self.core.claims is not None and (claiming := self.core.claiming.get(ref.uid)) is not None:
            why = self.core.claims.write(claiming, binding.node, binding.devices, min(pods.BIND, seconds))
            if why:
                return why
        try:
            pod = ref.namespace, ref.name, ref.uid
            pods.bind(self.client, pod, binding.node, binding.annotations, min(pods.BIND, seconds))
            return ""
        except KubeError as failed:
            try:
                return self._settle(binding, failed)
            except PaictlError as again:
                return again.message
        except PaictlError as failed:
            return failed.message

    def _settle(self, binding: Binding, failed: KubeError) -> str:
        """After a refusal: it may be bound already, just as it should be."""
        if failed.status not in (404, 409):
            return failed.message
        now = pods.get(self.client, binding.ref.namespace, binding.ref.name)
        if now is None or now["metadata"].get("uid") != binding.ref.uid:
            return GONE
        noted = now["metadata"].get("annotations") or {}
        same = noted.get(BIND_INFO) == binding.annotations[BIND_INFO]
        if now["spec"].get("nodeName") == binding.node and same:
            return ""
        return failed.message


def booked(core: DoorCore, ref: PodRef) -> Binding | None:
    """What is to be written for a pod that holds devices for what it asks for now; None if it does not."""
    known, entry = core.book.pods.get(ref.uid), core.table.by_uid.get(ref.uid)
    if known is None or known.info is None or entry is None:
        return None
    if not core.asks_for(entry, known.request):  # its place was decided for something else
        return None
    info = known.info
    isolation = isolation_text(info.devices, core.spec.mig_instances(info.chain))
    noted = {ISOLATION: isolation, BIND_INFO: core.texts.text(info)}
    return Binding(ref, info.node, noted, info.devices)


def bound(core: DoorCore, binding: Binding) -> None:
    """The API server has taken a binding."""
    with core.guarded():
        entry = core.table.by_uid.get(binding.ref.uid)
        core.book.bound(binding.ref.uid)
        if entry is not None:
            entry.binding, entry.assumed, entry.attempts = False, 0.0, 0
            entry.confirmed, entry.cached = str(binding.annotations[BIND_INFO]), None


def not_bound(core: DoorCore, ref: PodRef, *, gone: bool = False) -> None:
    """A binding was refused, or nobody knows; the devices stay assumed until the deadline."""
    with core.guarded():
        entry = core.table.by_uid.get(ref.uid)
        if entry is not None:
            entry.binding = False
        if gone:
            core.pod_gone(ref.uid)
