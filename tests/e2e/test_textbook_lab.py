"""The textbook's lab from the first command to the last, as a student types them.

The first few commands are processes of their own, the others run in this one: a start takes longer than most commands.

Two workers with one GPU each: first in two virtual clusters (what a priority, a virtual cluster and an opportunistic
job are), then in one (what a gang is). The jobs are ours, with the facts of the lab's eight.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paictl.cli.main import run
from tests.conftest import ROOT

JOB = """\
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{protocolVersion: 2, name: image, type: dockerimage, uri: openpai/standard}}
taskRoles:
  train:
    instances: {instances}
    completion: {{minFailedInstances: 1, minSucceededInstances: 1}}
    dockerImage: image
    resourcePerInstance: {{cpu: 2, memoryMB: 4096, gpu: 1}}
    commands:
      - python3 train.py --epochs 1{sleep}
defaults:
  virtualCluster: {vc}
extras:
  {gang}hivedScheduler: {{jobPriorityClass: {priority}}}
"""

JOBS: Mapping[str, tuple[str, str, bool, int, str]] = {
    "first": ("vc1", "prod", False, 1, ""),
    "low": ("vc1", "test", True, 1, ""),
    "high": ("vc1", "prod", True, 1, ""),
    "second": ("vc1", "prod", True, 1, ""),
    "guest": ("vc1", "oppo", True, 1, ""),
    "owner": ("default", "prod", True, 1, ""),
    "gang": ("default", "prod", False, 2, "gangAllocation: true\n  "),
    "loose": ("default", "prod", False, 2, "gangAllocation: false\n  "),
}
"""Virtual cluster, class, whether it sleeps five minutes, tasks, and whether the tasks are a gang."""


PROCESSES = 3


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Student:
    """Somebody at a terminal; `home` holds the job files and the state."""

    home: Path
    typed: list[str] = field(default_factory=list)

    def types(self, line: str, code: int = 0) -> Done:
        self.typed.append(line)
        done = (self._in_a_process if len(self.typed) <= PROCESSES else self._here)(line.split())
        assert done.code == code, f"paictl {line}\n{done.out}{done.err}"
        return done

    def _in_a_process(self, words: list[str]) -> Done:
        environment = {**os.environ, "PAICTL_STATE": str(self.home / "state"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "paictl", *words],
            cwd=self.home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _here(self, words: list[str]) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.setenv("PAICTL_STATE", str(self.home / "state"))
            patch.chdir(self.home)
            code = run(words)
        return Done(code, out.getvalue(), err.getvalue())

    def submits(self, *names: str) -> None:
        self.types("job submit " + " ".join(f"{name}.yaml" for name in names) + " --user me")

    def sees(self) -> dict[str, dict[str, Any]]:
        jobs = json.loads(self.types("job list -o json").out)["items"]
        return {job["key"].removeprefix("me~"): job for job in jobs}

    def states(self, *names: str) -> list[str]:
        jobs = self.sees()
        return [jobs[name]["state"] for name in names]


@pytest.fixture
def student(tmp_path: Path) -> Student:
    for name, (vc, priority, sleeps, instances, gang) in JOBS.items():
        sleep = "\n      - sleep 5m" if sleeps else ""
        text = JOB.format(name=name, vc=vc, priority=priority, sleep=sleep, instances=instances, gang=gang)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Student(tmp_path)


@pytest.mark.slow
def test_the_lab(student: Student) -> None:
    up = student.types("cluster up --embedded --speed 0")
    assert "3 nodes, 2 devices" in up.err
    assert "13 running" in student.types("cluster status").out
    two_virtual_clusters(student)
    one_virtual_cluster(student)
    student.types("cluster down", code=2)
    student.types("cluster down --yes")
    assert "no cluster is up" in student.types("cluster status", code=4).err


def two_virtual_clusters(student: Student) -> None:
    """What a job, a priority and an opportunistic job are."""
    # A job of a virtual cluster runs there and ends.
    student.submits("first")
    assert "Running" in student.types("job show me~first").out
    student.types("cluster tick 2m")
    assert student.states("first") == ["Succeeded"]

    # Inside a virtual cluster the higher class preempts the lower, which starts again from the beginning.
    student.submits("low")
    student.types("cluster tick 1m")
    student.submits("high")
    assert student.states("low", "high") == ["Waiting", "Running"]
    assert student.sees()["low"]["preemptions"] == 1
    why = student.types("job explain me~low").out
    assert "In the way: me~high " in why
    assert "give it the class crit" in why
    logs = student.types("job logs me~low").out
    assert "preempted by me~high" in logs
    assert "attempt 2" in logs

    # Equal classes queue, though the other virtual cluster's GPU is idle: it is not theirs.
    student.submits("second")
    assert student.states("high", "second") == ["Running", "Waiting"]
    assert "not promised to VC vc1" in student.types("job explain me~second").out
    student.types("cluster tick 5m")
    assert student.states("low", "high", "second") == ["Waiting", "Succeeded", "Running"]

    # An opportunistic job may use the idle GPU, until its owner wants it.
    student.submits("guest")
    assert student.states("guest") == ["Running"]
    assert student.sees()["guest"]["vc"] == "vc1"
    student.submits("owner")
    assert student.states("guest", "owner", "second") == ["Waiting", "Running", "Running"]
    student.types("cluster tick --until-idle")
    assert set(student.states("low", "high", "second", "guest", "owner")) == {"Succeeded"}


def one_virtual_cluster(student: Student) -> None:
    """What a gang is."""
    # A gang of two can never run in a virtual cluster of one GPU; loose tasks run one after the other.
    refused = student.types("job submit gang.yaml --user me", code=2)
    assert "can never run" in refused.err

    # One virtual cluster: stop who reads the configuration, push, start.
    stopped = student.types("service stop -n rest-server hivedscheduler")
    assert stopped.out == "rest-server: stopped\nhivedscheduler: stopped\n"
    assert "start it: paictl service start -n rest-server" in student.types("job submit gang.yaml", code=4).err
    merge_virtual_clusters(student)
    started = student.types("service start -n cluster-configuration hivedscheduler rest-server")
    assert started.out == "hivedscheduler: started\nrest-server: started\n"
    assert "no virtual cluster vc1" in student.types("job submit first.yaml --name again", code=2).err

    # With one GPU taken a gang waits as a whole; of loose tasks one runs.
    student.submits("loose")
    assert student.states("loose") == ["Running"]
    student.types("cluster tick --until-idle")
    student.types("job submit owner.yaml --user me --name busy")
    student.submits("gang")
    assert student.states("busy", "gang") == ["Running", "Waiting"]
    student.types("job submit loose.yaml --user me --name loose2")
    tasks = json.loads(student.types("job show me~loose2 -o json").out)["tasks"]
    assert sorted(task["state"] for task in tasks) == ["Running", "Waiting"]
    student.types("cluster tick --until-idle")
    assert set(student.states("busy", "gang", "loose2")) == {"Succeeded"}


def merge_virtual_clusters(student: Student) -> None:
    """Give the virtual cluster default both GPUs, as the lab says: pull, edit, push."""
    student.types("config pull -o cluster")
    settings = student.home / "cluster" / "services-configuration.yaml"
    text = settings.read_text(encoding="utf-8")
    head, found, _ = text.partition("      vc1:\n")
    assert found
    settings.write_text(head.replace("cellNumber: 1}", "cellNumber: 2}"), encoding="utf-8")
    changed = student.types("config diff cluster", code=1).out
    assert "virtualClusters.default.virtualCells[0].cellNumber" in changed
    assert "virtualClusters.vc1 " in changed
    student.types("config push -p cluster -m service", code=2)
    pushed = student.types("config push -p cluster -m service --cluster-id pai")
    assert "version 2 stored" in pushed.err
    assert "note: stopped: hivedscheduler, rest-server" in student.types("cluster status").out
