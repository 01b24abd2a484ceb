#!/usr/bin/env python3
"""Time what a user of the embedded cluster waits for: whole processes, on the preset with 2,232 devices.

Bringing the cluster up, submitting a job and listing jobs while 500 run, then 10,000 jobs submitted through one process
and run to the end with ``--speed max``. Short commands count by the best of several runs, because on a machine with
other work to do the wall clock says little; CPU seconds stand beside it. A missed limit ends with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
JOB = """\
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{name: image, type: dockerimage, uri: pai/standard}}
taskRoles:
  train:
    instances: {instances}
    dockerImage: image
    resourcePerInstance: {{gpu: {gpu}, cpu: {gpu}, memoryMB: {memory}}}
    commands:
      - sleep {minutes}m
defaults:
  virtualCluster: vc{vc}
extras:
  hivedScheduler: {{jobPriorityClass: {priority}}}
"""
SHAPES = ((1, 1), (1, 1), (1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8))
"""Tasks and devices of each, in turn: most jobs are small, as in the traces of real clusters."""
CLASSES = ("test", "prod", "oppo", "test", "prod")
Cost: TypeAlias = tuple[float, float]
"""Seconds on the wall and of the processor."""
RUNNING = 500
BULK = 10_000
BOOKED = 100_000
"""Jobs in the books of which a report is made."""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bulk", type=int, default=BULK, help="jobs that are submitted at once")
    parser.add_argument("--repeats", type=int, default=5, help="how often the short commands run")
    args = parser.parse_args()
    missed = 0
    print(f"{'command':<58} {'s':>7} {'CPU s':>7} {'limit':>6}")
    for what, (seconds, cpu), limit in measured(args.bulk, args.repeats):
        missed += limit is not None and seconds > limit
        print(f"{what:<58} {seconds:>7.2f} {cpu:>7.2f} {limit if limit is not None else '':>6}", flush=True)
    sys.exit(1 if missed else 0)


def measured(bulk: int, repeats: int) -> Iterator[tuple[str, Cost, float | None]]:
    """(what, what it cost, limit in seconds or None) one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        state = work / "one"
        yield (
            "cluster up --preset production",
            run(state, "cluster", "up", "--preset", "production", "--speed", "0"),
            None,
        )
        seconds = run(state, "job", "submit", "--file", str(job_list(work, "running", RUNNING, fits=True)))
        yield f"job submit --file LIST ({RUNNING} jobs, all of which start)", seconds, None
        one = job_file(work, "one", (1, 1), 7, 1, "test")
        for what, words, limit in (
            (f"job submit, {RUNNING} jobs running", ("job", "submit", str(one), "--name"), 0.6),
            (f"job list, {RUNNING} jobs running", ("job", "list"), None),
            ("cluster status", ("cluster", "status"), None),
            ("cluster tick 1s", ("cluster", "tick", "1s"), None),
        ):
            times = [
                run(state, *words, *([f"one{number}"] if words[-1] == "--name" else [])) for number in range(repeats)
            ]
            yield what, min(times), limit
        state = work / "two"
        run(state, "cluster", "up", "--preset", "production", "--speed", "max")
        seconds = run(state, "job", "submit", "--file", str(job_list(work, "bulk", bulk)))
        yield f"job submit --file LIST ({bulk} jobs), run to the end", seconds, 60.0
        yield f"job list, {bulk} jobs ended", run(state, "job", "list"), None
        yield f"job submit, {bulk} jobs ended", run(state, "job", "submit", str(one)), 0.6
        fill_books(state, BOOKED)
        words = ("usage", "report", "--by", "vc,user,job", "--sku", "-o", "csv")
        yield f"usage report by job, {BOOKED} jobs", run(state, *words), 5.0


def fill_books(state: Path, jobs: int) -> None:
    """Book device time of jobs, two spans each, as if they had ended on a cluster."""
    from paictl.cluster.embedded.cluster import EmbeddedCluster
    from paictl.cluster.embedded.store import Store
    from paictl.units import Millis, millis_between
    from paictl.workload.usage import UsageKind, UsageSpan

    cluster = EmbeddedCluster.at(state)
    present = millis_between(cluster.epoch, cluster.now)
    first = millis_between(cluster.epoch, cluster.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0))
    start, end = Millis(max(0, first)), present
    middle = Millis((start + end) // 2)
    spans = (
        UsageSpan(kind, f"vc{1 + n % 8}", f"u{n % 200}", f"u{n % 200}~j{n}", "V100", 1 + n % 8, *times, lost=n % 9 == 0)
        for n in range(jobs)
        for kind, times in ((UsageKind.GUARANTEED, (start, middle)), (UsageKind.OPPORTUNISTIC, (middle, end)))
    )
    store = Store.open(state)
    with store.writing():
        store.append_usage(spans)
    store.close()


def job_list(work: Path, name: str, count: int, *, fits: bool = False) -> Path:
    """A list of job files; with `fits` small jobs, spread so that all of them can run at once."""
    folder = work / name
    folder.mkdir()
    lines = []
    for number in range(count):
        shape = (1, 1 + number % 3) if fits else SHAPES[number % len(SHAPES)]
        vc = 1 + number % 6 if fits else 1 + number % 8
        job = job_file(folder, f"{name}{number}", shape, 60 if fits else 1 + number % 97, vc, CLASSES[number % 5])
        lines.append(job.name)
    path = folder / "list.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def job_file(folder: Path, name: str, shape: tuple[int, int], minutes: int, vc: int, priority: str) -> Path:
    """One job file."""
    path = folder / f"{name}.yaml"
    instances, gpu = shape
    text = JOB.format(
        name=name, instances=instances, gpu=gpu, memory=1024 * gpu, minutes=minutes, vc=vc, priority=priority
    )
    path.write_text(text, encoding="utf-8")
    return path


def run(state: Path, *words: str) -> Cost:
    """What a whole process of paictl costs; a failure ends the benchmark."""
    environment = {**os.environ, "PAICTL_STATE": str(state), "PYTHONPATH": str(ROOT)}
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "paictl", *words], env=environment, capture_output=True, text=True, check=False
    )
    seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"paictl {' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
