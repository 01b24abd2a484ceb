"""`make bench`, first part: how long `paictl config validate` takes, beside check-jsonschema on the same file.

Whole processes, the two commands in turn, medians; the ratio is of the medians of one run, so that the speed of the
machine cancels out. check-jsonschema checks the shape only and gives no positions; ours runs all rules.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from make_big_hived import big_hived

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schemas" / "hivedscheduler.schema.json"
RUNS = 5
PER_MIB = 2**20 if sys.platform == "darwin" else 2**10
"""Units of ru_maxrss in a MiB: macOS counts bytes, Linux KiB."""


@dataclass(frozen=True)
class Figures:
    """One run of a whole process: seconds on the clock, seconds of CPU, peak memory in MB."""

    wall: float
    cpu: float
    memory: float


def run(command: list[str]) -> Figures:
    """Run a command to its end, its output thrown away."""
    import time

    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return Figures(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / PER_MIB)


def median(runs: list[Figures]) -> Figures:
    """The median of each figure."""
    return Figures(*(statistics.median(getattr(one, name) for one in runs) for name in ("wall", "cpu", "memory")))


def row(what: str, figures: Figures, note: str = "") -> None:
    """Print one line of the table."""
    print(f"{what:<52} {figures.wall:8.2f} {figures.cpu:8.2f} {figures.memory:8.0f}  {note}".rstrip())


def main() -> None:
    """Print the table."""
    paictl = [sys.executable, "-m", "paictl"]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"Machine: {machine}; {RUNS} runs, medians")
    print(f"{'':<52} {'wall s':>8} {'CPU s':>8} {'MB':>8}")
    for words in (["--help"], ["version"]):
        row(f"paictl {words[0]}", median([run([*paictl, *words]) for _ in range(RUNS)]))
    with tempfile.TemporaryDirectory() as folder:
        for nodes in (1_500, 16_384):
            file = Path(folder, f"hived-{nodes}.yaml")
            file.write_text(big_hived(nodes), encoding="utf-8")
            lines = file.read_text(encoding="utf-8").count("\n")
            ours_command = [*paictl, "config", "validate", str(file)]
            other_command = [
                str(Path(sys.executable).with_name("check-jsonschema")),
                "--schemafile",
                str(SCHEMA),
                str(file),
            ]
            ours: list[Figures] = []
            others: list[Figures] = []
            for _ in range(RUNS if nodes < 10_000 else 1):
                ours.append(run(ours_command))
                others.append(run(other_command))
            row(f"validate, {nodes:,} nodes of 8 devices, {lines:,} lines", median(ours))
            ratio = median(ours).wall / median(others).wall
            row("  check-jsonschema on the same file", median(others), f"ours takes {ratio:.2f} of its time")


if __name__ == "__main__":
    main()
