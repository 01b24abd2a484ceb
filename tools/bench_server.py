#!/usr/bin/env python3
"""Time the REST server and the portal with 10,000 jobs, 9,500 that ended and 500 that run or wait: embedded, or --real.

One process serves, this one asks, one request after the other over one connection: sign-in once, the portal's home for
the first time, then pages of the portal, submissions and pages of the list. Seconds on the wall as a client sees them,
and of the server's processor, which do not depend on what else the machine does.
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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import FOREVER, JobRequest
from paictl.cluster.kubernetes.cluster import open_pinned
from paictl.cluster.kubernetes.connection import pin
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import paijobs_path
from paictl.cluster.kubernetes.paijob.resource import manifest_of, read_paijob
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import preset_files
from paictl.config.pushing.push import seal_files
from paictl.controller.execution import write_record
from paictl.controller.loop import Planner
from paictl.operate.users.accounts import NewUser, add
from paictl.remote.kube.client import connect
from paictl.remote.kube.objects import create
from paictl.service.catalogue import load_catalogue
from paictl.units import Millis
from paictl.workload.job import Job
from paictl.workload.lifecycle import RunState
from tests.e2e_kube.controlplane import ControlPlane, control_plane, missing
from tests.e2e_kube.jobrig import install_resource
from tests.e2e_kube.kubeapi import KubeApi
from tests.e2e_kube.shell import Shell

PASSWORD = "bench password"  # noqa: S105
LIVE = 500
LIMITS = {"submit": 1.0, "list": 0.5, "home": 0.3, "page": 0.5}
"""Seconds of p99 on an idle machine beyond which something is wrong."""


def request(name: str, user: str, span: Millis | None) -> JobRequest:
    """A job of one device."""
    role = {
        "instances": 1,
        "dockerImage": "image",
        "commands": ["sleep 1h"],
        "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 512},
    }
    data = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "taskRoles": {"train": role},
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "defaults": {"virtualCluster": "default"},
    }
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


def memory_of(pid: int) -> float:
    """Megabytes that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Client:
    """One connection with a token."""

    def __init__(self, port: int) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers: dict[str, str] = {"Content-Type": "application/x-www-form-urlencoded"}
        form = urlencode({"username": "bench", "password": PASSWORD})
        token = json.loads(self.ask("POST", "/api/v2/authn/basic/login", form))["token"]
        self.headers = {"Authorization": f"Bearer {token}"}

    def sign_in(self) -> dict[str, str]:
        """The headers of a browser in which somebody has signed in to the portal."""
        form = urlencode({"user": "bench", "password": PASSWORD})
        self.connection.request("POST", "/sign-in", form, {"Content-Type": "application/x-www-form-urlencoded"})
        reply = self.connection.getresponse()
        reply.read()
        cookies = (value.partition(";")[0] for key, value in reply.getheaders() if key.lower() == "set-cookie")
        return {"Cookie": "; ".join(cookies), "Accept": "text/html"}

    def page(self, path: str, session: Mapping[str, str]) -> bytes:
        """A page of the portal."""
        return self.ask("GET", path, headers=session)

    def ask(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer that is a success."""
        self.connection.request(method, path, body, dict(headers or self.headers))
        reply = self.connection.getresponse()
        data = reply.read()
        if reply.status >= (300 if headers is None else 301):
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


def fill_kubernetes(plane: ControlPlane, jobs: int) -> None:
    """The same jobs as `PaiJob`s, written as the job controller leaves them; nobody runs anything."""
    api = KubeApi(plane)
    install_resource(api)
    cluster = open_pinned(pin("real", str(plane.kubeconfig), "x"))
    cluster.push(preset_files("lab"), "bench")
    add(cluster.users, NewUser("bench", PASSWORD, admin=True))
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": JOBS_NAMESPACE}})
    client, now = connect(str(plane.kubeconfig), "x"), datetime.now(UTC)
    planner = Planner(client)

    def write(number: int) -> None:
        ended = number < jobs - LIVE
        name = f"e{number}" if ended else f"l{number - jobs + LIVE}"
        asked = request(name, f"user{number % 50}", FOREVER)
        job = Job.from_mapping(asked.data)
        at = now + timedelta(milliseconds=number)
        pai = read_paijob(create(client, paijobs_path(), manifest_of(asked, job, at)) or {})
        record = replace(planner.record(pai), started=at)
        if ended:
            tasks = tuple(replace(task, state=RunState.SUCCEEDED) for task in record.status.tasks)
            status = replace(record.status, state=RunState.SUCCEEDED, tasks=tasks)
            record = replace(record, status=status, ended=at, closed=True)
        write_record(client, pai, record)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(jobs)))


def measure(command: list[str], environment: Mapping[str, str], jobs: int, requests: int, where: str) -> bool:
    """Serve, ask, print a table; whether a limit was missed."""
    missed = False
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}) as server:
        try:
            assert server.stderr is not None
            match = next(found for line in server.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
            drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
            client = Client(int(match[1]))
            session = client.sign_in()
            print(f"{f'{jobs:,} jobs, {LIVE} of them live, {where}':<53} {'p50 ms':>8} {'p99 ms':>8} {'CPU ms':>8}")
            for kind, what, ask, count in questions(client, session, requests):
                p50, p99, cpu = measured(ask, count, server.pid)
                missed |= p99 > LIMITS[kind]
                print(f"{what:<53} {p50 * 1000:>8.1f} {p99 * 1000:>8.1f} {cpu * 1000:>8.1f}", flush=True)
            print(f"memory of the server: {memory_of(server.pid):.0f} MB")
        finally:
            server.terminate()
            server.wait(30)
            drain.wait(30)
    return missed


def questions(
    client: Client, session: Mapping[str, str], requests: int
) -> list[tuple[str, str, Callable[[int], object], int]]:
    """(limit, what, question by number, how often), in the order in which they are asked."""
    job = json.dumps(dict(request("NAME", "bench", None).data))
    return [
        ("home", "portal: home, the first request of all", lambda _: client.page("/", session), 1),
        ("home", "portal: home", lambda _: client.page("/", session), requests),
        ("home", "portal: home, what changes", lambda _: client.page("/live", session), requests),
        ("page", "portal: list of jobs", lambda _: client.page("/jobs", session), requests),
        ("page", "portal: cluster", lambda _: client.page("/cluster", session), requests),
        (
            "page",
            "portal: why a job waits",
            lambda n: client.page(f"/jobs/user{(LIVE - 1 - n % 50) % 50}/l{LIVE - 1 - n % 50}/why", session),
            requests,
        ),
        ("list", "list: 50 newest of all", lambda _: client.ask("GET", "/api/v2/jobs?limit=50"), requests),
        (
            "list",
            "list: 50 of one user, with their number",
            lambda n: client.ask("GET", f"/api/v2/jobs?username=user{n % 50}&limit=50&withTotalCount=true"),
            requests,
        ),
        (
            "list",
            "list: 50 that succeeded, from the 5,000th",
            lambda _: client.ask("GET", "/api/v2/jobs?state=SUCCEEDED&limit=50&offset=5000"),
            requests,
        ),
        ("list", "one job", lambda n: client.ask("GET", f"/api/v2/jobs/user{n % 50}~e{n % 50}"), requests),
        (
            "submit",
            "submit a job",
            lambda n: client.ask("POST", "/api/v2/jobs", job.replace("NAME", f"b{n}")),
            requests,
        ),
    ]


def main() -> None:
    """Measure and print a table; a missed limit ends with exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=200, help="of each kind")
    parser.add_argument("--real", action="store_true", help="on a real control plane (make kube)")
    args = parser.parse_args()
    command = [sys.executable, "-m", "paictl", "serve", "--listen", "127.0.0.1:0"]
    with tempfile.TemporaryDirectory(prefix="paictl-bench-") as work:
        folder = Path(work)
        if not args.real:
            fill(folder / "state", args.jobs)
            command += ["--state", str(folder / "state")]
            raise SystemExit(measure(command, {}, args.jobs, args.requests, "embedded"))
        if missing():
            raise SystemExit(f"{', '.join(missing())} not there: make kube")
        with control_plane(folder / "plane", kwok=False) as plane:
            fill_kubernetes(plane, args.jobs)
            shell = Shell(plane, folder / "admin")
            raise SystemExit(measure(command, shell.environment, args.jobs, args.requests, "Kubernetes"))


if __name__ == "__main__":
    main()
