#!/usr/bin/env python3
"""What compiling the core brings: pure and compiled in turns, after ``tools/wheel.py``.

Operations of the core are the streams of ``tools/bench_scheduler.py`` (the first `OPERATIONS`, if ``../shared/bench``
is there), jobs those of ``tools/bench_sim.py`` on 480 devices. Each run is a process of its own; processor time, the
best of `ROUNDS`, because other work only ever makes one slower.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

WORK: Final = Path(__file__).resolve().parent.parent / "build" / "wheel"
SIZES: Final = (64, 2048, 32768)
OPERATIONS: Final = 20_000
JOBS: Final = (("fifo", 20_000), ("las", 20_000), ("hived", 3_000))
ROUNDS: Final = 5


def main() -> None:
    """All, in turns; or one size in this process."""
    if sys.argv[1:]:
        print(operation(int(sys.argv[1])))
        return
    tasks: dict[str, Callable[[str], float]] = {}
    for size in SIZES if (WORK / "shared" / "bench").is_dir() else ():
        tasks[f"operation, {size:,} devices"] = partial(in_process, size=size)
    for policy, number in JOBS:
        tasks[f"{policy}, {number:,} jobs"] = partial(job, policy=policy, number=number)
    print(f"{'microseconds each':28}{'pure':>10}{'compiled':>10}{'times':>8}")
    for name, task in tasks.items():
        turns = [(task("pure"), task("compiled")) for _ in range(ROUNDS)]
        pure, compiled = (min(times) for times in zip(*turns, strict=True))
        print(f"{name:28}{pure:10.1f}{compiled:10.1f}{pure / compiled:8.2f}", flush=True)


def operation(size: int) -> float:
    """Microseconds of an operation of the core."""
    import bench_scheduler

    _, engine, steps, _ = bench_scheduler.prepared(size)
    begin = time.process_time()
    bench_scheduler.run(engine, steps[:OPERATIONS])
    return (time.process_time() - begin) / len(steps[:OPERATIONS]) * 1e6


def in_process(name: str, size: int) -> float:
    """The same with an installed wheel."""
    return float(printed(name, "tools/bench_compiled.py", str(size)))


def job(name: str, policy: str, number: int) -> float:
    """Microseconds of a job of the simulator."""
    arguments = ("--one", policy, "--jobs", str(number), "--nodes", "60")
    return float(json.loads(printed(name, "tools/bench_sim.py", *arguments))["cpu"]) / number * 1e6


def printed(name: str, *arguments: str) -> str:
    """What Python prints in an environment of the trial, where there is no other package than the installed one."""
    python = WORK / name / "bin" / "python"
    return subprocess.run(
        [python, *arguments], cwd=WORK / "check", check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()
