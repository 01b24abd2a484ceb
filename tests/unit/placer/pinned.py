"""The fickle world behind the placer: gated pods, pins, and a kube-scheduler that binds pinned pods sooner or later.

Limits, windows and reservations are checked where pods come one by one, behind the extender. Here no device has two
pods, the core is sound, and nobody waits at rest without need. ``tools/soak.py --placer`` plays it.
"""

from __future__ import annotations

import math
from typing import Any

from paictl.cells.spec import ClusterSpec
from paictl.cluster.pods.reading import pinned_node
from paictl.doors.core import Binding
from paictl.placer.core import PlacerCore, gates_of
from paictl.placer.pins import Pinner
from paictl.placer.placing import place_round
from paictl.placer.term import PinReconciler
from paictl.remote.kube.client import Json
from paictl.scheduler.decision import Wait
from paictl.scheduler.groups import GroupState
from paictl.scheduler.wire import GATE, ISOLATION
from paictl.units import Millis
from tests.unit.extender.abilities_drawn import SAYS
from tests.unit.extender.fickle import FickleWorld
from tests.unit.extender.harness import Harness
from tests.unit.placer.test_placing import PatchingServer


class PlacerHarness(Harness):
    """A placer without threads, in the place of the extender."""

    core: PlacerCore

    def begin(self, spec: ClusterSpec) -> None:
        if not isinstance(self.server, PatchingServer):
            self.server = PatchingServer()
        self.core = PlacerCore(spec, self.options, self.recorded.append, wall=lambda: self.now, clock=lambda: self.now)
        client: Any = self.server
        self.server.locked = self.core.lock._is_owned  # type: ignore[attr-defined]
        self.pinner = Pinner(client, self.core, remaining=lambda: math.inf)
        self.reconciler = PinReconciler(client, self.core, remaining=lambda: math.inf, clock=lambda: self.now)
        self.core.namespace_changed({"metadata": {"name": "paictl-jobs", "labels": {GATE: "enabled"}}})

    def create(self, made: Json, *, told: bool = True) -> Json:
        made["spec"] = {key: word for key, word in made["spec"].items() if key != "affinity"}
        made["spec"]["schedulingGates"] = [{"name": GATE}]
        return super().create(made, told=told)

    def delete(self, name: str, namespace: str = "default") -> None:
        """As any harness; this server has perhaps deleted it already."""
        entry = self.core.table.find(namespace, name)
        self.server.pods.pop(f"{namespace}/{name}", None)
        if entry is not None:
            self.core.pod_gone(entry.ref.uid)

    def place(self) -> None:
        """A round, and its pins."""
        gangs: list[list[Binding]] = []
        place_round(self.core, gangs.append)
        for pins in gangs:
            for pin in () if self.pinner.refused(pins) else pins:
                self.pinner.send(pin)
                self.core.pod_changed(self.server.pods[pin.ref.key])


class PinnedWorld(FickleWorld):
    """A placer with the abilities that its seed draws."""

    harness_type = PlacerHarness
    harness: PlacerHarness
    pushes = 0.5

    def schedule(self) -> None:
        """The placer looks, and kube-scheduler binds some of what is pinned."""
        self.harness.place()
        self.bind(0.7)

    def bind(self, often: float) -> None:
        """kube-scheduler binds pinned pods to their nodes, if these are ready."""
        for run in self.gangs.values():
            for pod in run.pods:
                node = pinned_node(pod)
                if node and not pod["spec"].get("nodeName") and node not in self.bad and self.dice.random() < often:
                    pod["spec"]["nodeName"] = node
                    self.harness.core.pod_changed(pod)
                    self.stats["bound"] += 1

    def check(self) -> None:
        """Pinned pods hold their devices, too."""
        super().check()
        users: dict[tuple[str, str], str] = {}
        for run in self.gangs.values():
            for pod in run.pods:
                if (node := pinned_node(pod)) and not gates_of(pod):
                    for device in pod["metadata"]["annotations"][ISOLATION].split(","):
                        other = users.setdefault((node, device), pod["metadata"]["name"])
                        assert other == pod["metadata"]["name"], f"{other} has device {device} of {node}, too"

    def rest(self) -> None:
        """Nothing comes, ends or fails any more: then whoever waits is held back, or would get no place."""
        quiet = 0
        for _ in range(80):
            self.harness.now += 90
            before = self.stats["bound"], self.stats["evicted"]
            self.harness.core.month_used(self.used.copy())
            self.reconcile()
            while any(run.going for run in self.gangs.values()):
                self.leave()
            self.harness.place()
            self.bind(1)
            groups = self.harness.core.book.engine.state.groups.by_name.values()
            preempts = any(group.state is GroupState.PREEMPTING for group in groups)
            quiet = quiet + 1 if (self.stats["bound"], self.stats["evicted"]) == before and not preempts else 0
            if quiet == 3:
                break
        else:
            raise AssertionError("gangs start, go or preempt for ever")
        for name, run in self.gangs.items():
            entries = [self.harness.core.table.by_uid[pod["metadata"]["uid"]] for pod in run.pods if gates_of(pod)]
            why = " ".join(entry.cached.reason if entry.cached else "" for entry in entries)
            if not entries or any(words in why for words in SAYS.values()):
                continue
            assert entries[0].reading is not None
            span = None if run.limit is None else Millis(1000 * run.limit)
            offered = set(self.ready()) - self.windows.closed(self.millis(), span)
            decision = self.harness.core.book.engine.plan(entries[0].reading.request, offered)
            assert isinstance(decision, Wait), f"{name} waits needlessly: {why}"
