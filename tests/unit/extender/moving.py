"""Moves of defragmentation in the random worlds: an administrator's `paictl cluster defrag apply`, step by step.

A plan is made from bound pods and nodes alone, as a client makes it. Between its steps everything else happens, so that
many plans are outrun.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, Final

from paictl.cluster.pods.recovering import Recovered, recovered
from paictl.remote.kube.client import Json
from paictl.scheduler.defrag import RoomPlan, RoomRequest, RunningGang, find_room, why_outrun
from paictl.scheduler.wire import BIND_INFO, ISOLATION
from paictl.units import Millis
from paictl.workload.windows import Window, Windows
from tests.unit.extender.abilities import AbilitiesWorld
from tests.unit.extender.abilities_drawn import NODES, VCS, GangRun

PATIENCE: Final = 6 * 3600
"""Seconds that a gang may take to come back."""
MOST_TRIALS: Final = 200
"""Of a plan: the search is tested elsewhere, here its moves are."""


@dataclass
class Moving:
    """A plan that is being carried out, and the window that keeps its nodes free."""

    plan: RoomPlan
    window: str
    done: int = 0
    gang: str = ""
    """Who was evicted and has to come back; empty before the first."""
    until: float = 0


class MovingWorld(AbilitiesWorld):
    """A world in which gangs are moved, `moves` times as often as its other operations."""

    moves: float = 0
    moving: Moving | None = None

    def move(self) -> None:
        """The next step of a plan, or another plan."""
        self.moving = self.moving or self.planned()
        if self.moving is not None and not self.go_on(self.moving):
            self.windows = Windows(tuple(one for one in self.windows.all if one.name != self.moving.window))
            self.tell()
            self.moving = None

    def planned(self) -> Moving | None:
        """A plan for as much room as there can be, whose nodes take no new pods from now on; None without moves."""
        seen = self.seen()
        movable, vc = self.movable(seen), self.dice.choice(("", *VCS))
        cell = self.dice.choice(("NODE", "NODE", "SWITCH"))
        rooms = (RoomRequest(number, cell, vc) for number in range(len(NODES), 0, -1))
        plans = (find_room(seen.engine, room, movable, self.closed(), most_trials=MOST_TRIALS) for room in rooms)
        plan = next((plan for plan in plans if isinstance(plan, RoomPlan)), None)
        if plan is None or not plan.moves:
            return None
        self.stats["plans with moves"] += 1
        name, now = f"defrag-{self.stats['plans with moves']}", self.millis()
        kept = Window(name, plan.nodes, now, Millis(now + PATIENCE * 1000), hold=True)
        self.windows = Windows((*self.windows.all, kept))
        self.tell()
        return Moving(plan, name)

    def go_on(self, moving: Moving) -> bool:
        """Evict the next gang, once the last one is back; whether the plan goes on."""
        if moving.gang:
            run = self.gangs.get(moving.gang)
            whole = run is None or (not run.going and self.runs(run))
            if not whole:
                return self.harness.now < moving.until
            moving.done += 1
            self.stats["gangs moved"] += 1
        if moving.done == len(moving.plan.moves):
            self.stats["plans carried out"] += 1
            return False
        seen = self.seen()
        left = replace(moving.plan, moves=moving.plan.moves[moving.done :])
        if why_outrun(seen.engine, left, self.movable(seen), self.closed(), exactly=not moving.done) is not None:
            self.stats["plans outrun"] += 1
            return False
        moving.gang = left.moves[0].key.rpartition("/")[2]
        moving.until = self.harness.now + PATIENCE
        self.restart(self.gangs[moving.gang])
        return True

    def restart(self, run: GangRun) -> None:
        """The pods of a gang are evicted, and their controller makes them again."""
        for pod in run.pods:
            pod["metadata"]["deletionTimestamp"] = self.stamp()
            self.harness.core.pod_changed(pod)
        for number, old in enumerate(run.pods):
            self.harness.delete(old["metadata"]["name"], "paictl-jobs")
            self.number += 1
            metadata: Json = copy.deepcopy(old["metadata"])
            metadata |= {"uid": f"{metadata['name']}-{self.number}", "creationTimestamp": self.stamp()}
            for key in (ISOLATION, BIND_INFO):
                metadata["annotations"].pop(key, None)
            del metadata["deletionTimestamp"]
            spec = {key: word for key, word in old["spec"].items() if key != "nodeName"}
            run.pods[number] = {**old, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        run.began = None
        for pod in run.pods:
            self.harness.create(pod)

    # --- what a client sees

    def seen(self) -> Recovered:
        """The state as it follows from nodes and bound pods."""
        nodes: list[Any] = [
            {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            for name in self.ready()
        ]
        return recovered(self.spec, nodes, [pod for run in self.gangs.values() for pod in run.bound])

    def movable(self, seen: Recovered) -> list[RunningGang]:
        """The gangs all of whose pods run."""
        rows = []
        for name, run in self.gangs.items():
            reading = seen.readings.get(run.pods[0]["metadata"]["uid"])
            if reading is not None and not run.going and self.runs(run):
                span = None if run.limit is None else Millis(1000 * run.limit)
                closed = self.lasting().closed(self.millis(), span)
                rows.append(RunningGang(f"paictl-jobs/{name}", (reading.request,), run.devices, "", closed))
        return rows

    def closed(self) -> frozenset[str]:
        return self.lasting().closed(self.millis(), None)

    def lasting(self) -> Windows:
        """The windows without those that only keep nodes free for moves."""
        return Windows(tuple(one for one in self.windows.all if not one.hold))

    def runs(self, run: GangRun) -> bool:
        return len(run.bound) == len(run.pods) and all(pod["status"].get("startTime") for pod in run.pods)
