"""The scheduler core of another tree beside this one: ``bench_beside.py OLDTREE [DEVICES...]``, in turn, in one run.

Mean of an operation, of one in a storm of nodes that flap, and start-up, as `bench_scheduler.py` has them, each the
best of several runs, because other work only ever makes one slower. Both trees run with this Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = os.environ.get("PAICTL_SHARED", str(ROOT.parent / "shared"))
SIZES = (64, 512, 2048, 8192, 32768)
RUNS = 4
FIGURES = ("mean", "storm", "start")


def main() -> None:
    """Measure and print a line for each size and figure."""
    if len(sys.argv) < 2 or not Path(sys.argv[1], "tools", "bench_scheduler.py").is_file():
        sys.exit(__doc__)
    trees = (Path(sys.argv[1]).resolve(), ROOT)
    print(f"{'devices':>8}  {'figure':<6}{'there':>12}{'here':>12}{'ratio':>8}")
    for size in map(int, sys.argv[2:] or SIZES):
        runs = [[_figures(tree, size) for tree in trees] for _ in range(RUNS)]
        for figure in FIGURES:
            there, here = (min(run[side][figure] for run in runs) for side in (0, 1))
            print(f"{size:>8}  {figure:<6}{there:>12.4g}{here:>12.4g}{here / there:>8.2f}", flush=True)


def _figures(tree: Path, size: int) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PAICTL_SHARED": SHARED}
    words = [sys.executable, str(tree / "tools" / "bench_scheduler.py"), "--one", str(size)]
    done = subprocess.run(words, env=environment, cwd=tree, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
