"""What a shell is offered where a name is wanted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paictl.cli import names
from paictl.cli.lab import sessions
from paictl.cli.options import rule_ids
from paictl.cli.sim.runs import completed_policies
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl

JOB = """
protocolVersion: 2
name: train
type: job
prerequisites: [{type: dockerimage, name: image, uri: ubuntu}]
taskRoles:
  main:
    dockerImage: image
    resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 1024}
    commands: [sleep 1]
extras: {}
"""


def offered(words: str, shell: str = "zsh") -> list[str]:
    """What is offered behind the words of a command line."""
    environment = {
        "PYTHONPATH": str(ROOT),
        "_PAICTL_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "paictl"], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert done.stderr == ""
    return done.stdout.replace("'", "").replace('"', "").replace("(", "").replace(")", "").split()


@pytest.fixture
def cluster(home: Path, paictl: Paictl) -> Path:
    assert paictl("cluster", "up").code == 0
    (home / "train.yaml").write_text(JOB)
    assert paictl("job", "submit", str(home / "train.yaml"), "--user", "bob").code == 0
    return home


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.usefixtures("cluster")
def test_names_of_the_cluster_are_offered(shell: str) -> None:
    assert "train" in " ".join(offered("paictl job stop tr", shell))


@pytest.mark.usefixtures("cluster")
def test_every_kind_of_name_is_offered() -> None:
    class Context:
        params: dict[str, object] = {"state": None}  # noqa: RUF012

    context: object = Context()
    assert set(names.jobs(context)) == {"train", "bob~train"}  # type: ignore[arg-type]
    assert "worker1" in names.nodes(context)  # type: ignore[arg-type]
    assert "hivedscheduler" in names.services(context)  # type: ignore[arg-type]
    assert set(names.vcs(context)) == {"default", "vc1"}  # type: ignore[arg-type]
    assert names.versions(context) == ["1"]  # type: ignore[arg-type]
    assert names.priorities() == ["oppo", "test", "prod", "crit"]
    assert "dgx2" in names.presets()
    assert "02_vc_safety" in sessions.labs()
    Context.params = {"lab": "2"}
    assert "too-big" in sessions.steps(context)  # type: ignore[arg-type]
    assert "HVD525" in rule_ids()


def test_what_the_simulator_has_is_offered() -> None:
    policies = completed_policies
    assert set(policies("")) >= {"las", "gavel", "edf-infeasible-last"}
    assert "las:queues=" in policies("las:")
    assert policies("las:knob=2,dimension=") == ["las:knob=2,dimension=1", "las:knob=2,dimension=2"]
    assert "gavel:objective=makespan" in policies("gavel:objective=m")
    assert policies("nothing:") == policies("")
    assert "srtf" in " ".join(offered("paictl sim run tiny --policy sr", "bash"))
    assert "srtf" in " ".join(offered("paictl sim policies sr", "bash"))
    assert "tiny" in " ".join(offered("paictl sim traces ti", "fish"))
    assert "chronus" in " ".join(offered("paictl sim compare tiny --format chr", "bash"))
    assert "tenants" in " ".join(offered("paictl sim generate ten", "bash"))


def test_where_no_cluster_is_nothing_is_offered_and_nothing_said(home: Path) -> None:
    assert offered(f"paictl job stop --state {home / 'nothing'} tr") in ([], ["_files"])


def test_any_shell_s_script_can_be_asked_for_in_any_shell(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert paictl("--show-completion", "fish").out.startswith("complete --command paictl")
    assert paictl("completion", "fish").out == paictl("--show-completion", "fish").out
    assert "COMPREPLY" in paictl("completion").out
    assert "#compdef" in paictl("completion", "zsh").out
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert "no completion for the shell 'tcsh'" in paictl("completion").err


def test_a_completion_is_installed_where_the_shell_looks(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = paictl("completion", "fish", "--install")
    assert done.code == 0
    assert (tmp_path / ".config/fish/completions/paictl.fish").is_file()
    assert paictl("--install-completion", "bash").code == 0
    assert (tmp_path / ".bash_completions/paictl.sh").is_file()
