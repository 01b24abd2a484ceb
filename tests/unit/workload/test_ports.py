"""Ports of tasks, TensorBoard, and sessions that end when nobody has a shell in them."""

from __future__ import annotations

import copy
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.controller.runtime import board_script
from paictl.operate.sessions import SessionSpec, session_data, shell_command
from paictl.workload.fields import Fields, JobError
from paictl.workload.job import Job
from paictl.workload.ports import FIRST_PORT, chosen_port, port_lists, ports_of, refuse_ports, tensorboard_of
from tests.conftest import ROOT

Json = dict[str, Any]
PLUGINS = "com.microsoft.pai.runtimeplugin"


def job(*plugins: Json, ports: Json | None = None, **extras: object) -> Json:
    asked = {"gpu": 1, "cpu": 1, "memoryMB": 512, **({"ports": ports} if ports else {})}
    role = {"dockerImage": "image", "resourcePerInstance": asked, "commands": ["true"], "instances": 2}
    return {
        "protocolVersion": 2,
        "name": "train",
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "pai/standard"}],
        "taskRoles": {"worker": role, "ps": copy.deepcopy(role)},
        "extras": {PLUGINS: list(plugins), **extras},
    }


def board(roles: list[str] | None = None, **parameters: object) -> Json:
    return {"plugin": "tensorboard", "parameters": parameters, **({"taskRoles": roles} if roles else {})}


LOGS = {"logs": "/mnt/my logs"}


def test_tensorboard_is_for_the_first_task_of_the_first_role_on_its_usual_port() -> None:
    found = tensorboard_of(Fields(job(board(logdir=LOGS)), ""))
    assert found is not None
    assert (found.port, found.roles, dict(found.folders)) == (6006, ("worker",), LOGS)
    assert shlex.split(found.command()) == ["--host", "127.0.0.1", "--port", "6006", "--logdir", "/mnt/my logs"]
    two = tensorboard_of(Fields(job(board(["ps"], port=7000, logdir={"a": "/x", "b": "/y"})), ""))
    assert two is not None
    assert two.roles == ("ps",)
    assert shlex.split(two.command())[-2:] == ["--logdir_spec", "a:/x,b:/y"]
    assert tensorboard_of(Fields(job(), "")) is None


@pytest.mark.parametrize(
    ("plugins", "ports", "where", "said"),
    [
        ([board()], {}, "parameters.logdir", "needs a folder"),
        ([board(logdir={})], {}, "parameters.logdir", "needs a folder"),
        ([board(logdir={"a": 3})], {}, "parameters.logdir.a", "expected a text"),
        ([board(logdir={"a:b": "/x", "c": "/y"})], {}, "parameters.logdir.a:b", "separates folders"),
        ([board(logdir=LOGS, port="6006")], {}, "parameters.port", "whole number"),
        ([board(logdir=LOGS, port=0)], {}, "parameters.port", "at least 1"),
        ([board(logdir=LOGS, port=70_000)], {}, "parameters.port", "at most 65535"),
        ([board(logdir=LOGS, port=15_001)], {"http": 2}, "parameters.port", "is the port http of task role worker"),
        ([board(logdir=LOGS, prt=1)], {}, "parameters.prt", "no such field"),
        ([board(logdir=LOGS), board(logdir=LOGS)], {}, "plugin", "twice"),
    ],
)
def test_what_cannot_be_started_is_refused_with_its_field(
    plugins: list[Json], ports: Json, where: str, said: str
) -> None:
    with pytest.raises(JobError, match=said) as refused:
        tensorboard_of(Fields(job(*plugins, ports=ports), ""))
    assert refused.value.path.endswith(f"].{where}")


def test_people_open_tensorboard_of_the_first_task_and_labels_of_all_but_never_ssh() -> None:
    ssh = {"plugin": "ssh", "parameters": {"jobssh": True}}
    found = ports_of(job(board(logdir=LOGS), ssh, ports={"http": 1, "zoo": 2}))
    assert [(one.name, one.port) for one in found if one.is_of("worker", 0)] == [
        ("tensorboard", 6006),
        ("http", 15_000),
        ("zoo-0", 15_002),
        ("zoo-1", 15_003),
    ]
    assert [one.name for one in found if one.is_of("worker", 1)] == ["http", "zoo-0", "zoo-1"]
    assert chosen_port(found, "worker", 0, "http") == 15_000
    assert chosen_port(found, "worker", 0, "8888") == 8888
    for word, said in ((None, "several ports"), ("htp", "no port 'htp'"), ("0", "no port"), ("99999", "no port")):
        with pytest.raises(JobError, match=said):
            chosen_port(found, "worker", 0, word)
    with pytest.raises(JobError, match="names no port"):
        chosen_port((), "worker", 0, None)
    assert chosen_port(ports_of(job(board(logdir=LOGS))), "worker", 0, None) == 6006


