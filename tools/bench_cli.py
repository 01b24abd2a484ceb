"""How long short commands take from their start to their end, against a bare Python that imports json and argparse.

Processor seconds, user and system, the best of several runs in turns, so that both sides see the same machine. Fails
when a command takes more than its share: 5 times for `version` and `--help`, 9 for the commands of labs and those that
a lab has students type. (Not measured: `lab shell`, which lasts as long as its shell, and `lab run`, which types a
whole lab.) Each finds lab 02 as it was when it began.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARE = ("-c", "import json, argparse")
LAB = "02_vc_safety"
OF_NO_LAB = ("version", "--help", "lab list", "lab start 3", "lab glossary", "lab language")
IN_A_LAB = (
    "lab next",
    "lab show",
    "lab status",
    "lab verify",
    "lab hint",
    "lab solve",
    "lab skip fill --reason no",
    "lab answer 1 because",
    "lab env",
    "lab reset -y",
    "lab report --name Ann -o report.html",
    "job submit job-2.yaml",
    "job list",
    "cluster view",
    "cluster tick 1m",
)
SHARE = 9
"""How many times the bare Python a command may take;"""
LEAST = {"version": 5, "--help": 5}
"""and those that do next to nothing."""


def main() -> int:
    """Measure, print a table, and give 1 if something takes more than its share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="How often each is run.")
    runs = parser.parse_args().runs
    shares = dict.fromkeys((*OF_NO_LAB, *IN_A_LAB), SHARE) | LEAST
    with tempfile.TemporaryDirectory() as folder:
        begun, used = Path(folder, "begun"), Path(folder, "used")
        environment = {**os.environ, "PAICTL_STATE": str(used), "PYTHONPATH": str(ROOT), "PAICTL_LANG": "en"}
        environment["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        # As where paictl is installed: compiled once, wherever this tree is and whatever it forbids.
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "compiled"))
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _processor(("-m", "paictl", "lab", "start", LAB[:2]), environment)
        used.rename(begun)
        inside = {**environment, "PAICTL_STATE": str(used / "labs" / LAB)}
        best = {"": float("inf")} | dict.fromkeys(shares, float("inf"))
        for _ in range(runs + 1):  # in the first run what is compiled is written
            best = {
                command: min(least, _used_for(command, begun, used, inside if command in IN_A_LAB else environment))
                for command, least in best.items()
            }
    bare = best.pop("")
    print(f"{'command':<46}{'CPU s':>8}{'times':>8}{'at most':>9}")
    print(f"{'python, bare':<46}{bare:>8.3f}{1:>8.1f}")
    for command, share in shares.items():
        print(f"{'paictl ' + command:<46}{best[command]:>8.3f}{best[command] / bare:>8.1f}{share:>9}")
    return int(any(best[command] > share * bare for command, share in shares.items()))


def _used_for(command: str, begun: Path, used: Path, environment: dict[str, str]) -> float:
    """Processor seconds of a command ("" for the bare Python), run where a lab has just begun."""
    shutil.rmtree(used, ignore_errors=True)
    shutil.copytree(begun, used)
    words = ("-m", "paictl", *command.split()) if command else BARE
    return _processor(words, environment, used / "labs" / LAB / "files")


def _processor(words: tuple[str, ...], environment: dict[str, str], folder: Path | None = None) -> float:
    """Processor seconds of a process of this Python; exits with what it said if it was refused."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in (0, 1):
        sys.exit(f"{' '.join(words)}: {ended.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
