#!/usr/bin/env python3
"""What the section `sharing` costs a decision, where it is not configured and where it is.

A benchmark stream (``../shared/bench``) is played through a door's core, pod by pod: what `deciding` does for a pod,
and what its end does to the books. Pods are read before the clock runs. The first mode leaves out every question that
the section brings into a decision; `off` is the door as it is without the section; each further mode configures one
part of it, and `all` everything. No limit ever holds a pod back, so that all modes place almost the same pods.

Two modes more play with limits: each gang then says how long it runs at most, and has begun as soon as it is bound.
Starts can be promised only so, and backfill holds some gangs back, so `off` is played with the same limits beside it.

All modes play side by side, one operation after the other. Of each operation the fastest of several rounds counts, in
processor time, because other work only ever makes it slower. The exit code is 1 if `off` costs more than 1.02 times the
first mode, or `all` more than 1.3 times `off`.

Beside the stream: what a decision costs about a pod that can start while gangs of 500 kinds wait in its virtual
cluster, without backfill and with a promised start for each gang. That is shown and not judged.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import platform
import sys
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from paictl.cells.spec import ClusterSpec  # noqa: E402 - the path is set above
from paictl.cluster.pods.labels import Rules  # noqa: E402
from paictl.cluster.pods.nodes import NodeStatus  # noqa: E402
from paictl.doors import deciding  # noqa: E402
from paictl.doors.core import DoorCore, DoorOptions  # noqa: E402
from paictl.scheduler.wire import SCHEDULING_SPEC  # noqa: E402
from paictl.workload.sharing import read_sharing  # noqa: E402
from tools.bench_scheduler import BENCH, stream  # noqa: E402

ROUNDS: Final = 5
OFF_MOST: Final = 1.02
ON_MOST: Final = 1.3
MANY: Final = 10**6
BARE, OFF, ALL = "no questions", "off", "all"
ALIKE: Final = 0.02
"""By what part the numbers of placed pods may differ: who is preempted, and who waits for whom, is not the same."""
BUT_BACKFILL: Final = "all but backfill"
CONSERVATIVE: Final = "conservative"
LIMITED: Final = {
    "off, limits": "off",
    "backfill, limits": "backfill",
    "conservative, limits": CONSERVATIVE,
    "all, limits": "all",
}
"""Modes in which gangs have limits, and the one whose section they have."""
HOURS: Final = (1, 2, 4, 8, 24)
"""The limits, gang by gang."""
CROWD: Final = 500
"""Kinds of gangs that wait in one virtual cluster."""
WINDOWS: Final = deciding.windows


def sections(vcs: list[str]) -> dict[str, dict[str, Any]]:
    """The section of each mode."""
    each = [{"vc": vc, "devices": MANY} for vc in vcs]
    half = len(vcs) // 2
    parts: dict[str, dict[str, Any]] = {
        "budgets": {"budgets": [{"vc": vc, "device-hours": MANY} for vc in vcs]},
        "limits": {"user-limits": each, "borrow-limits": each, "spares": [{"vc": vc, "devices": 0} for vc in vcs]},
        "lend limits": {"lend-limits": each},
        "departments": {"departments": [{"name": "a", "vcs": vcs[:half]}, {"name": "b", "vcs": vcs[half:]}]},
        "order": {"opportunistic-order": {"by": "decayed-use"}},
        "preemption": {"preemption": {"victims": "least-loss"}, "min-run-times": [{"time": "1s"}]},
        "backfill": {"backfill": [{"mode": "easy"}]},
        CONSERVATIVE: {"backfill": [{"mode": "conservative"}]},
    }
    every = {key: rows for name, part in parts.items() if name != CONSERVATIVE for key, rows in part.items()}
    but_one = {key: rows for key, rows in every.items() if key != "backfill"}
    made = {BARE: {}, OFF: {}, **parts, BUT_BACKFILL: but_one, ALL: every}
    return made | {mode: made[like] for mode, like in LIMITED.items()}


class Door:
    """A door's core that serves, all nodes healthy, and plays a stream."""

    def __init__(
        self, config: Mapping[str, Any], section: dict[str, Any], *, bare: bool = False, limited: bool = False
    ) -> None:
        spec = ClusterSpec.from_mapping(config)
        options = DoorOptions(rules=Rules(skus=spec.sku_types), sharing=read_sharing(section))
        self.core = core = DoorCore(spec, options, lambda _: None)
        for name in core.book.engine.state.physical.nodes:
            core.node_changed(NodeStatus(name, ready=True, schedulable=True))
        core.open()
        core.month_used({})
        core.allowances.recent = {}
        self.limited = limited
        self.pods: dict[str, dict[str, Any]] = {}
        self.windows: Any = WINDOWS
        if bare:
            self.windows = SimpleNamespace(
                within=lambda _core, _entry, request, offered: (request, offered),
                noted=lambda _core, _entry, decision: decision,
                closed=lambda _core, _entry: frozenset(),
            )
            core.held_back = lambda _request: ""  # type: ignore[method-assign]
            core.allowances.note = lambda _outcomes: None  # type: ignore[method-assign]

    def create(self, asked: Mapping[str, Any], seconds: int) -> None:
        """A pod is there; where gangs have limits it runs for some seconds at most."""
        noted = {SCHEDULING_SPEC: json.dumps(asked["spec"])}
        about = {"name": asked["name"], "namespace": "default", "uid": asked["uid"], "annotations": noted}
        pod = {"metadata": about, "spec": {"containers": [{"name": "c"}]}, "status": {}}
        if self.limited:
            pod["spec"]["activeDeadlineSeconds"] = seconds
            self.pods[asked["uid"]] = pod
        self.core.pod_changed(pod)

    def ask(self, asked: Mapping[str, Any], seconds: int) -> int:
        """The nanoseconds that the decision about a new pod takes."""
        self.create(asked, seconds)
        core = self.core
        entry = core.table.by_uid[asked["uid"]]
        assert entry.reading is not None
        deciding.windows = self.windows
        with core.lock:
            began = time.process_time_ns()
            deciding.decide(core, entry, entry.reading.request, [])
            return time.process_time_ns() - began

    def step(self, step: Mapping[str, Any]) -> int:
        """The nanoseconds that one operation of the stream takes."""
        core = self.core
        if step["op"] == "schedule":
            gang = step["pod"]["spec"]["affinityGroup"]["name"]
            return self.ask(step["pod"], 3600 * HOURS[zlib.crc32(gang.encode()) % len(HOURS)])
        if step["op"] == "add_allocated":  # as soon as Kubernetes says that it is bound
            core.book.bound(step["uid"])
            if self.limited and core.book.holds(step["uid"]):
                pod = self.pods.pop(step["uid"])
                core.pod_changed(pod | {"status": {"startTime": datetime.now(UTC).isoformat()}})
            core.table.by_uid[step["uid"]].runs = core.book.holds(step["uid"])
            return 0
        if step["op"] == "mark":
            return 0
        began = time.process_time_ns()
        core.pod_gone(step["uid"])
        return time.process_time_ns() - began