@pytest.mark.parametrize("ports", [{"a": 2_000_000_000}, {"a": 10**30}, {"a": 999, "b": 2}])
def test_a_task_has_no_billion_ports(ports: dict[str, int]) -> None:
    """Each would be a number in the memory of the server, of the job controller and of all tasks."""
    asked = job(board(logdir=LOGS), ports=ports)
    assert tensorboard_of(Fields(asked, "")) is not None, "the validator looks at it before anybody has refused it"
    with pytest.raises(JobError, match="at most 1,000 ports") as refused:
        refuse_ports(Fields(asked, ""))
    assert refused.value.path == "taskRoles.worker.resourcePerInstance.ports"
    assert Job.from_mapping(asked).name == "train", "an earlier version has taken it"
    assert len(ports_of(asked)) <= 2 * 1_001 + 1, "and a page may be about it"


@given(st.dictionaries(st.text("abcxyz", min_size=1, max_size=3), st.integers(1, 5), max_size=5))
def test_no_two_labels_share_a_port(labels: dict[str, int]) -> None:
    found = port_lists(labels)
    numbers = [number for row in found.values() for number in row]
    assert sorted(numbers) == list(range(FIRST_PORT, FIRST_PORT + sum(labels.values())))
    assert {label: len(row) for label, row in found.items()} == labels


@pytest.mark.parametrize(("task", "starts"), [("worker:0", True), ("worker:1", False), ("ps:0", False)])
def test_a_shell_starts_tensorboard_in_that_task_and_the_task_runs_without_it(
    tmp_path: Path, task: str, starts: bool
) -> None:
    script = board_script(tensorboard_of(Fields(job(board(logdir=LOGS)), "")))
    role, _, index = task.partition(":")
    names = {"PAI_CURRENT_TASK_ROLE_NAME": role, "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": index}
    env = {**names, "PAI_JOB_NAME": "ann~train", "TMPDIR": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    without = _shell(f"{script}\nwait; echo on", {**env, "PATH": str(tmp_path)})
    assert without == (["paictl: no TensorBoard: this image has none (pip install tensorboard)"] if starts else []) + [
        "on"
    ]
    program = tmp_path / "tensorboard"
    program.write_text('#!/bin/sh\nfor one in "$@"; do echo "$one"; done\n')
    program.chmod(0o700)
    said = _shell(f"{script}\nwait; echo on", env)
    assert said[-1] == "on"
    assert (len(said) == 2) is starts
    if starts:
        assert "paictl job open ann~train --port tensorboard" in said[0]
        assert (tmp_path / "tensorboard.log").read_text().splitlines()[-1] == "/mnt/my logs"


def _shell(script: str, env: dict[str, str]) -> list[str]:
    done = subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return done.stdout.splitlines()


def _held(folder: Path, idle: int) -> str:
    (command,) = Job.from_mapping(session_data("session", SessionSpec("image", 1, 1, 512, idle))).roles[0].commands
    return command.replace("/tmp/.pai-shells", str(folder)).replace("sleep 5", "sleep 0.05")  # noqa: S108


def test_a_session_ends_when_no_shell_has_been_in_it_for_so_long(tmp_path: Path) -> None:
    assert _shell(_held(tmp_path, 20), {"PATH": "/usr/bin:/bin"}) == ["paictl: no shell for 20 s: the session ends"]


def test_a_shell_keeps_a_session_from_ending(tmp_path: Path) -> None:
    words = shell_command(("sleep", "60"), 1800)
    begin = words[2].replace("/tmp/.pai-shells", str(tmp_path))  # noqa: S108
    shell = subprocess.Popen(["/bin/sh", "-c", begin, *words[3:]])
    session = None
    try:
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        session = subprocess.Popen(["/bin/sh", "-c", _held(tmp_path, 10)], stdout=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            session.wait(1.0)
        shell.kill()
        shell.wait()
        assert session.wait(120) == 0
        assert list(tmp_path.iterdir()) == []
    finally:
        for one in (shell, session):
            if one is not None:
                one.kill()
                one.wait()


def test_a_session_asks_for_its_sku() -> None:
    found = Job.from_mapping(session_data("session", SessionSpec("image", 2, 4, 8192, 60, "V100"))).roles[0]
    assert (found.resources.gpu, found.wishes.sku_type) == (2, "V100")


def test_the_notebook_of_the_examples_is_the_one_that_job_run_starts() -> None:
    example = yaml.safe_load((ROOT / "examples/jobs/notebook.yaml").read_text(encoding="utf-8"))
    spec = SessionSpec(example["prerequisites"][0]["uri"], 1, 4, 16384, example["parameters"]["idle"])
    (made,) = Job.from_mapping(session_data("notebook", spec, notebook=True)).roles
    (read,) = Job.from_mapping(example).roles
    assert (read.commands, read.resources, read.image) == (made.commands, made.resources, made.image)
    (port,) = ports_of(session_data("notebook", spec, notebook=True))
    assert (port.role, port.name, port.port) == ("notebook", "http", FIRST_PORT)
