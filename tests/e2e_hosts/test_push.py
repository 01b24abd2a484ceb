"""The first push of programs over a slow link: it breaks, is resumed, and says how far it is."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1", reason="takes two minutes: PAICTL_E2E_ALL=1 make e2e-hosts"
)
RATE = "4mbit"
SIZE = 12 << 20
"""Bytes: half a minute at this rate, and two pieces."""
PROGRAM = """
import sys
from pathlib import Path
from types import SimpleNamespace
from paictl.deploy import pushing
from paictl.deploy.site import Site, DeployError
from paictl.deploy.inventory import Machine, Role
from paictl.remote.ansible.run import AnsibleSession, Trust
from paictl.remote.inventory import Host, Inventory, Login
pushing.EVERY = 1.0
known, folder, pack, sum = sys.argv[1:]
hosts = Inventory((Host('h1', '10.77.0.11', 'ops'),), Login(Path('password').read_text()))
private = Path(folder) / 'private'
private.mkdir(exist_ok=True)
programs = [{'name': 'tool', 'kind': 'program', 'file': 'tool', 'sha256': sum, 'to': '/usr/local/bin/paictl-tool'}]
with AnsibleSession(hosts, Path(folder), {}, Trust(Path(known))) as session:
    site = Site(SimpleNamespace(), session, private)
    words = {'paictl_pack': '/var/lib/paictl-pack.tar', 'paictl_programs': programs}
    try:
        machines = [Machine('h1', '10.77.0.11', Role.WORKER)]
        pushing.push(site, 'artifacts', lambda *said: print(*said, flush=True), machines, {'h1': pack}, words)
    except DeployError as error:
        print('failed:', error, flush=True)
        sys.exit(1)
"""


def test_a_push_over_a_slow_link_goes_on_where_it_broke(lab: Lab, tmp_path: Path) -> None:
    lab.up(1)
    tool = os.urandom(SIZE)
    pack = tmp_path / "0123456789abcdef.tar"
    with tarfile.open(pack, "w") as made:
        about = tarfile.TarInfo("tool")
        about.size = SIZE
        made.addfile(about, io.BytesIO(tool))
    (tmp_path / "password").write_text("ops-pw")
    words = [
        *lab.network.inside(),
        sys.executable,
        "-c",
        PROGRAM,
        str(lab.known_hosts),
        str(tmp_path / "runs"),
        str(pack),
        hashlib.sha256(tool).hexdigest(),
    ]
    log, environment = tmp_path / "push.log", {**os.environ, "PYTHONPATH": str(Path.cwd())}
    (tmp_path / "runs").mkdir()
    lab.network.slow(1, RATE)
    with (
        log.open("wb") as out,
        subprocess.Popen(list(map(str, words)), cwd=tmp_path, stdout=out, stderr=out, env=environment) as first,
    ):
        wait_until(
            lambda: first.poll() is not None or "8 of 13 MiB pushed" in log.read_text(), "half of it", seconds=200
        )
        assert first.poll() is None, log.read_text()
        lab.network.cut(1)
        assert first.wait(120) == 1, log.read_text()
    assert "h1: the host died or the link was cut" in log.read_text()
    lab.network.heal(1)
    lab.network.slow(1, RATE)
    started = time.monotonic()
    done = subprocess.run(
        list(map(str, words)), cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    took = time.monotonic() - started
    print(json.dumps({"again": round(took), "said": done.stdout.splitlines()}))  # noqa: T201 - for the page of figures
    lab.network.heal(1)
    assert done.returncode == 0, done.stdout + done.stderr
    machine = lab.machine(1)
    found = machine.execute(["sha256sum", "/usr/local/bin/paictl-tool"]).stdout
    assert found.split()[0] == hashlib.sha256(tool).hexdigest()
    assert machine.execute(["sh", "-c", "ls /var/lib/paictl-pack*"]).stdout == "/var/lib/paictl-pack.tar\n"
    again = [int(line.split()[1]) for line in done.stdout.splitlines() if " of 13 MiB pushed" in line]
    assert min(again, default=8) >= 8, "that much had arrived"
