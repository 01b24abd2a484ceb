#!/usr/bin/env python3
"""Replay the benchmark streams through the scheduler core and print what a decision costs.

First in process, on the engine alone: start-up with all nodes turning healthy; p50 and p99 of a schedule, an
allocation and a release; mean of an operation; peak memory; then a gang that takes a VC's whole quota (fits) beside one
that wants a node more and has to wait (waits), and the mean of an operation in a storm, where 5 % of the nodes flap.
Then through the book as the extender uses it, the annotation of every pod read and written: mean of an operation
without names of nodes, with all names given to pods that ignore them, and to pods that do not, and what the names cost
as ratios of the same run. Then the same stream through ``paictl scheduler replay`` with JSON in and out: start-up of
the process, mean of an operation where all lines are written at once, and p50 and p99 where each line waits for the
answer to the one before; beside it the mean of HiveD's Go implementation as it was measured elsewhere. Streams and Go's
figures: ``../shared/bench``.

The exit code is 1 if names cost more than 1.3 times the same operations without; nothing else is judged, because times
of different runs cannot be compared.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
BENCH = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared")) / "bench"
SIZES = (64, 512, 2048, 8192, 32768, 131072)
GO_MEAN = {64: 63, 512: 136, 2048: 252, 8192: 785, 32768: 1290}
"""Microseconds an operation of HiveD's Go implementation with JSON in and out, on a machine with 2 cores."""
KINDS = ("schedule", "allocate", "release")
AT_MOST = 1.3
"""What an operation with names may cost as a multiple of one without, in the same run."""
ROUNDS = 3
"""Runs of each mode with annotations, in turn; the fastest counts, because other work only ever makes one slower."""
WITH_NAMES = ("devices", "without", "ignored", "counted", "ratio", "ratio")
IN_PROCESS = ("devices", "start s", "mean", "ops/s", *KINDS, "MB", "fits", "waits", "storm")
THROUGH_JSON = ("devices", "start s", "mean", "Go's mean", *KINDS)


