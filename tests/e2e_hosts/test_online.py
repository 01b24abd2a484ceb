"""`deploy apply` with what it needs from the network: name servers that vanish in the middle, a slow link."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from paictl.config.models.services import load_images
from tests.conftest import ROOT
from tests.e2e_hosts.registry import PORT, Registry, registry
from tests.e2e_hosts.site import Site, site_of
from tests.e2e_hosts.test_apply_faults import APPLY
from tests.e2e_hosts.test_reconfigure import apply, changed, plan
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1", reason="takes five minutes: PAICTL_E2E_ALL=1 make e2e-hosts"
)
MIRROR = "mirror.lab"
MISSING = "coredns"
"""The image that comes from the mirror: kubeadm on the master pulls it."""
SLOW = "256kbit"
ANSWER, IN_A = b"\x84\x00\x00\x01", b"\x00\x01\x00\x01"


class Names:
    """A name server on the dev box that knows one name; `heard` are the names that it was asked for."""

    def __init__(self, lab: Lab) -> None:
        self._address = socket.inet_aton(lab.network.gateway)
        with lab.network.entered():
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.bind((lab.network.gateway, 53))
        self._socket.settimeout(0.2)
        self._ends = threading.Event()
        self.heard: set[str] = set()

    def serve(self) -> None:
        """Answer until `end`; then nobody listens there."""
        with self._socket:
            while not self._ends.is_set():
                with suppress(TimeoutError):
                    asked, who = self._socket.recvfrom(4096)
                    self._socket.sendto(self._answer(asked), who)

    def _answer(self, asked: bytes) -> bytes:
        at, labels = 12, []
        while size := asked[at]:
            labels.append(asked[at + 1 : at + 1 + size].decode())
            at += size + 1
        question = asked[12 : at + 5]
        name = ".".join(labels)
        self.heard.add(name)
        found = name == MIRROR and question.endswith(IN_A)
        row = b"\xc0\x0c" + IN_A + b"\x00\x00\x00\x05\x00\x04" + self._address if found else b""
        return asked[:2] + ANSWER + (b"\x00\x01" if found else b"\x00\x00") + b"\x00" * 4 + question + row

    def end(self) -> None:
        """Let `serve` return."""
        self._ends.set()


@contextmanager
def names(lab: Lab) -> Iterator[Names]:
    """The name server until the end of the block."""
    made = Names(lab)
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.end()
        thread.join(10)


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and a worker; one image is not among the artifacts, but at a mirror that asks for a password."""
    lab.up(2)
    folder = tmp_path_factory.mktemp("online")
    some = shutil.copytree(artifacts, folder / "artifacts", copy_function=os.link)
    lock = json.loads((some / "artifacts.json").read_text())
    (row,) = [one for one in lock["artifacts"] if one["name"].startswith(f"{MISSING}_")]
    lock["artifacts"].remove(row)
    for path, text in (("artifacts.json", json.dumps(lock)), (row["path"], "")):
        (some / path).unlink()
        if text:
            (some / path).write_text(text)
    (folder / "token").write_text("kelp-41")
    (folder / "token").chmod(0o600)
    bare = site_of(lab, folder / "site", some, [1], [2])
    online = {
        "registry_mirrors": {"registry.k8s.io": [f"http://{MIRROR}:{PORT}"]},
        "registry_credentials": {f"{MIRROR}:{PORT}": {"username": "puller", "password_file": str(folder / "token")}},
    }
    made = replace(bare, deploy={**bare.deploy, **online}).write()
    with stored(made) as store:
        store.push(artifacts / row["path"], f"{MISSING}/{MISSING}", row["version"])
    return made


@contextmanager
def stored(site: Site) -> Iterator[Registry]:
    """The mirror with what was pushed to it so far, until the end of the block."""
    folder = site.folder / "registry"
    with registry(site.lab, folder, {"puller": "kelp-41"}, "0.0.0.0") as store:  # noqa: S104 - in the lab
        yield store


