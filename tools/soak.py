#!/usr/bin/env python3
"""Random operations on random clusters, all invariants after each, until the count is reached or one fails.

A failure prints the seed; ``tools/soak.py --seed N --operations 200`` shows it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def main() -> None:
    """Run worlds of 150 operations with consecutive seeds."""
    from tests.unit.scheduler.world import World

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-digests", action="store_true", help="do not check that plans leave the state unchanged")
    args = parser.parse_args()
    done, seed, stats, begin = 0, args.seed, Counter[str](), time.monotonic()
    while done < args.operations:
        numbers = random.Random(seed)  # noqa: S311 (a test, not a secret)
        world = World(numbers.randrange, check_plans=not args.no_digests)
        try:
            for _ in range(min(150, args.operations - done)):
                world.step()
                done += 1
        except Exception:
            print(f"seed {seed} failed after {len(world.log)} entries; the last:", *world.log[-3:], sep="\n")
            raise
        stats += world.stats
        seed += 1
        if seed % 500 == 0:
            print(f"{done} operations, {seed - args.seed} clusters, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{done} operations on {seed - args.seed} clusters in {time.monotonic() - begin:.0f} s without a violation")
    for what, count in stats.most_common():
        print(f"  {what or 'pod joined its group':<32} {count}")


if __name__ == "__main__":
    main()
