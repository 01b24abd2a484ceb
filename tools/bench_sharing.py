#!/usr/bin/env python3
"""What the section `sharing` costs a decision, where it is not configured and where it is.

A benchmark stream (``../shared/bench``) is played through a door's core, pod by pod: what `deciding` does for a pod,
and what its end does to the books. Pods are read before the clock runs. The first mode leaves out every question that
the section brings into a decision; `off` is the door as it is without the section; each further mode configures one
part of it, and `all` everything. No limit ever holds a pod back, so that all modes place the same pods.

Modes take turns, the fastest round of each counts, because other work only ever makes one slower; processor time. The
exit code is 1 if `off` costs more than 1.02 times the first mode, or `all` more than 1.3 times `off`.
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
from collections.abc import Mapping
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

ROUNDS: Final = 7
OFF_MOST: Final = 1.02
ON_MOST: Final = 1.3
MANY: Final = 10**6
BARE, OFF, ALL = "no questions", "off", "all"
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
    }
    return {BARE: {}, OFF: {}, **parts, ALL: {key: rows for part in parts.values() for key, rows in part.items()}}


def door(config: Mapping[str, Any], section: dict[str, Any], *, bare: bool) -> DoorCore:
    """A door's core that serves, all nodes healthy."""
    spec = ClusterSpec.from_mapping(config)
    core = DoorCore(spec, DoorOptions(rules=Rules(skus=spec.sku_types), sharing=read_sharing(section)), lambda _: None)
    for name in core.book.engine.state.physical.nodes:
        core.node_changed(NodeStatus(name, ready=True, schedulable=True))
    core.open()
    core.month_used({})
    core.allowances.recent = {}
    unasked: Any = SimpleNamespace(
        within=lambda _core, _entry, request, offered: (request, offered),
        noted=lambda _core, _entry, decision: decision, closed=lambda _core, _entry: frozenset(),
    )  # fmt: skip
    deciding.windows = unasked if bare else WINDOWS  # type: ignore[misc]
    if bare:
        core.held_back = lambda _request: ""  # type: ignore[method-assign]
        core.allowances.note = lambda _outcomes: None  # type: ignore[method-assign]
    return core


def play(
    config: Mapping[str, Any], section: dict[str, Any], steps: list[dict[str, Any]], *, bare: bool
) -> tuple[float, int]:
    """Microseconds of processor time an operation, and how many pods have a place at the end."""
    core, names = door(config, section, bare=bare), []
    spent, timed = 0, 0
    gc.collect()
    for step in steps:
        if step["op"] == "schedule":
            asked = step["pod"]
            noted = {SCHEDULING_SPEC: json.dumps(asked["spec"])}
            about = {"name": asked["name"], "namespace": "default", "uid": asked["uid"], "annotations": noted}
            core.pod_changed({"metadata": about, "spec": {"containers": [{"name": "c"}]}, "status": {}})
            entry = core.table.by_uid[asked["uid"]]
            assert entry.reading is not None
            with core.lock:
                began = time.process_time_ns()
                deciding.decide(core, entry, entry.reading.request, names)
                spent += time.process_time_ns() - began
        elif step["op"] == "add_allocated":
            core.book.bound(step["uid"])
            continue
        elif step["op"] != "mark":
            began = time.process_time_ns()
            core.pod_gone(step["uid"])
            spent += time.process_time_ns() - began
        timed += 1
    return spent / timed / 1000, len(core.book.engine.state.groups.slots)


def main() -> None:
    """Play all modes in turns and judge the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=2048, help="the stream")
    parser.add_argument("--operations", type=int, default=6000, help="of it, the first ones")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    with gzip.open(BENCH / f"{args.devices}.yaml.gz") as text:
        config = yaml.load(text, yaml.CSafeLoader)
    steps = stream(args.devices)[: args.operations]
    modes = sections(list(config["virtualClusters"]))
    best, placed = dict.fromkeys(modes, float("inf")), dict[str, int]()
    for _ in range(args.rounds):
        for mode, section in modes.items():
            time_of_one, placed[mode] = play(config, section, steps, bare=mode == BARE)
            best[mode] = min(best[mode], time_of_one)
    print(f"Machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{args.devices} devices, {len(steps)} operations through a door, the fastest of {args.rounds} rounds")
    for mode, cost in best.items():
        print(f"{mode:<14}{cost:8.1f} µs{cost / best[BARE]:8.3f}{cost / best[OFF]:8.3f}  {placed[mode]} pods")
    off, on = best[OFF] / best[BARE], best[ALL] / best[OFF]
    print(f"off: {off:.3f} times without questions (at most {OFF_MOST}); all: {on:.3f} times off (at most {ON_MOST})")
    sys.exit(off > OFF_MOST or on > ON_MOST)


if __name__ == "__main__":
    main()
