"""A term and the process of the placer: pins for bindings, and a thread that decides without being asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from paictl.cluster.devices.pod_claims import PodClaims
from paictl.doors.binder import MARGIN
from paictl.doors.core import Binding, NotServingError
from paictl.doors.pod_events import PodEvent
from paictl.doors.reconciler import PERIOD, Reconciler
from paictl.doors.service import DoorService
from paictl.doors.table import PodRef
from paictl.doors.term import LeaderTerm
from paictl.errors import PaictlError
from paictl.placer.core import PlacerCore
from paictl.placer.pins import Pinner
from paictl.placer.placing import place_round
from paictl.remote.kube import pods
from paictl.remote.kube.client import Json
from paictl.scheduler.book import Preemption

RECREATING: Final = frozenset({"Job", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers that make a new pod, with the gate on it, when theirs is deleted."""

_LOGGER = logging.getLogger("paictl.doors")


class PinReconciler(Reconciler):
    """Evictions as the extender's, and pins that kube-scheduler refuses."""

    core: PlacerCore

    def _nominate(self, preemption: Preemption) -> None:
        """A gated pod needs no nomination: it is pinned when its victims have gone."""

    def _parts(self) -> list[Callable[[], None]]:
        return [*super()._parts(), self._settle_pins, self._allocate_again]

    def _settle_pins(self) -> None:
        self._each(self.core.stuck(), lambda ref: ref, self._settle_pin)

    def _allocate_again(self) -> None:
        """Allocate what pinned pods have lost."""
        if self.core.claims is not None:
            self._each(self.core.unclaimed(), lambda lost: lost.ref, partial(self._allocate, self.core.claims))

    def _allocate(self, claims: PodClaims, lost: Binding) -> None:
        pod = pods.get(self.client, lost.ref.namespace, lost.ref.name)
        if pod is not None and pod["metadata"].get("uid") == lost.ref.uid and self._may_act():
            claims.write(pod, lost.node, lost.devices, pods.BIND)

    def _settle_pin(self, ref: PodRef) -> None:
        """A pin cannot be widened: a pod that is made again is deleted, another is told."""
        pod = pods.get(self.client, ref.namespace, ref.name)
        if pod is None or pod["metadata"].get("uid") != ref.uid:
            self.core.pod_gone(ref.uid)
            return
        self.core.pod_changed(pod)
        why = _unschedulable(pod)
        if pod["spec"].get("nodeName") or not why or not self._may_act():
            return
        self.core.pin_refused(ref)
        owner = next(
            (reference for reference in pod["metadata"].get("ownerReferences") or () if reference.get("controller")),
            None,
        )
        message = f"kube-scheduler refuses the node that it is pinned to: {why}"
        if owner is not None and owner.get("kind") in RECREATING:
            message += f"; deleted, so that {owner['kind']} {owner['name']} makes a new one"
            if not pods.delete(self.client, ref.namespace, ref.name, ref.uid):
                self.core.pod_gone(ref.uid)
                return
        else:
            message += "; delete the pod and create it again to have it placed elsewhere"
        self.core.record(PodEvent(ref, "PinRefused", message, warning=True))


def _unschedulable(pod: Json) -> str:
    """What kube-scheduler says against a pod; empty if it says nothing."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (
            condition.get("type") == "PodScheduled"
            and condition.get("status") == "False"
            and condition.get("reason") == "Unschedulable"
        ):
            return str(condition.get("message") or "no reason given")
    return ""


class PlacerTerm(LeaderTerm):
    """From `start` to `stop`."""

    core_type = PlacerCore
    binder_type = Pinner
    reconciler_type = PinReconciler
    needs_namespaces = True
    binds = False
    core: PlacerCore
    binder: Pinner

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._thread = threading.Thread(target=self._run, name="placing", daemon=True)

    def start(self) -> None:
        """List nodes and pods, and place as soon as both are known."""
        super().start()
        self._thread.start()

    def stop(self) -> None:
        """Place nothing more."""
        super().stop()
        self.core.news.set()

    def _run(self) -> None:
        while True:
            self.core.news.wait(PERIOD)
            if self.ended:
                return
            self.core.news.clear()
            if self.remaining() <= MARGIN:
                continue
            try:
                place_round(self.core, self.binder.pin_soon)
            except (NotServingError, PaictlError):
                self.core.news.wait(PERIOD)
            except Exception:  # a fault of ours: without this thread nobody would ever be placed again
                _LOGGER.exception("a round of placing has ended early")
                self.core.news.wait(PERIOD)


class PlacerService(DoorService):
    """From `start` to `stop`; `run` does both around the HTTP server."""

    component = "hivedscheduler-placer"
    prefix = "paictl_placer"
    term_type = PlacerTerm