def begun(site: Site, log: Path) -> subprocess.Popen[bytes]:
    """`apply`, begun in a process group of its own as a shell does."""
    words = [*site.lab.network.inside(), *site.words(*APPLY, *site.files)]
    with log.open("wb") as out:
        return subprocess.Popen(
            words, cwd=site.folder, env={**os.environ, **site.environment}, stdout=out, stderr=out, process_group=0
        )


def test_name_servers_that_vanish_in_the_middle_are_named_and_the_next_apply_completes(site: Site) -> None:
    log = site.folder / "apply.log"
    with stored(site), names(site.lab):
        process = begun(site, log)
        wait_until(lambda: process.poll() is not None or "==> runtime" in log.read_text(), "runtime", seconds=300)
        assert process.poll() is None, log.read_text()
    code, said = process.wait(500), " ".join(log.read_text().split())
    assert (code, "Traceback" in said) == (1, False), said
    assert "h1: kubeadm init: cannot resolve " in said, said
    assert f"by name server {site.lab.network.gateway}" in said
    assert "getent hosts" in said
    with stored(site), names(site.lab) as server:
        assert apply(site).returncode == 0
    assert MIRROR in server.heard
    assert plan(site) == []


def test_a_slow_link_delays_apply_and_does_not_end_it(site: Site) -> None:
    """Also when it is interrupted there, it resumes; each step is shown while it is under way."""
    after = changed(site, containerd={**site.deploy["containerd"], "max_container_log_line_size": 8192})
    log = site.folder / "slow.log"
    site.lab.network.slow(2, SLOW)
    try:
        process = begun(after, log)
        wait_until(lambda: process.poll() is not None or "==> artifacts" in log.read_text(), "runtime", seconds=500)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 130, log.read_text()
        started = time.monotonic()
        done = apply(after)
        took = time.monotonic() - started
    finally:
        site.lab.network.heal(2)
    print(f"{SLOW}: {took:.0f} s")  # noqa: T201 - for the page of figures
    assert done.returncode == 0, done.stderr
    assert "==> runtime" in done.stderr
    assert "8192" in site.lab.machine(2).execute(["cat", "/etc/containerd/config.toml"]).stdout
    assert "nothing changed" in apply(after).stdout
    site.write()


PULL = """
import sys
from pathlib import Path
from paictl.deploy.gather import WantedImage, gather
name, reference, mirror, folder = sys.argv[1:]
gather((), "", Path(folder), None, print, [WantedImage(name, reference, "amd64", mirror)])
"""


def test_an_image_of_a_service_that_was_pulled_reaches_machines_without_internet(site: Site, artifacts: Path) -> None:
    """What `bundle create --services` pulls; the rest of that command is tested without hosts."""
    name, reference = "node-exporter", load_images()["node-exporter"]
    repository, _, tag = reference.partition("/")[2].partition(":")
    home, pulled, folder = site.folder / "puller", site.folder / "pulled", Path(site.deploy["artifacts"])
    (home / ".docker").mkdir(parents=True)
    login = {"auths": {f"127.0.0.1:{PORT}": {"auth": base64.b64encode(b"puller:kelp-41").decode()}}}
    (home / ".docker/config.json").write_text(json.dumps(login))
    with stored(site) as store:
        store.push(artifacts / "images/busybox_1.tar", repository, tag)
        words = [sys.executable, "-c", PULL, name, reference, f"http://127.0.0.1:{PORT}", str(pulled)]
        site.lab.run(words, environment={"HOME": str(home), "PYTHONPATH": str(ROOT)})
    lock, more = (json.loads((at / "artifacts.json").read_text()) for at in (folder, pulled))
    for row in more["artifacts"]:
        (folder / row["path"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pulled / row["path"], folder / row["path"])
    (folder / "artifacts.json").write_text(json.dumps({**lock, "artifacts": [*lock["artifacts"], *more["artifacts"]]}))
    after = changed(site, offline=True)
    assert apply(after).returncode == 0
    for machine in site.lab.machines():
        assert reference.partition(":")[0] in machine.execute(["crictl", "images"]).stdout
    assert plan(after) == []