def play(
    config: Mapping[str, Any], modes: Mapping[str, dict[str, Any]], steps: list[dict[str, Any]]
) -> dict[str, list[int]]:
    """What each operation takes in each mode, side by side, so that a slow moment is one for all modes."""
    doors = {mode: Door(config, section, bare=mode == BARE, limited=mode in LIMITED) for mode, section in modes.items()}
    times: dict[str, list[int]] = {mode: [] for mode in modes}
    order = list(doors.items())
    gc.collect()
    gc.disable()
    for number, step in enumerate(steps):
        turn = number % len(order)
        for mode, door in (*order[turn:], *order[:turn]):
            times[mode].append(door.step(step))
        if not number % 500:
            gc.collect()
    gc.enable()
    placed = [len(door.core.book.engine.state.groups.slots) for mode, door in doors.items() if mode not in LIMITED]
    if max(placed) - min(placed) > ALIKE * max(placed):
        sys.exit(f"the modes cannot be compared: they have placed {sorted(placed)} pods")
    return times


def crowded(config: Mapping[str, Any], section: dict[str, Any], decisions: int) -> float:
    """The mean time of a decision in µs about a pod that can start, in a virtual cluster where 500 kinds wait.

    All of its racks and nodes but one are in use, and no two waiting gangs ask for the same for the same time.
    """
    vc, door = next(iter(config["virtualClusters"])), Door(config, section, limited=True)
    cells = {row["cellType"]: row["cellNumber"] for row in config["virtualClusters"][vc]["virtualCells"]}
    nodes = 16 * cells["RACK"] + cells["RACK.NODE"]

    def pods(name: str, number: int, leaves: int) -> list[dict[str, Any]]:
        group = {"name": name, "members": [{"podNumber": number, "leafCellNumber": leaves}]}
        wanted = {"virtualCluster": vc, "priority": 0, "leafCellType": "GPU", "leafCellNumber": leaves}
        return [
            {"name": uid, "uid": uid, "spec": wanted | {"affinityGroup": group}}
            for uid in (f"{name}-{index}" for index in range(number))
        ]

    for index in range(nodes - 1):
        (pod,) = pods(f"runs-{index}", 1, 8)
        door.ask(pod, 3600 * (2 + index))
        door.step({"op": "add_allocated", "uid": pod["uid"]})
    for index in range(CROWD):
        for pod in pods(f"waits-{index}", 2 + index % (nodes - 2), 8):
            door.create(pod, 7200 + 60 * index)
    door.core.starts.starts()  # all of them have their promises by now
    taken = []
    for index in range(decisions):
        (pod,) = pods(f"short-{index}", 1, 1)
        taken.append(door.ask(pod, 1800))
        assert pod["uid"] in door.core.book.engine.state.groups.slots, "it ends before any promised start"
        door.core.pod_gone(pod["uid"])
    return sum(taken) / decisions / 1000


