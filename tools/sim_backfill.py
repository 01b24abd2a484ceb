"""What backfill brings large gangs, and what it costs the cluster (docs/backfill.md).

`python -m tools.sim_backfill` plays 5,000 jobs of the mix of Tiresias on 128 devices of one tenant, with limits as long
as the jobs run, with and without `backfill=easy`. It compares the 95th percentile of the waiting times of gangs of 32
devices or more, and the utilization. The exit code is 1 if that percentile is not halved, if utilization falls by more
than two percent, or if a promised start is broken.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from paictl.frozen import frozen
from paictl.sim.cluster import homogeneous
from paictl.sim.generate import generate
from paictl.sim.job import Job
from paictl.sim.metrics import figures, percentile
from paictl.sim.simulate import simulate

LARGE: Final = 32
WAITING: Final = 0.5
"""The waiting time of large gangs with backfill, of that without, at most."""
UTILIZATION: Final = 0.98
"""The same for utilization, at least."""


@frozen
class Played:
    """One run: seconds that large gangs waited (95th percentile), how busy devices were, and broken promises."""

    waiting: float
    utilization: float
    broken: int


def played(jobs: Sequence[Job], nodes: int, policy: str) -> Played:
    """Play a trace; raises `ValueError` if no large gang is in it."""
    result = simulate(jobs, homogeneous(nodes, 8), policy)
    waited = sorted(
        (outcome.end - outcome.submit - outcome.ran) / 1000
        for outcome in result.outcomes
        if outcome.gpus >= LARGE and outcome.end is not None
    )
    waiting = percentile(waited, 0.95)
    if waiting is None:
        raise ValueError(f"no gang of {LARGE} devices or more in the trace")
    return Played(waiting, figures(result).utilization, int(result.counters.get("promises_broken", 0)))


def main() -> int:
    """Print a row for each policy, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--nodes", type=int, default=16, help="with 8 devices each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=("easy", "conservative"), default="easy")
    args = parser.parse_args()
    jobs = generate("tiresias", args.jobs, args.seed)
    print(f"{'policy':30} {'waiting p95':>12}  utilization  promises broken")
    rows = []
    for policy in ("hived", f"hived:backfill={args.mode}"):
        rows.append(played(jobs, args.nodes, policy))
        row = rows[-1]
        print(f"{policy:30} {row.waiting:10,.0f} s  {100 * row.utilization:9.1f} %  {row.broken:15}", flush=True)
    waiting, utilization = rows[1].waiting / rows[0].waiting, rows[1].utilization / rows[0].utilization
    print(f"{'with, of without':30} {100 * waiting:10.0f} %  {100 * utilization:9.1f} %")
    return int(waiting > WAITING or utilization < UTILIZATION or rows[1].broken > 0)


if __name__ == "__main__":
    sys.exit(main())
