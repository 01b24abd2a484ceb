#!/usr/bin/env python3
"""Press Ctrl-C at random moments of many commands, and report each that does not end as it should.

Every attempt has a copy of a prepared cluster or lab. A moment is an amount of the command's own processor time, from
50 ms (Python itself has started by then) to what the whole command takes, so that a busy machine moves none of them. A
command that is interrupted ends with exit code 130 and one line; one that was faster ends as it always does. What it
leaves behind must still work: now and then the next command is tried.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
FIRST = 0.05
"""Seconds of the processor before which nothing is promised."""
PATIENCE = 120.0
"""Seconds that a command may take."""
TICK = 0.002
"""Seconds between two looks at the processor time."""
IDLE, LITTLE = 2.0, 0.05
"""Seconds in which it wants a processor for less than this share of the time: it waits, for the network or its end."""
NEXT = 10
"""After one attempt in so many, the next command is tried."""

COMMANDS = """
version
completion bash
help
support log
support bundle --file support.tar.gz
cluster up --preset dgx2 --state other
cluster status
cluster list
cluster use local
cluster add far --kubeconfig far.conf --context far
cluster remove far --no-input
cluster import --kubeconfig far.conf --context far --file cells.yaml
cluster kubeconfig add ann --namespace vision --cluster far
cluster kubeconfig list
cluster kubeconfig remove ann --yes
cluster view
cluster view --html view.html
cluster events
cluster tick 5m
cluster speed 60
cluster down --yes
job submit train.yaml --vc vision
job submit train.yaml --vc vision --repeat 20
job list
job list -o json
job list --watch --timeout 1
job show hold
job events hold
job explain late-3
job explain late-3 -o wide
job logs hold
job exec hold -- true
job stop hold late-3
job clone hold
job tag hold sweep
job list --tag sweep
job ssh hold --print
job open hold
job run --interactive ubuntu:24.04
template add vision . --vc vision
template sync vision .
template list
template show vision
template remove vision --yes
storage list
storage add data --nfs 10.0.0.1:/data --vc vision
storage show data
storage grant data --vc speech
storage remove data --yes
user key list eve
user key add eve key.pub
user key remove eve none
cluster defrag plan --for 1xV100-NODE
cluster defrag apply --for 1xV100-NODE --yes
support replay support.tar.gz
node list
node show v100-1
node cordon v100-1
node uncordon v100-1
node fail v100-1
node heal v100-1
node add v100-9 --address 10.20.1.9 --like v100-1
node remove v100-4 --yes
node run -m near/master.csv -w near/worker.csv -c near/config.yaml uptime
node copy -m near/master.csv -w near/worker.csv -c near/config.yaml train.yaml /tmp/train.yaml
node ssh v100-1 -m near/master.csv -w near/worker.csv -c near/config.yaml
service list
service status
service start
service stop -n hivedscheduler --yes
service restart --yes
service refresh --yes
service delete -n grafana --yes
service export chart -p cluster
service secrets -p cluster
config validate cluster
config validate cluster --format sarif
config generate -m cluster/master.csv -w cluster/worker.csv -c cluster/config.yaml --sku V=gpu:8,cpu:9,memory:9Gi -o new
config capacity cluster
config push -p cluster --yes
config push -p cluster --dry-run
config diff cluster/
config plan -p cluster -o plan.json
config apply change.json --yes
config history
config rollback 1 --yes
config get-id
config pull -o pulled
config rules
config explain HVD512
config schema list
config schema show job
config schema export schemas
maintenance add --nodes v100-3 --from +3h --for 1h --yes
maintenance list
maintenance show maintenance-1
maintenance remove maintenance-1
reservation add --vc speech --cells 1xV100-NODE --from +30h --for 1h
reservation list
reservation show reservation-1
reservation remove reservation-1
usage report
usage budget list
usage budget set --vc vision --hours 5000 --yes
usage limits
user list
user add ann --vc vision --password-stdin
user passwd eve --password-stdin
user grant eve --vc speech
user remove eve --yes
user sign-in http://127.0.0.1:9
serve --listen 127.0.0.1:PORT
scheduler replay --config hived.yaml operations.jsonl
scheduler explain --config hived.yaml operations.jsonl train-0
extender config
extender explain-pod pod.yaml
extender serve --config hived.yaml --kubeconfig far.conf --context far --listen 127.0.0.1:PORT
placer config
placer serve --config hived.yaml --kubeconfig far.conf --context far --listen 127.0.0.1:PORT
controller serve --kubeconfig far.conf --context far --listen 127.0.0.1:PORT
sim policies
sim traces tiny --cluster 2x4
sim generate tiresias --jobs 480 --seed 1 -o trace.csv
sim run tiny --policy fifo --cluster 2x4
sim compare tiny --cluster 2x4
sim sweep tiny --policy las:knob=1..8 --cluster 2x4
sim size tiny --target "p95 queueing <= 1h"
sim what-if tiny --config hived.yaml --config hived.yaml
deploy bundle create -o bundle --source https://127.0.0.1:9/{file}
deploy bundle verify bundle
deploy bundle list bundle
deploy check -m near/master.csv -w near/worker.csv -c near/config.yaml
deploy plan -m near/master.csv -w near/worker.csv -c near/config.yaml
deploy apply -m near/master.csv -w near/worker.csv -c near/config.yaml --yes
deploy verify -m near/master.csv -w near/worker.csv -c near/config.yaml
deploy upgrade --to v1.37.2 -m near/master.csv -w near/worker.csv -c near/config.yaml --yes
deploy audit -m near/master.csv -w near/worker.csv -c near/config.yaml
deploy rotate-encryption-key -m near/master.csv -w near/worker.csv -c near/config.yaml --yes
deploy certs status -m near/master.csv -w near/worker.csv -c near/config.yaml
deploy certs renew -m near/master.csv -w near/worker.csv -c near/config.yaml --yes
deploy backup -m near/master.csv -w near/worker.csv -c near/config.yaml backups
deploy restore -m near/master.csv -w near/worker.csv -c near/config.yaml none.tar.gz --yes
deploy reset -m near/master.csv -w near/worker.csv -c near/config.yaml --yes
lab list
lab start 03
lab env 02
lab shell 02
lab next 02
lab status 02
lab hint 02
lab verify 02
lab verify 02 --watch --timeout 1
lab show 02
lab glossary
lab language zh
lab skip first-runs --reason "no time"
lab solve 02
lab answer 1 "because the quota is used up"
lab predict fill "it waits" --lab 22
lab visit eve train.yaml --password-file eve.password --server http://127.0.0.1:9
lab class start --students 2 --listen 127.0.0.1:PORT
lab class status
lab class collect -o reports
lab class stop --yes
lab class hand-in report.html --server http://127.0.0.1:9 --user s1 --password-file eve.password
lab run 02 --fast
lab reset 02 --yes
lab reset 02 --step 1 --yes
lab restore 02
lab report -o new.html --name "Ann Li"
lab check-report report.html
lab selftest 02
"""
"""Command lines, one a line, every command at least once; they need nothing but what `prepare` makes."""

USUAL = frozenset({0, 1, 2, 3, 4, 130})
"""Exit codes of commands that are left alone; 130 of those that serve until they are ended."""


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
    environment = {**os.environ, **names, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "SHELL": "/bin/true"}
    environment.pop("PAICTL_STATE", None)
    words = shlex.split(line.replace("PORT", str(free_port())))
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if process.stdin is not None:
        process.stdin.write(b"a long password\n")
        process.stdin.close()
        process.stdin = None
    return process


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from paictl.cli.main import main; main()"
)
"""A shell lets jobs in the background ignore Ctrl-C, and so would what they start."""


FAR = """
apiVersion: v1
kind: Config
current-context: far
clusters: [{name: far, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: far, user: {}}]
contexts: [{name: far, context: {cluster: far, user: far}}]
"""
"""A cluster that nobody answers for."""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: train-0, labels: {paictl.io/virtual-cluster: vision}}
spec:
  schedulerName: hivedscheduler
  containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
OPERATIONS = """
{"op": "node", "name": "v100-1", "healthy": true}
{"op": "schedule", "pod": "train-0", "vc": "vision", "priority": 0, "leafCellNumber": 1}
"""
PREPARED = (
    "cluster up cluster",
    "job submit train.yaml --vc vision --name hold --duration 9h",
    "job submit train.yaml --vc vision --name late --repeat 3",
    "config push -p cluster --yes",
    "config plan -p changed -o change.json",
    "maintenance add --nodes v100-2 --from +3h --for 1h --yes",
    "reservation add --vc speech --cells 1xV100-NODE --from +40h --for 1h",
    "user add eve --vc vision --password-stdin",
    "lab start 02",
    "lab reset 02 --yes",
    "lab start 02",
    'lab report -o report.html --name "Ann Li"',
)


def prepare(folder: Path) -> Path:
    """A cluster with a job that runs and one that waits, a lab that was begun, and files of every kind."""
    folder.mkdir()
    example = ROOT / "examples" / "cluster"
    for name in ("cluster", "changed", "near"):
        shutil.copytree(example, folder / name)
    settings = (example / "config.yaml").read_text(encoding="utf-8")
    (folder / "changed" / "config.yaml").write_text(settings + "grafana: {port: 3001}\n", encoding="utf-8")
    address = "deploy: {api_address: 10.20.0.9}\n"  # nobody answers there, nor at the other machines
    (folder / "near" / "config.yaml").write_text(settings + address, encoding="utf-8")
    services = yaml.safe_load((example / "services-configuration.yaml").read_text(encoding="utf-8"))
    job = (ROOT / "examples" / "jobs" / "train.yaml").read_text(encoding="utf-8")
    written = {
        "train.yaml": job,
        "far.conf": FAR,
        "pod.yaml": POD,
        "operations.jsonl": OPERATIONS.lstrip(),
        "hived.yaml": services["hivedscheduler"]["config"],
        "eve.password": "a long password\n",
    }
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "eve.password").chmod(0o600)
    for line in PREPARED:
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


def wants_processor(pid: int) -> bool:
    """Whether a thread of a process runs or would if the machine were less busy, or waits for a disk."""
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = thread.read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state in "RD":
            return True
    return False


def watched(process: subprocess.Popen[bytes], at: float) -> tuple[float, bool]:
    """Press Ctrl-C once a command has had so much of the processor, or waits for something.

    The processor time by then, and whether the command was still there.
    """
    spent, seen, busy, since, end = 0.0, 0, 0, time.monotonic(), time.monotonic() + PATIENCE
    while process.poll() is None:
        now, spent = time.monotonic(), max(spent, cpu_of(process.pid))
        seen, busy = seen + 1, busy + wants_processor(process.pid)
        idle = now - since > IDLE and busy < seen * LITTLE and spent > FIRST
        if now - since > IDLE:
            seen, busy, since = 0, 0, now
        if now > end:
            process.kill()
        elif spent >= at or idle:
            process.send_signal(signal.SIGINT)
            return spent, True
        time.sleep(TICK)
    return spent, False


def ending(process: subprocess.Popen[bytes]) -> str:
    """What it says until its end, for which it has some time."""
    try:
        _, said = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
    return said.decode(errors="replace")


def whole(line: str, prepared: Path) -> tuple[float, Ended]:
    """How much processor time a command takes that is left alone, and how it ends; one that serves is ended."""
    with tempfile.TemporaryDirectory(prefix="paictl-int-", ignore_cleanup_errors=True) as work:
        process = paictl(line, Path(shutil.copytree(prepared, Path(work) / "c")))
        spent, _ = watched(process, math.inf)
        stderr = ending(process)
    return spent, Ended(line, None, process.returncode, stderr)


def interrupted(line: str, at: float, prepared: Path, *, follow: bool) -> Ended:
    """A command that gets Ctrl-C once it has had so much of the processor."""
    with tempfile.TemporaryDirectory(prefix="paictl-int-", ignore_cleanup_errors=True) as work:
        folder = Path(shutil.copytree(prepared, Path(work) / "c"))
        process = paictl(line, folder)
        _, sent = watched(process, at)
        stderr = ending(process)
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
    if usual.code not in USUAL or "Traceback" in usual.stderr:
        wrong.append(f"{line}: left alone, exit code {usual.code}: {usual.stderr}")
    took = f"{spent * 1000:>6.0f} ms {usual.code:>3}"
    print(f"{line:<64} {took} {hit:>4} of {times} interrupted, {len(wrong)} wrong", *wrong, sep="\n  ", flush=True)
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
    with (
        tempfile.TemporaryDirectory(prefix="paictl-int-", ignore_cleanup_errors=True) as work,
        ThreadPoolExecutor(2) as pool,
    ):
        prepared = prepare(Path(work) / "prepared")
        for line in lines:
            wrong += attempts(line, args.times, prepared, pick, pool)
    print(f"{len(lines)} commands, {args.times} times each: {len(wrong)} did not end as they should")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
