"""How long short commands take to start, against a bare Python that imports json and argparse.

Processor seconds, user and system, the best of several runs in turns, so that both sides see the same machine. Fails
when a command takes more than its share: 5 times for `version` and `--help`, 9 for all that only looks, in a lab too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARE = ("-c", "import json, argparse")
SHARES = {
    ("version",): 5,
    ("--help",): 5,
    ("lab", "list"): 9,
    ("lab", "next"): 9,
    ("lab", "verify"): 9,
    ("job", "list"): 9,
}
"""How many times the bare Python each may take."""


def main() -> int:
    """Measure, print a table, and give 1 if something takes more than its share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="How often each is run.")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PAICTL_STATE": str(Path(folder, "state")), "PYTHONPATH": str(ROOT)}
        # As where paictl is installed: compiled once, wherever this tree is and whatever it forbids.
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "compiled"))
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run(
            [sys.executable, "-m", "paictl", "lab", "start", "2"], env=environment, check=True, capture_output=True
        )
        in_lab = {**environment, "PAICTL_STATE": str(Path(folder, "state", "labs", "02_vc_safety"))}
        commands = {words: ("-m", "paictl", *words) for words in SHARES}
        best = {words: float("inf") for words in [BARE, *commands]}
        for _ in range(runs):
            for words in best:
                best[words] = min(best[words], _processor(commands.get(words, words), in_lab))
    print(f"{'command':<22}{'CPU s':>8}{'times':>8}{'at most':>9}")
    print(f"{'python, bare':<22}{best[BARE]:>8.3f}{1:>8.1f}")
    slow = False
    for words, share in SHARES.items():
        times = best[words] / best[BARE]
        slow |= times > share
        print(f"{'paictl ' + ' '.join(words):<22}{best[words]:>8.3f}{times:>8.1f}{share:>9}")
    return int(slow)


def _processor(words: tuple[str, ...], environment: dict[str, str]) -> float:
    """Processor seconds of a process of this Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
