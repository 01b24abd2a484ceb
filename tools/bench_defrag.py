"""How long a plan of defragmentation takes: `python tools/bench_defrag.py [--nodes 4096]` (docs/defragmentation.md).

Fills a cluster with small gangs, with and without guarantees, ends a third of them, and asks for room of several
shapes. Figures are seconds of this process; nothing else has to run beside it.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paictl.scheduler.decision import Bind
from paictl.scheduler.defrag import NoRoom, RoomRequest, RunningGang, find_room
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import PodGone
from paictl.scheduler.request import PodRequest
from tests.unit.scheduler.defrag_cases import NODE, RACK, SWITCH, cells_of, engine_of, users

VCS = 8
PER_RACK = 16


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
            f"{name}/0", name, f"vc{number % VCS}", dice.choice((0, 10)) if guaranteed else -1, leaves, name,
            ((leaves, pods),), "V100",
        )  # fmt: skip
        decision = engine.plan(request)
        if not isinstance(decision, Bind):
            refused += 1
            if refused > 50:
                break
            continue
        engine.apply(decision)
        for pod in range(1, pods):
            engine.apply(engine.plan(PodRequest(
                f"{name}/{pod}", name, request.vc, request.priority, leaves, name, request.members, "V100",
            )))  # fmt: skip
        gangs.append(RunningGang(name, (request,), dice.randint(300, 90_000)))
    gone = set(dice.sample(range(len(gangs)), len(gangs) // 3))
    for place in gone:
        for uid in [uid for pods in engine.state.groups.by_name[gangs[place].key].pods for uid in pods]:
            engine.observe(PodGone(uid))
    return engine, [gang for place, gang in enumerate(gangs) if place not in gone]


def main() -> None:
    """Print a line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4096)
    nodes = parser.parse_args().nodes
    dice = Random(1)  # noqa: S311 - the same cluster every time
    engine, gangs = full(nodes, dice)
    print(f"Python {platform.python_version()}, {platform.machine()}: {nodes} nodes, {len(gangs)} gangs")
    for more, kind, vc in (
        (1, NODE, ""), (4, NODE, ""), (32, NODE, ""), (1, RACK, ""), (4, RACK, ""), (8, SWITCH, ""), (1, NODE, "vc0"),
        (4, NODE, "vc0"), (nodes, NODE, ""),
    ):  # fmt: skip
        free = sum(not users(engine, cell, vc) for cell in cells_of(engine, kind, vc))
        room = RoomRequest(min(free + more, len(cells_of(engine, kind, vc))), kind, vc)
        began = time.process_time()
        found = find_room(engine, room, gangs)
        took = time.process_time() - began
        what = f"none: {found.obstacle}" if isinstance(found, NoRoom) else f"{len(found.moves)} moves, {found.weight}"
        print(f"{more:5} more than {free:4} x {room.cell_type:11} {room.vc or '-':4} {took:6.2f} s  {what}", flush=True)


if __name__ == "__main__":
    main()
