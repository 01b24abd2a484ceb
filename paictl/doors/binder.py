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
"""Bindings in parallel for which kube-scheduler does not wait."""
MARGIN: Final = 0.5
"""Seconds before the end of a lease from which nothing new is started."""
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
        """Start nothing new, and wait for bindings under way: the next term's list must have them."""
        with self._changed:
            self._stopped = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, 2 * pods.BIND)

    def bind_soon(self, binding: Binding) -> None:
        """Bind in the background."""
        try:
            self._pool.submit(self.send, binding)
        except RuntimeError:  # this term has ended
            not_bound(self.core, binding.ref)

    def send(self, binding: Binding) -> str:
        """Send a binding; returns the error, empty if the pod is bound."""
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
            refusal = self.core.claims.write(claiming, binding.node, binding.devices, min(pods.BIND, seconds))
            if refusal:
                return refusal
        try:
            pod = ref.namespace, ref.name, ref.uid
            pods.bind(self.client, pod, binding.node, binding.annotations, min(pods.BIND, seconds))
            return ""
        except KubeError as error:
            if error.status >= 500 and not pods.is_refusal(error):  # it may have been written
                self.core.unanswered(ref)
            try:
                return self._settle(binding, error)
            except PaictlError as settle_error:
                return settle_error.message
        except PaictlError as error:
            self.core.unanswered(ref)
            return error.message

    def _settle(self, binding: Binding, error: KubeError) -> str:
        """After a refusal: the pod may already be bound exactly as it should be."""
        if error.status not in (404, 409):
            return error.message
        pod = pods.get(self.client, binding.ref.namespace, binding.ref.name)
        if pod is None or pod["metadata"].get("uid") != binding.ref.uid:
            return GONE
        notes = pod["metadata"].get("annotations") or {}
        is_same_place = notes.get(BIND_INFO) == binding.annotations[BIND_INFO]
        if pod["spec"].get("nodeName") == binding.node and is_same_place:
            return ""
        return error.message


def booked(core: DoorCore, ref: PodRef) -> Binding | None:
    """The binding of a pod that holds devices for its present request; None if it holds none."""
    pod, entry = core.book.pods.get(ref.uid), core.table.by_uid.get(ref.uid)
    if pod is None or pod.info is None or entry is None:
        return None
    if not core.asks_for(entry, pod.request):  # its place was decided for something else
        return None
    info = pod.info
    isolation = isolation_text(info.devices, core.spec.mig_instances(info.chain))
    annotations = {ISOLATION: isolation, BIND_INFO: core.texts.text(info)}
    return Binding(ref, info.node, annotations, info.devices)


def bound(core: DoorCore, binding: Binding) -> None:
    """The API server has taken a binding."""
    with core.guarded():
        entry = core.table.by_uid.get(binding.ref.uid)
        core.book.bound(binding.ref.uid)
        if entry is not None:
            entry.binding, entry.assumed, entry.attempts = False, 0.0, 0
            entry.confirmed, entry.cached = str(binding.annotations[BIND_INFO]), None


def not_bound(core: DoorCore, ref: PodRef, *, gone: bool = False) -> None:
    """A binding was refused, or its outcome is unknown; the devices stay assumed until the deadline."""
    with core.guarded():
        entry = core.table.by_uid.get(ref.uid)
        if entry is not None:
            entry.binding = False
        if gone:
            core.pod_gone(ref.uid)
