"""`paictl deploy apply` when something goes wrong half-way: what it says, and that a second `apply` mends it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from paictl.errors import ExitCode
from tests.e2e_hosts.site import Site, site_of
from tools.hosts.lab import Lab
from tools.hosts.shell import wait_until

APPLY = ("deploy", "apply", "--yes", "--kubernetes-only")


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    lab.up(2)
    return site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1], [2])


@pytest.fixture
def broken(artifacts: Path, tmp_path: Path) -> Path:
    """A copy of the artifact folder that may be spoiled (hard links: replace files, do not write into them)."""
    return shutil.copytree(artifacts, tmp_path / "artifacts", copy_function=os.link)


def _untouched(site: Site) -> bool:
    return not any((machine.root / "usr/local/bin/kubelet").exists() for machine in site.lab.machines())


@pytest.mark.parametrize("how", ["is missing", "is another file"])
def test_a_wrong_artifact_is_named_before_a_host_is_touched(site: Site, broken: Path, how: str) -> None:
    spoiled = broken / "kubelet"
    spoiled.unlink()
    if how == "is another file":
        spoiled.write_bytes(b"\x7fELF")
    done = site.paictl(*APPLY, *site.files, "--artifacts", str(broken))
    assert done.returncode == 1
    assert str(spoiled) in done.stderr
    assert how in done.stderr
    assert "bundle" in done.stderr  # what to do
    assert _untouched(site)


@dataclass(frozen=True, slots=True)
class WayIn:
    """What is in the way to the second host, or to all of them; what `apply` says then, and what ends it."""

    id: str
    begin: Callable[[Site], object]
    end: Callable[[Site], object]
    code: int
    said: str
    hint: str


def _on_h2(script: str) -> Callable[[Site], object]:
    return lambda site: site.lab.machine(2).execute(["sh", "-c", script])


def _known(site: Site) -> Path:
    return site.folder / "home/.config/paictl/known_hosts"


SUDO = "/etc/sudoers.d/deploy"
KEYS = (
    WayIn("unknown host keys", lambda site: _known(site).unlink(), Site.trusting, 4, "h1", "--accept-new-host-keys"),
    WayIn(
        "a changed host key",
        lambda site: site.lab.machine(2).rekey(),
        Site.trusting,
        3,
        "h2",
        "paictl node run true",
    ),
    WayIn(
        "a wrong password",
        lambda site: site.having(user="ops", password="battery-staple"),  # noqa: S106
        Site.write,
        4,
        "Permission denied",
        "password",
    ),
    WayIn(
        "sudo wants a password that nobody gave",
        _on_h2(f"sed -i s/NOPASSWD:// {SUDO}"),
        _on_h2(f"echo 'deploy ALL=(ALL) NOPASSWD: ALL' >{SUDO}"),
        3,
        "h2: Missing sudo password",
        "--ask-sudo-password",
    ),
    WayIn(
        "no Python",
        _on_h2("mkdir /usr/gone && mv /usr/bin/python3* /usr/gone"),
        _on_h2("mv /usr/gone/* /usr/bin && rmdir /usr/gone"),
        3,
        "h2: The module interpreter",
        "apt-get install -y python3",
    ),
)


@pytest.mark.parametrize("fault", KEYS, ids=lambda fault: fault.id)
def test_who_cannot_be_signed_in_to_is_named_and_no_host_is_touched(site: Site, fault: WayIn) -> None:
    fault.begin(site)
    try:
        done = site.paictl(*APPLY, *site.files)
    finally:
        fault.end(site)
        site.write().trusting()
    assert (done.returncode, "Traceback" in done.stderr) == (fault.code, False), done.stderr
    assert fault.said in done.stderr
    assert fault.hint in done.stderr
    assert "battery-staple" not in done.stderr
    assert _untouched(site)


def test_all_that_is_wrong_with_machines_is_told_before_one_of_them_is_touched(site: Site) -> None:
    first, second = site.lab.machine(1), site.lab.machine(2)
    first.execute(["systemd-run", "-q", "--unit=taken", "python3", "-m", "http.server", "6443"])
    second.execute(["sh", "-c", "mkdir -p /etc/kubernetes && echo x >/etc/kubernetes/kubelet.conf"])
    second.clock(300)
    second.fill("/var/lib/containerd")
    try:
        done = site.paictl(*APPLY, *site.files)
    finally:
        first.execute(["systemctl", "stop", "taken"])
        second.execute(["rm", "-r", "/etc/kubernetes"])
        second.clock(0)
        second.unfill("/var/lib/containerd")
    assert done.returncode == 1, done.stderr
    told = {
        "h1: ports: 6443 (python3)": "sport = :6443",
        "h2: kubernetes: ": "kubeadm reset",
        "h2: clock: ": "s ahead (timedatectl set-ntp",
        "h2: disk: 0 MiB free": "df -h",
    }
    lines = done.stderr.splitlines()
    assert [one for one in told if not any(one in line and told[one] in line for line in lines)] == [], done.stderr
    assert _untouched(site)


def _begin(site: Site) -> Iterator[Callable[[], tuple[int, str]]]:
    """Start `apply`, and return when the first change has begun; then yield what waits for its end."""
    log, before = site.folder / "apply.log", len(_events(site))
    with log.open("w") as out:
        words = [*site.lab.network.inside(), *site.words(*APPLY, *site.files)]
        environment = {**os.environ, **site.environment}
        process = subprocess.Popen(words, cwd=site.folder, env=environment, stdout=out, stderr=out)
    try:
        wait_until(lambda: process.poll() is not None or _pushes(_events(site)[before:]), "apply pushes", seconds=600)
        yield lambda: (process.wait(900), log.read_text())
    finally:
        process.kill()
        process.wait()


def _events(site: Site) -> list[dict[str, str]]:
    """Of all runs so far, the oldest first; what is gone on with is the same run, so a file may grow behind a newer."""
    runs = sorted((site.folder / "home/.local/state/paictl/runs").glob("*-deploy/events.jsonl"))
    whole = [run.read_text().rpartition("\n")[0] for run in runs]  # the last line may be half written
    lines = [line for text in whole for line in text.splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda one: str(one["at"]))


def _pushes(events: list[dict[str, str]]) -> bool:
    """Whether a task that changes hosts has begun."""
    return any(one["event"] == "phase-said" and one["phase"] == "artifacts" for one in events)


@pytest.mark.parametrize("fault", ["cut", "kill"])
def test_a_host_lost_in_the_middle_is_named_in_bounded_time(site: Site, fault: str) -> None:
    for finish in _begin(site):
        if fault == "cut":
            site.lab.network.cut(2)
        else:
            site.lab.machine(2).kill()
        code, said = finish()  # within its patience
    if fault == "cut":
        site.lab.network.heal(2)
    else:
        site.lab.start(2)
    assert code in (ExitCode.PARTIAL, ExitCode.UNREACHABLE), said  # the latter: no other host lacked anything then
    assert "h2" in said
    assert "Traceback" not in said


def test_a_second_apply_mends_it_all(site: Site) -> None:
    done = site.paictl(*APPLY, *site.files, seconds=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    # `apply` ends when nodes are Ready; kube-proxy and CoreDNS of a machine that came last may need a moment more.
    well = lambda: site.paictl("deploy", "verify", *site.files).returncode == 0  # noqa: E731
    wait_until(well, "all that deploy verify tries is well", seconds=600, pause=1)
