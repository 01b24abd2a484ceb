"""Speed of the simulator: a plain event simulator beside it, 82,247 jobs of Philly, growth, memory.

Each run is a process of its own, so that memory is its own too; times are CPU seconds (the machine may be busy).
Without the traces of `../shared` a synthetic trace of the same shape is used, and said so.

`--overload` measures every policy (or those that are named) where tens of thousands of jobs wait: 80,000 jobs on a
quarter of the cluster, each against its bar. It exits with 1 if one is slower. A policy that does not finish within
`--limit` CPU seconds is played on the first half of the jobs, and so on, and counts as too slow. Philly tells no
stages; with `--stages` each job has those of a job of Muri's trace 1, drawn at random, so that `muri` groups jobs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Final

from paictl.sim.cluster import Cluster, homogeneous
from paictl.sim.dice import Dice
from paictl.sim.job import Job, in_order
from paictl.sim.metrics import figures
from paictl.sim.policies.base import Setup
from paictl.sim.policies.table import POLICIES, parse
from paictl.sim.simulate import simulate
from paictl.sim.traces.load import load
from paictl.units import Millis

ROOT = Path(__file__).resolve().parent.parent
TRACE = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared")) / "traces/philly.tar.gz"
STAGES = TRACE.with_name("muri.tar.gz")
FACTS: Final = ("stage.cpu", "stage.gpu", "stage.network", "stage.step")
PHILLY = 352
"""Nodes of 8 devices: philly_vc.csv."""
CROWDED = 60
"""So few that up to 40,000 jobs wait."""
QUARTER: Final = PHILLY // 4
BARS: Final = {"cells": 1_000, "slow": 500, "count": 5_000}
"""Jobs per CPU second under overload, by what a policy does for a start."""
LOOKING: Final = frozenset({"pooled", "parsync", "fgd", "random", "bestfit", "dotprod", "gpupacking", "gpuclustering"})
"""Policies that look for places in books of their own."""
PROGRAMS: Final = frozenset({"gavel", "optimus", "chronus", "rounds", "shockwave", "pollux", "sia"})
"""Policies that solve programs over all jobs; held to the bar of those that look for places."""
SLOW: Final = frozenset({"gandiva", "yarn-cs", "antman", "muri"})
"""Policies that suspend, retry or share by the clock."""


def staged(jobs: list[Job]) -> list[Job]:
    """The same jobs with stages."""
    dice = Dice(1)
    kinds = sorted({tuple(job.facts[name] for name in FACTS) for job in load(f"{STAGES}/muri/trace1.csv", "muri").jobs})
    return [replace(job, facts=dict(zip(FACTS, kinds[dice.below(len(kinds))], strict=True))) for job in jobs]


def jobs_of(number: int) -> list[Job]:
    """The first so many jobs of Philly, by submission."""
    if TRACE.is_file():
        return in_order(list(load(f"{TRACE}/philly/philly.csv", "philly").jobs))[:number]
    dice = Dice(1)
    return in_order(
        [
            Job(
                str(i),
                Millis(114_000 * i),
                1 << max(0, dice.below(32) - 28),
                Millis(1000 * (60 + dice.below(26_000))),
                vc=f"vc{dice.below(15)}",
            )
            for i in range(number)
        ]
    )


def plain(jobs: list[Job], size: int) -> float:
    """The least a simulator can do: FIFO with head-of-line blocking, a heap of ends, no checks; mean JCT in seconds."""
    ends: list[tuple[int, int, int]] = []
    line: deque[Job] = deque()
    free, total, coming = size, 0, 0
    while coming < len(jobs) or ends:
        now = min(jobs[coming].submit if coming < len(jobs) else 1 << 62, ends[0][0] if ends else 1 << 62)
        while ends and ends[0][0] == now:
            free += heapq.heappop(ends)[2]
        while coming < len(jobs) and jobs[coming].submit == now:
            line.append(jobs[coming])
            coming += 1
        while line and line[0].gpus <= free:
            job = line.popleft()
            free -= job.gpus
            total += now + job.work - job.submit
            heapq.heappush(ends, (now + job.work, len(ends), job.gpus))
    return total / len(jobs) / 1000


def one(policy: str, number: int, nodes: int, limit: float = 0, *, stages: bool = False) -> None:
    """Run and print as JSON."""
    jobs = staged(jobs_of(number)) if stages else jobs_of(number)
    if limit:
        used = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (used + int(limit), used + int(limit) + 5))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, wall = time.process_time(), time.perf_counter()
    if policy == "plain":
        mean: float | None = plain(jobs, nodes * 8)
        done = len(jobs)
    else:
        result = figures(simulate(jobs, homogeneous(nodes, 8), policy))
        mean, done = result.mean_jct, result.jobs
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"cpu": time.process_time() - start, "wall": time.perf_counter() - wall, "mean_jct": mean, "done": done}
    memory = {"loaded": before // 1024, "grown": (after - before) // 1024}
    print(json.dumps({**found, **memory, "jobs": len(jobs)}))


def measure(policy: str, number: int, nodes: int, limit: float = 0, *, stages: bool = False) -> dict[str, float]:
    """The same in another process, which is ended after so many CPU seconds (0: never)."""
    command = [
        sys.executable,
        __file__,
        "--one",
        policy,
        "--jobs",
        str(number),
        "--nodes",
        str(nodes),
        "--limit",
        str(limit),
        *(["--stages"] if stages else []),
    ]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def show(policy: str, number: int, nodes: int) -> None:
    """A row."""
    found = measure(policy, number, nodes)
    speed = found["jobs"] / found["cpu"]
    print(
        f"{policy:28} {found['jobs']:7,} jobs {nodes * 8:5,} devices {found['cpu']:8.2f} s {speed:9,.0f} jobs/s"
        f"  memory {found['loaded']:4} + {found['grown']:3} MB  mean JCT {found['mean_jct']:,.0f} s"
    )


def overload(policies: list[str], number: int, nodes: int, limit: float, *, stages: bool) -> bool:
    """A row for each policy under overload; whether all of them reach their bars."""
    print(f"{number:,} jobs on {nodes} nodes of 8; CPU seconds without reading, at most {limit:.0f} s a run")
    fast = True
    for policy in policies:
        jobs, found = number, None
        while found is None and jobs >= 100:
            try:
                found = measure(policy, jobs, nodes, limit, stages=stages)
            except subprocess.CalledProcessError as error:
                if error.returncode != -signal.SIGXCPU:
                    raise
                jobs //= 2
        if found is None:
            print(f"{policy:28} not even 100 jobs")
            fast = False
            continue
        bar, speed = BARS[bar_of(policy)], found["jobs"] / found["cpu"]
        reached = jobs == number and speed >= bar
        fast = fast and reached
        left = f"  {found['jobs'] - found['done']:,} jobs unfinished" if found["done"] < found["jobs"] else ""
        print(
            f"{policy:28} {found['jobs']:7,} jobs {found['cpu']:8.2f} s {speed:9,.0f} jobs/s  bar {bar:5,}"
            f"  {'ok' if reached else 'TOO SLOW'}{left}",
            flush=True,
        )
    return fast


def bar_of(policy: str) -> str:
    """Which bar a policy has: whether it retries by the clock, looks for places, or only counts."""
    kind, parameters = parse(policy)
    if kind.id in SLOW:
        return "slow"
    made = kind(parameters, Setup(Cluster(homogeneous(2, 8))))
    return "cells" if made.rates.located or kind.id in LOOKING | PROGRAMS else "count"


def main() -> int:
    """All of it, or one run; 1 if a policy is too slow under overload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--one")
    parser.add_argument("--overload", nargs="*", metavar="POLICY", help="all policies, or these, under overload")
    parser.add_argument("--limit", type=float, default=600.0, help="CPU seconds for a run under overload")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=PHILLY)
    parser.add_argument("--stages", action="store_true", help="under overload: jobs with the stages of Muri's trace 1")
    given = parser.parse_args()
    if given.one:
        one(given.one, given.jobs, given.nodes, given.limit, stages=given.stages)
        return 0
    if given.overload is not None:
        nodes = QUARTER if given.nodes == PHILLY else given.nodes
        fast = overload(given.overload or list(POLICIES), given.jobs or 80_000, nodes, given.limit, stages=given.stages)
        return 0 if fast else 1
    print(f"simulator, {'Philly' if TRACE.is_file() else 'synthetic jobs (no ../shared)'}; CPU seconds without reading")
    for nodes in (PHILLY, CROWDED):
        for policy in ("plain", "fifo", "las", "srtf", "gittins"):
            show(policy, 82_247, nodes)
    for policy in ("fifo:placement=consolidate", "tiresias", "hived"):
        show(policy, 82_247, PHILLY)
    for policy in ("fifo", "las", "hived"):
        for number in (1_000, 10_000, 80_000):
            show(policy, number, PHILLY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
