#!/usr/bin/env python3
"""Time the REST server with 10,000 jobs on the embedded cluster: 9,500 that ended, 500 that run or wait.

One process serves, this one asks, one request after the other over one connection: sign-in once, then submissions and
pages of the list. Seconds on the wall as a client sees them, and of the server's processor, which do not depend on what
else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import FOREVER, JobRequest
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import preset_files
from paictl.config.pushing.fileset import seal_files
from paictl.operate.users.accounts import NewUser, add
from paictl.service.catalogue import load_catalogue
from paictl.units import Millis

PASSWORD = "bench password"  # noqa: S105
LIVE = 500
LIMITS = {"submit": 1.0, "list": 0.5}
"""Seconds of p99 on an idle machine beyond which something is wrong."""


def request(name: str, user: str, span: Millis | None) -> JobRequest:
    """A job of one device."""
    role = {
        "instances": 1, "dockerImage": "image", "commands": ["sleep 1h"],
        "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 512},
    }  # fmt: skip
    data = {
        "protocolVersion": 2, "name": name, "type": "job", "taskRoles": {"train": role},
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "defaults": {"virtualCluster": "default"},
    }  # fmt: skip
    return JobRequest(user, data, None, None, span)


def fill(folder: Path, jobs: int) -> EmbeddedCluster:
    """A cluster with so many jobs, of fifty users and one who asks."""
    files = preset_files("lab")
    first, then = commands.bring_up("pai", tuple(load_catalogue().services), machines_in(files), seal_files(files))
    cluster = EmbeddedCluster.up(folder, first, then, clock=(0.0, False))
    add(cluster.users, NewUser("bench", PASSWORD, admin=True))
    ended = jobs - LIVE
    for start in range(0, ended, 1000):
        count = min(1000, ended - start)
        cluster.submit([request(f"e{start + n}", f"user{n % 50}", Millis(1000)) for n in range(count)])
        cluster.tick(None)
    cluster.submit([request(f"l{n}", f"user{n % 50}", FOREVER) for n in range(LIVE)])
    return cluster


def cpu_of(pid: int) -> float:
    """Seconds of the processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """One connection with a token."""

    def __init__(self, port: int) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers: dict[str, str] = {"Content-Type": "application/x-www-form-urlencoded"}
        form = urlencode({"username": "bench", "password": PASSWORD})
        token = json.loads(self.ask("POST", "/api/v2/authn/basic/login", form))["token"]
        self.headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: str | None = None) -> bytes:
        """The body of an answer that is a success."""
        self.connection.request(method, path, body, self.headers)
        reply = self.connection.getresponse()
        data = reply.read()
        if reply.status >= 300:
            raise SystemExit(f"{method} {path}: {reply.status} {data[:300].decode()}")
        return data


def measured(ask: Callable[[int], object], count: int, pid: int) -> tuple[float, float, float]:
    """(p50, p99) on the wall and the mean of the server's processor, in seconds, of so many requests."""
    spans, cpu = [], cpu_of(pid)
    for number in range(count):
        start = time.perf_counter()
        ask(number)
        spans.append(time.perf_counter() - start)
    spans.sort()
    return spans[count // 2], spans[min(count - 1, count * 99 // 100)], (cpu_of(pid) - cpu) / count


def main() -> None:
    """Measure and print a table; a missed limit ends with exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    args = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory(prefix="paictl-bench-") as work:
        folder = Path(work, "state")
        fill(folder, args.jobs)
        command = [sys.executable, "-m", "paictl", "serve", "--listen", "127.0.0.1:0", "--state", str(folder)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                match = next(found for line in server.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
                port = int(match[1])
                drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
                client = Client(port)
                job = json.dumps(dict(request("NAME", "bench", None).data))
                kinds: list[tuple[str, str, Callable[[int], object]]] = [
                    ("list", "list: 50 newest of all", lambda _: client.ask("GET", "/api/v2/jobs?limit=50")),
                    ("list", "list: 50 of one user, with their number",
                     lambda n: client.ask("GET", f"/api/v2/jobs?username=user{n % 50}&limit=50&withTotalCount=true")),
                    ("list", "list: 50 that succeeded, from the 5,000th",
                     lambda _: client.ask("GET", "/api/v2/jobs?state=SUCCEEDED&limit=50&offset=5000")),
                    ("list", "one job", lambda n: client.ask("GET", f"/api/v2/jobs/user{n % 50}~e{n % 50}")),
                    ("submit", "submit a job",
                     lambda n: client.ask("POST", "/api/v2/jobs", job.replace("NAME", f"b{n}"))),
                ]  # fmt: skip
                print(f"{args.jobs:,} jobs, {LIVE} of them live{'':<24} {'p50 ms':>8} {'p99 ms':>8} {'CPU ms':>8}")
                for kind, what, ask in kinds:
                    p50, p99, cpu = measured(ask, args.requests, server.pid)
                    missed |= p99 > LIMITS[kind]
                    print(f"{what:<53} {p50 * 1000:>8.1f} {p99 * 1000:>8.1f} {cpu * 1000:>8.1f}", flush=True)
            finally:
                server.terminate()
                server.wait(30)
                drain.wait(30)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
