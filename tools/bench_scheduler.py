#!/usr/bin/env python3
"""Replay the benchmark streams through the scheduler core and print what a decision costs.

For each size: start-up with all nodes turning healthy, mean, p50 and p99 of a schedule, an allocation and a
release, peak memory; then a gang that takes a VC's whole quota beside one that wants a node more and has to wait, and
a storm in which 5 % of the nodes flap;
then the same stream through ``paictl scheduler replay`` with JSON in and out. Streams: ``../shared/bench``.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
BENCH = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared")) / "bench"
SIZES = (64, 512, 2048, 8192, 32768, 131072)


def main() -> None:
    """Measure each size in a process of its own, so that peak memory is that of the size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="devices (default: all)")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--no-json", action="store_true", help="leave out the run through JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one)))
        return
    print(
        f"{'devices':>8} {'start s':>8} {'mean µs':>8} {'ops/s':>7} {'schedule':>12} {'allocate':>12} {'release':>12}"
        f" {'MB':>5} {'fits':>6} {'waits':>6} {'storm':>6} {'JSON':>6}"
    )
    for size in args.sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(size)], capture_output=True, text=True, check=True
        )
        row = json.loads(done.stdout)
        through = "" if args.no_json else f"{through_json(size):.0f}"
        print(
            f"{size:>8} {row['start']:>8.2f} {row['mean']:>8.1f} {1e6 / row['mean']:>7.0f}"
            + "".join(f" {row[kind][0]:>5.0f}/{row[kind][1]:>6.0f}" for kind in ("schedule", "allocate", "release"))
            + f" {row['memory']:>5.0f} {row['fits']:>6.1f} {row['waits']:>6.1f} {row['storm']:>6.1f} {through:>6}",
            flush=True,
        )


def stream(size: int) -> list[dict[str, Any]]:
    """The operations of a size."""
    with gzip.open(BENCH / f"{size}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def measure(size: int) -> dict[str, Any]:
    """Everything in process."""
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.events import NodeHealth
    from paictl.scheduler.request import PodRequest

    with gzip.open(BENCH / f"{size}.yaml.gz") as text:
        config = yaml.load(text, yaml.CSafeLoader)
    steps: list[tuple[str, Any]] = []
    for operation in stream(size):
        if operation["op"] == "schedule":
            pod = operation["pod"]
            steps.append(("schedule", PodRequest.from_spec(pod["spec"], pod["uid"], f"default/{pod['name']}")))
        elif operation["op"] != "mark":
            steps.append(("allocate" if operation["op"] == "add_allocated" else "release", operation["uid"]))
    start = time.perf_counter()
    engine = Engine.from_config(config)
    for name in engine.state.physical.nodes:
        engine.observe(NodeHealth(name, healthy=True))
    started = time.perf_counter() - start
    gc.collect()
    gc.freeze()  # the trees live as long as the process: do not walk them again and again
    fits, waits = whole_quota(engine, 0), whole_quota(engine, 1)
    times = run(engine, steps)
    total = [one for kind in times.values() for one in kind]
    out: dict[str, Any] = {kind: (middle(found, 0.5), middle(found, 0.99)) for kind, found in times.items()}
    out |= {"start": started, "mean": sum(total) / len(total) * 1e6}
    out["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    out |= {"fits": fits, "waits": waits}
    out["storm"] = storm(config, steps)
    return out


def run(engine: Any, steps: list[tuple[str, Any]]) -> dict[str, list[float]]:
    """Seconds of each operation by kind."""
    from paictl.scheduler.decision import Bind
    from paictl.scheduler.events import PodGone

    times: dict[str, list[float]] = {"schedule": [], "allocate": [], "release": []}
    decisions: dict[str, Any] = {}
    clock = time.perf_counter
    for kind, what in steps:
        begin = clock()
        if kind == "schedule":
            decisions[what.uid] = engine.plan(what)
        elif kind == "release":
            engine.observe(PodGone(what))
        elif isinstance(decisions[what], Bind):
            engine.apply(decisions[what])
        times[kind].append(clock() - begin)
    return times


def middle(found: list[float], share: float) -> float:
    """A quantile in microseconds."""
    return sorted(found)[int(len(found) * share)] * 1e6 if found else 0.0


def whole_quota(engine: Any, more: int) -> float:
    """Microseconds to plan a gang on all nodes of a VC (`more` 0, it fits), or on one node more (1, it waits)."""
    from paictl.scheduler.request import PodRequest

    tree = engine.state.virtual
    requests = []
    for (vc, _), view in engine.state.views.virtual.items():
        nodes = sum(len(tree.shape(cell).leaves) == 8 for cell in view.cells)
        if nodes:
            requests.append(PodRequest("w", "default/w", vc, 5, 8, "w", ((8, nodes + more),)))
    rounds = max(1, 100 // len(requests))
    begin = time.perf_counter()
    for request in requests * rounds:
        engine.plan(request)
    return (time.perf_counter() - begin) / (len(requests) * rounds) * 1e6


def storm(config: Any, steps: list[tuple[str, Any]]) -> float:
    """Mean microseconds of an operation while 5 % of the nodes flap between the operations (their events included)."""
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.events import NodeHealth

    engine = Engine.from_config(config)
    names = list(engine.state.physical.nodes)
    for name in names:
        engine.observe(NodeHealth(name, healthy=True))
    flapping = names[::20] or names[:1]
    half = steps[: min(len(steps), 6000)]
    begin, count = time.perf_counter(), 0
    for at in range(0, len(half), 40):
        for name in flapping[at // 40 % len(flapping) :][:2]:
            healthy = name in engine.state.health.bad_nodes
            engine.observe(NodeHealth(name, healthy=healthy))
            count += 1
        count += len(half[at : at + 40])
        run_some(engine, half[at : at + 40])
    return (time.perf_counter() - begin) / count * 1e6


PLANNED: dict[str, Any] = {}


def run_some(engine: Any, steps: list[tuple[str, Any]]) -> None:
    """Carry out operations whose pods may have had to wait."""
    from paictl.scheduler.decision import Bind
    from paictl.scheduler.events import PodGone

    for kind, what in steps:
        if kind == "schedule":
            PLANNED[what.uid] = engine.plan(what)
        elif kind == "release":
            engine.observe(PodGone(what))
        elif isinstance(PLANNED.get(what), Bind):
            engine.apply(PLANNED.pop(what))


def through_json(size: int) -> float:
    """Mean microseconds an operation through ``paictl scheduler replay``, start-up taken off."""
    operations = [operation for operation in stream(size) if operation["op"] != "mark"][:20_000]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        with gzip.open(BENCH / f"{size}.yaml.gz") as text:
            config.write_bytes(text.read())
        names = node_names(config)
        nodes = json.dumps({"op": "nodes", "names": names, "healthy": True}) + "\n"
        empty = timed(config, nodes)
        full = timed(config, nodes + "".join(json.dumps(operation) + "\n" for operation in operations))
    return (full - empty) / len(operations) * 1e6


def node_names(config: Path) -> list[str]:
    """Names of all nodes of a configuration."""
    from paictl.cells.spec import ClusterSpec
    from paictl.cells.tree import build_physical

    return list(build_physical(ClusterSpec.from_mapping(yaml.load(config.read_text(), yaml.CSafeLoader))).nodes)


def timed(config: Path, text: str) -> float:
    """Seconds to replay a text."""
    command = [sys.executable, "-m", "paictl.cli.scheduler", "replay", "--config", str(config)]
    begin = time.perf_counter()
    subprocess.run(command, input=text, text=True, stdout=subprocess.DEVNULL, check=True, cwd=ROOT)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
