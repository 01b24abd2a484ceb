"""Work that preemption throws away in a week, by HiveD's order and with `victims=least-loss` (docs/preemption.md).

`python -m tools.sim_week` plays a week like those of Philly, four times as busy (21,340 jobs of mix `philly`), on 64
nodes with 8 devices. Half of the jobs, by a checksum of their names, are opportunistic. All save their work once an
hour. The exit code is 1 if more than two thirds of the loss remain.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paictl.sim.cluster import homogeneous
from paictl.sim.generate import generate
from paictl.sim.job import Job, Share
from paictl.sim.simulate import simulate

JOBS: Final = 21_340
"""A week of the mix at this load."""
LOAD: Final = 4.0
BOUND: Final = 2 / 3


def week(seed: int, jobs: int = JOBS, load: float = LOAD) -> list[Job]:
    """Jobs of which half are opportunistic."""
    return [
        replace(job, share=Share.OPPORTUNISTIC) if zlib.crc32(job.id.encode()) % 2 else job
        for job in generate("philly", jobs, seed, load)
    ]


def lost(jobs: Sequence[Job], nodes: int, policy: str) -> tuple[float, int]:
    """Device hours of work that preempted jobs had done since their start, and how many were preempted."""
    counters = simulate(jobs, homogeneous(nodes, 8), policy).counters
    return counters["preempted_hours"], int(counters["preemptions"])


def main() -> int:
    """Print a row for each seed, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="weeks")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--load", type=float, default=LOAD, help="how many times as dense as the mix")
    parser.add_argument("--checkpoint", default="1h", help="how often jobs save their work; 0: never")
    parser.add_argument(
        "--on-sigterm", type=float, default=0.0, help="share of jobs that save their work when they are preempted"
    )
    args = parser.parse_args()
    options = f",checkpoint={args.checkpoint},on-sigterm={args.on_sigterm}"
    before = after = 0.0
    print("seed  today: hours lost, preemptions  least-loss: hours lost, preemptions")
    for seed in range(1, args.seeds + 1):
        jobs = week(seed, args.jobs, args.load)
        today = lost(jobs, args.nodes, f"hived:victims=fewest-devices{options}")
        spared = lost(jobs, args.nodes, f"hived:victims=least-loss{options}")
        before, after = before + today[0], after + spared[0]
        print(f"{seed:4}  {today[0]:11,.0f} {today[1]:12,}  {spared[0]:21,.0f} {spared[1]:12,}", flush=True)
    ratio = after / before if before else 0.0
    print(f"all   {before:11,.0f} {'':12}  {after:21,.0f}, {100 * ratio:.0f} %")
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