def main() -> None:
    """Play all modes side by side and judge the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2048, help="the stream")
    parser.add_argument("--operations", type=int, default=3000, help="of it, the first ones")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--crowd", type=int, default=50, help="decisions while many gangs wait")
    args = parser.parse_args()
    with gzip.open(BENCH / f"{args.devices}.yaml.gz") as text:
        config = yaml.load(text, yaml.CSafeLoader)
    steps = stream(args.devices)[: args.operations]
    modes = sections(list(config["virtualClusters"]))
    rounds = [play(config, modes, steps) for _ in range(args.rounds)]
    cost = {
        mode: sum(min(times) for times in zip(*(one[mode] for one in rounds), strict=True)) / 1000 / len(steps)
        for mode in modes
    }
    print(f"Machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{args.devices} devices, {len(steps)} operations through a door, each the fastest of {args.rounds} rounds")
    print(f"{'':<18}{'mean':>11}{'/ ' + BARE:>16}{'/ off':>8}")
    for mode, mean in cost.items():
        off = cost["off, limits" if mode in LIMITED else OFF]
        print(f"{mode:<18}{mean:8.1f} µs{mean / cost[BARE]:16.3f}{mean / off:8.3f}")
    crowd = [crowded(config, modes[mode], args.crowd) for mode in (OFF, CONSERVATIVE)]
    print(f"a pod that starts while {CROWD} kinds of gangs wait: {crowd[0]:.1f} µs off, {crowd[1]:.1f} µs conservative")
    off, on = cost[OFF] / cost[BARE], cost[ALL] / cost[OFF]
    print(f"off: {off:.3f} (at most {OFF_MOST}); all: {on:.3f} (at most {ON_MOST})")
    sys.exit(off > OFF_MOST or on > ON_MOST)


if __name__ == "__main__":
    main()
