#!/usr/bin/env python3
"""Record decisions of `paictl scheduler replay` on configurations of ours into tests/golden/sample/.

A trace is ``NAME-SEED.jsonl.gz``, one ``{"op": …, "result": …}`` a line, beside the configuration ``NAME.yaml``; it is
the same on every machine. ``tests/golden/test_sample.py`` replays it in any clone. Record anew only if decisions are
meant to change, and say in the commit which and why.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
SAMPLE = ROOT / "tests/golden/sample"
OPERATIONS = 360
SEEDS = 4
MAX_CONFIGURATION = 2500
"""Characters of a configuration; in larger ones nothing happens that does not in these, and it takes more room."""


def main() -> None:
    """Record all traces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=SAMPLE, help="where to write (default: tests/golden/sample)")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in configurations().items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
        for seed in range(SEEDS):
            lines = record(data, random.Random(f"{name}/{seed}"))  # noqa: S311 (a test, not a secret)
            with (folder / f"{name}-{seed}.jsonl.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as out:
                out.write("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines).encode())
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{len(list(folder.glob('*.gz')))} traces, {size / 1000:.0f} kB in {folder}")


def configurations() -> dict[str, Any]:
    """HiveD configurations by name: those of the examples and presets, and two that have what these lack."""
    from paictl.cluster.presets import PRESETS, preset_files

    out: dict[str, Any] = {}
    for name in ("cluster", "lab"):
        text = (ROOT / "examples" / name / "services-configuration.yaml").read_text(encoding="utf-8")
        out[f"example-{name}"] = hived(yaml.safe_load(text))
    for name in PRESETS:
        data = hived(yaml.safe_load(preset_files(name)["services-configuration.yaml"]))
        if len(json.dumps(data)) < MAX_CONFIGURATION:
            out[f"preset-{name}"] = data
    return {name: data for name, data in out.items() if data} | {"racks": RACKS, "shared": SHARED}


def hived(services: Any) -> Any:
    """The scheduler's part of a services configuration, however it is written there."""
    section = services.get("hivedscheduler") or {}
    config = section.get("config", section)
    return yaml.safe_load(config) if isinstance(config, str) else config


RACKS: Any = {
    "physicalCluster": {
        "cellTypes": {
            "PAIR": {"childCellType": "GPU", "childCellNumber": 2},
            "NODE": {"childCellType": "PAIR", "childCellNumber": 2, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 3},
            "HALL": {"childCellType": "RACK", "childCellNumber": 2},
        },
        "physicalCells": [
            {
                "cellType": "HALL",
                "cellChildren": [
                    {"cellChildren": [{"cellAddress": f"{hall}{rack}{node}"} for node in "123"]} for rack in "xy"
                ],
            }
            for hall in "ab"
        ]
        + [{"cellType": "NODE", "cellAddress": "solo", "pinnedCellId": "SOLO"}],
    },
    "virtualClusters": {
        "red": {
            "virtualCells": [
                {"cellType": "HALL.RACK", "cellNumber": 1},
                {"cellType": "HALL.RACK.NODE", "cellNumber": 2},
            ],
            "pinnedCells": [{"pinnedCellId": "SOLO"}],
        },
        "green": {
            "virtualCells": [
                {"cellType": "HALL.RACK.NODE", "cellNumber": 3},
                {"cellType": "HALL.RACK.NODE.PAIR", "cellNumber": 3},
            ]
        },
        "blue": {"virtualCells": [{"cellType": "HALL.RACK.NODE.PAIR.GPU", "cellNumber": 3}]},
    },
}
"""Five levels, promises at each of them, and a pinned node."""

SHARED: Any = {
    "physicalCluster": {
        "skuTypes": {"GPU": {"gpu": 1, "cpu": 4}, "CPU": {"cpu": 1}},
        "cellTypes": {
            "GPU-NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True},
            "GPU-POOL": {"childCellType": "GPU-NODE", "childCellNumber": 4},
            "CPU-NODE": {"childCellType": "CPU", "childCellNumber": 8, "isNodeLevel": True},
            "CPU-POOL": {"childCellType": "CPU-NODE", "childCellNumber": 4},
        },
        "physicalCells": [
            {"cellType": f"{kind}-POOL", "cellChildren": [{"cellAddress": f"node{i}"} for i in range(4)]}
            for kind in ("GPU", "CPU")
        ],
    },
    "virtualClusters": {
        "default": {
            "virtualCells": [
                {"cellType": "GPU-POOL.GPU-NODE", "cellNumber": 2},
                {"cellType": "CPU-POOL.CPU-NODE", "cellNumber": 3},
            ]
        },
        "other": {
            "virtualCells": [
                {"cellType": "GPU-POOL.GPU-NODE.GPU", "cellNumber": 6},
                {"cellType": "CPU-POOL.CPU-NODE.CPU", "cellNumber": 8},
            ]
        },
    },
}
"""Nodes that lie in two chains, one of devices and one of processors."""


class Recorder:
    """Random operations on one cluster, with the results."""

    def __init__(self, data: Any, numbers: random.Random) -> None:
        from paictl.cells.spec import ClusterSpec
        from paictl.scheduler.replay import Replayer

        self.numbers = numbers
        self.player = Replayer(ClusterSpec.from_mapping(data))
        state = self.player.engine.state
        self.nodes = list(state.physical.nodes)
        self.vcs = sorted(state.vcs)
        self.types = ["", "", *state.chains_by_type]
        self.pins = dict(iter(state.views.pinned))
        self.bad: set[str] = set()
        self.pods: dict[str, dict[str, Any]] = {}
        self.lines: list[dict[str, Any]] = []

    def do(self, **operation: Any) -> dict[str, Any]:
        """Carry one operation out and note it."""
        result: dict[str, Any] = json.loads(json.dumps(self.player.run(operation)))
        self.lines.append({"op": operation, "result": result})
        return result

    def step(self) -> None:
        """One random thing happens."""
        match self.numbers.choices(
            ("ask", "again", "gone", "node", "restart", "look"), weights=(10, 5, 6, 3, 0.4, 0.6)
        )[0]:
            case "ask":
                self.ask(self.new_pods())
            case "again":
                running = self.player.engine.state.groups.slots if self.numbers.random() < 0.9 else {}
                waiting = [uid for uid in self.pods if uid not in running]
                self.ask([self.numbers.choice(waiting)] if waiting else [])
            case "gone":
                if self.pods:
                    uid = self.numbers.choice(list(self.pods))
                    del self.pods[uid]
                    self.do(op="delete_allocated", uid=uid)
            case "node":
                name = self.numbers.choice(sorted(self.bad) if self.bad and self.numbers.random() < 0.6 else self.nodes)
                self.bad ^= {name}
                self.do(op="node", name=name, healthy=name not in self.bad)
            case "restart":
                self.do(op="restart", order=self.numbers.choice(["nodes_first", "pods_first"]))
            case "look":
                self.do(op="status", view=self.numbers.choice(["groups", "cells", "pods"]))

    def new_pods(self) -> list[str]:
        """The pods of a new group."""
        vc, priority = self.numbers.choice(self.vcs), self.numbers.choice([-1, -1, 0, 0, 1, 5, 100])
        sizes = self.numbers.choices([1, 2, 3, 4, 8], weights=(5, 4, 1, 4, 1), k=self.numbers.choice([1, 1, 1, 2]))
        spec: dict[str, Any] = {
            "virtualCluster": vc,
            "priority": priority,
            "leafCellType": self.numbers.choice(self.types),
            "lazyPreemptionEnable": self.numbers.random() < 0.5,
            "ignoreK8sSuggestedNodes": self.numbers.random() < 0.7,
        }
        if vc in self.pins and priority >= 0 and self.numbers.random() < 0.3:
            spec["pinnedCellId"] = self.pins[vc]
        counts = [(size, self.numbers.choice([1, 1, 2, 3])) for size in sorted(set(sizes))]
        first = len(self.lines)
        if len(counts) > 1 or counts[0][1] > 1:
            members = [{"podNumber": number, "leafCellNumber": size} for size, number in counts]
            spec["affinityGroup"] = {"name": f"g{first}", "members": members}
        made = []
        for size, number in counts:
            for i in range(number):
                uid = f"p{first}-{size}-{i}"
                self.pods[uid] = {"uid": uid, "name": uid, "spec": {**spec, "leafCellNumber": size}}
                made.append(uid)
        return made

    def ask(self, uids: list[str]) -> None:
        """Offer pods, as an extender is asked about them; victims go at once, or later, or never."""
        suggested = (
            None if self.numbers.random() < 0.7 else [name for name in self.nodes if self.numbers.random() < 0.8]
        )
        for uid in uids:
            result = self.do(op="filter", pod=self.pods[uid], suggested=suggested)
            if result["r"] != "preempt" or self.numbers.random() < 0.3:
                continue
            result = self.do(op="schedule", pod=self.pods[uid], suggested=suggested, phase="Preempting")
            for victims in result.get("victims", {}).values():
                for victim in victims if self.numbers.random() < 0.8 else ():
                    self.pods.pop(victim, None)
                    self.do(op="delete_allocated", uid=victim)


def record(data: Any, numbers: random.Random) -> list[dict[str, Any]]:
    """A trace of a configuration."""
    recorder = Recorder(data, numbers)
    recorder.do(op="nodes", names=recorder.nodes, healthy=True)
    while len(recorder.lines) < OPERATIONS:
        recorder.step()
    recorder.do(op="status", view="cells")
    return recorder.lines


if __name__ == "__main__":
    main()
