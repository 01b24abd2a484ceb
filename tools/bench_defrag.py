"""How long a plan of defragmentation takes, and how cheap it is (docs/defragmentation.md).

`python tools/bench_defrag.py [--nodes 4096]` fills a cluster with small gangs, with and without guarantees, ends a
third of them, and asks for room of several shapes. Figures are seconds of this process; nothing else has to run beside
it. `--cases 1000` compares plans on random clusters of at most 64 nodes with the exhaustive search of the tests
instead (hours), and prints the mean and the worst ratio of their weights. `--every` prints the weight of each plan: a
later planner that finds the same weight need not be compared again.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paictl.scheduler.decision import Bind
from paictl.scheduler.defrag import NoRoom, Obstacle, RoomRequest, RunningGang, find_room
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import PodGone
from paictl.scheduler.request import PodRequest
from tests.unit.scheduler.defrag_cases import (
    NODE,
    RACK,
    SWITCH,
    cells_of,
    engine_of,
    largest,
    optimum,
    random_case,
    users,
)

VCS = 8
PER_RACK = 16
BAR = 1.1


def full(nodes: int, dice: Random) -> tuple[Engine, list[RunningGang]]:
    """A cluster that was full, two thirds of its gangs are left."""
    engine = engine_of(nodes, PER_RACK, {f"vc{number}": nodes // VCS for number in range(VCS)})
    gangs: list[RunningGang] = []
    refused = 0
    for number in range(12 * nodes):
        guaranteed = number < nodes // 2
        leaves, pods = dice.choice((1, 1, 2, 2, 4, 4, 8)), dice.choice((1, 1, 1, 2, 4))
        name = f"g{number}"
        request = PodRequest(
            f"{name}/0",
            name,
            f"vc{number % VCS}",
            dice.choice((0, 10)) if guaranteed else -1,
            leaves,
            name,
            ((leaves, pods),),
            "V100",
        )
        decision = engine.plan(request)
        if not isinstance(decision, Bind):
            refused += 1
            if refused > 50:
                break
            continue
        engine.apply(decision)
        for pod in range(1, pods):
            engine.apply(
                engine.plan(
                    PodRequest(
                        f"{name}/{pod}",
                        name,
                        request.vc,
                        request.priority,
                        leaves,
                        name,
                        request.members,
                        "V100",
                    )
                )
            )
        gangs.append(RunningGang(name, (request,), dice.randint(300, 90_000)))
    gone = set(dice.sample(range(len(gangs)), len(gangs) // 3))
    for place in gone:
        for uid in [uid for pods in engine.state.groups.by_name[gangs[place].key].pods for uid in pods]:
            engine.observe(PodGone(uid))
    return engine, [gang for place, gang in enumerate(gangs) if place not in gone]


MOST_NODES = 64
"""Of clusters that are compared with the exhaustive search."""


def compared(seed: int) -> tuple[int, str, int, float, tuple[str, ...]]:
    """The seed, what was found, its weight, that divided by the least weight, and the cheaper moves if any."""
    case = random_case(seed, MOST_NODES)
    size = largest(sum(not gang.fixed for gang in case.gangs.values()))
    plan = find_room(case.engine, case.room, case.gangs.values())
    if isinstance(plan, NoRoom):
        missed = optimum(case, most=min(3, size)) if plan.obstacle is Obstacle.NO_PLACE else None
        return seed, "missed" if missed else "no room", 0, float("inf") if missed else 1.0, missed[1] if missed else ()
    cheaper = optimum(case, below=plan.weight, most=size)
    ratio = plan.weight / cheaper[0] if cheaper and cheaper[0] else 1.0
    return seed, f"{len(plan.moves)} moves", plan.weight, ratio, cheaper[1] if cheaper else ()


def compare(first: int, cases: int, jobs: int, *, every: bool) -> int:
    """Print each case in which a cheaper plan exists, or all, and the mean and the worst ratio; the exit code."""
    began, kinds, ratios = time.monotonic(), Counter[str](), list[float]()
    with ProcessPoolExecutor(jobs) as pool:
        for seed, kind, weight, ratio, cheaper in pool.map(compared, range(first, first + cases)):
            kinds[kind] += 1
            ratios.append(ratio)
            if ratio > 1:
                print(f"case {seed}: {kind}, {ratio:.3f} times the weight of moving {', '.join(cheaper)}", flush=True)
            elif every:
                print(f"case {seed}: {kind}, weight {weight}, {time.monotonic() - began:.0f} s", flush=True)
            if len(ratios) % 50 == 0:
                print(
                    f"{len(ratios)} cases, worst ratio {max(ratios):.3f}, {time.monotonic() - began:.0f} s", flush=True
                )
    print(
        f"{len(ratios)} cases: mean ratio {sum(ratios) / len(ratios):.4f}, worst {max(ratios):.3f}, "
        f"{sum(ratio > 1 for ratio in ratios)} not the cheapest"
    )
    print("; ".join(f"{kind}: {number}" for kind, number in sorted(kinds.items())))
    return int(max(ratios) > BAR)


def main() -> int:
    """Print a line for each shape, or compare plans with the cheapest ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4096)
    parser.add_argument("--cases", type=int, default=0, help="compare so many plans with the exhaustive search instead")
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--every", action="store_true", help="print every case, not only those with a cheaper plan")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes for cases")
    args = parser.parse_args()
    if args.cases:
        return compare(args.seed, args.cases, args.jobs, every=args.every)
    nodes = args.nodes
    dice = Random(1)  # noqa: S311 - the same cluster every time
    engine, gangs = full(nodes, dice)
    print(f"Python {platform.python_version()}, {platform.machine()}: {nodes} nodes, {len(gangs)} gangs")
    for more, kind, vc in (
        (1, NODE, ""),
        (4, NODE, ""),
        (32, NODE, ""),
        (1, RACK, ""),
        (4, RACK, ""),
        (8, SWITCH, ""),
        (1, NODE, "vc0"),
        (4, NODE, "vc0"),
        (nodes, NODE, ""),
    ):
        free = sum(not users(engine, cell, vc) for cell in cells_of(engine, kind, vc))
        room = RoomRequest(min(free + more, len(cells_of(engine, kind, vc))), kind, vc)
        began = time.process_time()
        found = find_room(engine, room, gangs)
        took = time.process_time() - began
        what = f"none: {found.obstacle}" if isinstance(found, NoRoom) else f"{len(found.moves)} moves, {found.weight}"
        print(f"{more:5} more than {free:4} x {room.cell_type:11} {room.vc or '-':4} {took:6.2f} s  {what}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
