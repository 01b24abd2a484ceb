"""How evenly lent devices are shared in a week, with and without `opportunistic-order` (docs/opportunistic-order.md).

`python -m tools.sim_share` lends 24 devices to three tenants with equal promises. All of their jobs are opportunistic
with two devices each, and each tenant always has some that wait; but one submits all at once and before the others,
and they run for an hour, four, and twelve. The share of a tenant is its part of the device time of the week. The exit
code is 1 if one of them is off its third by more than 5 % with decayed use.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from paictl.sim.cluster import homogeneous
from paictl.sim.job import Job, Share
from paictl.sim.simulate import simulate
from paictl.units import Millis

HOUR: Final = 3_600_000
WEEK: Final = 7 * 24 * HOUR
BOUND: Final = 0.05
DEVICES: Final = 24
HOURS: Final = {"first": 4, "short": 1, "long": 12}
"""How long the jobs of each tenant run."""
DECAYED: Final = "hived:opportunistic-order=decayed-use,half-life=24h"


def week() -> list[Job]:
    """Jobs of three tenants, each of which asks for two thirds of all devices."""
    found = list[Job]()
    for vc, hours in HOURS.items():
        number = WEEK * DEVICES // (hours * HOUR) * 2 // 3 // 2
        for one in range(number):
            submit = 0 if vc == "first" else 60_000 + one * (WEEK // 2) // number
            found.append(Job(f"{vc}-{one}", Millis(submit), 2, Millis(hours * HOUR), vc=vc, share=Share.OPPORTUNISTIC))
    return sorted(found, key=lambda job: (job.submit, job.id))


def shares(jobs: Sequence[Job], policy: str) -> dict[str, float]:
    """The part of each tenant of the device time of the week."""
    shape = replace(homogeneous(DEVICES // 8, 8), quotas=dict.fromkeys(HOURS, 8))
    used = Counter[str](dict.fromkeys(HOURS, 0))
    for outcome in simulate(jobs, shape, policy).outcomes:
        if outcome.first_start is not None:  # nobody is preempted
            end = min(WEEK, outcome.first_start + outcome.ran)
            used[outcome.vc] += outcome.gpus * max(0, end - outcome.first_start)
    return {vc: amount / used.total() for vc, amount in used.items()}


def main() -> int:
    """Print a row for each policy."""
    jobs, error = week(), 0.0
    print(f"{'policy':52} {'  '.join(f'{vc:>7}' for vc in HOURS)}  error")
    for policy in ("hived:order=created", "hived", DECAYED):
        found = shares(jobs, policy)
        error = max(abs(share * len(HOURS) - 1) for share in found.values())
        row = "  ".join(f"{100 * share:6.1f}%" for share in found.values())
        print(f"{policy:52} {row}  {100 * error:.1f} %", flush=True)
    return int(error > BOUND)


if __name__ == "__main__":
    sys.exit(main())
