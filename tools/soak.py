#!/usr/bin/env python3
"""Random operations on random clusters, all invariants after each, until the count is reached or one fails.

The clusters are shared out among the processors. A failure prints the seed; ``tools/soak.py --seed N --operations
150 --jobs 1`` shows it again.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.extender.abilities import AbilitiesWorld

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

OPERATIONS = 150
"""Operations on one cluster."""


class ViolationError(Exception):
    """A random cluster on which an invariant does not hold."""


def play(seed: int, operations: int, check_plans: bool) -> Counter[str]:
    """Random operations on the random cluster of a seed; how often each kind happened."""
    from tests.unit.scheduler.world import World

    numbers = random.Random(seed)  # noqa: S311 (a test, not a secret)
    world = World(numbers.randrange, check_plans=check_plans)
    try:
        for _ in range(operations):
            world.step()
    except Exception as error:
        last = "\n".join(world.log[-3:])
        raise ViolationError(
            f"seed {seed} failed after {len(world.log)} entries; the last:\n{last}\n{traceback.format_exc()}"
        ) from error
    return world.stats


def play_fickle(seed: int, operations: int, _: bool) -> Counter[str]:
    """The same as `play_abilities` with pods that are changed and made again while they wait."""
    from tests.unit.extender.fickle import FickleWorld

    world = FickleWorld(seed)
    world.pushes, world.moves = 0.5, 10
    return _played(world, seed, operations)


def play_placer(seed: int, operations: int, _: bool) -> Counter[str]:
    """The same behind the placer."""
    from tests.unit.placer.pinned import PinnedWorld

    world = PinnedWorld(seed)
    world.moves = 10
    return _played(world, seed, operations)


def play_abilities(seed: int, operations: int, _: bool) -> Counter[str]:
    """Random operations on a door with every ability of the section `sharing` on."""
    from tests.unit.extender.abilities import AbilitiesWorld

    return _played(AbilitiesWorld(seed), seed, operations)


def _played(world: AbilitiesWorld, seed: int, operations: int) -> Counter[str]:
    for number in range(operations):
        try:
            world.step()
        except Exception as error:
            last = traceback.format_exc()
            raise ViolationError(f"seed {seed} failed in operation {number + 1} of abilities:\n{last}") from error
    try:
        world.rest()
    except Exception as error:
        raise ViolationError(f"seed {seed} of abilities does not come to rest:\n{traceback.format_exc()}") from error
    return world.stats


def play_embedded(seed: int, operations: int, _: bool) -> Counter[str]:
    """Random operations on a cluster on this machine, in which nobody may wait without need."""
    from tests.unit.cluster.stuck import StuckWorld

    world = StuckWorld(seed)
    for number in range(operations):
        try:
            world.step()
        except Exception as error:
            last = traceback.format_exc()
            raise ViolationError(f"seed {seed} failed in operation {number + 1} of embedded:\n{last}") from error
    return world.stats


def main() -> int:
    """Play clusters with consecutive seeds until the operations are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0, help="the first cluster")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--no-digests", action="store_true", help="do not check that plans leave the state unchanged")
    parser.add_argument("--abilities", action="store_true", help="play a door with all of `sharing` on, not the core")
    parser.add_argument("--fickle", action="store_true", help="the same with pods that change while they wait")
    parser.add_argument("--placer", action="store_true", help="the same behind the placer")
    parser.add_argument("--embedded", action="store_true", help="play a cluster on this machine, not the core")
    args = parser.parse_args()
    clusters = -(-args.operations // OPERATIONS)
    seeds = iter(range(args.seed, args.seed + clusters))
    worlds = {
        play_abilities: args.abilities,
        play_fickle: args.fickle,
        play_placer: args.placer,
        play_embedded: args.embedded,
    }
    played = next((world for world, chosen in worlds.items() if chosen), play)
    stats, begin, done = Counter[str](), time.monotonic(), 0
    with ProcessPoolExecutor(args.jobs) as pool:
        running = set()
        while True:
            for seed in seeds:
                running.add(pool.submit(played, seed, OPERATIONS, not args.no_digests))
                if len(running) >= 4 * args.jobs:
                    break
            if not running:
                break
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                try:
                    stats += future.result()
                except ViolationError as violation:
                    pool.shutdown(wait=False, cancel_futures=True)
                    print(violation, file=sys.stderr)
                    return 1
                done += 1
                if done % 500 == 0:
                    print(f"{done * OPERATIONS} operations, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{done * OPERATIONS} operations on {done} clusters in {time.monotonic() - begin:.0f} s without a violation")
    for what, count in stats.most_common():
        print(f"  {what or 'pod joined its group':<32} {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
