"""`paictl deploy apply` when something goes wrong half-way: what it says, and that a second `apply` mends it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


def _begin(site: Site) -> Iterator[Callable[[], tuple[int, str]]]:
    """Start `apply`, and return when the first change has begun; then yield what waits for its end."""
    log, before = site.folder / "apply.log", len(_events(site))
    with log.open("w") as out:
        words = [*site.lab.network.inside(), *site.words(*APPLY, *site.files)]
        environment = {**os.environ, **site.environment}
        process = subprocess.Popen(words, cwd=site.folder, env=environment, stdout=out, stderr=out)
    try:
        wait_until(lambda: process.poll() is not None or _pushes(_events(site)[before:]), "apply pushes", seconds=240)
        yield lambda: (process.wait(300), log.read_text())
    finally:
        process.kill()
        process.wait()


def _events(site: Site) -> list[dict[str, str]]:
    """Of all runs so far, the oldest first; what is gone on with is the same run."""
    runs = sorted((site.folder / "home/.local/state/paictl/runs").glob("*-deploy/events.jsonl"))
    lines = [line for run in runs for line in run.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]


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
        started = time.monotonic()
        code, said = finish()
    if fault == "cut":
        site.lab.network.heal(2)
    else:
        site.lab.start(2)
    assert code == 3, said
    assert "h2" in said
    assert "Traceback" not in said
    assert time.monotonic() - started < 300


def test_a_second_apply_mends_it_all(site: Site) -> None:
    done = site.paictl(*APPLY, *site.files, seconds=550)
    assert done.returncode == 0, done.stdout + done.stderr
    # `apply` ends when nodes are Ready; kube-proxy and CoreDNS of a machine that came last may need a moment more.
    well = lambda: site.paictl("deploy", "verify", *site.files).returncode == 0  # noqa: E731
    wait_until(well, "all that deploy verify tries is well", seconds=240, pause=1)
