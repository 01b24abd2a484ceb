#!/usr/bin/env python3
"""Press Ctrl-C at random moments of many commands, and report each that does not end as it should.

Every attempt has a copy of a prepared cluster or lab. A moment is an amount of the command's own processor time, from
50 ms (Python itself has started by then) to what the whole command takes, so that a busy machine moves none of them. A
command that is interrupted ends with exit code 130 and one line; one that was faster ends as it always does. What it
leaves behind must still work: now and then the next command is tried.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = 0.05
"""Seconds of the processor before which nothing is promised."""
PATIENCE = 120.0
"""Seconds that a command may take."""
TICK = 0.002
"""Seconds between two looks at the processor time."""
NEXT = 10
"""After one attempt in so many, the next command is tried."""

COMMANDS = """
version
completion bash
cluster up --preset dgx2 --state other
cluster status
cluster list
cluster view
cluster view --html view.html
cluster events
cluster down --yes
job submit train.yaml --vc vision
job submit train.yaml --vc vision --repeat 20
job list
job list -o json
job show hold
job explain late-3
job explain late-3 -o wide
job logs hold
job stop hold late-3
job wait late-3 --timeout 2s
node list
node cordon v100-1
node fail v100-1
service list
service stop -n hivedscheduler --yes
service restart --yes
config validate cluster
config validate cluster --format sarif
config generate -m cluster/master.csv -w cluster/worker.csv --sku V100=gpu:8,cpu:96,memory:900Gi -o made
config capacity cluster
config push -p cluster --yes
config push -p cluster --dry-run
config diff cluster/
config versions
config pull -o pulled
user list
user add ann --vc vision --password-stdin
usage report
sim policies
sim run --policy fifo --jobs 200 --cluster 2x4
sim compare --jobs 200 --cluster 2x4
extender config
placer config
lab list
lab start 02
"""
"""Command lines, one a line; they need nothing but what `prepare` makes."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One attempt: after how much processor time the signal came (None: too late), and how the command ended."""

    line: str
    at: float | None
    code: int
    stderr: str

    def wrong(self, usual: int) -> str:
        """What is not as it should be, empty if nothing."""
        if "Traceback" in self.stderr or "Exception ignored" in self.stderr:
            return "a traceback"
        if self.code == usual or (self.code == 130 and "interrupted" in self.stderr):
            return ""
        return f"exit code {self.code}"


def paictl(line: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a command in a folder of its own."""
    names = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("STATE", "CONFIG", "CACHE", "DATA")}
    environment = {**os.environ, **names, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    environment.pop("PAICTL_STATE", None)
    process = subprocess.Popen(
        [sys.executable, "-c", START, *shlex.split(line)], cwd=folder, env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    if process.stdin is not None:
        process.stdin.write(b"a long password\n")
        process.stdin.close()
        process.stdin = None
    return process


START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from paictl.cli.main import main; main()"
)
"""A shell lets jobs in the background ignore Ctrl-C, and so would what they start."""


def prepare(folder: Path) -> Path:
    """A cluster with a job that runs and one that waits, and configuration files."""
    folder.mkdir()
    shutil.copytree(ROOT / "examples" / "cluster", folder / "cluster")
    job = (ROOT / "examples" / "jobs" / "train.yaml").read_text(encoding="utf-8")
    (folder / "train.yaml").write_text(job, encoding="utf-8")
    for line in (
        "cluster up cluster", "job submit train.yaml --vc vision --name hold --duration 9h",
        "job submit train.yaml --vc vision --name late --repeat 3",
    ):  # fmt: skip
        done = paictl(line, folder)
        _, said = done.communicate(timeout=PATIENCE)
        if done.returncode:
            raise SystemExit(f"{line}: {said.decode()}")
    return folder


def cpu_of(pid: int) -> float:
    """Seconds of the processor that a process has had, 0 for one that is gone."""
    try:
        text = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(text.split()[0]) / 1e9


def whole(line: str, prepared: Path) -> tuple[float, Ended]:
    """How much processor time a command takes that is left alone, and how it ends."""
    with tempfile.TemporaryDirectory(prefix="paictl-int-") as work:
        process = paictl(line, Path(shutil.copytree(prepared, Path(work) / "c")))
        spent, end = 0.0, time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            spent = max(spent, cpu_of(process.pid))
            time.sleep(TICK)
        process.kill()
        _, said = process.communicate()
    return spent, Ended(line, None, process.returncode, said.decode(errors="replace"))


def interrupted(line: str, at: float, prepared: Path, *, follow: bool) -> Ended:
    """A command that gets Ctrl-C once it has had so much of the processor."""
    with tempfile.TemporaryDirectory(prefix="paictl-int-") as work:
        folder = Path(shutil.copytree(prepared, Path(work) / "c"))
        process = paictl(line, folder)
        end, sent = time.monotonic() + PATIENCE, False
        while process.poll() is None and not sent:
            if cpu_of(process.pid) >= at:
                process.send_signal(signal.SIGINT)
                sent = True
            elif time.monotonic() > end:
                process.kill()
            time.sleep(TICK)
        try:
            _, said = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            _, said = process.communicate()
        stderr = said.decode(errors="replace")
        if follow and not line.startswith("cluster down"):
            after = paictl("job list", folder)
            _, told = after.communicate(timeout=PATIENCE)
            if after.returncode:
                return Ended(line, at, after.returncode, f"{stderr}afterwards, job list: {told.decode()}")
        return Ended(line, at if sent else None, process.returncode, stderr)


def attempts(line: str, times: int, prepared: Path, pick: random.Random, pool: ThreadPoolExecutor) -> list[str]:
    """What went wrong with one command, an entry an attempt; prints how often it was hit."""
    spent, usual = whole(line, prepared)
    moments = [pick.uniform(FIRST, max(spent, FIRST)) for _ in range(times)]
    calls = [
        pool.submit(interrupted, line, at, prepared, follow=number % NEXT == 0) for number, at in enumerate(moments)
    ]
    ended = [call.result() for call in calls]
    hit = sum(one.code == 130 for one in ended)
    wrong = [
        f"{line}: {said} after {one.at or 0:.3f} s: {one.stderr}" for one in ended if (said := one.wrong(usual.code))
    ]
    if usual.code not in (0, 1, 2) or "Traceback" in usual.stderr:
        wrong.append(f"{line}: left alone, exit code {usual.code}: {usual.stderr}")
    took = f"{spent * 1000:>6.0f} ms {usual.code:>3}"
    print(f"{line:<64} {took} {hit:>4} of {times} interrupted, {len(wrong)} wrong", flush=True)
    return wrong


def main() -> None:
    """Try the commands; exit code 1 if any attempt went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="attempts of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="commands that contain this")
    args = parser.parse_args()
    lines = [line for line in COMMANDS.strip().splitlines() if args.only in line]
    wrong: list[str] = []
    pick = random.Random(args.seed)  # noqa: S311 - moments, no secrets
    with tempfile.TemporaryDirectory(prefix="paictl-int-") as work, ThreadPoolExecutor(2) as pool:
        prepared = prepare(Path(work) / "prepared")
        for line in lines:
            wrong += attempts(line, args.times, prepared, pick, pool)
    print(f"{len(lines)} commands, {args.times} times each: {len(wrong)} did not end as they should")
    for one in wrong:
        print(f"\n{one}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