def main() -> None:
    """Measure each size in a process of its own, so that peak memory is that of the size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES, help="devices (default: all)")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--names", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-json", action="store_true", help="leave out the run through JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(named(args.one) if args.names else measure(args.one)))
        return
    print(f"Machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; times in µs")
    print("in process; schedule, allocate and release: p50/p99")
    write_row(IN_PROCESS)
    for size in args.sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(size)], capture_output=True, text=True, check=True
        )
        row = json.loads(done.stdout)
        rest = (row["fits"], row["waits"], row["storm"])
        ends = [f"{row['memory']:.0f}", *(f"{time:.1f}" for time in rest)]
        write_row([size, f"{row['start']:.2f}", f"{row['mean']:.1f}", f"{1e6 / row['mean']:.0f}", *spread(row), *ends])
    print(f"through the book, with annotations; ignored and counted: all names given, at most {AT_MOST} times without")
    write_row(WITH_NAMES)
    dear = False
    for size in args.sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(size), "--names"], capture_output=True, text=True, check=True
        )
        without, *given = json.loads(done.stdout)
        ratios = [one / without for one in given]
        dear = dear or max(ratios) > AT_MOST
        write_row([size, *(f"{one:.1f}" for one in (without, *given)), *(f"{ratio:.2f}" for ratio in ratios)])
    if not args.no_json:
        print("through paictl scheduler replay, JSON in and out, the first 20,000 operations")
        write_row(THROUGH_JSON)
        for size in args.sizes:
            row = through_json(size)
            write_row([size, f"{row['start']:.2f}", f"{row['mean']:.0f}", GO_MEAN.get(size, "-"), *spread(row)])
    if dear:
        sys.exit(1)


def write_row(cells: Any) -> None:
    """One line of a table."""
    first, *rest = cells
    print(f"{first:>8}" + "".join(f"{cell!s:>10}" for cell in rest), flush=True)


def spread(row: dict[str, Any]) -> list[str]:
    """p50 and p99 by kind of operation, ``-`` for a kind that did not occur."""
    return [f"{row[kind][0]:.0f}/{row[kind][1]:.0f}" if row[kind][1] else "-" for kind in KINDS]


def stream(size: int) -> list[dict[str, Any]]:
    """The operations of a size."""
    with gzip.open(BENCH / f"{size}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def prepared(size: int) -> tuple[Any, Any, list[tuple[str, Any]], float]:
    """The configuration, its engine with all nodes healthy, the operations, and the seconds that the start took."""
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.events import NodeHealth
    from paictl.scheduler.wire import read_request

    with gzip.open(BENCH / f"{size}.yaml.gz") as text:
        config = yaml.load(text, yaml.CSafeLoader)
    steps: list[tuple[str, Any]] = []
    for operation in stream(size):
        if operation["op"] == "schedule":
            pod = operation["pod"]
            steps.append(("schedule", read_request(pod["spec"], pod["uid"], f"default/{pod['name']}")))
        elif operation["op"] != "mark":
            steps.append(("allocate" if operation["op"] == "add_allocated" else "release", operation["uid"]))
    start = time.perf_counter()
    engine = Engine.from_config(config)
    for name in engine.state.physical.nodes:
        engine.observe(NodeHealth(name, healthy=True))
    assert engine.state is not None  # what is doomed is settled when the state is asked for: that belongs to the start
    started = time.perf_counter() - start
    gc.collect()
    gc.freeze()  # the trees live as long as the process: do not walk them again and again
    return config, engine, steps, started


def measure(size: int) -> dict[str, Any]:
    """Everything in process."""
    config, engine, steps, started = prepared(size)
    fits, waits = whole_quota(engine, 0), whole_quota(engine, 1)
    times = run(engine, steps)
    total = [one for kind in times.values() for one in kind]
    out: dict[str, Any] = {kind: (middle(found, 0.5), middle(found, 0.99)) for kind, found in times.items()}
    out |= {"start": started, "mean": sum(total) / len(total) * 1e6}
    out["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    out |= {"fits": fits, "waits": waits}
    out["storm"] = storm(config, steps)
    return out


def named(size: int) -> list[float]:
    """Mean microseconds of an operation through the book: without names, with names ignored, with names counted."""
    from paictl.cells.spec import ClusterSpec

    with gzip.open(BENCH / f"{size}.yaml.gz") as text:
        spec = ClusterSpec.from_mapping(yaml.load(text, yaml.CSafeLoader))
    operations = [operation for operation in stream(size) if operation["op"] != "mark"][:20_000]
    best = [float("inf")] * 3
    for _ in range(ROUNDS):
        for mode, (names, ignore) in enumerate(((False, True), (True, True), (True, False))):
            best[mode] = min(best[mode], with_annotations(spec, operations, names=names, ignore=ignore))
    return best


def with_annotations(spec: Any, operations: list[dict[str, Any]], *, names: bool, ignore: bool) -> float:
    """Mean microseconds of an operation, reading and writing every pod's annotation."""
    from paictl.scheduler import wire
    from paictl.scheduler.book import Book
    from paictl.scheduler.decision import Bind
    from paictl.scheduler.engine import Engine

    book = Book(Engine(spec))
    nodes = list(book.engine.state.physical.nodes)
    for name in nodes:
        book.report(name, True)
    steps = []
    for operation in operations:
        pod = operation.get("pod")
        text = json.dumps({**pod["spec"], "ignoreK8sSuggestedNodes": ignore}) if pod else ""
        steps.append((operation["op"], pod["uid"] if pod else operation["uid"], text))
    offers = [json.loads(json.dumps(nodes)) for _ in range(2)]  # as after each request: equal names, other objects
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    for number, (kind, uid, text) in enumerate(steps):
        if kind == "schedule":
            request = wire.parse_request(text, uid, f"default/{uid}", json.loads)
            book.schedule(request, offers[number % 2] if names else None)
        elif kind == "add_allocated":
            planned = book.pods[uid].planned
            if planned is not None and isinstance(planned.decision, Bind):
                info = book.allocate(uid).info
                wire.bind_info_text(info)
                wire.isolation_text(info.devices)
        else:
            book.gone(uid)
    return (time.process_time() - begin) / len(steps) * 1e6


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
    """Mean microseconds of an operation while 5 % of the nodes flap between the operations (their events included).

    In processor time, from an engine that knows what is doomed: what the start leaves to do is the start's.
    """
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.events import NodeHealth

    engine = Engine.from_config(config)
    names = list(engine.state.physical.nodes)
    for name in names:
        engine.observe(NodeHealth(name, healthy=True))
    assert engine.state is not None  # settled
    flapping = names[::20] or names[:1]
    half = steps[: min(len(steps), 6000)]
    begin, count = time.process_time(), 0
    for at in range(0, len(half), 40):
        for name in flapping[at // 40 % len(flapping) :][:2]:
            healthy = name in engine.state.health.bad_nodes
            engine.observe(NodeHealth(name, healthy=healthy))
            count += 1
        count += len(half[at : at + 40])
        run_some(engine, half[at : at + 40])
    return (time.process_time() - begin) / count * 1e6


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


def through_json(size: int) -> dict[str, Any]:
    """Start-up in seconds, mean and spread in microseconds of the stream through ``paictl scheduler replay``."""
    operations = [operation for operation in stream(size) if operation["op"] != "mark"][:20_000]
    lines = [json.dumps(operation) + "\n" for operation in operations]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        with gzip.open(BENCH / f"{size}.yaml.gz") as text:
            config.write_bytes(text.read())
        nodes = json.dumps({"op": "nodes", "names": node_names(config), "healthy": True}) + "\n"
        start, at_once = timed(config, nodes, lines)
        answers = one_by_one(config, nodes, lines)
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for operation, seconds in zip(operations, answers, strict=True):
        name = operation["op"]
        times["schedule" if name == "schedule" else "allocate" if name == "add_allocated" else "release"].append(
            seconds
        )
    out: dict[str, Any] = {kind: (middle(found, 0.5), middle(found, 0.99)) for kind, found in times.items()}
    return out | {"start": start, "mean": at_once / len(operations) * 1e6}


def replay_command(config: Path) -> list[str]:
    """The command line of a replay."""
    return [sys.executable, "-m", "paictl", "scheduler", "replay", "--config", str(config)]


def one_by_one(config: Path, nodes: str, lines: list[str]) -> list[float]:
    """Seconds from writing each line to reading its answer."""
    command, clock, times = replay_command(config), time.perf_counter, []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as replay:
        source, sink = replay.stdin, replay.stdout
        assert source is not None
        assert sink is not None
        for line in (nodes, *lines):
            begin = clock()
            source.write(line)
            source.flush()
            sink.readline()
            times.append(clock() - begin)
        source.close()
    return times[1:]


def node_names(config: Path) -> list[str]:
    """Names of all nodes of a configuration."""
    from paictl.cells.spec import ClusterSpec
    from paictl.cells.tree import build_physical

    return list(build_physical(ClusterSpec.from_mapping(yaml.load(config.read_text(), yaml.CSafeLoader))).nodes)


def timed(config: Path, nodes: str, lines: list[str]) -> tuple[float, float]:
    """Seconds until the nodes are reported, and from then to the last answer where all lines are written at once."""
    begin = time.perf_counter()
    with subprocess.Popen(
        replay_command(config), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as replay:
        source, sink = replay.stdin, replay.stdout
        assert source is not None
        assert sink is not None
        source.write(nodes)
        source.flush()
        sink.readline()
        started = time.perf_counter()
        writer = threading.Thread(target=lambda: (source.write("".join(lines)), source.close()))
        writer.start()
        for _ in lines:
            sink.readline()
        done = time.perf_counter()
        writer.join()
    return started - begin, done - started


if __name__ == "__main__":
    main()
