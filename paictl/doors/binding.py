"""What is to be written for a pod that holds devices, and what came of writing it."""

from __future__ import annotations

from paictl.doors.core import Binding, DoorCore
from paictl.doors.table import PodRef
from paictl.scheduler.wire import BIND_INFO, ISOLATION, bind_info_text, isolation_text


def booked(core: DoorCore, ref: PodRef) -> Binding | None:
    """What is to be written for a pod that holds devices for what it asks for now; None if it does not."""
    known, entry = core.book.pods.get(ref.uid), core.table.by_uid.get(ref.uid)
    if known is None or known.info is None or entry is None:
        return None
    if not core.asks_for(entry, known.request):  # its place was decided for something else
        return None
    info = known.info
    noted = {ISOLATION: isolation_text(info.devices), BIND_INFO: bind_info_text(info)}
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
