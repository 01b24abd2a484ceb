"""A lab on a cluster that was added, from start to reset; one on this machine stands in for it, its time by hand."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from paictl.cluster import registry
from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import preset_files
from paictl.cluster.registry import Pinned
from paictl.config.pushing.push import seal_files
from paictl.lab.site import renamed
from paictl.service.catalogue import load_catalogue
from paictl.units import Millis
from tests.unit.cli.conftest import Paictl

WORDS = {"worker1": "gpu-a", "worker2": "gpu-b"}
START = ("--cluster", "prod", "--cluster-id", "pai", "--pace", "15")


@pytest.fixture
def prod(home: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddedCluster:
    """A cluster that was added as prod."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.delenv("PAICTL_CLUSTER", raising=False)
    registry.add(Pinned("prod", "/k/config", "admin@prod", "https://prod:6443", "sha256:1"))
    files = seal_files({name: renamed(text, WORDS) for name, text in preset_files("lab").items()})
    up, then = commands.bring_up("pai", tuple(load_catalogue().services), machines_in(files), files)
    made = EmbeddedCluster.up(home / "theirs", up, then, clock=(0.0, False))

    def opened(name: str = "local", *, folder: Path | None = None) -> EmbeddedCluster:
        assert (name, folder) == ("prod", None)
        return made

    def wait(cluster: EmbeddedCluster, span: Millis, pace: float, *_: Any) -> datetime:
        return cluster.tick(Millis(round(span / pace)))

    for where in (
        "paictl.cli.clusters.open_target",
        "paictl.cli.lab.starting.open_target",
        "paictl.lab.registered.open_target",
    ):
        monkeypatch.setattr(where, opened)
    monkeypatch.setattr("paictl.lab.pacing.wait", wait)
    return made


@pytest.mark.parametrize("number", ["2", "5"])
def test_a_lab_is_played_there_reported_and_put_back(
    prod: EmbeddedCluster, paictl: Paictl, home: Path, number: str
) -> None:
    before = prod.configuration().files
    begun = paictl("lab", "start", number, *START)
    assert begun.code == 0, begun.err
    assert "runs on cluster prod as user ann-lab0" in begun.out
    assert "a minute of the lab takes 4 s there" in begun.out
    done = paictl("lab", "solve", number, "--all")
    assert done.code == 0, f"{done.out}\n{done.err}"
    assert paictl("lab", "verify", number).code == 0
    assert "runs on cluster prod" in paictl("lab", "status", number).out
    assert {one.key.partition("-lab")[0] for one in prod.jobs()} == {"ann"}
    report = home / "report.json"
    assert paictl("lab", "report", "-o", str(report), "--name", "Ann").code == 0
    assert paictl("lab", "check-report", str(report)).code == 0
    assert paictl("lab", "reset", number, "-y").code == 0
    assert prod.configuration().files == before
    assert not prod.jobs(ended=False)


@pytest.mark.usefixtures("prod")
def test_a_report_with_events_of_others_is_not_consistent(paictl: Paictl, home: Path) -> None:
    assert paictl("lab", "start", "2", *START).code == 0
    assert paictl("lab", "solve", "2").code == 0
    report = home / "report.json"
    paictl("lab", "report", "-o", str(report), "--name", "Ann")
    made = json.loads(report.read_text())
    made["experiments"][0]["site"]["user"] = "bob-lab02-0000"
    report.write_text(json.dumps(made))
    checked = paictl("lab", "check-report", str(report))
    assert checked.code == 1
    assert "which does not belong to the lab" in checked.out


@pytest.mark.usefixtures("prod")
def test_what_cannot_be_put_back_is_refused_with_the_way_on(paictl: Paictl) -> None:
    paictl("lab", "start", "2", *START)
    paictl("lab", "solve", "2")
    refused = paictl("lab", "reset", "2", "--step", "1")
    assert refused.code == 2
    assert "--cluster NAME" in refused.err
    kept = paictl("lab", "reset", "2", "-y")
    assert "to get it back" not in kept.err
    assert paictl("lab", "restore", "2").code == 2


def test_hints_at_a_site_name_no_step_to_go_back_to(
    prod: EmbeddedCluster, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.lab.session.TOLERANCE", 0.0)  # nobody has to wait for what does not come
    paictl("lab", "start", "2", *START)
    prod.set_service("hivedscheduler", running=False)
    failed = paictl("lab", "solve", "2")
    assert failed.code == 1
    assert "restart with paictl lab reset (and a lower --pace)" in failed.err + failed.out
    assert "--step" not in paictl("lab", "verify", "2").out
    assert "--step" not in paictl("lab", "next", "2").out


def test_what_a_student_pushes_has_the_labs_mark(
    prod: EmbeddedCluster, paictl: Paictl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paictl("lab", "start", "5", *START)
    for line in paictl("lab", "env", "5").out.splitlines():
        name, equals, value = line.removeprefix("export ").partition("=")
        if equals and name != "PATH":
            monkeypatch.setenv(name.split()[0], value)
    folder = home / "mine"
    assert paictl("config", "pull", "-o", str(folder)).code == 0
    file = folder / "services-configuration.yaml"
    file.write_text(file.read_text() + "# mine\n")
    assert paictl("config", "push", "-p", str(folder), "-y", "--message", "by hand").code == 0
    assert prod.configuration().message.endswith("): by hand")
    assert prod.configuration().message.startswith("lab 05 (ann-lab05-")


def test_only_what_the_option_names_is_taken(prod: EmbeddedCluster, paictl: Paictl) -> None:
    registry.use("prod")
    assert paictl("lab", "start", "2").code == 0
    assert len(prod.configurations()) == 1
    assert "runs on cluster" not in paictl("lab", "status", "2").out


@pytest.mark.usefixtures("prod")
def test_the_shell_is_about_that_cluster_and_its_prompt_says_so(
    paictl: Paictl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paictl("lab", "start", "2", *START)
    (home / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("SHELL", str(home / "sh"))
    opened: list[dict[str, str]] = []

    def run(_: list[str], env: dict[str, str], **__: Any) -> subprocess.CompletedProcess[bytes]:
        opened.append(env)
        return subprocess.CompletedProcess([], 0)

    monkeypatch.setattr("paictl.cli.lab.shell.subprocess.run", run)
    assert paictl("lab", "shell", "2").code == 0
    ((name, prompt),) = [(env["PAICTL_CLUSTER"], env["PS1"]) for env in opened]
    assert (name, prompt) == ("prod", "(lab 02 at prod) $ ")
